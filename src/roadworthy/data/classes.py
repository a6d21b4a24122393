"""Class names in a file beside the images, and labels that count from 0 or from 1.

``classes.json`` holds ``{"classes": [names in the order of the labels], "label_offset": 0 or 1}``; the offset is of
record files, whose labels may count from 1.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from roadworthy.errors import DataError, RoadworthyWarning

CLASSES_FILE = "classes.json"
_MOST_BYTES = 64 << 20
_MOST_CLASSES = 1_000_000


def folder_name(name: str) -> str:
    """Return a name that a file or folder can have: what cannot stand in one, and ``%``, is percent-encoded.

    Example:
        >>> folder_name("T-shirt/top"), folder_name(".."), folder_name("café 3")
        ('T-shirt%2Ftop', '%2E.', 'café 3')
    """
    encoded = re.sub(r'[/\\%*?"<>|\x00-\x1f\x7f]|^\.', lambda found: f"%{ord(found[0]):02X}", name)
    return encoded or "%"


class Stated(NamedTuple):
    """What is said about the classes of a data set, by its files or by its user.

    Attributes:
        classes: their names, or None.
        number: how many there are, or None.
        offset: the label of the first class, 0 or 1, or None.
    """

    classes: list[str] | None = None
    number: int | None = None
    offset: int | None = None


def read_classes(folder: Path) -> Stated:
    """Read ``classes.json`` in a folder; all None where there is none.

    Raises:
        DataError: it is of another form.
    """
    path = folder / CLASSES_FILE
    if not path.is_file():
        return Stated()
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise ValueError(f"has {path.stat().st_size} bytes, at most {_MOST_BYTES} are read")
        found: Any = json.loads(path.read_text(encoding="utf8"))
        names, offset = found["classes"], found.get("label_offset")
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("its 'classes' are no list of names")
        if len(set(names)) != len(names):
            raise ValueError("a name is there twice")
        if offset not in (None, 0, 1):
            raise ValueError(f"label_offset is {offset!r}, expected 0 or 1")
    except (ValueError, LookupError, TypeError, AttributeError, OSError) as error:
        raise DataError(f'{path}: cannot be used: {error}; expected {{"classes": [names]}}') from error
    return Stated(names, len(names), offset)


def settle_labels(labels: Sequence[np.ndarray], stated: Stated, where: str, spec: str) -> tuple[int, int]:
    """Find which label is the first class, and how many classes there are.

    Args:
        labels: int64 arrays as they stand in the files, one a split.
        stated: what is known; what is None is found from the labels.
        where: what to call the data in messages.
        spec: the specification without its options, for advice.

    Returns:
        The offset to take off, 0 or 1, and the number of classes.

    Raises:
        DataError: labels that count from something else, have gaps, go beyond the classes, or could be either.
    """
    present = np.unique(np.concatenate(labels))
    if present.size == 0:
        raise DataError(f"{where}: there are no records")
    least, most = int(present[0]), int(present[-1])
    if least < 0 or most > _MOST_CLASSES:
        raise DataError(
            f"{where}: labels go from {least} to {most}, expected 0..K-1 or 1..K for K classes (-1 marks hidden "
            "labels)"
        )
    offset = _offset(least, most, stated, where, spec) if stated.offset is None else stated.offset
    count = stated.number or most - offset + 1
    if least < offset or most - offset >= count:
        raise DataError(
            f"{where}: labels go from {least} to {most}, expected {offset} to {count - 1 + offset} for {count} "
            f"classes with label_offset={offset}"
        )
    gaps = np.setdiff1d(np.arange(offset, offset + count), present)
    if len(gaps) and stated.number is None:
        advice = f"'{spec},label_offset={offset},classes={count}'"
        other = f", or '{spec},label_offset=1' if they count from 1" if offset == 0 and gaps.tolist() == [0] else ""
        raise DataError(
            f"{where}: labels go from {least} to {most}, but {len(gaps)} between are absent, the first {gaps[0]}; if "
            f"these classes are merely without a record, say so: {advice}{other}"
        )
    return offset, count


def _offset(least: int, most: int, stated: Stated, where: str, spec: str) -> int:
    if least == 0:
        return 0
    if least > 1 or (stated.number is not None and most != stated.number):
        count = f" of {stated.number} classes" if stated.number else ""
        raise DataError(
            f"{where}: labels go from {least} to {most}{count}, which may count from 0 or from 1; say which: "
            f"'{spec},label_offset=1' or '{spec},label_offset=0'"
        )
    warnings.warn(
        f"{where}: labels go from 1 to {most} and none is 0, so they are taken to count from 1 (label_offset=1): "
        f"label 1 becomes class 0. State it with '{spec},label_offset=1'; if class 0 is merely absent, say "
        f"label_offset=0,classes={most + 1}",
        RoadworthyWarning,
        stacklevel=6,
    )
    return 1
