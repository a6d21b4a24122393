"""Whether maps fit on the disk, asked before the first is made."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from roadworthy.errors import RoadworthyWarning


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
            f"maps of {n} samples x {methods} methods take up to {wanted / 1e9:.1f} GB, less what compression saves, "
            f"and {there} has {free / 1e9:.1f} GB free; take fewer samples (--n) or methods, or another disk",
            RoadworthyWarning,
            stacklevel=3,
        )
