"""The leakage audit: do masks give the class away, and does the fill let them be seen?

A score after removal counts three things: what the features that are left say of the class, what the mask itself
says, and, to be subtracted, what the fill hides of it (Rong et al., ICML 2022, section 4). Only the first is meant.
The second is measured by :mod:`~roadworthy.evaluation.audit.mask_only`, the third by
:mod:`~roadworthy.evaluation.audit.predictor`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from roadworthy.errors import InputError, listed
from roadworthy.evaluation.audit.leak_verdict import Fill, Told, verdict
from roadworthy.evaluation.audit.mask_only import MaskOnly, mask_only
from roadworthy.evaluation.audit.predictor import Effort, imputation_errors
from roadworthy.evaluation.degrade import thinning, tie_order
from roadworthy.evaluation.strategy import Strategy
from roadworthy.imputation import Imputer
from roadworthy.removal import ranks_without_ties, removal_ranks, units_removed
from roadworthy.rng import numpy_generator, permutations
from roadworthy.types import Order

SAMPLES = {"quick": 500, "thorough": 4000}
"""The most samples that masks are taken from, by effort."""
_FOLDS = {"quick": 2, "thorough": 5}
_LEAST = 20  # samples below which nothing can be told


def audit_leakage(
    images: torch.Tensor,
    classes: Any,
    values: Mapping[str, np.ndarray],
    *,
    strategy: Strategy,
    imputers: Sequence[Imputer] = (),
    fills: Mapping[str, Fill] | None = None,
    mean: torch.Tensor | None,
    class_count: int,
    seed: int,
    ids: Sequence[str],
    target: str = "predicted",
    effort: Effort = "quick",
) -> dict[str, Any]:
    """Say for each method and imputer whether the masks leak the class through the fill.

    Every accuracy is of answers about samples that the classifier did not see, on the masks that the strategy makes
    of the maps, tie by tie. MoRF at p removes the units that LeRF at 1 - p keeps: where that is so, but for one unit
    that rounding moves, both are audited once.

    Args:
        images: (N, C, H, W), (N, C, T), (N, F) or token ids (N, T), in pixel units.
        classes: int (N,), the class that the masks may give away: predicted, labelled or given.
        values: for each method a value per unit, float (N, *units), finite; see
            :func:`roadworthy.evaluation.degrade.block_values`.
        strategy: orders, shares, sign, ties and unit.
        imputers: what fills removed units; each has a name of its own.
        fills: imputers that are judged already, by name: what :func:`judged_fill` returned.
        mean: training mean per channel, in pixel units.
        class_count: number of classes there are.
        seed: of the run: ties fall as they do there.
        ids: N sample ids.
        target: what ``classes`` are: ``"predicted"``, ``"label"`` or ``"given"``; recorded.
        effort: ``"quick"``: masks of at most 500 samples in 2 folds; ``"thorough"``: of at most 4,000 in 5 (see
            ``SAMPLES``), and larger imputation predictors.

    Returns:
        JSON-serialisable: ``n``, ``classes``, ``target``, ``effort``, ``seconds``; ``chance`` with its band
        ``chance_low`` to ``chance_high``: what guessing the commonest class reaches; ``masks``: a row per method,
        order and share (empty with fewer than 20 samples or two classes); ``imputers``: a row per imputer and share,
        None where an imputer cannot be judged; ``verdicts``: a row per imputer and method: ``"leaks"``,
        ``"does not leak"`` or ``"cannot tell"``, and the numbers it rests on, see
        :func:`~roadworthy.evaluation.audit.leak_verdict.verdict`.

    Raises:
        InputError: numbers of images, classes, ids and values that differ, classes out of range, or imputers of the
            same name.

    Source:
        Rong et al., "A Consistent and Efficient Evaluation Strategy for Attribution Methods" (ICML 2022), sections 4
        and 5.

    Example:
        >>> from roadworthy.imputation import Zero
        >>> images = 0.1 + 0.9 * torch.rand(80, 1, 8, 8, generator=torch.Generator().manual_seed(0))
        >>> classes = np.arange(80) % 2
        >>> halves = np.zeros((80, 8, 8)); halves[classes == 0, :4] = halves[classes == 1, 4:] = 1
        >>> found = audit_leakage(
        ...     images, classes, {"half": halves}, strategy=Strategy.of("road", fractions=(0.3,)), imputers=[Zero()],
        ...     mean=None, class_count=2, seed=0, ids=[str(i) for i in range(80)],
        ... )
        >>> found["verdicts"][0]["verdict"]
        'leaks'
    """
    began = time.perf_counter()
    answers = _checked(images, classes, values, ids, class_count, effort)
    known = dict(fills or {})
    _check_names([*known, *(imputer.name for imputer in imputers)])
    rows = _chosen(len(ids), SAMPLES[effort], seed)
    answers, names = answers[rows], [ids[row] for row in rows]
    reason = _unfit(answers)
    told: dict[str, list[Told]] = {name: [] for name in values}
    if reason is None:
        neighbours = images.ndim > 2 or not images.is_floating_point()
        masks = _Masks(strategy, seed, names, answers, _FOLDS[effort], neighbours)
        told = {name: masks.told(array[rows]) for name, array in values.items()}
    for imputer in imputers:
        known[imputer.name] = judged_fill(images, imputer, strategy, effort=effort, mean=mean, seed=seed, ids=ids)
    low, high = _band(answers)
    return {
        "n": len(rows),
        "classes": int(class_count),
        "target": target,
        "effort": effort,
        "chance": _commonest(answers),
        "chance_low": low,
        "chance_high": high,
        "masks": [_mask_row(name, one) for name, found in told.items() for one in found],
        "imputers": [{"imputer": name, **row} for name, fill in known.items() for row in fill.rows],
        "verdicts": [
            {"imputer": imputer, "method": name, **verdict(found, fill, reason, answers)}
            for imputer, fill in known.items()
            for name, found in told.items()
        ],
        "seconds": round(time.perf_counter() - began, 3),
    }


def _checked(
    images: torch.Tensor,
    classes: Any,
    values: Mapping[str, np.ndarray],
    ids: Sequence[str],
    class_count: int,
    effort: str,
) -> np.ndarray:
    answers = np.asarray(classes.cpu() if isinstance(classes, torch.Tensor) else classes)
    lengths = {"images": len(images), "classes": len(answers), "ids": len(ids)}
    lengths |= {name: len(array) for name, array in values.items()}
    if len(set(lengths.values())) != 1 or not len(ids):
        raise InputError(f"audit: got {lengths}, expected the same number of samples in all, and at least one")
    if answers.dtype.kind not in "iu" or answers.min() < 0 or answers.max() >= class_count:
        raise InputError(
            f"audit: got classes {answers.dtype} ({listed(np.unique(answers))}), expected integers from 0 to "
            f"{class_count - 1}"
        )
    if effort not in SAMPLES:
        raise InputError(f"effort: got {effort!r}, expected 'quick' or 'thorough'")
    return answers.astype(np.int64)


def _check_names(names: Sequence[str]) -> None:
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(
            f"audit: imputers of the same name came: {listed(twice)}; rows are told apart by it. Give "
            "functions names of their own, or audit such imputers in calls of their own"
        )


def _chosen(n: int, most: int, seed: int) -> np.ndarray:
    if n <= most:
        return np.arange(n)
    return np.sort(numpy_generator(seed, "audit-samples").permutation(n)[:most])


def _unfit(answers: np.ndarray) -> str | None:
    """Say why no classifier can be judged on these, or return None."""
    if len(answers) < _LEAST:
        return f"only {len(answers)} samples, at least {_LEAST} are needed"
    if len(np.unique(answers)) < 2:
        return "all samples are of one class"
    return None


def _commonest(answers: np.ndarray) -> float:
    return float(np.bincount(answers).max() / len(answers))


def _band(answers: np.ndarray) -> tuple[float, float]:
    """Return where 95 % of guesses of the commonest class fall."""
    from scipy.stats import binom

    low, high = binom.interval(0.95, len(answers), _commonest(answers))
    return float(low) / len(answers), float(high) / len(answers)


def _mask_row(method: str, one: Told) -> dict[str, Any]:
    bits_low, bits_high = one.mask.bits
    return {
        "method": method,
        "order": one.order,
        "fraction": one.fraction,
        "accuracy": one.mask.accuracy,
        "low": one.mask.interval[0],
        "high": one.mask.interval[1],
        "random": one.random.accuracy,
        "random_low": one.random.interval[0],
        "random_high": one.random.interval[1],
        "bits_low": bits_low,
        "bits_high": bits_high,
        "balanced_accuracy": one.mask.balanced_accuracy,
        "balanced_chance": 1 / len(np.unique(one.mask.classes)),
    }


def judged_fill(
    images: torch.Tensor,
    imputer: Imputer,
    strategy: Strategy,
    *,
    mean: torch.Tensor | None,
    seed: int,
    ids: Sequence[str],
    effort: Effort = "quick",
) -> Fill:
    """Return how revealing an imputer is; where it has no meaning for this input, why.

    Args:
        images: as in :func:`audit_leakage`.
        imputer: what fills removed units.
        strategy: shares and unit.
        mean: training mean per channel, in pixel units.
        seed: of the draws.
        ids: N sample ids.
        effort: as in :func:`audit_leakage`.
    """
    shares = strategy.fractions
    try:
        rows = imputation_errors(
            images, imputer, fractions=shares, unit=strategy.unit, effort=effort, mean=mean, seed=seed, ids=ids
        )
    except InputError as error:
        missing = {"error": None, "low": None, "high": None}
        rows = [{"fraction": p, **missing, "base": min(p, 1 - p), "n": 0} for p in shares]
        return Fill(rows, str(error))
    return Fill(rows, None)


class _Cut(NamedTuple):
    """What one mask is made of: the order whose ranks it takes, units taken, and the probability that one goes."""

    order: Order
    units: int
    probability: float


class _Masks:
    """What the masks of a strategy tell, each distinct one asked once.

    Args:
        strategy: what makes the masks.
        seed: of the run.
        ids: of the samples.
        answers: their classes.
        folds: for the classifier.
        neighbours: whether units that lie next to each other belong together.
    """

    def __init__(
        self, strategy: Strategy, seed: int, ids: list[str], answers: np.ndarray, folds: int, neighbours: bool
    ) -> None:
        self._strategy, self._seed, self._ids, self._answers = strategy, seed, ids, answers
        self._folds, self._neighbours = folds, neighbours
        self._random: dict[tuple[int, float], MaskOnly] = {}
        # the complement of a mask says the same; where equal values go by position, the two orders are none
        self._mirrored = strategy.ties == "random" and strategy.removes_all

    def told(self, values: np.ndarray) -> list[Told]:
        """Ask a method's masks at every order and share."""
        units = math.prod(values.shape[1:])
        ranks: dict[Order, np.ndarray] = {}
        known: dict[_Cut, MaskOnly] = {}
        found = []
        for order in self._strategy.orders:
            for fraction in self._strategy.fractions:
                cut = self._cut(order, fraction, units, known)
                if cut.order not in ranks:
                    ranks[cut.order] = self._ranks(values, cut.order)
                if cut not in known:
                    known[cut] = self._ask(ranks[cut.order], cut)
                found.append(Told(order, fraction, known[cut], self._random_masks(values.shape, cut)))
        return found

    def _cut(self, order: Order, fraction: float, units: int, known: Mapping[_Cut, MaskOnly]) -> _Cut:
        count, probability = units_removed(units, fraction), self._strategy.removal_probability(fraction)
        if not self._mirrored:
            return _Cut(order, count, probability)
        if order == "lerf":
            count = units - count
        slack = 1 if units >= 100 else 0
        near = [cut for cut in known if abs(cut.units - count) <= slack and cut.units % units and count % units]
        return near[0] if near else _Cut("morf", count, probability)

    def _ranks(self, values: np.ndarray, order: Order) -> np.ndarray:
        ranks, tied = ranks_without_ties(values, order, self._strategy.sign)
        if tied.any():
            ids = [name for name, is_tied in zip(self._ids, tied, strict=True) if is_tied]
            draw = tie_order(self._strategy, self._seed, ids, values.shape[1:], 0)
            ranks[tied] = removal_ranks(values[tied], draw, order, self._strategy.sign)
        return ranks

    def _ask(self, ranks: np.ndarray, cut: _Cut) -> MaskOnly:
        removed = ranks < cut.units
        if cut.probability < 1:
            removed &= thinning(self._strategy, self._seed, self._ids, ranks.shape[1:], 0) < cut.probability
        return mask_only(removed, self._answers, seed=self._seed, folds=self._folds, neighbours=self._neighbours)

    def _random_masks(self, shape: tuple[int, ...], cut: _Cut) -> MaskOnly:
        """Ask random masks of the same size: what the classifier makes of nothing."""
        units = math.prod(shape[1:])
        key = (min(cut.units, units - cut.units) if self._mirrored else cut.units, cut.probability)
        if key not in self._random:
            ranks = permutations(self._seed, f"audit-random/{key[0]}", self._ids, units).reshape(shape)
            self._random[key] = self._ask(ranks, _Cut("morf", *key))
        return self._random[key]
