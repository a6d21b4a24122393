"""Samples whose classes nobody knows: any folder of pictures, or the test split of a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from roadworthy.data.decode import EXTENSIONS
from roadworthy.data.folder import FolderSource, common_channels, walk
from roadworthy.data.load import load_data
from roadworthy.data.options import Options, parse_channels, parse_size
from roadworthy.data.registry import sources
from roadworthy.errors import DataError, InputError
from roadworthy.records import UNKNOWN_LABEL, Split
from roadworthy.rng import resolve_seed
from roadworthy.types import Seed

PREFIX = "images"


def load_unlabelled(
    spec: str, *, size: int | Sequence[int] | None = None, channels: int | None = None, seed: Seed = 0
) -> Split:
    """Open samples without labels; images are read and decoded when they are asked for.

    Args:
        spec: ``images:PATH``, all image files below a folder, however they lie; or what :func:`load_data` takes, of
            which the test split is opened (its labels stay with it; label-free evaluation does not look at them).
        size: bring images to (height, width), an integer standing for a square.
        channels: 1 (grey), 3 (RGB) or 4 (RGBA); None takes what the images have.
        seed: decides the split of sources that have none.

    Returns:
        The samples; labels are -1 where they are not known.

    Raises:
        InputError: an unknown source, or an option that cannot be used.
        DataError: no such folder, or no images in it.

    Example:
        >>> len(load_unlabelled("digits"))
        359
    """
    name, _, argument = str(spec).partition(":")
    if name != PREFIX:
        if name not in sources and Path(spec).expanduser().is_dir():
            raise InputError(f"data: {str(spec)!r} is a folder; for the images below it say '{PREFIX}:{spec}'")
        return load_data(spec, size=size, channels=channels, seed=seed).test
    if not argument:
        raise InputError(f"data: {PREFIX!r} needs a path behind the colon: '{PREFIX}:PATH'")
    root = Path(argument).expanduser()
    if not root.is_dir():
        raise DataError(
            f"{root}: {'not a folder' if root.exists() else 'no such folder'}; expected a folder of images"
        )
    files = [file for file in walk(root) if Path(file).suffix.lower() in EXTENSIONS]
    if not files:
        raise DataError(f"{root}: no images found below it; known endings are {', '.join(sorted(EXTENSIONS))}")
    options = Options(
        spec=str(spec),
        size=parse_size(size),
        channels=parse_channels(channels),
        seed=resolve_seed(seed),
        test_share=0.2,
    )
    options = replace(options, channels=options.channels or common_channels(root, files))
    return Split(FolderSource(root, files, [UNKNOWN_LABEL] * len(files), options), "unlabelled")
