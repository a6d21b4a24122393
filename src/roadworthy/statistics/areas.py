"""Area under and over a removal curve on its true shares, and the symmetric gain between the two orders.

The area equals ``numpy.trapezoid`` divided by the span. The symmetric gain is the symmetric relevance gain of
Blücher et al., TMLR 2024.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import listed, to_array


def area(fractions: Any, values: Any, axis: int = -1) -> np.ndarray:
    """Mean height of a curve: trapezoid rule on the true fractions, divided by the span.

    Args:
        fractions: (P,) rising shares removed; they need not be evenly spaced.
        values: array with P entries along ``axis``; a NaN makes the area of its curve NaN.
        axis: the axis of the fractions.

    Returns:
        float64 array without that axis; on the scale of the values.

    Raises:
        InputError: fewer than two fractions, or fractions that are not finite or not strictly rising; values that do
            not fit them.

    Example:
        >>> float(area([0, 0.25, 1], [1.0, 0.5, 0.5]))
        0.5625
    """
    shares = check_fractions(fractions)
    heights = to_array(values)
    if not heights.ndim or not -heights.ndim <= axis < heights.ndim or heights.shape[axis] != len(shares):
        raise InputError(
            f"values: shape {heights.shape} came, expected {len(shares)} entries along axis {axis}, one per fraction"
        )
    heights = np.moveaxis(heights, axis, -1).astype(np.float64)
    weights = np.zeros(len(shares))  # half the width of the neighbouring intervals, summed to 1
    weights[:-1] += np.diff(shares) / 2
    weights[1:] += np.diff(shares) / 2
    return np.asarray((heights * (weights / (shares[-1] - shares[0]))).sum(axis=-1))


def symmetric_gain(fractions: Any, morf: Any, lerf: Any, axis: int = -1) -> np.ndarray:
    """Area without the least relevant units minus area without the most relevant ones; 0 for a random map.

    Args:
        fractions: (P,) rising shares removed, the same in both orders.
        morf: scores after removing the most relevant units first, P entries along ``axis``.
        lerf: scores after removing the least relevant units first, same shape.
        axis: the axis of the fractions.

    Returns:
        float64 array without that axis; higher is better. Swapping the orders changes only its sign.

    Raises:
        InputError: as :func:`area`; or shapes that differ.

    Example:
        >>> float(symmetric_gain([0.1, 0.5, 0.9], [0.4, 0.2, 0.1], [0.9, 0.8, 0.4]))
        0.5
    """
    low, high = to_array(morf), to_array(lerf)
    if low.shape != high.shape:
        raise InputError(f"morf has shape {low.shape} and lerf {high.shape}, expected the same for both orders")
    return area(fractions, high.astype(np.float64) - low.astype(np.float64), axis=axis)


def area_over_curve(fractions: Any, values: Any, axis: int = -1) -> np.ndarray:
    """Area between the level at share 0 and the curve below it, per unit of share: ROAR's usual number.

    ``(1 / p_last) * integral from 0 to p_last of (a(0) - a(p)) dp``, by the trapezoid rule on the true shares: the
    mean loss of accuracy, on the scale of the values, not divided by a(0). It equals ``a(0)`` minus :func:`area`.
    Positive where removal costs accuracy. With the most relevant units removed (ROAR) more is better, with the least
    relevant removed (KAR) less is.

    Args:
        fractions: (P,) rising shares removed, the first one 0.
        values: array with P entries along ``axis``, the first the score with nothing removed.
        axis: the axis of the fractions.

    Returns:
        float64 array without that axis.

    Raises:
        InputError: as :func:`area`; or the first share is not 0.

    Example:
        >>> float(area_over_curve([0, 0.5, 1], [0.75, 0.25, 0.25]))
        0.375
    """
    under = area(fractions, values, axis=axis)
    shares = check_fractions(fractions)
    if shares[0] != 0:
        raise InputError(
            f"fractions: {listed(shares)} came, expected 0 first: the area over a curve is measured from the score "
            "with nothing removed"
        )
    return np.asarray(np.moveaxis(to_array(values), axis, -1)[..., 0].astype(np.float64) - under)


def check_fractions(fractions: Any) -> np.ndarray:
    """Return the fractions as float64 (P,).

    Raises:
        InputError: fewer than two, not finite, or not strictly rising.

    Example:
        >>> check_fractions([0.1, 0.5]).tolist()
        [0.1, 0.5]
    """
    shares = to_array(fractions)
    if shares.ndim != 1 or len(shares) < 2 or shares.dtype.kind not in "iuf":
        raise InputError(f"fractions: {shares.tolist()} came, expected at least two numbers to span an area")
    shares = shares.astype(np.float64)
    if not np.isfinite(shares).all():
        raise InputError(f"fractions: {listed(shares)} came, expected finite numbers")
    if (np.diff(shares) <= 0).any():
        raise InputError(
            f"fractions: {listed(shares)} came, expected rising values, each once; sort the curve by them"
        )
    return shares
