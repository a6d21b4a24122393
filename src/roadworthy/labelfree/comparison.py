"""Which of several models is more stable, or better by any score, on the same samples?

The same samples are drawn for all models (paired bootstrap), so that what is hard for all of them cancels.
Differences are corrected for their number by Holm; models that are not told apart share a letter. A larger area is no
higher accuracy: it says that predictions move less, beyond chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, listed
from roadworthy.labelfree.curve import CLEAN_CONFIDENCE, ranked_consistency, resampled_areas
from roadworthy.labelfree.plain import plain
from roadworthy.labelfree.selective import Ranked, weights_of
from roadworthy.rng import resolve_seed
from roadworthy.statistics import groups, holm, paired_bootstrap
from roadworthy.statistics.resampling import expanded_interval, resampled_means

if TYPE_CHECKING:
    from roadworthy.labelfree.consistency import Consistency
    from roadworthy.types import Seed

_POINTS = 200


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models in falling order of a score, and which differences are real.

    Attributes:
        names: M names, the highest score first; equal scores in the order they came.
        score: (M,).
        low: (M,) lower end of the interval of each score.
        high: (M,) upper end.
        rank: (M,) from 1; equal scores share a rank.
        group: M strings of letters; models that share one are not told apart.
        difference: (M, M) score of the row's model minus that of the column's.
        difference_low: (M, M) lower end of its interval.
        difference_high: (M, M) upper end.
        p: (M, M) two-sided p-values, corrected by Holm for the number of pairs; 1 on the diagonal.
        first: (M,) share of draws in which the model has the highest score, shared among equals.
        measure: what the score is.
        level: confidence level; models differ if p is at most 1 - level.
        n: number of samples.
    """

    names: tuple[str, ...]
    score: np.ndarray
    low: np.ndarray
    high: np.ndarray
    rank: np.ndarray
    group: tuple[str, ...]
    difference: np.ndarray
    difference_low: np.ndarray
    difference_high: np.ndarray
    p: np.ndarray
    first: np.ndarray
    measure: str
    level: float
    n: int

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN is None."""
        return plain(self)


def compare_models(
    models: Mapping[str, Consistency],
    *,
    statistic: str = "soft-agreement",
    rank: str = CLEAN_CONFIDENCE,
    level: float = 0.95,
    draws: int = 2000,
    seed: Seed = 0,
) -> Comparison:
    """Compare models by the area under their reliability curves on the same samples.

    Args:
        models: names to what :func:`perturbation_consistency` returned for each; the same sample ids, in any order.
        statistic: as in :func:`reliability_curve`.
        rank: as in :func:`reliability_curve`.
        level: confidence level, of intervals and of calling a difference real.
        draws: bootstrap draws over samples.
        seed: seed or generator.

    Returns:
        Models in falling order of area.

    Raises:
        InputError: fewer than two models, different samples or perturbations, or an unknown statistic or rank.

    Example:
        >>> compare_models({"old": one, "new": other}).group  # doctest: +SKIP
        ('a', 'a')
    """
    asked = {(m.perturbation, m.strength, m.passes, str(sorted(m.settings.items()))) for m in models.values()}
    if len(asked) > 1 and not all("ensemble" in m.perturbation for m in models.values()):
        shown = ", ".join(f"{name}: {m.perturbation}, {m.passes} passes" for name, m in models.items())
        raise InputError(
            f"models: were perturbed in different ways ({shown}); give all the same perturbation, strength and passes"
        )
    places = _aligned({name: model.clean.ids for name, model in models.items()})
    curves = {name: ranked_consistency(m, statistic=statistic, rank=rank) for name, m in models.items()}
    return compare_ranked(
        curves, places, measure=f"area of {statistic} by {rank}", level=level, draws=draws, seed=seed
    )


def compare_ranked(
    curves: Mapping[str, Ranked],
    places: Mapping[str, np.ndarray],
    *,
    measure: str,
    level: float = 0.95,
    draws: int = 2000,
    seed: Seed = 0,
) -> Comparison:
    """Compare the areas of ranked samples, see :func:`compare_models`.

    Args:
        curves: names to ranked samples.
        places: for each name, the place of each row among the samples that are drawn; a permutation.
        measure: what the area is of.
        level: confidence level.
        draws: bootstrap draws over samples.
        seed: seed or generator.

    Returns:
        Curves in falling order of area.

    Raises:
        InputError: a level outside (0, 1).

    Example:
        >>> from roadworthy.labelfree.selective import ranked
        >>> score, values = np.arange(50.0), np.ones(50)
        >>> curves = {"a": ranked(score, values), "b": ranked(score, values / 2)}
        >>> compare_ranked(curves, dict.fromkeys(curves, np.arange(50)), measure="x", draws=200).group
        ('a', 'b')
    """
    if not 0 < level < 1:
        raise InputError(f"level: {level} came, expected a share between 0 and 1, such as 0.95")
    number = resolve_seed(seed)
    moved = np.stack([_drawn_areas(curves[name], places[name], draws, number) for name in curves], axis=1)
    scores = np.array([curve.area for curve in curves.values()])
    n = len(next(iter(places.values())))
    low, high = expanded_interval(moved, level, n)
    pairs = moved[:, :, None] - moved[:, None]
    between = expanded_interval(pairs, level, n)
    return _sorted(list(curves), scores, (low, high), between, _p(pairs, n), moved, measure=measure, level=level, n=n)


def compare_scores(
    scores: Mapping[str, ArrayLike],
    *,
    ids: Mapping[str, Sequence[str]] | None = None,
    measure: str = "mean score",
    level: float = 0.95,
    draws: int = 10_000,
    seed: Seed = 0,
) -> Comparison:
    """Compare models by the mean of any score of each sample: agreement, confidence, or correctness.

    Args:
        scores: names to (N,) finite scores, high is better.
        ids: names to the ids of those samples; without them row i is the same sample for all models.
        measure: what the score is.
        level: confidence level, of intervals and of calling a difference real.
        draws: bootstrap draws over samples.
        seed: seed or generator.

    Returns:
        Models in falling order of mean score.

    Raises:
        InputError: fewer than two models, different samples, or scores that are not finite.

    Example:
        >>> found = compare_scores({"old": [0, 1, 0, 0] * 10, "new": [1, 1, 1, 0] * 10}, draws=1000)
        >>> found.names, found.group
        (('new', 'old'), ('a', 'b'))
    """
    columns = {name: np.asarray(values, dtype=np.float64) for name, values in scores.items()}
    shapes = {values.shape for values in columns.values()}
    if len(shapes) > 1 or any(len(shape) != 1 for shape in shapes):
        raise InputError(f"scores: shapes {listed(sorted(shapes))} came, expected (N,) for every model")
    known = ids or {name: tuple(map(str, range(len(values)))) for name, values in columns.items()}
    places = _aligned({name: known[name] for name in columns})
    table = np.stack([columns[name][np.argsort(places[name])] for name in columns])
    found = paired_bootstrap(table, draws=draws, level=level, seed=seed)
    between = found.difference_low, found.difference_high
    moved = resampled_means(table, draws, found.seed)
    return _sorted(
        list(columns),
        found.mean,
        (found.low, found.high),
        between,
        found.p,
        moved,
        measure=measure,
        level=level,
        n=found.n,
    )


def _aligned(ids: Mapping[str, Iterable[str]]) -> dict[str, np.ndarray]:
    """Return the place of each model's rows in the sorted list of ids, or say which samples differ."""
    if len(ids) < 2:
        raise InputError(f"models: {listed(ids)} came, expected at least two to compare")
    known = {name: np.asarray(tuple(own), dtype=str) for name, own in ids.items()}
    (first, one), *others = known.items()
    for name, other in others:
        apart = set(one) ^ set(other)
        if apart or len(one) != len(other):
            raise InputError(
                f"{first!r} has {len(one)} samples and {name!r} {len(other)}; {len(apart)} are of one alone: "
                f"{listed(sorted(map(str, apart)), 5)}. Models are compared on the same samples: take those that all "
                "have"
            )
    return {name: np.argsort(np.argsort(own, kind="stable"), kind="stable") for name, own in known.items()}


def _drawn_areas(samples: Ranked, places: np.ndarray, draws: int, seed: int) -> np.ndarray:
    steps, order = samples.thinned(_POINTS), places[samples.order]
    weights = (drawn[:, order] for drawn in weights_of(len(order), draws, seed))
    return np.concatenate([resampled_areas(samples, steps, *part) for part in samples.read(weights, steps)])


def _p(pairs: np.ndarray, n: int) -> np.ndarray:
    """Return the level at which the interval of each difference starts to hold 0."""
    if n == 1:
        return np.ones(pairs.shape[1:])
    from scipy.special import ndtri, stdtr

    beyond = np.minimum((pairs <= 1e-12).sum(axis=0), (pairs >= -1e-12).sum(axis=0))
    tail = np.minimum(0.5, (beyond + 1) / (len(pairs) + 1))
    return np.asarray(2 * stdtr(n - 1, ndtri(tail) * np.sqrt((n - 1) / n)))


def _sorted(
    names: list[str],
    scores: np.ndarray,
    interval: tuple[np.ndarray, np.ndarray],
    between: tuple[np.ndarray, np.ndarray],
    p: np.ndarray,
    moved: np.ndarray,
    *,
    measure: str,
    level: float,
    n: int,
) -> Comparison:
    order = np.argsort(-scores, kind="stable")
    table = np.ix_(order, order)
    upper = np.triu_indices(len(names), 1)
    corrected = np.ones((len(names), len(names)))
    corrected[upper] = holm(p[table][upper])
    corrected = np.minimum(corrected, corrected.T)
    score = scores[order]
    highest = moved[:, order] >= moved.max(axis=1, keepdims=True) - 1e-12
    return Comparison(
        names=tuple(names[i] for i in order),
        score=score,
        low=interval[0][order],
        high=interval[1][order],
        rank=1 + (score[None, :] > score[:, None]).sum(axis=1),
        group=tuple(groups(corrected <= 1 - level)),
        difference=score[:, None] - score,
        difference_low=between[0][table],
        difference_high=between[1][table],
        p=corrected,
        first=(highest / highest.sum(axis=1, keepdims=True)).mean(axis=0),
        measure=measure,
        level=level,
        n=n,
    )
