"""What is wrong with a map before it is ranked: ties, constants, values that are not numbers."""

from __future__ import annotations

import numpy as np


def tied_share(values: np.ndarray) -> np.ndarray:
    """Return, for each map, the share of units whose value another unit has too.

    Args:
        values: (N, *units).

    Returns:
        float64 (N,).

    Example:
        >>> tied_share(np.array([[1, 1, 2, 3], [1, 2, 3, 4], [0, 0, 0, 0]]))
        array([0.5, 0. , 1. ])
    """
    rows = np.sort(np.asarray(values).reshape(len(values), -1), axis=1)
    same = rows[:, 1:] == rows[:, :-1]
    edge = np.zeros((len(rows), 1), dtype=bool)
    tied = np.concatenate([same, edge], axis=1) | np.concatenate([edge, same], axis=1)
    return tied.mean(axis=1)


def constant_maps(values: np.ndarray) -> np.ndarray:
    """Return which maps have one value everywhere, and so no order: bool (N,)."""
    rows = np.asarray(values).reshape(len(values), -1)
    return (rows == rows[:, :1]).all(axis=1)


def nonfinite_rows(values: np.ndarray) -> np.ndarray:
    """Return which maps hold NaN or infinity: bool (N,)."""
    return ~np.isfinite(np.asarray(values).reshape(len(values), -1)).all(axis=1)
