"""Scores in files: what another program saved is enough to rank by."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import DataError, InputError, listed, unknown_name
from roadworthy.files import replacing
from roadworthy.labels import label_array

if TYPE_CHECKING:
    import pandas as pd

_SCORES = ("scores", "logits", "probabilities")
_NAMES = ("label_names", "classes")
_PREFIXES = ("s_", "p_")


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of C classes on N samples, and their classes.

    Attributes:
        scores: (N, C), higher is more likely.
        labels: int64 (N,).
        label_names: C class names.
        ids: N names of the samples.
        notes: what the reader should know of them.
    """

    scores: np.ndarray
    labels: np.ndarray
    label_names: tuple[str, ...]
    ids: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.scores)

    @staticmethod
    def of(scores: Any, labels: Any, *, label_names: Sequence[str] = (), ids: Sequence[Any] | None = None) -> Scores:
        """Check shapes and bring labels to one form; values are checked where ranks are taken.

        Raises:
            InputError: shapes that do not fit.

        Example:
            >>> len(Scores.of([[0.2, 0.8]], [1]))
            1
        """
        values = np.asarray(scores)
        if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "fiub":
            raise InputError(f"scores: got {values.dtype} of shape {values.shape}, expected numbers (N, C)")
        count = values.shape[1]
        names = tuple(map(str, label_names)) or tuple(map(str, range(count)))
        named = tuple(map(str, range(len(values)) if ids is None else ids))
        if len(names) != count or len(named) != len(values):
            raise InputError(
                f"scores: got shape {values.shape} with {len(names)} class names and {len(named)} ids, expected one "
                "name a column and one id a row; of a model for other classes, score features in place of it"
            )
        return Scores(values, label_array(labels, len(values)), names, named)


def read_scores(path: str | Path) -> Scores:
    """Read saved scores.

    Args:
        path: ``.npz`` with ``scores`` (or ``logits``, or ``probabilities``) (N, C), ``labels`` (N,), and where there
            are any ``label_names`` (or ``classes``) and ``ids``; or ``.csv`` with a row a sample: ``label`` (a class
            name, or its number), ``id`` if there is one, and a column a class: ``s_CLASS`` or ``p_CLASS``, or
            without such columns all the others.

    Returns:
        The scores.

    Raises:
        DataError: no such file, or one that holds no scores with labels.
        InputError: another ending, or arrays that do not fit.

    Example:
        >>> read_scores("scores.npz").scores.shape  # doctest: +SKIP
        (359, 10)
    """
    place = Path(path).expanduser()
    if place.suffix.lower() not in (".npz", ".csv"):
        raise InputError(f"{place}: expected a file of scores that ends in .npz or .csv")
    if not place.is_file():
        raise DataError(f"{place}: {'not a file' if place.exists() else 'no such file'}; expected saved scores")
    try:
        found = _from_csv(place) if place.suffix.lower() == ".csv" else _from_npz(place)
        return Scores.of(**found)
    except (OSError, zipfile.BadZipFile, EOFError) as error:
        raise DataError(f"{place}: cannot be read ({error})") from error
    except DataError:
        raise
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def write_scores(scores: Scores, path: str | Path) -> Path:
    """Write scores into a ``.npz`` file that :func:`read_scores` reads, whole or not at all.

    Raises:
        InputError: the path does not end in ``.npz``.
    """
    place = Path(path).expanduser()
    if place.suffix.lower() != ".npz":
        raise InputError(f"{place}: scores are written as .npz; name such a file")
    texts: dict[str, Any] = {name: np.array(getattr(scores, name), dtype=np.str_) for name in ("label_names", "ids")}
    with replacing(place) as beside, open(beside, "wb") as file:
        np.savez_compressed(file, scores=scores.scores, labels=scores.labels, **texts)
    return place


def _from_npz(place: Path) -> dict[str, Any]:
    try:
        with np.load(place, allow_pickle=False) as held:
            found = {name: held[name] for name in held.files if name in (*_SCORES, *_NAMES, "labels", "ids")}
    except ValueError as error:  # an array of Python objects, or no archive
        raise DataError(f"{place}: cannot be read without running code in it ({error}); save plain arrays") from error
    scores = next((found[name] for name in _SCORES if name in found), None)
    if scores is None or "labels" not in found:
        raise DataError(
            f"{place}: holds {listed(sorted(found)) or 'nothing known'}, expected 'scores' (N, C) and 'labels' (N,)"
        )
    names = next((found[name] for name in _NAMES if name in found), np.empty(0, np.str_))
    return {"scores": scores, "labels": found["labels"], "label_names": names.tolist(), "ids": found.get("ids")}


def _from_csv(place: Path) -> dict[str, Any]:
    import pandas as pd

    try:
        frame = pd.read_csv(place, dtype={"id": str, "label": str})
    except ValueError as error:
        raise DataError(f"{place}: cannot be read as .csv ({error})") from error
    frame.columns = frame.columns.map(str)
    columns = [name for name in frame.columns if name not in ("label", "id")]
    prefix = next((start for start in _PREFIXES if any(name.startswith(start) for name in columns)), "")
    columns = [name for name in columns if name.startswith(prefix)]
    if "label" not in frame or not columns:
        raise DataError(f"{place}: has columns {listed(frame.columns)}, expected 'label' and a column a class")
    if frame.empty:
        raise DataError(f"{place}: has no rows")
    odd = [name for name in columns if frame[name].dtype.kind not in "fiub"]
    if odd:
        raise DataError(f"{place}: columns {listed(odd)} hold no numbers; leave out what is no score")
    names = [name.removeprefix(prefix) for name in columns]
    return {
        "scores": frame[columns].to_numpy(dtype=np.float64),
        "labels": _numbers(place, frame["label"], names),
        "label_names": names,
        "ids": frame["id"].tolist() if "id" in frame else None,
    }


def _numbers(place: Path, column: pd.Series, names: list[str]) -> np.ndarray:
    """Return labels by class name, or by number."""
    if column.isna().any():
        rows = np.flatnonzero(column.isna()).tolist()
        raise DataError(
            f"{place}: {len(rows)} of {len(column)} labels are empty: rows {listed(rows)}; leave them out"
        )
    if column.isin(names).all():
        return column.map({name: place for place, name in enumerate(names)}).to_numpy(dtype=np.int64)
    try:
        return label_array(column.to_numpy().astype(np.float64))
    except ValueError:
        odd = next(word for word in column if word not in names)
        raise unknown_name("class", str(odd), names) from None
