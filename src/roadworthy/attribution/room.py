"""Whether maps fit on the disk, asked before the first is made."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from roadworthy.errors import RoadworthyWarning
from roadworthy.hints import bytes_in_words


def warn_room(path: str | Path, n: int, shape: Sequence[int], methods: int) -> None:
    """Warn where a store of maps may outgrow its disk.

    Args:
        path: the store, made or not.
        n: samples.
        shape: of one sample; a map has at most as many float32 values.
        methods: how many have a map of each sample.

    Example:
        >>> warn_room("maps.zarr", 10, (3, 8, 8), 2)
    """
    wanted = 4 * n * methods * int(np.prod(shape))
    there = next(folder for folder in (Path(path).absolute(), *Path(path).absolute().parents) if folder.exists())
    free = shutil.disk_usage(there).free
    if wanted > free:
        warnings.warn(
            f"maps of {n} samples x {methods} methods take up to {bytes_in_words(wanted)}, less what compression "
            f"saves, and {there} has {bytes_in_words(free)} free; take fewer samples (--n) or methods",
            RoadworthyWarning,
            stacklevel=3,
        )
