"""Intervals of a share that was counted on few samples: Wilson's, the exact one, and that of strata.

Strata, a finite population and weights all enter as the number of independent draws that would have said as much
(the effective sample size of Korn & Graubard 1998); the intervals of Wilson (1927) and of Clopper & Pearson (1934)
are taken at that number. So they stay within [0, 1] and hold near its ends, where one of normal form does not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_PRIOR = 2.0  # draws that the spread common to all strata counts in each: a stratum of two says little of its own


@dataclass(frozen=True)
class Interval:
    """A value and where the truth lies.

    Attributes:
        value: the estimate.
        low: lower end.
        high: upper end.
    """

    value: float
    low: float
    high: float


def wilson(share: float, n: float, quantile: float) -> tuple[float, float]:
    """Wilson's score interval; n may be a fraction, or infinite.

    Example:
        >>> low, high = wilson(0.9, 50, 1.645)
        >>> round(low, 3), round(high, 3)
        (0.808, 0.95)
    """
    if np.isinf(n):
        return share, share
    spread = quantile**2 / n
    centre = (share + spread / 2) / (1 + spread)
    half = quantile * np.sqrt(share * (1 - share) / n + spread / (4 * n)) / (1 + spread)
    return max(0.0, float(centre - half)), min(1.0, float(centre + half))


def exact(share: float, n: float, level: float) -> tuple[float, float]:
    """Interval of Clopper and Pearson for ``share * n`` hits in n; n may be a fraction, or infinite.

    Example:
        >>> low, high = exact(1.0, 50, 0.9)
        >>> round(low, 3), high
        (0.942, 1.0)
    """
    from scipy.stats import beta

    if np.isinf(n):
        return share, share
    hits, tail = share * n, (1 - level) / 2
    low = 0.0 if hits <= 0 else float(beta.ppf(tail, hits, n - hits + 1))
    high = 1.0 if hits >= n else float(beta.ppf(1 - tail, hits + 1, n - hits))
    return low, high


@dataclass(frozen=True, eq=False)
class Strata:
    """Labelled samples drawn from the strata of a finite population.

    Attributes:
        stratum: (n,) the stratum of each sample, 0 to H - 1, each there at least once.
        sizes: (H,) samples of the population in each stratum.
    """

    stratum: np.ndarray
    sizes: np.ndarray

    @property
    def drawn(self) -> np.ndarray:
        """Samples labelled in each stratum (H,)."""
        return np.bincount(self.stratum, minlength=len(self.sizes))

    @property
    def shares(self) -> np.ndarray:
        """Share of the population in each stratum (H,)."""
        return np.asarray(self.sizes / self.sizes.sum())

    @property
    def information(self) -> float:
        """Independent draws that know as much as these; infinite where all are labelled."""
        lost = (self.shares**2 * self._left / self.drawn).sum()
        return float(1 / lost) if lost > 0 else float("inf")

    @property
    def _left(self) -> np.ndarray:
        """What a stratum's variance is multiplied by, since no sample is drawn twice (H,)."""
        return np.asarray((self.sizes - self.drawn) / np.maximum(self.sizes - 1, 1))

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean of values (n,) in each stratum (H,)."""
        return np.asarray(np.bincount(self.stratum, weights=values, minlength=len(self.sizes)) / self.drawn)

    def mean(self, values: np.ndarray) -> float:
        """Estimate the population's mean from values (n,) of the samples."""
        return float(self.shares @ self.means(values))

    def covariance(self, one: np.ndarray, other: np.ndarray) -> float:
        """Covariance of the two estimated means, for values (n,) each; 0 where nothing is left to vary."""
        products = (one - self.means(one)[self.stratum]) * (other - self.means(other)[self.stratum])
        sums = np.bincount(self.stratum, weights=products, minlength=len(self.sizes))
        common = sums.sum() / max(len(one) - len(self.sizes), 1)
        spread = (sums + _PRIOR * common) / (self.drawn - 1 + _PRIOR)
        if len(self.sizes) == 1:
            spread = sums / self.drawn  # one stratum: the plain Wilson interval
        return float((self.shares**2 * self._left * spread / self.drawn).sum())


def share_interval(strata: Strata, value: float, variance: float, lost: int, level: float) -> tuple[float, float]:
    """Return Wilson's interval at the number of independent draws that would have this variance.

    Args:
        strata: the samples.
        value: estimated share.
        variance: of the estimate.
        lost: numbers fitted to the samples; each takes a degree of freedom.
        level: of the interval.

    Returns:
        Lower and upper end. Where the variance is 0 (all samples alike), the exact interval.

    Example:
        >>> one = Strata(np.zeros(50, int), np.array([100_000]))
        >>> low, high = share_interval(one, 0.9, 0.09 / 50, 0, 0.9)
        >>> round(low, 3), round(high, 3)
        (0.808, 0.95)
    """
    from scipy.stats import norm, t

    inside = min(max(value, 0.0), 1.0)
    if variance <= 0 or not 0 < inside < 1:
        return exact(inside, strata.information, level)
    freedom = len(strata.stratum) - len(strata.sizes) - lost
    plain = len(strata.sizes) == 1 and lost == 0
    quantile = norm.ppf((1 + level) / 2) if plain else t.ppf((1 + level) / 2, max(freedom, 1))
    return wilson(inside, inside * (1 - inside) / variance, float(quantile))
