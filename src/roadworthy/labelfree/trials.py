"""Trials of estimators on pseudo-targets: none is asked about samples that it has learnt from."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.labelfree.estimators import Estimate, Estimator
from roadworthy.labelfree.estimators.base import accuracy_alone
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.shift import SHIFT_NAMES, measure_shift
from roadworthy.labelfree.targets import PseudoTarget
from roadworthy.rng import numpy_generator

MEDIAN = "median"
MEDIAN_OF = ("ac", "doc", "atc", "cbpe", "cot")


def halves(source: Outputs, seed: int) -> np.ndarray:
    """Put every sample in half 0 or 1, whatever the order of rows."""
    half = np.empty(len(source), dtype=np.int64)
    order = np.argsort(np.array(source.ids, dtype=str), kind="stable")
    half[order[numpy_generator(seed, "halves").permutation(len(order))]] = np.arange(len(order)) % 2
    return half


def judge(
    target: PseudoTarget,
    fold: dict[str, int],
    parts: Sequence[Outputs],
    learnt: Sequence[tuple[Estimator, ...]],
    seed: int,
) -> tuple[float, np.ndarray, np.ndarray] | None:
    """Return truth, estimates and shift of a pseudo-target, means over the halves; None where both are too small."""
    said = [fold.get(name, -1) for name in target.outputs.ids]
    found = []
    for half in (0, 1):
        judged = target.outputs.take([where != half for where in said])
        if len(judged) >= 2:
            values = np.array([estimate.accuracy for estimate in run(learnt[half], judged)])
            shift = measure_shift(parts[half], judged, seed=seed)
            found.append((len(judged), np.concatenate([[judged.accuracy], values, shift])))
    if not found:
        return None
    mean = np.average([row for _, row in found], axis=0, weights=[n for n, _ in found])
    count = len(mean) - len(SHIFT_NAMES)
    return float(mean[0]), mean[1:count], mean[count:]


def run(fitted: Sequence[Estimator], target: Outputs) -> tuple[Estimate, ...]:
    """Ask every estimator, and take the median of the usual five where all are there."""
    found = [estimator.estimate(target) for estimator in fitted]
    values = {estimate.name: estimate.accuracy for estimate in found}
    if set(MEDIAN_OF) <= set(values):
        found.append(accuracy_alone(MEDIAN, float(np.median([values[name] for name in MEDIAN_OF])), target))
    return tuple(found)


def names(chosen: Sequence[Estimator]) -> list[str]:
    """Return the names of what :func:`run` returns, in its order."""
    found = [estimator.name for estimator in chosen]
    return [*found, MEDIAN] if set(MEDIAN_OF) <= set(found) else found
