"""Removal order: which unit goes first, with ties broken by a draw that belongs to the image alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.errors import InputError
from roadworthy.rng import permutations
from roadworthy.types import Order, Sign

SIGNS = ("signed", "abs", "positive", "squared")


def tie_draw(seed: int, ids: Sequence[str], units: int, repeat: int = 0) -> np.ndarray:
    """Draw, for each image, the permutation in which tied units are taken.

    It depends on the seed, the image's id and the repeat alone: not on the share, the method or the order.

    Returns:
        int64 (N, units).
    """
    return permutations(seed, f"ties/{repeat}", ids, units)


def removal_ranks(values: np.ndarray, draw: np.ndarray, order: Order = "morf", sign: Sign = "signed") -> np.ndarray:
    """Give each unit its place in the removal order.

    LeRF is MoRF of the negated values with the same draw. So the symmetric gain of an inverted map is exactly
    the negative, and a constant map is removed in one and the same random order both ways and gains exactly 0.

    Args:
        values: (N, *units), finite; larger is more relevant.
        draw: int64 (N, U), see :func:`tie_draw`.
        order: ``"morf"`` (most relevant first) or ``"lerf"`` (least relevant first).
        sign: ``"signed"``, ``"abs"``, ``"positive"`` (negative values count as 0) or ``"squared"``.

    Returns:
        int32 (N, *units); 0 is removed first.

    Raises:
        InputError: an unknown order or sign.

    Example:
        >>> draw = tie_draw(0, ["a"], 4)
        >>> removal_ranks(np.array([[0.1, 0.9, -2.0, 0.5]]), draw)
        array([[2, 0, 3, 1]], dtype=int32)
        >>> removal_ranks(np.array([[0.1, 0.9, -2.0, 0.5]]), draw, "lerf", "abs")
        array([[0, 2, 3, 1]], dtype=int32)
    """
    relevance = _signed(np.asarray(values, dtype=np.float64).reshape(len(values), -1), sign)
    keys = _keys(relevance, order)
    drawn = np.take_along_axis(keys, draw, axis=1)
    sequence = np.take_along_axis(draw, np.argsort(drawn, axis=1, kind="stable"), axis=1)
    ranks = np.empty(keys.shape, dtype=np.int32)
    np.put_along_axis(ranks, sequence, np.arange(keys.shape[1], dtype=np.int32)[None], axis=1)
    return ranks.reshape(values.shape)


def ranks_without_ties(
    values: np.ndarray, order: Order = "morf", sign: Sign = "signed"
) -> tuple[np.ndarray, np.ndarray]:
    """Give each unit its place as :func:`removal_ranks` does, where no two values are equal and so no draw is needed.

    Args:
        values: (N, *units), finite; larger is more relevant.
        order: ``"morf"`` or ``"lerf"``.
        sign: as for :func:`removal_ranks`.

    Returns:
        int32 (N, *units), and bool (N,): True for rows that have ties, whose places mean nothing.

    Example:
        >>> ranks_without_ties(np.array([[0.1, 0.9, -2.0, 0.5], [1, 1, 2, 3]]))[1]
        array([False,  True])
    """
    relevance = _signed(np.asarray(values, dtype=np.float64).reshape(len(values), -1), sign)
    keys = _keys(relevance, order)
    sequence = np.argsort(keys, axis=1)  # much faster than a stable sort
    sorted_keys = np.take_along_axis(keys, sequence, axis=1)
    tied = (sorted_keys[:, 1:] == sorted_keys[:, :-1]).any(axis=1)
    ranks = np.empty(keys.shape, dtype=np.int32)
    np.put_along_axis(ranks, sequence, np.arange(keys.shape[1], dtype=np.int32)[None], axis=1)
    return ranks.reshape(values.shape), tied


def _keys(relevance: np.ndarray, order: Order) -> np.ndarray:
    if order == "morf":
        return -relevance
    if order == "lerf":
        return relevance
    raise InputError(f"order: got {order!r}, expected 'morf' or 'lerf'")


def _signed(values: np.ndarray, sign: Sign) -> np.ndarray:
    if sign == "signed":
        return values
    if sign in ("abs", "squared"):
        # the square has the order of the magnitude, without its overflow and underflow
        return np.abs(values)
    if sign == "positive":
        return np.maximum(values, 0.0)
    raise InputError(f"sign: got {sign!r}, expected one of {', '.join(SIGNS)}")
