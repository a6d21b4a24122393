"""Which rows a classifier is fitted on, and which it is scored on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from roadworthy.errors import InputError, unknown_name
from roadworthy.rng import numpy_generator

Order: TypeAlias = Literal["file", "stratified"]
_ORDERS = ("file", "stratified")
_SORTED = 4  # rows are sorted by class if their labels change so many times less than in an order by chance


@dataclass(frozen=True, eq=False)
class Parting:
    """Rows in two parts.

    Attributes:
        train: ascending positions of the rows to fit on.
        test: ascending positions of the rows to score on.
        order: ``"file"`` or ``"stratified"``.
        share: of all rows that was asked for to fit on.
        unseen: classes that occur in ``test`` and never in ``train``: they cannot be answered.
        unscored: classes that never occur in ``test``.
        is_sorted: whether the rows lie sorted by class; see :func:`part_rows`.
    """

    train: np.ndarray
    test: np.ndarray
    order: Order
    share: float
    unseen: tuple[int, ...]
    unscored: tuple[int, ...]
    is_sorted: bool


def part_rows(
    labels: np.ndarray, class_count: int, *, share: float = 0.75, order: Order = "file", seed: int = 0
) -> Parting:
    """Part rows into those to fit on and those to score on.

    Rows count as sorted by class where the label changes from row to row less than a quarter as often as it would on
    average in an order by chance, which is ``N (1 - sum of the squared class shares)``.

    Args:
        labels: int64 (N,).
        class_count: number of classes.
        share: of the rows to fit on, in (0, 1).
        order: ``"file"``: the first ``floor(share * N)`` rows; ``"stratified"``: of every class the nearest number
            of rows to ``share``, at least one, drawn by the seed.
        seed: of the draw.

    Returns:
        The rows of both parts.

    Raises:
        InputError: an unknown order, a share outside (0, 1), or a part that would be empty.

    Example:
        >>> found = part_rows(np.array([0, 0, 0, 0, 1, 1, 1, 1]), 2)
        >>> found.train.tolist(), found.test.tolist(), found.unseen
        ([0, 1, 2, 3, 4, 5], [6, 7], ())
    """
    if order not in _ORDERS:
        raise unknown_name("order", str(order), _ORDERS)
    if not 0 < share < 1:
        raise InputError(f"train_share: got {share}, expected a share between 0 and 1, such as 0.75")
    n = len(labels)
    fitted = np.zeros(n, dtype=bool)
    if order == "file":
        fitted[: int(np.floor(share * n + 1e-9))] = True
    else:
        for label in np.unique(labels).tolist():
            rows = np.flatnonzero(labels == label)
            drawn = numpy_generator(seed, "rank-k", label).permutation(rows)
            fitted[drawn[: max(1, int(np.floor(share * len(rows) + 0.5)))]] = True
    if fitted.all() or not fitted.any():
        raise InputError(
            f"train_share: {share} of {n} rows leaves {'none to score' if fitted.all() else 'none to fit'}; pass "
            "more samples or another share"
        )
    seen = np.bincount(labels[fitted], minlength=class_count) > 0
    scored = np.bincount(labels[~fitted], minlength=class_count) > 0
    return Parting(
        train=np.flatnonzero(fitted),
        test=np.flatnonzero(~fitted),
        order=order,
        share=float(share),
        unseen=tuple(np.flatnonzero(scored & ~seen).tolist()),
        unscored=tuple(np.flatnonzero(~scored).tolist()),
        is_sorted=_is_sorted(labels),
    )


def _is_sorted(labels: np.ndarray) -> bool:
    n = len(labels)
    shares = np.bincount(labels) / n
    expected = n * (1 - (shares**2).sum())
    changes = int((labels[1:] != labels[:-1]).sum())
    return bool(expected > 0 and changes * _SORTED < expected)
