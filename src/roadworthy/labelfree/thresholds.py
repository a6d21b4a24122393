"""How much of the data reaches a wanted reliability: the coverage, its interval, and the score to keep from.

The largest part that reaches the target is meant, taken by falling score. Its interval is a bootstrap over samples of
that coverage itself: it is wide where the curve runs flat near the target. Reliability of two kinds: stability under
perturbation beyond chance, which says nothing of accuracy; and mean P(correct), where labels have calibrated it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError
from roadworthy.labelfree.curve import CLEAN_CONFIDENCE, ranked_consistency
from roadworthy.labelfree.plain import plain
from roadworthy.labelfree.selective import Ranked, ranked
from roadworthy.rng import resolve_seed
from roadworthy.statistics.resampling import expanded_interval

if TYPE_CHECKING:
    from roadworthy.labelfree.consistency import Consistency
    from roadworthy.types import Seed

_STEPS = 1000  # steps that resampled coverages are read at


@dataclass(frozen=True)
class CoverageAt:
    """The part of the data that reaches a wanted reliability.

    Attributes:
        target: reliability wanted.
        coverage: share of samples in the largest part that reaches it; 0 if none does.
        low: lower end of its interval; NaN where not computed.
        high: upper end.
        threshold: keep samples with at least this score; NaN if no part reaches the target.
        reliability: reliability of that part; NaN if none.
        best: the highest reliability of any part, and at what coverage it is reached.
        measure: what reliability means here.
        level: confidence level of the interval.
        n: number of samples.
        reason: why the coverage is 0; empty if it is not.
    """

    target: float
    coverage: float
    low: float
    high: float
    threshold: float
    reliability: float
    best: tuple[float, float]
    measure: str
    level: float
    n: int
    reason: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN is None."""
        return plain(self)


def coverage_at(
    consistency: Consistency,
    target: float = 0.9,
    *,
    statistic: str = "soft-agreement",
    rank: str = CLEAN_CONFIDENCE,
    level: float = 0.9,
    draws: int = 1000,
    seed: Seed = 0,
) -> CoverageAt:
    """Find how much of the data is as stable under perturbation as wanted.

    Args:
        consistency: what :func:`perturbation_consistency` returned.
        target: reliability wanted, on the scale of :func:`reliability_curve`: 0 is chance, 1 is
            sure and never moved.
        statistic: as in :func:`reliability_curve`.
        rank: as in :func:`reliability_curve`.
        level: confidence level of the interval.
        draws: bootstrap draws over samples; 0 for no interval.
        seed: seed or generator.

    Returns:
        Coverage with its interval.

    Raises:
        InputError: a target or level out of range, an unknown statistic or rank.

    Example:
        >>> coverage_at(consistency, 0.9).coverage  # doctest: +SKIP
        0.62
    """
    samples = ranked_consistency(consistency, statistic=statistic, rank=rank)
    measure = f"{statistic} beyond chance, ranked by {rank}"
    return coverage_of(samples, target, measure=measure, level=level, draws=draws, seed=seed)


def coverage_at_accuracy(
    p_correct: ArrayLike,
    target: float = 0.9,
    *,
    scores: ArrayLike | None = None,
    level: float = 0.9,
    draws: int = 1000,
    seed: Seed = 0,
) -> CoverageAt:
    """Find how much of the data is as often correct as wanted, where P(correct) of each sample is known.

    The interval is of sampling alone: it takes the probabilities as given, and holds as far as they are calibrated
    on these samples. With correctness itself (0 or 1) it needs no such trust.

    Args:
        p_correct: (N,) calibrated probability that the prediction is correct, or whether it is.
        target: accuracy wanted of the part.
        scores: (N,) what samples are kept by, high first; ``p_correct`` by default.
        level: confidence level of the interval.
        draws: bootstrap draws over samples; 0 for no interval.
        seed: seed or generator.

    Returns:
        Coverage with its interval.

    Raises:
        InputError: values outside [0, 1], lengths that differ, a target or level out of range.

    Example:
        >>> found = coverage_at_accuracy([0.99, 0.9, 0.8, 0.5], 0.85, draws=0)
        >>> found.coverage, found.threshold, round(found.reliability, 3)
        (0.75, 0.8, 0.897)
    """
    values = np.asarray(p_correct, dtype=np.float64)
    if ((values < 0) | (values > 1)).any():
        raise InputError("p_correct: some values lie outside [0, 1], expected probabilities")
    samples = ranked(values if scores is None else np.asarray(scores), values)
    return coverage_of(samples, target, measure="probability to be correct", level=level, draws=draws, seed=seed)


def coverage_of(
    samples: Ranked, target: float, *, measure: str, level: float = 0.9, draws: int = 1000, seed: Seed = 0
) -> CoverageAt:
    """Find the largest part of ranked samples that reaches a reliability, see :func:`coverage_at`.

    Example:
        >>> coverage_of(ranked(np.array([2.0, 1.0]), np.array([0.5, 0.5])), 0.9, measure="x", draws=0).reason
        'no part reaches 0.9: the best, 50 % of the samples, has 0.5'
    """
    if not 0 < target <= 1 or not 0 < level < 1:
        raise InputError(f"target {target} and level {level} came, expected 0 < target <= 1 and 0 < level < 1")
    coverage, reliability, n = samples.coverage, samples.reliability, len(samples.order)
    reaches = np.flatnonzero(_reached(reliability, target))
    top = int(reliability.argmax())
    best = float(reliability[top]), float(coverage[top])
    low = high = math.nan
    if draws:
        low, high = _interval(samples, target, level, draws, resolve_seed(seed))
    last = int(reaches[-1]) if len(reaches) else None
    return CoverageAt(
        target=float(target),
        coverage=0.0 if last is None else float(coverage[last]),
        low=low,
        high=high,
        threshold=math.nan if last is None else float(samples.thresholds[last]),
        reliability=math.nan if last is None else float(reliability[last]),
        best=best,
        measure=measure,
        level=level,
        n=n,
        reason=f"no part reaches {target:g}: the best, {100 * best[1]:.0f} % of the samples, has {best[0]:.3g}"
        if last is None
        else "",
    )


def _interval(samples: Ranked, target: float, level: float, draws: int, seed: int) -> tuple[float, float]:
    found = []
    for coverage, reliability in samples.resampled(samples.thinned(_STEPS), draws, seed):
        found.append(np.where(_reached(reliability, target), coverage, 0.0).max(axis=1))
    low, high = expanded_interval(np.concatenate(found), level, len(samples.order))
    return float(low), float(high)


def _reached(reliability: np.ndarray, target: float) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return np.asarray(reliability >= target - 1e-9)  # a sum that equals the target but for rounding reaches it
