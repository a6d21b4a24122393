"""The reliability-completeness curve as a practitioner's guide describes it, kept for comparison with its faults.

Samples whose mode share reaches a threshold are selected, for 101 thresholds from 0 to 1. Reliability of the selected
part is the share of its commonest class (``simple_majority``), or the purity of feature clusters in predicted
classes, weighted by size (``cluster_consistency``). The area is the trapezoid rule over completeness, from the
smallest to the largest completeness that occurs.

It differs from the guide where that has errors without a meaning: mode shares are compared as whole counts (21 of 30
passes reach .7), clusters are made of the features that are given, their number is that of the model's classes, and
what selects nothing is NaN and left out. What remains wrong is in :data:`FAULTS`; use the ranked curve to decide.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, unknown_name
from roadworthy.labelfree.clustering import cluster_parts, purity
from roadworthy.labelfree.curve import ReliabilityCurve
from roadworthy.rng import resolve_seed

if TYPE_CHECKING:
    from roadworthy.labelfree.consistency import Consistency
    from roadworthy.types import Seed

ESTIMATORS = ("cluster_consistency", "simple_majority")
_THRESHOLDS = 100  # steps from 0 to 1
FAULTS = {
    "simple_majority": "The share of the commonest class is no correctness: a perfect model on K equal classes gets "
    "1/K, one that says a single class of everything gets 1.",
    "cluster_consistency": "Features of the judged model are separated by its own head, so its classes follow its "
    "clusters whether or not they are right; a model that says a single class of everything gets 1.",
    "area": "The area spans the completeness that occurs and no more: it is at most 1 minus the share of samples "
    "whose passes all agree, so the more stable the model the smaller the area, and 0 for a perfectly stable one.",
    "mode": "The mode share counts agreement between passes, not with the clean class: a sample that every pass "
    "moves to one other class has 1.",
    "floor": "The mode share is at least 1 over the number of classes, so low thresholds select everything, and that "
    "of a coin lies above one half for finite passes.",
}


def as_described_curve(
    consistency: Consistency,
    features: ArrayLike | None = None,
    *,
    estimator: str = "cluster_consistency",
    method: str = "kmeans",
    seed: Seed = 0,
) -> ReliabilityCurve:
    """Draw the curve of the guide.

    Args:
        consistency: what :func:`perturbation_consistency` returned.
        features: (N, D) of any origin; those of the clean pass by default. ``simple_majority`` needs none.
        estimator: ``"cluster_consistency"`` or ``"simple_majority"``.
        method: how features are clustered, see :func:`roadworthy.labelfree.clustering.cluster`.
        seed: seed or generator, of the clustering.

    Returns:
        The curve, 101 points, its faults in ``notes``; there is no interval.

    Raises:
        InputError: an unknown estimator, or no features where they are needed.

    Example:
        >>> as_described_curve(consistency, estimator="simple_majority").area  # doctest: +SKIP
        0.41
    """
    clean = consistency.clean
    if features is None and estimator == "cluster_consistency":
        features = clean.known_features("cluster consistency")
    return as_described_from_counts(
        consistency.mode_count,
        consistency.passes,
        clean.predicted,
        clean.class_count,
        features=features,
        estimator=estimator,
        method=method,
        seed=seed,
    )


def as_described_from_counts(
    mode_count: ArrayLike,
    passes: int,
    predicted: ArrayLike,
    class_count: int,
    *,
    features: ArrayLike | None = None,
    estimator: str = "cluster_consistency",
    method: str = "kmeans",
    seed: Seed = 0,
) -> ReliabilityCurve:
    """Draw the curve of the guide from arrays.

    Args:
        mode_count: int (N,) passes of the commonest class of each sample.
        passes: number of passes.
        predicted: int (N,) clean class of each sample.
        class_count: number of classes of the model; the number of clusters too.
        features: (N, D), needed by ``cluster_consistency``.
        estimator: ``"cluster_consistency"`` or ``"simple_majority"``.
        method: how features are clustered.
        seed: seed or generator, of the clustering.

    Returns:
        The curve, 101 points, its faults in ``notes``.

    Raises:
        InputError: an unknown estimator, counts out of range, lengths that differ, or no features where needed.

    Example:
        >>> curve = as_described_from_counts([4, 3, 3, 2], 4, [0, 0, 1, 1], 2, estimator="simple_majority")
        >>> curve.coverage[[0, 60, 100]].tolist(), curve.reliability[[0, 60, 100]].round(3).tolist()
        ([1.0, 0.75, 0.25], [0.5, 0.667, 1.0])
    """
    if estimator not in ESTIMATORS:
        raise unknown_name("estimator of the curve as described", estimator, ESTIMATORS)
    count, classes = np.asarray(mode_count), np.asarray(predicted)
    if count.ndim != 1 or count.shape != classes.shape or not len(count):
        raise InputError(f"mode_count has shape {count.shape} and predicted {classes.shape}, expected (N,), N >= 1")
    if passes < 1 or count.dtype.kind not in "iu" or not 0 <= count.min() <= count.max() <= passes:
        raise InputError(f"mode_count: expected whole numbers from 0 to {passes} passes, of at least one pass")
    selected = [count * _THRESHOLDS >= k * passes for k in range(_THRESHOLDS + 1)]
    coverage = np.array([part.mean() for part in selected])
    _, first, back = np.unique(
        -coverage, return_index=True, return_inverse=True
    )  # parts are nested: of a size, equal
    parts = [selected[i] for i in first if coverage[i] > 0]
    known = _reliabilities(parts, estimator, classes, class_count, features, method, resolve_seed(seed))
    reliability = np.array([*known, math.nan])[back]  # what selects nothing comes last
    kept = coverage > 0
    from scipy.integrate import trapezoid

    return ReliabilityCurve(
        form="as-described",
        coverage=coverage,
        reliability=reliability,
        low=None,
        high=None,
        thresholds=np.arange(_THRESHOLDS + 1) / _THRESHOLDS,
        area=float(trapezoid(reliability[kept][::-1], coverage[kept][::-1])),
        area_low=math.nan,
        area_high=math.nan,
        estimator=estimator,
        level=math.nan,
        n=len(count),
        notes=(FAULTS[estimator], FAULTS["area"], FAULTS["mode"], FAULTS["floor"]),
    )


def _reliabilities(
    parts: list[np.ndarray],
    estimator: str,
    classes: np.ndarray,
    class_count: int,
    features: ArrayLike | None,
    method: str,
    seed: int,
) -> list[float]:
    """Return the reliability of each part, given as masks that are nowhere empty."""
    if estimator == "simple_majority":
        return [float(np.bincount(classes[part]).max() / part.sum()) for part in parts]
    if features is None:
        raise InputError("features: cluster consistency needs a feature vector of each sample; pass features= (N, D)")
    table = np.asarray(features, dtype=np.float32)
    if len(table) != len(classes):
        raise InputError(f"features: got {len(table)} rows for {len(classes)} samples")
    clustered = cluster_parts(table, parts, class_count, method, seed)
    return [purity(labels, classes[part], class_count) for labels, part in zip(clustered, parts, strict=True)]
