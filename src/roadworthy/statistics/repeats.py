"""Statistics over repeats: independent trainings, the same seeds for all methods within a repeat.

The unit is the repeat, so everything is Student's t. A difference of two methods is paired over the repeats, as
``scipy.stats.ttest_rel``, and Holm corrects over all pairs. What is found holds for the test samples at hand: other
samples would move all trainings together, which repeats cannot show.

How often Holm at 5 % over all 45 pairs of ten methods of equal mean calls any pair real, by the number of repeats R
(2,500 panels each, standard error below 0.7 %; ``benchmarks/results/error_rates.txt``):

========================================================  ======  ======  ======  ======
scores                                                    R = 2   R = 3   R = 5   R = 10
========================================================  ======  ======  ======  ======
normal, with a shift shared by all methods of a repeat    3.8 %   5.4 %   4.3 %   4.5 %
normal, half of the methods with a fifth of the spread    4.0 %   4.9 %   3.8 %   3.0 %
symmetric gain of hits, 5 shares, 100 test samples        0.0 %   4.1 %   4.5 %   3.8 %
accuracy on 50 test samples at one share                  0.0 %   0.0 %   5.2 %   4.4 %
one training of twenty collapses                          5.2 %   3.8 %   2.7 %   1.5 %
exponential, half of the methods mirrored                 4.8 %   6.6 %   11.6 %  13.8 %
========================================================  ======  ======  ======  ======

So it holds, but for differences of strong skew. The price of few repeats is power: see :func:`least_difference`. With
nine methods a difference must be 324 of its standard deviations at 2 repeats, 16 at 3, 3.5 at 5, 1.4 at 10. Take 5
repeats to see large differences, 10 to see those that are about as large as the spread between trainings; 2 or 3 give
a spread but decide next to nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.errors import InputError
from roadworthy.statistics._checks import check_level, finite, to_array
from roadworthy.statistics.ranking import ranked

_ROUNDING = 1e-12  # a spread below this share of the largest value is one of rounding
_ADVICE = "a mean over other repeats than those of its rivals is no fair one: leave these repeats out for all methods"


@dataclass(frozen=True)
class RepeatSummary:
    """Mean and spread over repeats; arrays have the shape of the values without their last axis.

    Attributes:
        mean: mean.
        sd: standard deviation (ddof 1); NaN for one repeat.
        low: lower end of the t-interval of the mean; NaN for one repeat, and where a few repeats have no spread. Not
            cut off where the values end: that of two accuracies may reach below 0 or above 1.
        high: upper end.
        n: number of repeats.
        level: confidence level of each interval on its own.
    """

    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: int
    level: float


@dataclass(frozen=True)
class PairedRepeats:
    """What :func:`paired_repeats` finds for M methods.

    Attributes:
        mean: mean score (M,).
        sd: standard deviation of the scores (M,); NaN for one repeat.
        low: lower end of the t-interval of each mean (M,); NaN for one repeat, and where a few have no spread.
        high: upper end (M,).
        difference: mean of the row's method minus mean of the column's (M, M).
        difference_low: lower end of the t-interval of each difference (M, M); NaN for one repeat, and where a few
            have no spread; 0 on the diagonal.
        difference_high: upper end (M, M).
        p: two-sided p-value of each difference (M, M); 1 on the diagonal and for one repeat.
        level: confidence level of each interval on its own.
        n: number of repeats.
    """

    mean: np.ndarray
    sd: np.ndarray
    low: np.ndarray
    high: np.ndarray
    difference: np.ndarray
    difference_low: np.ndarray
    difference_high: np.ndarray
    p: np.ndarray
    level: float
    n: int


def over_repeats(values: Any, *, level: float = 0.95) -> RepeatSummary:
    """Mean, standard deviation and t-interval over the last axis.

    Args:
        values: (..., R) finite values, R repeats.
        level: confidence level of each interval, in (0, 1).

    Returns:
        The summary; with one repeat the standard deviation and the interval are NaN. Values that are the same in all
        repeats have no interval either (NaN) while the sign-flip test could exclude nothing, that is where
        ``2 ** (1 - R)`` is above ``1 - level``; with more repeats it has no width.

    Raises:
        InputError: NaN or infinite values (naming the repeats), no values, or a level outside (0, 1).

    Example:
        >>> found = over_repeats([[0.75, 0.5, 0.25], [1, 1, 1]])
        >>> found.mean.tolist(), found.sd.tolist(), found.n
        ([0.5, 1.0], [0.25, 0.0], 3)
        >>> round(float(found.low[0]), 3), round(float(found.high[0]), 3)
        (-0.121, 1.121)
    """
    check_level(level)
    array = to_array(values)
    if not array.ndim or not array.size:
        raise InputError(f"values: shape {array.shape} came, expected one or more repeats along the last axis")
    rows = finite(array.reshape(-1, array.shape[-1]), "values", 2, ("row", "repeat"), _ADVICE)
    mean, sd = _mean(rows), _sd(rows, np.abs(rows).max(axis=1))
    half = _half_width(sd, rows.shape[1], level)
    mean, sd, low, high = (part.reshape(array.shape[:-1]) for part in (mean, sd, mean - half, mean + half))
    return RepeatSummary(mean, sd, low, high, rows.shape[1], level)


def paired_repeats(scores: Any, *, level: float = 0.95) -> PairedRepeats:
    """Compare the methods' mean scores, paired over repeats: within a repeat all methods share their seeds.

    Differences that are the same in all repeats have no spread, so that Student's t is not defined. If they are 0,
    p is 1. Else p is that of the sign-flip test, ``2 ** (1 - R)``: all R signs agree, which is all that is known.
    Accuracies on few test samples meet so by chance, and it would be false to call that certain. The interval follows
    from the same test: where that p is above ``1 - level`` it excludes no difference, so the interval is not known
    (NaN; up to 5 repeats at 95 %, whether the differences are 0 or not); else it has no width.

    Args:
        scores: (M, R) finite score of each method in each repeat.
        level: confidence level of each interval on its own, in (0, 1).

    Returns:
        Means, differences, intervals and p-values (not corrected for their number: see :func:`holm`).

    Raises:
        InputError: not (M, R), or NaN or infinite scores, naming their rows and repeats.

    Example:
        >>> found = paired_repeats([[0.8, 0.9, 0.7], [0.5, 0.7, 0.5], [0.5, 0.7, 0.5]])
        >>> [round(float(p), 4) for p in found.p[0]], float(found.p[1, 2])
        ([1.0, 0.0198, 0.0198], 1.0)
    """
    check_level(level)
    rows = finite(scores, "scores", 2, ("method", "repeat"), _ADVICE)
    methods, n = rows.shape
    differences = (rows[:, None] - rows).reshape(-1, n)
    largest = np.abs(rows).max()
    difference, sd = _mean(differences), _sd(differences, largest)
    difference = np.where(np.abs(difference) <= _ROUNDING * largest, 0.0, difference)
    half = _half_width(sd, n, level)
    p = _p_values(difference, sd, n)
    square = (part.reshape(methods, methods) for part in (difference, difference - half, difference + half, p))
    names = ("difference", "difference_low", "difference_high", "p")
    own = over_repeats(rows, level=level)
    tables = dict(zip(names, square, strict=True))
    for name in names[1:3]:
        np.fill_diagonal(tables[name], 0.0)
    return PairedRepeats(own.mean, own.sd, own.low, own.high, **tables, level=level, n=n)


def rank_methods_over_repeats(
    scores: Any, names: Sequence[str], *, higher_is_better: bool = True, level: float = 0.95
) -> pd.DataFrame:
    """Rank methods by their mean over repeats, with t-intervals and groups that cannot be told apart.

    Args:
        scores: (M, R) finite score of each method in each repeat, the same repeats for all.
        names: M distinct names.
        higher_is_better: whether a high score is good.
        level: confidence level of each interval; over all pairs together, a false difference is shown with
            probability at most ``1 - level`` (Holm).

    Returns:
        The table and ``attrs`` of :func:`rank_methods`, and the columns ``sd`` (over repeats) and ``n`` (repeats).
        ``attrs["n"]`` counts repeats; ``draws`` is 0 and ``seed`` None, for nothing is drawn. With one repeat
        nothing has a spread and nothing is told apart.

    Raises:
        InputError: NaN or infinite scores; names that are not M distinct ones.

    Example:
        >>> accuracy = [[0.3, 0.31, 0.32, 0.3, 0.31], [0.6, 0.62, 0.61, 0.63, 0.6], [0.61, 0.6, 0.63, 0.61, 0.62]]
        >>> table = rank_methods_over_repeats(accuracy, ["ig", "grad", "random"], higher_is_better=False)
        >>> table[["method", "rank", "group", "n"]].values.tolist()
        [['ig', 1, 'a', 5], ['grad', 2, 'b', 5], ['random', 3, 'b', 5]]
    """
    found = paired_repeats(scores, level=level)
    table = ranked(found, names, higher_is_better=higher_is_better, level=level)
    sd = dict(zip(map(str, names), found.sd, strict=True))
    table["sd"], table["n"] = table["method"].map(sd), found.n
    table.attrs |= {"draws": 0, "n": found.n, "seed": None}
    return table


def least_difference(repeats: int, pairs: int, *, level: float = 0.95) -> float:
    """How large a mean difference must be, in units of its standard deviation over repeats, to be called real.

    It is the bound that the first step of Holm's correction sets; a difference of this size is found half of the
    time.

    Args:
        repeats: number of repeats, at least 2.
        pairs: number of pairs that are compared, at least 1.
        level: confidence level of all pairs together, in (0, 1).

    Returns:
        ``t(1 - (1 - level) / (2 pairs), repeats - 1) / sqrt(repeats)``.

    Raises:
        InputError: fewer than 2 repeats or no pair.

    Example:
        >>> [round(least_difference(repeats, 36), 1) for repeats in (2, 3, 5, 10)]
        [324.1, 15.5, 3.5, 1.4]
    """
    check_level(level)
    if repeats < 2 or pairs < 1:
        raise InputError(f"least_difference: {repeats} repeats and {pairs} pairs came, expected at least 2 and 1")
    return _quantile(repeats, (1 - level) / pairs) / math.sqrt(repeats)


def _mean(rows: np.ndarray) -> np.ndarray:
    return np.array([math.fsum(row) for row in rows]) / rows.shape[1]  # fsum: equal whatever the order of repeats


def _sd(rows: np.ndarray, largest: np.ndarray) -> np.ndarray:
    if rows.shape[1] == 1:
        return np.full(len(rows), np.nan)
    sd = rows.std(axis=1, ddof=1)
    return np.where(sd <= _ROUNDING * largest, 0.0, sd)


def _half_width(sd: np.ndarray, n: int, level: float) -> np.ndarray:
    if n == 1:
        return sd
    half = sd * (_quantile(n, 1 - level) / math.sqrt(n))
    return np.where(sd == 0, np.nan, half) if _sign_flip(n) > 1 - level else half


def _sign_flip(n: int) -> float:
    """p of the sign-flip test where all n signs agree."""
    return float(2.0 ** (1 - n))


def _quantile(n: int, both_tails: float) -> float:
    from scipy.special import stdtrit

    return -float(stdtrit(n - 1, both_tails / 2))


def _p_values(difference: np.ndarray, sd: np.ndarray, n: int) -> np.ndarray:
    if n == 1:
        return np.ones(len(difference))
    from scipy.special import stdtr

    flat = np.where(difference == 0, 1.0, _sign_flip(n))
    spread = np.where(sd == 0, 1.0, sd)
    return np.where(sd == 0, flat, 2 * stdtr(n - 1, -np.abs(difference) / spread * math.sqrt(n)))
