"""Resampled means by matrix product: what every bootstrap of this stage is made of.

A draw is a row of multinomial weights, so that all draws of all rows are one product of matrices, worked in blocks
that stay in the cache. It equals ``rows[:, picks].mean(axis=1)`` for each draw's picks, without gathering them.

The weights come from Poisson counts: those of independent cells are multinomial given their sum. So counts of a rate
a little below 1 are drawn, rows whose sum is above N are left out, and what a sum lacks is picked one by one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from roadworthy.rng import numpy_generator

_CELLS = 1 << 19  # weights held at a time: they stay in the cache, and memory does not grow with draws x samples
_COLUMNS = 512  # samples in one product of matrices, half as long again is lost with all of them at once
_COUNTS = 24  # a Poisson count of a rate below 1 reaches it less than once in 10 ** 23


def resampled_means(rows: np.ndarray, draws: int, seed: int, purpose: str = "bootstrap") -> np.ndarray:
    """Return the mean of each row over resampled columns, the same columns for all rows.

    Args:
        rows: (R, N) finite values.
        draws: number of resamples.
        seed: resolved seed.
        purpose: key of the stream; different purposes draw independently.

    Returns:
        float64 (draws, R). Sums of whole numbers are exact, so equal means are equal.

    Example:
        >>> resampled_means(np.array([[1.0, 1.0], [0.0, 0.0]]), 3, 0).tolist()
        [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0]]
    """
    n = rows.shape[1]
    generator = numpy_generator(seed, purpose)
    rate = 1 / (1 + 2 / math.sqrt(n))  # sums lie two standard deviations below N: few rows are left out

    def weights(size: int) -> np.ndarray:
        counts = _poisson(generator, rate, size * n).reshape(size, n)
        missing = n - counts.sum(axis=1, dtype=np.uint32).astype(np.int64)
        counts, missing = counts[missing >= 0], missing[missing >= 0]
        cells = np.repeat(np.arange(len(counts)) * n, missing)
        np.add.at(counts.reshape(-1), cells + generator.integers(n, size=len(cells)), np.uint8(1))
        return counts

    return weighted_means(weights, rows, draws)


def weighted_means(make: Callable[[int], np.ndarray], rows: np.ndarray, draws: int) -> np.ndarray:
    """Return ``weights @ rows.T / N`` for as many draws of weights, a block of draws and samples at a time.

    Args:
        make: returns weights (size, N) of any type for the next ``size`` draws, or for fewer.
        rows: (R, N).
        draws: number of draws.

    Returns:
        float64 (draws, R).

    Example:
        >>> weighted_means(lambda size: np.ones((size, 2)), np.array([[0.0, 1.0]]), 2).tolist()
        [[0.5], [0.5]]
    """
    n = rows.shape[1]
    step = max(1, _CELLS // n)
    columns = np.ascontiguousarray(rows.T)
    sums, done = np.zeros((draws, len(rows))), 0
    while done < draws:
        weights = make(min(step, draws - done))
        part = sums[done : done + len(weights)]
        for start in range(0, n, _COLUMNS):
            block = slice(start, start + _COLUMNS)
            part += weights[:, block].astype(np.float64) @ columns[block]
        done += len(weights)
    return sums / n


def random_bytes(generator: np.random.Generator, count: int) -> np.ndarray:
    """Return uniform bytes (count,), the same on every machine; ``generator.bytes`` takes longer."""
    words = generator.bit_generator.random_raw(-(-count // 8))
    return words.astype("<u8", copy=False).view(np.uint8)[:count]


def _poisson(generator: np.random.Generator, rate: float, size: int) -> np.ndarray:
    """Return Poisson counts (size,) of a rate below 1, as uint8; ``generator.poisson`` takes much longer.

    A byte decides a count: of its 256 values each count gets the whole ones that its probability makes up. The few
    values left over stand for what is left of the probabilities, and there another number decides.
    """
    probabilities = math.exp(-rate) * np.cumprod([1.0, *(rate / np.arange(1, _COUNTS))])
    whole = np.floor(256 * probabilities)
    left = np.cumsum(256 * probabilities - whole)
    bounds = np.cumsum(whole[whole > 0]).astype(np.uint8)
    drawn = random_bytes(generator, size)
    counts, above = np.zeros(size, np.uint8), np.empty(size, np.bool_)
    for bound in bounds[:-1]:
        counts += np.greater_equal(drawn, bound, out=above).view(np.uint8)
    undecided = np.flatnonzero(np.greater_equal(drawn, bounds[-1], out=above))
    counts[undecided] = np.searchsorted(left / left[-1], generator.random(len(undecided)), side="right")
    return counts


def expanded_interval(moved: np.ndarray, level: float, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the expanded percentile interval (Hesterberg 2015) of resampled values.

    Args:
        moved: (draws, ...) resampled values of a statistic.
        level: confidence level.
        n: number of units that were resampled; one unit has no interval.

    Returns:
        ``(low, high)``, each of shape (...); NaN for one unit, and where a draw is NaN.

    Example:
        >>> low, high = expanded_interval(np.linspace(0, 1, 1001)[:, None], 0.9, 10)
        >>> round(float(low[0]), 3), round(float(high[0]), 3)
        (0.027, 0.973)
    """
    if n == 1:
        return np.full(moved.shape[1:], np.nan), np.full(moved.shape[1:], np.nan)
    from scipy.special import ndtr, stdtrit

    tail = float(ndtr(stdtrit(n - 1, (1 - level) / 2) * math.sqrt(n / (n - 1))))
    low, high = np.quantile(moved, [tail, 1 - tail], axis=0)
    return low, high


def canonical(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each distinct row once, columns in sorted order, and where each row of the input went.

    Equal rows are computed once, so no rounding parts them. Columns are sorted by the rows' values, taking the rows
    by their sets of values, which makes the caller's order of columns moot.

    Args:
        values: (R, N) finite values.

    Returns:
        The distinct rows in rising order, and for each row of the input its place among them (R,).

    Example:
        >>> rows, back = canonical(np.array([[2.0, 1.0], [0.0, 0.0], [2.0, 1.0]]))
        >>> rows.tolist(), back.tolist()
        ([[0.0, 0.0], [1.0, 2.0]], [1, 0, 1])
    """
    values = values + 0.0  # -0.0 is 0.0
    kind = np.unique(_sortable(np.sort(values, axis=1)), return_inverse=True)[1].reshape(-1)
    last_kind_first = np.argsort(kind, kind="stable")[::-1]
    moved = values[:, np.argsort(_sortable(values[last_kind_first].T), kind="stable")]
    _, first, back = np.unique(_sortable(moved), return_index=True, return_inverse=True)
    return np.ascontiguousarray(moved[first]), back.reshape(-1)


def _sortable(rows: np.ndarray) -> np.ndarray:
    """Return a string of bytes for each row; they stand in the order of the rows' values, compared from the left.

    Much faster than ``lexsort`` and ``unique(axis=0)``, which compare every column of every row.
    """
    bits = np.ascontiguousarray(rows, dtype=np.float64).view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    ordered = np.where(negative, ~bits, bits | np.uint64(1 << 63)).astype(">u8")  # bytes as they are compared
    return ordered.view(np.dtype((np.void, 8 * rows.shape[1]))).reshape(-1)
