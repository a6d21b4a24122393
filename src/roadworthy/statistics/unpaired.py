"""Differences of means of two sets of units that have nothing to do with each other: Welch's t (Welch 1947).

Equals ``scipy.stats.ttest_ind(first, second, equal_var=False)`` and the interval that it gives, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import check_level, finite

_ROUNDING = 1e-12  # a spread below this share of the largest value is one of rounding
_ADVICE = "leave these units out"


@dataclass(frozen=True)
class UnpairedDifference:
    """What :func:`unpaired_difference` finds for M methods; each array is (M,).

    Attributes:
        difference: mean of the first less mean of the second.
        low: lower end of its interval; NaN where a side has one unit.
        high: upper end.
        p: two-sided p-value; 1 where a side has one unit.
        level: confidence level of each interval on its own.
        n: number of units of the first and of the second.
    """

    difference: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    level: float
    n: tuple[int, int]


def unpaired_difference(first: Any, second: Any, *, level: float = 0.95) -> UnpairedDifference:
    """Compare the mean scores of M methods between two sets of units, such as two sets of samples.

    Where the units are the same, take :func:`paired_bootstrap` or :func:`paired_repeats`: they see far more. Where
    neither side varies there is nothing for t to go by: the interval has no width, and p is that of the permutation
    test, one over the number of ways to part all units in two such sets, or 1 for no difference.

    Args:
        first: (M, N) finite score of each method on each unit.
        second: (M, K) likewise on others.
        level: confidence level of each interval on its own, in (0, 1).

    Returns:
        Differences, intervals and p-values (not corrected for their number: see :func:`holm`).

    Raises:
        InputError: other numbers of methods, or NaN or infinite scores, naming their rows and units.

    Example:
        >>> found = unpaired_difference([[1.0, 2.0, 3.0]], [[1.0, 1.0, 2.0, 0.0]])
        >>> found.difference.tolist(), round(float(found.p[0]), 3), found.n
        ([1.0], 0.233, (3, 4))
    """
    from scipy.special import gammaln, stdtr, stdtrit

    check_level(level)
    one, other = (
        finite(values, name, 2, ("method", "unit"), _ADVICE)
        for name, values in (("first", first), ("second", second))
    )
    if len(one) != len(other):
        raise InputError(f"first has {len(one)} methods and second {len(other)}, expected the same ones")
    n, k = one.shape[1], other.shape[1]
    difference = one.mean(axis=1) - other.mean(axis=1)
    if min(n, k) < 2:
        unknown = np.full(len(one), np.nan)
        return UnpairedDifference(difference, unknown, unknown.copy(), np.ones(len(one)), level, (n, k))
    rounding = _ROUNDING * np.maximum(np.abs(one).max(axis=1), np.abs(other).max(axis=1))
    difference = np.where(np.abs(difference) <= rounding, 0.0, difference)
    parts = one.var(axis=1, ddof=1) / n, other.var(axis=1, ddof=1) / k
    error = np.sqrt(parts[0] + parts[1])
    flat = error <= rounding
    error = np.where(flat, 1.0, error)
    freedom = error**4 / np.where(flat, 1.0, parts[0] ** 2 / (n - 1) + parts[1] ** 2 / (k - 1))
    half = np.where(flat, 0.0, -stdtrit(freedom, (1 - level) / 2) * error)
    partings = float(np.exp(gammaln(n + 1) + gammaln(k + 1) - gammaln(n + k + 1)))
    known = 2 * stdtr(freedom, -np.abs(difference) / error)
    p = np.where(flat, np.where(difference == 0, 1.0, partings), known)
    return UnpairedDifference(difference, difference - half, difference + half, p, level, (n, k))
