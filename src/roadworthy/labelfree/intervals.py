"""What errors on pseudo-targets say of a live target: which estimator to believe there, and by how much.

Everything is weighted by similarity of shift, and kinds of shift count alike: the many pseudo-targets of a mild kind
must not make an interval narrow. The interval is conformal: the weighted quantile of errors, each over the error that
was to be expected there, of pseudo-targets whose kind had no part in the choice (Vovk et al. 2005; weights:
Tibshirani et al. 2019). It holds as far as the live shift is one of the sort self-validation has seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from roadworthy.labelfree.shift import SHIFT_NAMES, TWO_SIDED

# Fixed on the data sets that benchmarks/labelfree.py lists as those of the design.
_BANDWIDTH = 0.3  # in root mean square standard deviations of the shifts seen
_LEAST_SPREAD = 0.02
_NEIGHBOURS = 20  # that the interval is taken from, in effect
_FLOOR = 0.01  # an expected error of 0 must not make an error infinitely large
_BEYOND = 0.2  # of the range seen, as far outside of it as a number is still given


@dataclass(frozen=True, eq=False)
class Experience:
    """Errors of E estimators on T pseudo-targets.

    Attributes:
        shifts: (T, S), see :func:`~roadworthy.labelfree.shift.measure_shift`.
        errors: (T, E), estimate - truth; NaN where there is none.
        kinds: (T,) names.
    """

    shifts: np.ndarray
    errors: np.ndarray
    kinds: np.ndarray

    @cached_property
    def balance(self) -> np.ndarray:
        """Weights (T,) of mean 1 that make all kinds count alike."""
        _, position, counts = np.unique(self.kinds, return_inverse=True, return_counts=True)
        weights = 1 / counts[position]
        return np.asarray(weights / weights.mean())

    def mean_errors(self) -> np.ndarray:
        """Mean absolute error (E,) balanced over kinds; NaN where one is missing."""
        return np.asarray(self.balance @ np.abs(self.errors) / len(self.kinds))

    def distances(self, live: np.ndarray) -> np.ndarray:
        """Distance (T,) of the live shift from each seen, per number in standard deviations."""
        spread = self.shifts.std(axis=0) + _LEAST_SPREAD
        return np.asarray(np.sqrt((((self.shifts - live) / spread) ** 2).mean(axis=1)))

    def expected_errors(self, live: np.ndarray) -> np.ndarray:
        """Mean absolute error (E,) to expect at a shift: kinds count alike, similar shifts more."""
        away = self.distances(live)
        # relative to the nearest, which is the best witness also where it is far
        weights = np.exp(-0.5 * (away**2 - away.min() ** 2) / _BANDWIDTH**2) * self.balance
        return np.asarray(weights @ np.abs(self.errors) / weights.sum())

    @cached_property
    def left_out(self) -> np.ndarray:
        """Expected errors (T, E) at each pseudo-target by those of other kinds alone; of one kind, by the others."""
        found = np.full(self.errors.shape, np.nan)
        alone = len(np.unique(self.kinds)) == 1
        groups = np.arange(len(self.kinds)) if alone else np.unique(self.kinds, return_inverse=True)[1]
        for group in np.unique(groups):
            others = groups != group
            if others.any():
                rest = Experience(self.shifts[others], self.errors[others], self.kinds[others])
                for row in np.flatnonzero(~others):
                    found[row] = rest.expected_errors(self.shifts[row])
        return found

    def half_width(
        self, live: np.ndarray, errors: np.ndarray, expected: np.ndarray, here: float, level: float
    ) -> float:
        """Half width of the interval for the error of an estimate.

        Args:
            live: (S,) shift of the target.
            errors: (T,) errors of what made the estimate, with each pseudo-target's kind left out.
            expected: (T,) errors that were expected there.
            here: the error expected at the target.
            level: of the interval.

        Returns:
            The half width; infinite where too few pseudo-targets are similar for this level.
        """
        known = np.isfinite(errors) & np.isfinite(expected)
        away = self.distances(live)[known]
        if not len(away):
            return float("inf")
        scale = np.sort(away)[min(_NEIGHBOURS, len(away) - 1)]
        weights = (np.exp(-0.5 * (away / scale) ** 2) if scale > 0 else np.ones(len(away))) * self.balance[known]
        scores = np.abs(errors[known]) / (expected[known] + _FLOOR)
        return weighted_quantile(scores, weights, level) * (here + _FLOOR)

    def outside(self, live: np.ndarray) -> list[str]:
        """Say in which numbers a shift lies beyond those seen; an empty list if in none."""
        low, high = self.shifts.min(axis=0), self.shifts.max(axis=0)
        slack = _BEYOND * np.maximum(high - low, _LEAST_SPREAD)
        return [
            f"{name} {live[k]:.2f} (seen: {low[k]:.2f} to {high[k]:.2f})"
            for k, name in enumerate(SHIFT_NAMES)
            if live[k] > high[k] + slack[k] or (TWO_SIDED[k] and live[k] < low[k] - slack[k])
        ]


def weighted_quantile(scores: np.ndarray, weights: np.ndarray, level: float) -> float:
    """Smallest score that at least ``level`` of the weight reaches, with a further one of weight 1 at infinity.

    Example:
        >>> weighted_quantile(np.arange(1.0, 20.0), np.ones(19), 0.9)  # the 18th of 19
        18.0
        >>> weighted_quantile(np.ones(5), np.ones(5), 0.9)  # five cannot say
        inf
    """
    order = np.argsort(scores, kind="stable")
    reached = np.cumsum(weights[order])
    place = int(np.searchsorted(reached, level * (weights.sum() + 1) - 1e-9))
    return float(scores[order][place]) if place < len(scores) else float("inf")


def sampling_half_width(accuracy: float, n: int, level: float) -> float:
    """Half width of the interval for an accuracy counted on n samples (Agresti & Coull 1998).

    Example:
        >>> round(sampling_half_width(0.5, 96, 0.95), 3)
        0.098
    """
    from scipy.stats import norm

    z = float(norm.ppf((1 + level) / 2))
    centre = (accuracy * n + z**2 / 2) / (n + z**2)
    return z * float(np.sqrt(centre * (1 - centre) / (n + z**2)))
