"""Samples chosen by score: the middle for active learning, some of each band to look at. None is fit to evaluate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError
from roadworthy.files import replacing
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.rng import numpy_generator, resolve_seed

if TYPE_CHECKING:
    from roadworthy.types import Seed

BANDS = ("high", "middle", "low")


@dataclass(frozen=True, eq=False)
class Selection:
    """Samples that were chosen by their score.

    Attributes:
        rows: int64 (R,) positions in what was passed.
        ids: R names.
        scores: float64 (R,).
        purpose: what the samples are for.
        fit_for_evaluation: always False: labels of chosen samples say nothing of the whole.
    """

    rows: np.ndarray
    ids: tuple[str, ...]
    scores: np.ndarray
    purpose: str
    fit_for_evaluation: bool = False

    def __len__(self) -> int:
        return len(self.rows)

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        return plain(self)

    def save(self, path: str | Path) -> Path:
        """Write CSV with a row a sample: ``id``, ``chosen_for`` and an empty ``label``; never over another file.

        Raises:
            InputError: a file lies there already.
        """
        import pandas as pd

        place = Path(path).expanduser()
        if place.exists():
            raise InputError(f"{place}: lies there already and is not replaced; name another file")
        frame = pd.DataFrame({"id": self.ids, "chosen_for": self.purpose, "label": ""})
        with replacing(place) as beside:
            frame.to_csv(beside, index=False, encoding="utf8")
        return place


def middle_band(scores: ArrayLike, n: int, *, ids: Sequence[str] | None = None, seed: Seed = 0) -> Selection:
    """Choose the samples in the middle by rank, unsure yet not hopeless, to label and train on.

    That these teach a model most is the advice of a practitioner's guide, not something measured here.

    Args:
        scores: (N,) confidence or agreement, high is reliable.
        n: how many.
        ids: N names; positions by default.
        seed: which of equal scores are taken.

    Returns:
        The samples by falling score, marked as unfit for evaluation: :func:`audit_estimate` refuses them.

    Raises:
        InputError: scores that are not finite, or n out of range.

    Example:
        >>> middle_band([0.1, 0.5, 0.9, 0.6], 2).rows.tolist()
        [3, 1]
    """
    values, names, order = _ranked(scores, ids, resolve_seed(seed))
    if not 1 <= n <= len(values):
        raise InputError(f"n: got {n}, expected 1 to {len(values)}, the number of samples")
    start = (len(values) - n) // 2
    rows = order[start : start + n]
    return Selection(rows, tuple(names[row] for row in rows), values[rows], "training")


def confidence_bands(
    target: Outputs, each: int, *, scores: ArrayLike | None = None, seed: Seed = 0
) -> dict[str, np.ndarray]:
    """Draw samples from the upper, middle and lower third by rank, to look at.

    Args:
        target: the samples.
        each: how many of each third; fewer where it has no more.
        scores: (N,) agreement or the like, high is reliable; the confidence by default.
        seed: of the draw.

    Returns:
        Rows of ``"high"``, ``"middle"`` and ``"low"``, int64, in each by falling score. To learn the accuracy of each
        band draw ``audit_plan(target, strata=3)``, whose samples carry their chances.

    Raises:
        InputError: scores that do not fit, or ``each`` below 1.

    Example:
        >>> {band: rows.tolist() for band, rows in confidence_bands(Outputs.of([0.5, 0.7, 0.1]), 2).items()}
        {'high': [2], 'middle': [1], 'low': [0]}
    """
    if each < 1:
        raise InputError(f"each: got {each}, expected at least 1")
    number = resolve_seed(seed)
    order = _ranked(target.confidence if scores is None else scores, target.ids, number)[2]
    generator = numpy_generator(number, "bands")
    parts = zip(BANDS, np.array_split(order, len(BANDS)), strict=True)
    return {band: part[np.sort(generator.permutation(len(part))[:each])] for band, part in parts}


def _ranked(
    scores: ArrayLike, ids: Sequence[str] | None, seed: int
) -> tuple[np.ndarray, tuple[str, ...], np.ndarray]:
    """Return scores, names, and rows by falling score; equal scores in an order drawn by name."""
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InputError(f"scores: got shape {values.shape}, expected (N,) finite numbers")
    names = tuple(map(str, range(len(values)) if ids is None else ids))
    if len(set(names)) != len(values):
        raise InputError(f"ids: got {len(names)} ({len(set(names))} of them different) for {len(values)} scores")
    by_name = np.argsort(np.array(names, dtype=str), kind="stable")
    shuffled = numpy_generator(seed, "equal scores").permutation(by_name)
    return values, names, np.asarray(shuffled[np.argsort(-values[shuffled], kind="stable")])
