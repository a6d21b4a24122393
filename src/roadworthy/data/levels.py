"""A folder given one level too high or too low, or another thing in its place: told by what lies there."""

from __future__ import annotations

import os
import warnings
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from roadworthy.data.decode import EXTENSIONS
from roadworthy.data.splits import TEST_NAMES, TRAIN_NAMES
from roadworthy.errors import DataError, RoadworthyWarning, did_you_mean, listed

_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".7z", ".rar")


def no_folder(path: Path) -> str:
    """Return what is wrong with a path that is no folder: nothing there, an archive, a file.

    Example:
        >>> no_folder(Path("nowhere"))
        'no such folder'
    """
    if not path.exists():
        around = [entry.name for entry in path.parent.iterdir() if entry.is_dir()] if path.parent.is_dir() else []
        near = did_you_mean(path.name, around).strip()
        return f"no such folder{f' ({near})' if near else ''}"
    return "is an archive: unpack it, and name the folder" if _is_archive(path.name) else "not a folder"


def in_place_of_images(root: Path, others: Sequence[str]) -> str:
    """Return what lies in a folder where images of classes were expected; empty where nothing does.

    Args:
        root: the folder.
        others: files found there that are no images in class folders, relative to it.
    """
    if not others:
        return ""
    pictures = [file for file in others if _is_picture(file) and "/" not in file]
    if pictures:
        up = root.resolve().parent
        beside = [entry for entry in up.iterdir() if entry.is_dir() and entry != root.resolve()]
        classes = any(_is_picture(file.name) for folder in beside for file in folder.iterdir())
        way_out = f"; it looks like one class: give the folder above, {str(root.parent)!r}" if classes else ""
        return (
            f" ({len(others)} other files): {len(pictures)} images lie in it directly, not in class folders{way_out}"
        )
    archives = [file for file in others if _is_archive(file)]
    if archives:
        return f" ({len(others)} other files): unpack {listed(archives, 3)} first"
    known = " ".join(sorted(EXTENSIONS))
    return f" ({len(others)} other files): the first is {others[0]!r}, and images end in {known}"


def check_one_class(root: Path, files: Sequence[str]) -> None:
    """Refuse a folder whose only folder holds what look like the classes.

    Raises:
        DataError: naming the folder to give.
    """
    below = sorted({file.split("/")[1] for file in files if file.count("/") > 1})
    if len(below) > 1 and all(file.count("/") > 1 for file in files):
        only = files[0].split("/")[0]
        raise DataError(
            f"{root}: one class ({only!r}) found, expected at least two; the classes seem to lie one level deeper "
            f"({listed(below, 3)}): give {str(root / only)!r}"
        )


def check_splits(root: Path, names: Sequence[str], train: str, test: str | None, expected: str) -> None:
    """Refuse splits that hold images themselves, which would become classes called train and test.

    Raises:
        DataError: naming the folders.
    """
    if test is not None and {name.lower() for name in names} <= {*TRAIN_NAMES, *TEST_NAMES}:
        raise DataError(f"{root}: {train!r} and {test!r} hold images and no class folders; {expected}")


def warn_level(root: Path, split: str, classes: Sequence[str], files: Sequence[str]) -> None:
    """Warn where every class holds the same folders and nothing else: these may be the classes, and those splits."""
    depth = 1 if split else 0
    below: dict[str, set[str]] = defaultdict(set)
    for file in files:
        parts = file.split("/")[depth:]
        below[parts[0]].add(parts[1] if len(parts) > 2 else "")
    inner = [frozenset(names) for names in below.values()]
    if len(inner) > 1 and len(set(inner)) == 1 and len(inner[0]) > 1 and "" not in inner[0]:
        warnings.warn(
            f"{root}: the classes are {listed(sorted(below), 3)}, and each holds the same folders "
            f"{listed(sorted(inner[0]), 3)}; if those are the classes, give {str(root / split / min(below))!r}, or "
            "name the folders train and test",
            RoadworthyWarning,
            stacklevel=5,
        )


def _is_picture(name: str) -> bool:
    return os.path.splitext(name)[1].lower() in EXTENSIONS


def _is_archive(name: str) -> bool:
    return name.lower().endswith(_ARCHIVES)
