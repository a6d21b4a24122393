"""Mid-ranks, Spearman's rho and Kendall's tau-b, exact under ties at any length.

Equal to ``scipy.stats.rankdata``, ``spearmanr`` and ``kendalltau(variant="b")``. Sums of ranks are integers held
exactly (in float64, or in Python integers), so a perfect agreement is 1 and not a little less. What is undefined (a
constant input, fewer than two entries) is NaN. NaN in the input makes its row NaN: it has no rank, and leaving it out
in silence would compare other things than asked.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import to_array


def midranks(values: Any, axis: int = -1) -> np.ndarray:
    """Rank from 1 upwards; equal values share the mean of their ranks.

    Args:
        values: array of real numbers; infinities are ordered.
        axis: the axis to rank along.

    Returns:
        float64 array of the same shape; a row that holds a NaN is all NaN.

    Raises:
        InputError: no such axis, or values that are not real numbers.

    Example:
        >>> midranks([10, 20, 20, 5]).tolist()
        [2.0, 3.5, 3.5, 1.0]
    """
    rows = np.moveaxis(_real(values, "values", axis), axis, -1)
    n = rows.shape[-1]
    order = np.argsort(rows, axis=-1, kind="stable")
    ordered = np.take_along_axis(rows, order, axis=-1)
    starts = np.ones(rows.shape, dtype=bool)
    starts[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    position = np.broadcast_to(np.arange(n, dtype=np.float64), rows.shape)
    first = np.maximum.accumulate(np.where(starts, position, 0), axis=-1)
    ends = np.ones(rows.shape, dtype=bool)
    ends[..., :-1] = starts[..., 1:]
    last = np.minimum.accumulate(np.where(ends, position, n)[..., ::-1], axis=-1)[..., ::-1]
    ranks = np.empty(rows.shape)
    np.put_along_axis(ranks, order, (first + last) / 2 + 1, axis=-1)
    ranks[_holds_nan(rows)] = np.nan
    return np.moveaxis(ranks, -1, axis)


def area_under_roc(values: Any, positive: Any) -> float:
    """Return the share of pairs of a positive and a negative in which the positive is larger; equal ones count half.

    Equal to ``sklearn.metrics.roc_auc_score``.

    Args:
        values: (N,) real numbers.
        positive: (N,) truth values.

    Returns:
        The area under the ROC curve, in [0, 1]; NaN without a positive or without a negative.

    Raises:
        InputError: lengths that differ, or values that are not real numbers.

    Example:
        >>> area_under_roc([0.9, 0.4, 0.1, 0.4], [True, True, False, False])
        0.875
    """
    chosen, ranks = np.asarray(positive, dtype=bool), midranks(values)
    if ranks.ndim != 1 or ranks.shape != chosen.shape:
        raise InputError(f"positive: got shape {chosen.shape} for values of {ranks.shape}, expected (N,) for both")
    ahead, behind = int(chosen.sum()), int((~chosen).sum())
    if not ahead or not behind:
        return math.nan
    return float((ranks[chosen].sum() - ahead * (ahead + 1) / 2) / (ahead * behind))


def spearman(a: Any, b: Any, axis: int = -1) -> np.ndarray:
    """Spearman's rank correlation of two arrays, row by row: Pearson's correlation of their mid-ranks.

    Args:
        a: array of real numbers.
        b: array that broadcasts with ``a``, with as many entries along ``axis``.
        axis: the axis to correlate along; count it from the end where the arrays differ in their number of axes.

    Returns:
        float64 array without that axis, in [-1, 1]; NaN where undefined or where the input holds NaN.

    Raises:
        InputError: lengths that differ, or shapes that do not fit.

    Example:
        >>> float(spearman([1, 2, 3, 4], [1, 3, 2, 4])), float(spearman([1, 2], [5, 5]))
        (0.8, nan)
    """
    first, second = _paired(a, b, axis)
    n = first.shape[-1]
    # twice the deviation from the mean rank: integers, so products and sums carry no rounding up to n of 2e5
    left = 2 * midranks(first) - (n + 1)
    right = 2 * midranks(second) - (n + 1)
    cross, own, other = (left * right).sum(axis=-1), (left**2).sum(axis=-1), (right**2).sum(axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.clip(cross / np.sqrt(own * other), -1, 1))


def kendall(a: Any, b: Any, axis: int = -1) -> np.ndarray:
    """Kendall's tau-b of two arrays, row by row, in n log n steps.

    Pairs are counted in whole numbers: the discordant ones are the inversions of ``b`` after sorting by ``a``
    then ``b`` (Knight, JASA 1966).

    Args:
        a: array of real numbers.
        b: array that broadcasts with ``a``, with as many entries along ``axis``.
        axis: the axis to correlate along; count it from the end where the arrays differ in their number of axes.

    Returns:
        float64 array without that axis, in [-1, 1]; NaN where undefined or where the input holds NaN.

    Raises:
        InputError: lengths that differ, or shapes that do not fit.

    Example:
        >>> round(float(kendall([1, 2, 3, 4], [1, 3, 2, 4])), 4)
        0.6667
    """
    first, second = _paired(a, b, axis)
    undefined = _holds_nan(first) | _holds_nan(second)
    out = np.full(first.shape[:-1], np.nan)
    for row in np.ndindex(out.shape):
        if not undefined[row]:
            out[row] = _tau_b(first[row], second[row])
    return out


def _tau_b(a: np.ndarray, b: np.ndarray) -> float:
    x, y = (np.unique(values, return_inverse=True)[1].reshape(-1) for values in (a, b))
    total = len(x) * (len(x) - 1) // 2
    tied_x, tied_y = _tied_pairs(x), _tied_pairs(y)
    if total in (tied_x, tied_y):
        return math.nan
    tied_both = _tied_pairs(x.astype(np.int64) * (int(y.max()) + 1) + y)
    discordant = _inversions(y[np.lexsort((y, x))])
    surplus = total - tied_x - tied_y + tied_both - 2 * discordant
    return surplus / math.sqrt((total - tied_x) * (total - tied_y))


def _tied_pairs(groups: np.ndarray) -> int:
    counts = np.unique(groups, return_counts=True)[1].astype(np.int64)
    return int((counts * (counts - 1) // 2).sum())


def _inversions(values: np.ndarray) -> int:
    """Count pairs that stand in falling order, one binary digit after the other, from the highest.

    At each digit the values lie in blocks that agree on all higher digits, in their first order; the pairs decided
    there are a one before a zero within a block. Then each block is parted into its zeros and its ones.
    """
    values = values.astype(np.int64)
    count, place = 0, np.arange(len(values))
    for digit in reversed(range(int(values.max()).bit_length())):
        block = values >> (digit + 1)
        one = (values >> digit) & 1
        start = np.searchsorted(block, block)  # blocks lie in rising order
        ones = np.concatenate(([0], np.cumsum(one)))
        ones_before = ones[:-1] - ones[start]
        count += int(ones_before[one == 0].sum())
        zeros_before = place - start - ones_before
        end = np.searchsorted(block, block, side="right")
        zeros = end - start - (ones[end] - ones[start])
        target = np.where(one == 1, start + zeros + ones_before, start + zeros_before)
        parted = np.empty_like(values)
        parted[target] = values
        values = parted
    return count


def _holds_nan(rows: np.ndarray) -> np.ndarray:
    return np.asarray(np.isnan(rows).any(axis=-1)) if rows.dtype.kind == "f" else np.zeros(rows.shape[:-1], bool)


def _real(values: Any, name: str, axis: int) -> np.ndarray:
    array = to_array(values)
    if array.size and array.dtype.kind not in "biuf":
        raise InputError(f"{name}: values of type {array.dtype} came, expected real numbers")
    if not -array.ndim <= axis < array.ndim:
        raise InputError(f"{name}: shape {array.shape} came, which has no axis {axis}")
    return array


def _paired(a: Any, b: Any, axis: int) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.moveaxis(_real(values, name, axis), axis, -1) for values, name in ((a, "a"), (b, "b")))
    if first.shape[-1] != second.shape[-1]:
        raise InputError(
            f"a has {first.shape[-1]} entries and b {second.shape[-1]} along axis {axis}, expected as many in both"
        )
    try:
        rows = np.broadcast_shapes(first.shape[:-1], second.shape[:-1])
    except ValueError:
        raise InputError(f"a has shape {np.shape(a)} and b {np.shape(b)}; their rows cannot be paired") from None
    n = first.shape[-1:]
    return np.broadcast_to(first, rows + n), np.broadcast_to(second, rows + n)
