"""Top-k accuracy that never falls with k, and says which classes it could not see.

Without ties the micro average equals ``sklearn.metrics.top_k_accuracy_score``. A class that ties with others gets the
credit it would get on average if ties were broken by chance: the order of the classes then changes no accuracy.
:func:`target_ranks` gives each sample one rank, and breaks ties as argmax does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np

from roadworthy.errors import InputError, listed
from roadworthy.labels import label_array
from roadworthy.statistics._checks import to_array

_CELLS = 1 << 24  # scores compared at a time, so that memory does not grow with the number of samples


class TopKAccuracy(dict[int, float]):
    """Accuracy by k, as a dict ``{k: accuracy}``.

    Attributes:
        n: number of samples.
        classes: number of classes, the width of the scores.
        absent_classes: classes without a sample; macro averages leave them out.
        average: ``"micro"`` or ``"macro"``.
    """

    def __init__(
        self, accuracy: dict[int, float], *, n: int, classes: int, absent_classes: tuple[int, ...], average: str
    ) -> None:
        super().__init__(accuracy)
        self.n = n
        self.classes = classes
        self.absent_classes = absent_classes
        self.average = average


def target_ranks(scores: Any, labels: Any) -> np.ndarray:
    """Rank the labelled class of each sample among the scores of all classes; 0 is the highest.

    Args:
        scores: (N, K) array, sequence or tensor of any scale, higher is more likely; infinities are ordered.
        labels: (N,) or (N, 1) whole numbers in 0 .. K-1, see :func:`roadworthy.labels.label_array`.

    Returns:
        int64 (N,). Among equal scores the lower class index comes first, as argmax has it.

    Raises:
        InputError: NaN scores (naming the rows), labels out of range (naming values and the likely cause), labels
            that are not whole numbers, or shapes that do not fit.

    Example:
        >>> target_ranks([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0]], [2, 1]).tolist()
        [1, 1]
    """
    values = _scores(scores)
    target = _labels(labels, *values.shape)
    columns = np.arange(values.shape[1])
    ranks = np.empty(len(values), dtype=np.int64)
    for part, block, own in _blocks(values, target):
        score = np.take_along_axis(block, own, axis=1)
        ranks[part] = ((block > score) | ((block == score) & (columns < own))).sum(axis=1)
    return ranks


def topk_accuracy(
    scores: Any, labels: Any, k: int | Sequence[int] = (1, 5), *, average: Literal["micro", "macro"] = "micro"
) -> TopKAccuracy:
    """Share of samples whose labelled class is among the k highest scores.

    Where the labelled class ties with others around the k-th place, the sample counts by the share of ways to break
    the tie that put the class among the first k: with K equal scores, k / K.

    Args:
        scores: (N, K) array, sequence or tensor; higher is more likely.
        labels: (N,) or (N, 1) whole numbers in 0 .. K-1.
        k: one or several k, from 1 to the number of classes K, which gives 1.
        average: ``"micro"`` over samples, or ``"macro"`` over the classes that occur in ``labels``.

    Returns:
        Accuracy by k, with the number of samples and the classes that never occur. It never falls with k.

    Raises:
        InputError: as :func:`target_ranks`; no samples; a k below 1, above K or not whole; an unknown average.

    Example:
        >>> found = topk_accuracy([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]], [2, 0], k=(1, 2))
        >>> dict(found), found.n, found.absent_classes
        ({1: 0.5, 2: 1.0}, 2, (1,))
        >>> dict(topk_accuracy([[0.5, 0.5, 0.0]], [1], k=(1, 2)))
        {1: 0.5, 2: 1.0}
    """
    if average not in ("micro", "macro"):
        raise InputError(f"average: {average!r} came, expected 'micro' or 'macro'")
    values = _scores(scores)
    wanted = _ks(k, values.shape[1])
    if not len(values):
        raise InputError("scores: no samples came, so there is no accuracy")
    target = _labels(labels, *values.shape)
    above, level = _places(values, target)
    counts = np.bincount(target, minlength=values.shape[1])
    present = counts > 0

    def accuracy(one: int) -> float:
        credit = np.clip((one - above) / level, 0, 1)
        if average == "micro":
            return float(credit.mean())
        credits = np.bincount(target, weights=credit, minlength=len(counts))
        return float((credits[present] / counts[present]).mean())

    return TopKAccuracy(
        {one: accuracy(one) for one in wanted},
        n=len(values),
        classes=values.shape[1],
        absent_classes=tuple(np.flatnonzero(~present).tolist()),
        average=average,
    )


def _places(values: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return for each sample how many classes score above its own, and how many score the same, its own included."""
    above, level = np.empty((2, len(values)), dtype=np.int64)
    for part, block, own in _blocks(values, target):
        score = np.take_along_axis(block, own, axis=1)
        above[part], level[part] = (block > score).sum(axis=1), (block == score).sum(axis=1)
    return above, level


def _blocks(values: np.ndarray, target: np.ndarray) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
    step = max(1, _CELLS // values.shape[1])
    for start in range(0, len(values), step):
        part = slice(start, start + step)
        yield part, values[part], target[part, None]


def _scores(scores: Any) -> np.ndarray:
    values = to_array(scores)
    if values.ndim != 2 or values.shape[1] == 0:
        raise InputError(f"scores: shape {values.shape} came, expected (samples, classes)")
    if values.dtype.kind not in "biuf":
        raise InputError(f"scores: values of type {values.dtype} came, expected real numbers")
    rows = np.flatnonzero(np.isnan(values).any(axis=1))
    if len(rows):
        raise InputError(
            f"scores: {len(rows)} of {len(values)} rows hold NaN, so they have no order: {listed(rows.tolist())}"
        )
    return values


def _labels(labels: Any, n: int, classes: int) -> np.ndarray:
    values = label_array(labels, n)
    bad = np.unique(values[(values < 0) | (values >= classes)])
    if len(bad):
        cause = ""
        if bad.tolist() == [classes] and values.min() >= 1:
            cause = " The labels seem to count from 1: subtract 1."
        elif (bad < 0).any():
            cause = " Negative labels often mark samples without a label: leave these out."
        raise InputError(
            f"labels: {listed(bad.tolist())} came, expected 0 to {classes - 1} for scores of {classes} "
            f"classes.{cause}"
        )
    return values


def _ks(k: int | Sequence[int], classes: int) -> list[int]:
    wanted = list(k) if isinstance(k, Iterable) else [k]
    if not wanted:
        raise InputError("k: an empty sequence came, expected one or more whole numbers")
    for one in wanted:
        if isinstance(one, (bool, np.bool_)) or not isinstance(one, (int, np.integer)) or one < 1:
            raise InputError(f"k: {one!r} came, expected whole numbers of at least 1")
    above = [one for one in wanted if one > classes]
    if above:
        raise InputError(
            f"k: {listed(above)} came for scores of {classes} classes; pass k of at most {classes}, which gives 1"
        )
    return [int(one) for one in wanted]
