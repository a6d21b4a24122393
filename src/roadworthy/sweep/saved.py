"""Maps that lie in files already: which of a file's maps is meant, and which samples its rows belong to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from roadworthy.attribution import methods, open_maps
from roadworthy.attribution.saved import SHARDS
from roadworthy.errors import AttributionError, DataError
from roadworthy.records import Split
from roadworthy.tfrecord import find_shards


def files_at(path: str | Path) -> tuple[Path, list[Path]]:
    """Return the files of maps at a path, and the path that their names are relative to.

    Args:
        path: of a file or folder; or a pattern, also behind ``tfrecord:``.

    Raises:
        DataError: nothing lies there.
    """
    text = str(path).removeprefix(SHARDS)
    place = Path(text)
    if place.is_file():
        return place, [place]
    if place.is_dir():
        files = sorted(file for file in place.rglob("*") if file.is_file())
    else:
        place, names = find_shards(text)
        files = [place / name for name in names]
    if not files:
        raise DataError(f"{text}: nothing lies there; expected a file, a folder or a pattern of files of maps")
    return place, files


def open_saved(path: str, name: str) -> tuple[Any, list[str] | None]:
    """Open one method's maps in a file: those of its name, or the only ones there.

    Args:
        path: of the file.
        name: of the method.

    Returns:
        The array, read when it is sliced, and the ids of its samples where the file holds them.

    Raises:
        DataError: the file holds several and none of that name, or those of another known method.
    """
    found = open_maps(path)
    inside = name if name in found else next(iter(found), None)
    mistaken = inside != name and name in methods and inside in methods
    if inside is None or mistaken or (inside != name and len(found) > 1):
        raise DataError(f"maps {name!r}: {path} holds {', '.join(found) or 'none'}; call the method what it is there")
    return found[inside], found.ids


def ids_of_rows(
    name: str, array: Any, ids: list[str] | None, split: Split, whole: Callable[[], list[str]]
) -> list[str]:
    """Return the ids of the samples that the rows of saved maps belong to.

    Args:
        name: the method.
        array: (N, ...).
        ids: as the file has them, or None.
        split: the samples that are used.
        whole: returns the ids of all samples of the split, of which those may be a part.

    Raises:
        AttributionError: neither ids nor a number of maps that fits, or no map for some of the samples.
    """
    if ids is not None:
        known = set(ids)
        missing = [sample for sample in split.ids if sample not in known]
        if missing:
            raise AttributionError(
                f"{name}: there is no map for {len(missing)} of {len(split)} {split.name} samples, the first "
                f"{missing[0]!r}; make maps of these samples"
            )
        return ids
    if len(array) == len(split):
        return split.ids
    everything = whole()
    if len(array) != len(everything):
        of_all = f", of {len(everything)} in all" if len(everything) != len(split) else ""
        raise AttributionError(f"{name}: {len(array)} maps for {len(split)} {split.name} samples{of_all}")
    return everything
