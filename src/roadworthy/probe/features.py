"""Features in an HDF5 file that any program reads: ``features`` (N, D), ``labels`` (N,), ``label_names`` (C,)."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.errors import DataError, InputError, listed
from roadworthy.labels import label_array

FEATURES, LABELS, NAMES, IDS = "features", "labels", "label_names", "ids"
BLOCK = 4096  # rows read at a time
_MOST_VALUES = 2**24  # of one sample
_MOST_IN_CHUNK = 2**32  # bytes that are decompressed together


@dataclass(frozen=True, eq=False)
class Features:
    """Feature vectors of N samples, in memory or in a file that is read in blocks.

    Attributes:
        where: a float array (N, D), or the HDF5 file.
        labels: int64 (N,), positions in ``label_names``.
        label_names: C class names.
        dimension: D.
    """

    where: np.ndarray | Path
    labels: np.ndarray
    label_names: tuple[str, ...]
    dimension: int
    _ids: tuple[str, ...] | None = field(default=None, repr=False)

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def ids(self) -> tuple[str, ...]:
        """Names of the samples; positions where the file has none."""
        return tuple(map(str, range(len(self)))) if self._ids is None else self._ids

    @staticmethod
    def of(features: Any, labels: Any, label_names: Sequence[str] = ()) -> Features:
        """Check arrays in memory.

        Args:
            features: (N, D), finite.
            labels: (N,) whole numbers from 0 on.
            label_names: C names; the numbers up to the largest label by default.

        Raises:
            InputError: shapes, types or labels that do not fit.

        Example:
            >>> found = Features.of([[0.5, 1.0], [2.0, 3.0]], [0, 1], ["cat", "dog"])
            >>> len(found), found.dimension
            (2, 2)
        """
        values = np.asarray(features)
        if values.ndim != 2 or 0 in values.shape or values.dtype.kind not in "fiu":
            raise InputError(
                f"features: got {values.dtype} of shape {values.shape}, expected numbers (N, D) with at least one row"
            )
        numbers = label_array(labels, len(values))
        return Features(values, numbers, _names("labels", numbers, label_names, InputError), values.shape[1])

    def blocks(self) -> Iterator[tuple[int, np.ndarray]]:
        """Read all rows in order: the position of the first row of a block, and float32 (n, D).

        Raises:
            DataError: the file cannot be read.
            InputError: values that are not finite, naming the rows.
        """
        with self._opened() as values:
            for start in range(0, len(self), BLOCK):
                try:
                    block = np.asarray(values[start : start + BLOCK], dtype=np.float32)
                except OSError as error:
                    raise DataError(f"{self.where}: rows from {start} on cannot be read: {error}") from error
                bad = np.flatnonzero(~np.isfinite(block).all(axis=1)) + start
                if len(bad):
                    raise InputError(
                        f"features: {len(bad)} rows from {start} on hold NaN or infinity: {listed(bad.tolist())}; "
                        "leave these samples out, or make the features again"
                    )
                yield start, block

    def take(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows, float32 (n, D), in the order of the file.

        Args:
            rows: ascending positions.
        """
        found = np.empty((len(rows), self.dimension), dtype=np.float32)
        for start, block in self.blocks():
            first, last = np.searchsorted(rows, (start, start + len(block)))
            found[first:last] = block[rows[first:last] - start]
        return found

    @contextlib.contextmanager
    def _opened(self) -> Iterator[Any]:
        if isinstance(self.where, np.ndarray):
            yield self.where
            return
        with _file(self.where) as file:
            yield file[FEATURES]


def read_features(path: str | Path) -> Features:
    """Open a file of features; the features themselves are read when they are needed.

    Args:
        path: an HDF5 file with ``features`` (N, D), ``labels`` (N,) and, where there are names, ``label_names`` (C,)
            and ``ids`` (N,). Other programs may have written it.

    Returns:
        The features.

    Raises:
        DataError: no such file, or one whose datasets are missing or do not fit.

    Example:
        >>> read_features("features.h5").dimension  # doctest: +SKIP
        512
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise DataError(f"{place}: {'not a file' if place.exists() else 'no such file'}; expected a file of features")
    with _file(place) as file:
        features, labels = (_dataset(place, file, name) for name in (FEATURES, LABELS))
        _check_shape(place, features)
        n = len(features)
        if labels.dtype.kind not in "iu" or labels.shape not in ((n,), (n, 1)):
            raise DataError(
                f"{place}: 'labels' holds {labels.dtype} of shape {labels.shape}, expected integers ({n},)"
            )
        numbers = np.asarray(labels[...]).reshape(-1).astype(np.int64)
        names = _texts(place, file, NAMES) or ()
        ids = _texts(place, file, IDS)
        if ids is not None and len(ids) != n:
            raise DataError(f"{place}: {len(ids)} ids for {n} rows of features")
        return Features(place, numbers, _names(str(place), numbers, names, DataError), features.shape[1], ids)


@contextlib.contextmanager
def _file(path: Path) -> Iterator[Any]:
    import h5py

    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path}: not an HDF5 file that can be read: {error}") from error
    with file:
        try:
            yield file
        except MemoryError as error:
            raise DataError(f"{path}: claims more than memory holds ({error})") from error


def _dataset(place: Path, file: Any, name: str) -> Any:
    import h5py

    found = file.get(name)
    if not isinstance(found, h5py.Dataset) or found.shape is None:
        raise DataError(
            f"{place}: has no dataset {name!r}; it holds {listed(sorted(file)) or 'nothing'}. Expected 'features', "
            "'labels' and 'label_names', as 'roadworthy features' writes them"
        )
    if found.external:  # raw bytes of any file on this machine
        raise DataError(f"{place}: its {name!r} lie in another file, which is not opened; save them in it")
    return found


def _check_shape(place: Path, features: Any) -> None:
    shape, dtype = features.shape, features.dtype
    if len(shape) != 2 or 0 in shape or dtype.kind not in "fiu":
        raise DataError(
            f"{place}: 'features' holds {dtype} of shape {shape}, expected numbers (N, D) with at least one row"
        )
    chunk = math.prod(features.chunks or (1,)) * dtype.itemsize
    if shape[1] > _MOST_VALUES or chunk > _MOST_IN_CHUNK:
        raise DataError(
            f"{place}: 'features' has shape {shape} in chunks {features.chunks}; at most {_MOST_VALUES} values a "
            f"sample and {_MOST_IN_CHUNK} bytes a chunk are read"
        )


def _texts(place: Path, file: Any, name: str) -> tuple[str, ...] | None:
    import h5py

    if name not in file:
        return None
    found = _dataset(place, file, name)
    text = h5py.check_string_dtype(found.dtype) is not None or found.dtype.kind == "S"
    if found.ndim != 1 or not (text or found.dtype.kind in "iu"):
        raise DataError(f"{place}: {name!r} holds {found.dtype} of shape {found.shape}, expected a list of texts")
    return tuple(
        value.decode("utf8", "backslashreplace") if isinstance(value, bytes) else str(value) for value in found[...]
    )


def _names(where: str, labels: np.ndarray, names: Sequence[str], error: type[InputError]) -> tuple[str, ...]:
    """Return the class names, held against the labels."""
    least, most = int(labels.min()), int(labels.max())
    count = len(names) or most + 1
    if least < 0 or most >= count:
        raise error(
            f"{where}: labels go from {least} to {most}, expected 0 to {count - 1}"
            + (f" for {count} class names" if names else "")
        )
    if len(set(names)) != len(names):
        raise error(f"{where}: class names repeat: {listed(sorted({n for n in names if list(names).count(n) > 1}))}")
    return tuple(map(str, names)) or tuple(map(str, range(count)))
