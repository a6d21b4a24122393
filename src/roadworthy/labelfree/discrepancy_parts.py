"""What follows from the discrepancies of intervals: intervals over draws, the learned map, the curve, group gaps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.labelfree.plain import plain
from roadworthy.rng import numpy_generator
from roadworthy.statistics.resampling import expanded_interval

_LEAST = 3  # intervals that a line is fitted to
_DRAWS = 1000


def edges_of(scores: np.ndarray, count: int, kind: str, within: tuple[float, float]) -> np.ndarray:
    """Return the ends of intervals, rising, float64 (K + 1,).

    Args:
        scores: (N,) probability of the class.
        count: number of intervals; quantiles that are equal give fewer.
        kind: ``"equal-width"`` or ``"quantile"``.
        within: the range that is cut into equal widths.

    Example:
        >>> edges_of(np.array([0.1, 0.2, 0.9]), 2, "quantile", (0, 1)).tolist()
        [0.1, 0.2, 0.9]
    """
    if kind == "equal-width":
        return np.linspace(*within, count + 1)
    found = np.unique(np.quantile(scores, np.linspace(0, 1, count + 1)))
    return found if len(found) > 1 else np.repeat(found, 2)


def interval_of(scores: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the interval of each score, int64 (N,): open below and closed above, the first closed; -1 outside.

    Example:
        >>> interval_of(np.array([0.0, 0.5, 0.6, 1.0]), np.array([0.0, 0.5, 1.0])).tolist()
        [0, 0, 1, 1]
    """
    place = np.searchsorted(edges, scores, side="left") - 1
    place[scores == edges[0]] = 0
    place[(scores < edges[0]) | (scores > edges[-1])] = -1
    return place


def over_draws(values: np.ndarray, level: float, method: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return mean and interval over draws, each (...), of values (..., R).

    Args:
        values: NaN is left out; fewer than two draws have no interval.
        level: of the interval.
        method: ``"t"`` (Student) or ``"bootstrap"`` (draws drawn anew, expanded percentile).
        seed: of the bootstrap.

    Example:
        >>> mean, low, high = over_draws(np.array([[1.0, 2.0, 3.0]]), 0.9, "t", 0)
        >>> mean.tolist(), low.round(2).tolist(), high.round(2).tolist()
        ([2.0], [0.31], [3.69])
    """
    flat = values.reshape(-1, values.shape[-1])
    found = np.full((3, len(flat)), np.nan)
    for row, line in enumerate(flat):
        known = line[np.isfinite(line)]
        if len(known):
            found[0, row] = known.mean()
        if len(known) > 1:
            found[1:, row] = _ends(known, level, method, seed)
    mean, low, high = found.reshape(3, *values.shape[:-1])
    return mean, low, high


def _ends(known: np.ndarray, level: float, method: str, seed: int) -> tuple[float, float]:
    if method == "t":
        from scipy.stats import t

        half = t.ppf((1 + level) / 2, len(known) - 1) * known.std(ddof=1) / np.sqrt(len(known))
        return float(known.mean() - half), float(known.mean() + half)
    picks = numpy_generator(seed, "draws anew").integers(len(known), size=(_DRAWS, len(known)))
    low, high = expanded_interval(known[picks].mean(axis=1), level, len(known))
    return float(low), float(high)


@dataclass(frozen=True)
class LearnedMap:
    """A straight line from discrepancy to the share of the class, fitted on held-out source samples.

    Attributes:
        slope: change of the share for one unit of discrepancy; below 0 where the method works.
        intercept: share at discrepancy 0.
        n: intervals it was fitted on.
        error: mean absolute error of the share of an interval that was left out.
        baseline_error: the same of a line from the interval's midpoint: what the classifier says by itself.
    """

    slope: float
    intercept: float
    n: int
    error: float
    baseline_error: float

    def share(self, discrepancy: np.ndarray) -> np.ndarray:
        """Return shares in [0, 1]; NaN stays."""
        return np.clip(self.intercept + self.slope * discrepancy, 0, 1)


def learn_map(discrepancy: np.ndarray, midpoint: np.ndarray, share: np.ndarray) -> LearnedMap | None:
    """Fit the line on intervals (K,); None where fewer than three are known, or all alike.

    Example:
        >>> found = learn_map(np.array([1.0, 0.0, -1.0]), np.array([0.1, 0.5, 0.9]), np.array([0.0, 0.5, 1.0]))
        >>> round(found.slope, 6), round(found.error, 6)
        (-0.5, 0.0)
    """
    known = np.isfinite(discrepancy) & np.isfinite(share)
    if known.sum() < _LEAST or np.ptp(discrepancy[known]) == 0:
        return None
    slope, intercept = np.polyfit(discrepancy[known], share[known], 1)
    errors = [_left_out(values[known], share[known]) for values in (discrepancy, midpoint)]
    return LearnedMap(float(slope), float(intercept), int(known.sum()), *errors)


def _left_out(values: np.ndarray, share: np.ndarray) -> float:
    errors = []
    for row in range(len(values)):
        rest = np.arange(len(values)) != row
        if np.ptp(values[rest]) == 0:
            said = share[rest].mean()
        else:
            said = np.polyval(np.polyfit(values[rest], share[rest], 1), values[row])
        errors.append(abs(float(np.clip(said, 0, 1)) - share[row]))
    return float(np.mean(errors))


@dataclass(frozen=True, eq=False)
class TailCurve:
    """Reliability of the two tails as they grow towards the middle.

    Attributes:
        completeness: (M,) share of the samples in both tails, rising.
        reliability: (M,) mean of the two tails' scores: in each the mean discrepancy of its samples, counted for the
            class that the tail stands for; 1 is best, 0 says nothing.
        area: under the curve over completeness from 0 to 1, its ends drawn on level (AURCC); NaN without a curve.
    """

    completeness: np.ndarray
    reliability: np.ndarray
    area: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return plain(self)


def tail_curve(discrepancy: np.ndarray, counts: np.ndarray) -> TailCurve:
    """Take nested tails: the outermost interval on both sides, then the outermost two, and so on.

    Both tails are scored alike, low ones by the discrepancy, high ones by minus it; a tail that looks like the wrong
    class scores below 0. A tail of which nothing is known leaves the score to the other one. The middle one of an odd
    number of intervals is in no tail.

    Args:
        discrepancy: (K,); NaN is unknown.
        counts: (K,) samples of each interval.

    Example:
        >>> found = tail_curve(np.array([1.0, 0.4, -0.4, -0.8]), np.array([10, 10, 10, 10]))
        >>> found.completeness.tolist(), found.reliability.round(2).tolist()
        ([0.5, 1.0], [0.9, 0.65])
    """
    points = []
    for width in range(1, len(discrepancy) // 2 + 1):
        tails = [_tail(discrepancy[:width], counts[:width]), _tail(-discrepancy[-width:], counts[-width:])]
        known = [score for score in tails if np.isfinite(score)]
        if known:
            inside = counts[:width].sum() + counts[-width:].sum()
            points.append((float(inside / counts.sum()), float(np.mean(known))))
    if not points:
        return TailCurve(np.zeros(0), np.zeros(0), float("nan"))
    completeness, reliability = (np.array(column) for column in zip(*points, strict=True))
    x = np.concatenate([[0.0], completeness, [1.0]])
    y = np.concatenate([reliability[:1], reliability, reliability[-1:]])
    return TailCurve(completeness, reliability, float((np.diff(x) * (y[1:] + y[:-1]) / 2).sum()))


def _tail(scores: np.ndarray, counts: np.ndarray) -> float:
    known = np.isfinite(scores) & (counts > 0)
    return float(np.average(scores[known], weights=counts[known])) if known.any() else float("nan")


@dataclass(frozen=True, eq=False)
class GroupGap:
    """Difference between two groups of samples in discrepancy, interval by interval.

    Attributes:
        groups: the two names.
        n: (2, K) samples of each in every interval.
        discrepancy: (2, K).
        gap: (K,) first minus second; NaN where one is unknown.
        low: (K,) lower end of its interval over draws.
        high: (K,) upper end.
        mean: mean absolute gap over intervals where both are known; NaN of none.
    """

    groups: tuple[str, str]
    n: np.ndarray
    discrepancy: np.ndarray
    gap: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean: float

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return plain(self)


def group_gap(
    names: tuple[str, str], counts: np.ndarray, draws: np.ndarray, *, level: float, method: str, seed: int
) -> GroupGap:
    """Compare two groups, draw by draw: each draw meets both with the same source samples.

    Args:
        names: of the groups.
        counts: (2, K).
        draws: (2, K, R) discrepancies.
        level: of the intervals.
        method: see :func:`over_draws`.
        seed: of the bootstrap.

    Example:
        >>> draws = np.array([[[0.9, 0.7]], [[0.5, 0.3]]])
        >>> group_gap(("a", "b"), np.array([[30], [20]]), draws, level=0.9, method="t", seed=0).gap.round(3).tolist()
        [0.4]
    """
    gap, low, high = over_draws(draws[0] - draws[1], level, method, seed)
    known = np.isfinite(gap)
    mean = float(np.abs(gap[known]).mean()) if known.any() else float("nan")
    each = over_draws(draws, level, "t", seed)[0]
    return GroupGap(names, counts, each, gap, low, high, mean)


def pearson(one: np.ndarray, other: np.ndarray) -> float:
    """Pearson correlation over entries where both are known; NaN of fewer than three, or where one is constant.

    Example:
        >>> round(pearson(np.array([1.0, 2.0, 4.0]), np.array([3.0, 2.0, 0.0])), 6)
        -1.0
    """
    known = np.isfinite(one) & np.isfinite(other)
    if known.sum() < _LEAST or np.ptp(one[known]) == 0 or np.ptp(other[known]) == 0:
        return float("nan")
    return float(np.corrcoef(one[known], other[known])[0, 1])
