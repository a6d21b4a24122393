"""The gate of retraining scores: does a mask add anything to the pixels it shows?

A network retrained on the pixels that an explanation keeps (KAR) may read the class off the *shape* of what is kept,
with no evidence in the pixels: Puli et al. (NeurIPS 2024) prove that ROAR and its relatives reward such explanations.
A judge that was fine-tuned on random masks has no way to have learnt that code, and sees the same pixels. So what the
retrained network is ahead of the judge on the very same degraded images is what the mask tells it beyond them.

The retrained network starts from the judge's weights, so both know the images alike and a few epochs suffice; a start
from scratch (``build=``) finds the same gaps and takes longer. Explanations whose masks tell the class and whose
pixels show it too have no gap: there is nothing left to add. The judge must know masks well, or it falls behind for
want of training and not of the code: train it by ``judge_recipe(n, GATE_JUDGE)``, for longer than that of an
evaluation.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, SolverError
from roadworthy.evaluation.audit.gate_rule import THRESHOLD, gate_verdict
from roadworthy.evaluation.degrade import Filler
from roadworthy.evaluation.epochs import GATE
from roadworthy.evaluation.finetune import RATES, judge_recipe
from roadworthy.evaluation.retrain import Retrainer, Trained, score
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.forward import device_of
from roadworthy.imputation import Imputer, resolve_imputer
from roadworthy.model import Recipe
from roadworthy.records import Split
from roadworthy.removal import units_removed
from roadworthy.rng import resolve_seed
from roadworthy.statistics import paired_bootstrap
from roadworthy.types import Normalize, Output, Progress, Reduction, Seed, Sign, Unit

__all__ = ["KEEPS", "THRESHOLD", "encoding_gap", "gate_verdict"]

KEEPS = (0.06, 0.12)
"""Shares kept. So little that what is shown seldom suffices, and a mask that tells the class has much to add."""
_BEHIND = 0.05  # training accuracy that a network may be short of the judge, on what it was trained on


def encoding_gap(
    judge: torch.nn.Module,
    train: Split,
    test: Split,
    maps: Mapping[str, tuple[Any, Any]],
    *,
    keeps: Sequence[float] = KEEPS,
    imputer: str | Imputer = "mean",
    mean: Sequence[float] | torch.Tensor | None = None,
    recipe: Recipe | None = None,
    build: Callable[[int], torch.nn.Module] | None = None,
    unit: Unit = "pixel",
    sign: Sign = "signed",
    reduction: Reduction = "sum",
    seed: Seed = 0,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
    level: float = 0.95,
    draws: int = 2000,
    progress: Progress | None = None,
) -> list[dict[str, Any]]:
    """Train a network on what each explanation keeps, and hold it against the judge on the same degraded test images.

    Args:
        judge: a copy of the model, from :func:`~roadworthy.evaluation.finetune.fine_tuned`, trained as said above and
            with the same fill; it is not changed.
        train: training samples.
        test: test samples, none of them in ``train``.
        maps: for each method, array-likes (N, *units) or (N, C, ...) of the training and of the test samples.
        keeps: shares of the units kept; the least relevant others are removed.
        imputer: what fills them.
        mean: training mean per channel, in pixel units; by default that of ``train``.
        recipe: how the networks are trained; by default :func:`~roadworthy.evaluation.finetune.judge_recipe` with
            three epochs at least. One that stays behind the judge on its own training samples is trained again at a
            fifth of the rate.
        build: returns a network to train, for a seed; by default a copy of the judge.
        unit: ``"pixel"`` or ``"channel"``.
        sign: how the values of a map are ordered.
        reduction: how its channels are reduced.
        seed: of ties, fills and training.
        normalize: ``(mean, std)`` for networks that do not normalise by themselves.
        output: how to pick the class scores.
        device: where to train; None leaves networks where they are.
        level: confidence level of the intervals.
        draws: bootstrap draws, over test samples.
        progress: called with the number of samples just trained on.

    Returns:
        A row for each method and share kept: ``method``, ``keep``, ``imputer``, ``kar`` and ``judge`` (accuracies),
        ``gap`` (the former minus the latter) with ``gap_low`` and ``gap_high`` (paired bootstrap over test samples;
        the spread between trainings is not in it), and ``n``.

    Raises:
        InputError: no maps, or shares that keep nothing or everything.
        AttributionError: maps that do not fit the samples, or are not finite.

    Source:
        Puli et al., "Explanations that reveal all through the definition of encoding" (NeurIPS 2024); retraining on
        kept pixels: Hooker et al., "A Benchmark for Interpretability Methods in Deep Neural Networks" (NeurIPS 2019).

    Example:
        >>> from roadworthy.data import load_data
        >>> data = load_data("planted:n=80,test=8")
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
        >>> maps = {"noise": tuple(np.random.default_rng(0).random((n, 24, 24)) for n in (80, 8))}
        >>> [sorted(row)[:3] for row in encoding_gap(net, data.train, data.test, maps, keeps=(0.1,))]
        [['gap', 'gap_high', 'gap_low']]
    """
    _check(maps, keeps, train)
    number = resolve_seed(seed)
    values = torch.as_tensor(train.statistics()[0] if mean is None else mean)
    strategy = Strategy.of("kar", imputer=imputer, unit=unit, sign=sign, reduction=reduction)
    filler = Filler(resolve_imputer(imputer), values, number, device_of(judge, device))
    degrader = Degrader(strategy, filler)
    chosen = judge_recipe(len(train), GATE) if recipe is None else recipe
    retrainer = Retrainer(
        build or (lambda _: copy.deepcopy(judge)),
        train,
        test,
        chosen,
        seed=number,
        normalize=normalize,
        output=output,
        device=device,
    )
    rows = []
    for name, (train_maps, test_maps) in maps.items():
        parts = [MapRows(name, array, split.ids) for array, split in ((train_maps, train), (test_maps, test))]
        for keep in keeps:
            treatment = Treatment("estimator", name, "lerf", 1 - keep)
            trained = _retrained(retrainer, judge, degrader, treatment, parts, progress)
            shown = degrader.split(test, treatment, parts[1])
            judged = score(judge, shown, normalize=normalize, output=output)
            hits = np.stack([trained.top1, judged["top1"]]).astype(np.float64)
            rows.append(
                {"method": name, "keep": float(keep), "imputer": filler.imputer.name}
                | _gap(hits, level=level, draws=draws, seed=number)
            )
    return rows


def _retrained(
    retrainer: Retrainer,
    judge: torch.nn.Module,
    degrader: Degrader,
    treatment: Treatment,
    maps: Sequence[MapRows],
    progress: Progress | None,
) -> Trained:
    """Train a network on what is kept; one that a rate ruins would let every mask pass, so slower ones are tried."""
    few = degrader.split(retrainer.train.take(512, retrainer.seed), treatment, maps[0])
    known = float(score(judge, few, normalize=retrainer.normalize, output=retrainer.output)["top1"].mean())
    found: list[Trained] = []
    for rate in RATES:
        slower = replace(retrainer.recipe, learning_rate=rate * retrainer.recipe.learning_rate)
        with contextlib.suppress(SolverError):  # a loss that is no longer finite
            trained, _ = replace(retrainer, recipe=slower).run(
                treatment, degrader, train_maps=maps[0], test_maps=maps[1], progress=progress
            )
            found.append(trained)
            if trained.history.accuracy[-1] >= known - _BEHIND:
                return trained
    if not found:
        raise ModelError("encoding_gap: no network could be trained on what is kept; pass recipe= with a lower rate")
    return max(found, key=lambda trained: trained.history.accuracy[-1])


def _check(maps: Mapping[str, Any], keeps: Sequence[float], train: Split) -> None:
    if not maps:
        raise InputError("encoding_gap: no maps were given; pass {name: (training maps, test maps)}")
    for name, pair in maps.items():
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise InputError(f"encoding_gap: {name!r} is no pair (training maps, test maps)")
    units = int(np.prod(train.shape[1:] if len(train.shape) > 1 else train.shape))
    for keep in keeps:
        if not 0 < keep < 1 or units_removed(units, 1 - keep) == 0:
            raise InputError(f"keeps: got {keep!r}, expected shares kept between 0 and 1, such as {KEEPS}")
    if not keeps:
        raise InputError(f"keeps: got none, expected shares kept such as {KEEPS}")


def _gap(hits: np.ndarray, *, level: float, draws: int, seed: int) -> dict[str, Any]:
    told = paired_bootstrap(hits, level=level, draws=draws, seed=seed)
    return {
        "kar": float(told.mean[0]),
        "judge": float(told.mean[1]),
        "gap": float(told.difference[0, 1]),
        "gap_low": float(told.difference_low[0, 1]),
        "gap_high": float(told.difference_high[0, 1]),
        "n": hits.shape[1],
    }
