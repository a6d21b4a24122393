"""Rank-k accuracy with Wilson intervals, of all samples and of each class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError, listed
from roadworthy.labels import label_array
from roadworthy.statistics import topk_accuracy

if TYPE_CHECKING:
    import pandas as pd

_USUAL = 5


@dataclass(frozen=True, eq=False)
class RankK:
    """Share of samples whose class is among the k highest scores.

    Attributes:
        k: the k asked for, (K,).
        accuracy: float64 (K,).
        low: lower ends of the Wilson intervals, (K,).
        high: upper ends, (K,).
        n: samples.
        level: coverage of the intervals.
        label_names: C class names.
        class_n: samples of each class, int64 (C,).
        class_accuracy: float64 (C, K); NaN for classes without a sample.
        class_low: (C, K).
        class_high: (C, K).
        notes: what the reader should know.
    """

    k: tuple[int, ...]
    accuracy: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: int
    level: float
    label_names: tuple[str, ...]
    class_n: np.ndarray
    class_accuracy: np.ndarray
    class_low: np.ndarray
    class_high: np.ndarray
    notes: tuple[str, ...] = ()

    @property
    def absent(self) -> tuple[str, ...]:
        """Names of the classes without a sample."""
        return tuple(name for name, n in zip(self.label_names, self.class_n, strict=True) if n == 0)

    @property
    def table(self) -> pd.DataFrame:
        """A row per k: accuracy, low, high, n."""
        import pandas as pd

        return pd.DataFrame(
            {
                "rank": list(self.k),
                "accuracy": self.accuracy,
                "low": self.low,
                "high": self.high,
                "n": self.n,
            }
        )

    @property
    def per_class(self) -> pd.DataFrame:
        """A row per class and k: accuracy, low, high, n; NaN for classes without a sample."""
        import pandas as pd

        count = len(self.k)
        return pd.DataFrame(
            {
                "class": np.repeat(np.array(self.label_names, dtype=object), count),
                "rank": np.tile(self.k, len(self.label_names)),
                "accuracy": self.class_accuracy.ravel(),
                "low": self.class_low.ravel(),
                "high": self.class_high.ravel(),
                "n": np.repeat(self.class_n, count),
            }
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain values that JSON can hold; NaN is None."""
        from roadworthy.labelfree.plain import plain

        found: dict[str, Any] = plain(self)
        return {**found, "absent": list(self.absent)}


def rank_k(
    scores: Any,
    labels: Any,
    *,
    k: int | Sequence[int] | None = None,
    level: float = 0.95,
    label_names: Sequence[str] = (),
) -> RankK:
    """Score answers by rank: is the class among the k highest?

    Ties, NaN and a k above the number of classes are treated as :func:`roadworthy.statistics.topk_accuracy` does.

    Args:
        scores: (N, C), higher is more likely, on any scale.
        labels: (N,) whole numbers in 0 .. C-1.
        k: one or several; 1 and 5 by default, or 1 alone where there are fewer than 5 classes.
        level: coverage of the Wilson intervals, in (0, 1). With ties between scores they are somewhat too wide.
        label_names: C class names; numbers by default.

    Returns:
        The shares, of all samples and of each class.

    Raises:
        InputError: as ``topk_accuracy``, or names that do not fit.

    Example:
        >>> found = rank_k([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1], [0.2, 0.5, 0.3]], [1, 0, 2], k=(1, 2))
        >>> found.accuracy.round(3).tolist(), found.class_n.tolist()
        ([0.667, 1.0], [1, 1, 1])
    """
    if not 0 < level < 1:
        raise InputError(f"level: got {level}, expected a share between 0 and 1, such as 0.95")
    values = np.asarray(scores.detach().cpu() if hasattr(scores, "detach") else scores)
    wanted, notes = k, []
    if k is None:
        count = values.shape[1] if values.ndim == 2 else 0
        wanted = (1, _USUAL) if count >= _USUAL else (1,)
        if 0 < count < _USUAL:
            notes.append(f"rank-{_USUAL} is left out: there are only {count} classes")
    assert wanted is not None
    found = topk_accuracy(values, labels, wanted)
    target = label_array(labels, len(values))
    names = tuple(map(str, label_names)) or tuple(map(str, range(found.classes)))
    if len(names) != found.classes:
        raise InputError(f"label_names: {len(names)} names for scores of {found.classes} classes")
    ks = tuple(found)
    class_n = np.bincount(target, minlength=found.classes)
    by_class = np.full((found.classes, len(ks)), np.nan)
    order = np.argsort(target, kind="stable")
    for label, rows in enumerate(np.split(order, np.cumsum(class_n)[:-1])):
        if len(rows):
            by_class[label] = list(topk_accuracy(values[rows], target[rows], ks).values())
    if found.absent_classes:
        notes.append(f"no sample of {len(found.absent_classes)} of {found.classes} classes: "
                     f"{listed([names[label] for label in found.absent_classes])}")  # fmt: skip
    accuracy = np.array(list(found.values()))
    low, high = _intervals(accuracy, np.full(len(ks), found.n), level)
    class_low, class_high = _intervals(by_class, np.repeat(class_n[:, None], len(ks), axis=1), level)
    return RankK(
        ks, accuracy, low, high, found.n, float(level), names, class_n, by_class, class_low, class_high, tuple(notes)
    )


def _intervals(shares: np.ndarray, counts: np.ndarray, level: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's intervals; NaN of no samples."""
    from scipy.stats import norm

    from roadworthy.labelfree.labelling.intervals import wilson

    quantile = float(norm.ppf((1 + level) / 2))
    ends = np.full((*shares.shape, 2), np.nan)
    for place in np.argwhere(counts > 0):
        at = tuple(place)
        ends[at] = wilson(float(shares[at]), float(counts[at]), quantile)
    return ends[..., 0], ends[..., 1]
