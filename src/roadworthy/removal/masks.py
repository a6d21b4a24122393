"""Exact counts and nested masks: p is the share removed, in both orders."""

from __future__ import annotations

import math

import numpy as np

from roadworthy.errors import InputError


def units_removed(units: int, fraction: float) -> int:
    """Return how many of ``units`` are removed at the share ``fraction``: floor(p * units + 1e-9).

    Raises:
        InputError: the share is not within [0, 1].

    Example:
        >>> units_removed(1024, 0.1), units_removed(10, 0.3), units_removed(3, 1.0)
        (102, 3, 3)
    """
    if not 0.0 <= fraction <= 1.0:
        raise InputError(f"fraction: got {fraction}, expected a share removed between 0 and 1")
    return min(units, math.floor(fraction * units + 1e-9))


def removed_at(ranks: np.ndarray, fraction: float) -> np.ndarray:
    """Return the mask of removed units at a share; masks at growing shares are nested.

    Args:
        ranks: int (N, *units), see :func:`roadworthy.removal.removal_ranks`.
        fraction: the share removed, 0 to 1.

    Returns:
        bool (N, *units), True where removed; every row has exactly ``units_removed(U, fraction)``.

    Example:
        >>> removed_at(np.array([[2, 0, 3, 1]]), 0.5)
        array([[False,  True, False,  True]])
    """
    units = int(np.prod(ranks.shape[1:]))
    return ranks < units_removed(units, fraction)
