"""Maps from files: a store of this package, .npy, .npz, .zarr, .h5; read slice by slice, never unpickled."""

from __future__ import annotations

import contextlib
import glob
import json
import math
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from roadworthy.errors import DataError, RoadworthyWarning
from roadworthy.tfrecord import find_shards, is_tfrecord

FORMAT = "roadworthy-maps"
IDS = "ids"
DIGESTS = "digests"
SHARDS = "tfrecord:"  # in front of a pattern of record files
_ENDINGS = (".npy", ".npz", ".h5", ".hdf5", ".zarr")
_ZARR = (".zarray", ".zgroup", "zarr.json")  # one of which any zarr folder has
_MOST_BYTES = 2**40  # of an array that a file may declare; what is larger is no file of maps
_MOST_VALUES = 2**28  # of one sample: 9000 x 9000 pixels in three channels
_MOST_IN_CHUNK = 2**32  # bytes that are decompressed together


class SavedArray:
    """An array on disk that is read when it is sliced.

    Attributes:
        name: the method.
        shape: (N, ...).
        dtype: as stored.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: Any, read: Callable[[Any], Any]) -> None:
        self.name = name
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self._read = read

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: Any) -> np.ndarray:
        try:
            return np.asarray(self._read(key))
        except (ValueError, OSError, zipfile.BadZipFile) as error:
            raise DataError(f"maps {self.name!r}: cannot read {key!r}: {error}") from error

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        values = self[:]
        return values if dtype is None else values.astype(dtype)

    def __repr__(self) -> str:
        return f"SavedArray({self.name!r}, shape={self.shape}, dtype={self.dtype})"


class SavedMaps(Mapping[str, SavedArray]):
    """Maps on disk: method name -> :class:`SavedArray`; a context manager that closes the file.

    Attributes:
        ids: N sample ids, if the file holds them.
        targets: int64 (N,), the class each sample was explained for, if the file holds it.
        info: for each method, what the file says about its maps: settings, notes, and numbers per sample.
        key: what all maps of a store depend on (model, settings, seed, ...); None for other files.
    """

    def __init__(
        self,
        arrays: Mapping[str, SavedArray],
        *,
        ids: list[str] | None = None,
        targets: np.ndarray | None = None,
        info: dict[str, dict[str, Any]] | None = None,
        key: dict[str, Any] | None = None,
        close: Callable[[], None] | None = None,
    ) -> None:
        self._arrays = dict(arrays)
        self.ids = ids
        self.targets = targets
        self.info = info or {}
        self.key = key
        self._close = close

    def __getitem__(self, name: str) -> SavedArray:
        if name not in self._arrays:
            raise KeyError(f"{name!r}; the file holds {', '.join(map(repr, self._arrays))}")
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __enter__(self) -> SavedMaps:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if there is one to close."""
        if self._close is not None:
            self._close()
            self._close = None


def open_maps(path: str | Path) -> SavedMaps:
    """Open saved maps for reading.

    Args:
        path: ``.npy`` (one array, named after the file; memory-mapped), ``.npz`` (an array a method), ``.zarr`` (a
            store written by :func:`attribute_to_store`, a group with an array a method, or one array), or ``.h5``.
            An array called ``ids`` holds the sample ids. Or the ROAR benchmark's saliency shards, as
            ``tfrecord:GLOB``, a pattern, a file or a folder of them: see :func:`open_shards`.

    Returns:
        :class:`SavedMaps`, whose arrays are read when sliced.

    Raises:
        DataError: no such file, an unknown kind, object arrays (they would have to be unpickled), no maps inside, or
            an array that declares more than 2**40 bytes, or 2**28 values a sample.

    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> np.savez(f"{folder}/maps.npz", ig=np.zeros((5, 3, 4, 4), np.float32))
        >>> open_maps(f"{folder}/maps.npz")["ig"].shape
        (5, 3, 4, 4)
    """
    if (pattern := _shard_pattern(path)) is not None:
        from roadworthy.attribution.shards import open_shards

        return open_shards(pattern)
    path = Path(path)
    if not path.exists():
        raise DataError(f"maps: {path} does not exist")
    readers = {".npy": _open_npy, ".npz": _open_npz, ".h5": _open_hdf5, ".hdf5": _open_hdf5, ".zarr": _open_zarr}
    reader = _open_zarr if path.is_dir() else readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"maps: {path} has an unknown ending; expected {', '.join(readers)}")
    try:
        found = reader(path)
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"maps: {path} cannot be read: {error}") from error
    if not found:
        raise DataError(f"maps: {path} holds no maps (numeric arrays of at least two axes)")
    return found


def _shard_pattern(path: str | Path) -> str | None:
    """Return the pattern of record files that a path stands for, or None."""
    text = str(path)
    if text.startswith(SHARDS):
        return text.removeprefix(SHARDS)
    path = Path(path)
    if not path.exists():
        return text if glob.has_magic(text) else None
    if path.is_dir():
        return text if _is_folder_of_shards(path) else None
    return None if path.suffix.lower() in _ENDINGS or not is_tfrecord(path) else text


def _is_folder_of_shards(folder: Path) -> bool:
    if any((folder / name).exists() for name in _ZARR):
        return False
    try:
        find_shards(folder)
    except DataError:
        return False
    return True


def _is_map(dtype: Any, shape: tuple[int, ...]) -> bool:
    return np.dtype(dtype).kind in "fiub" and len(shape) >= 2


def _check_size(name: str, dtype: Any, shape: tuple[int, ...], chunk: tuple[int, ...] | None = None) -> None:
    """Refuse sizes that no maps have before anything is decompressed: a few bytes can declare them."""
    item = np.dtype(dtype).itemsize
    total, sample = item * math.prod(shape), math.prod(shape[1:])
    if total > _MOST_BYTES or sample > _MOST_VALUES:
        raise DataError(
            f"maps: {name!r} declares shape {tuple(shape)} of {np.dtype(dtype)}, {total:.1e} bytes and {sample:.1e} "
            f"values a sample; at most {_MOST_BYTES:.1e} and {_MOST_VALUES:.1e} are read. Store smaller maps, or cut "
            "the file"
        )
    if chunk is not None and item * math.prod(chunk) > _MOST_IN_CHUNK:
        raise DataError(
            f"maps: {name!r} is stored in chunks {tuple(chunk)} of {np.dtype(dtype)}, of which each is decompressed "
            f"whole; at most {_MOST_IN_CHUNK:.1e} bytes are. Store it in smaller chunks"
        )


def _refuse_objects(name: str, dtype: Any) -> None:
    if np.dtype(dtype).hasobject:
        raise DataError(f"maps: {name!r} is an array of Python objects, which is not read (it would be unpickled)")


def _open_npy(path: Path) -> SavedMaps:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    return SavedMaps({path.stem: SavedArray(path.stem, array.shape, array.dtype, array.__getitem__)})


def _open_npz(path: Path) -> SavedMaps:
    arrays, ids = {}, None
    with zipfile.ZipFile(path) as archive:
        members = [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]
        for name in members:
            with archive.open(f"{name}.npy") as member:
                version = np.lib.format.read_magic(member)
                header = (
                    np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
                )
                shape, _, dtype = header(member)
            _refuse_objects(name, dtype)
            _check_size(name, dtype, shape)
            held = archive.getinfo(f"{name}.npy").file_size
            if np.dtype(dtype).itemsize * math.prod(shape) > held:
                raise DataError(f"maps: {name!r} declares shape {shape} of {dtype}, but holds {held} bytes")
            if name == IDS:
                ids = [str(sample) for sample in _npz_member(path, name)]
            elif _is_map(dtype, shape):
                arrays[name] = SavedArray(name, shape, dtype, _NpzReader(path, name))
    return SavedMaps(arrays, ids=ids)


def _npz_member(path: Path, name: str) -> np.ndarray:
    with np.load(path, allow_pickle=False) as archive:
        member: np.ndarray = archive[name]
        return member


class _NpzReader:
    """A member of a zip archive cannot be sliced on disk: it is read whole, once, on first use."""

    def __init__(self, path: Path, name: str) -> None:
        self.path, self.name = path, name
        self.values: np.ndarray | None = None

    def __call__(self, key: Any) -> np.ndarray:
        if self.values is None:
            self.values = _npz_member(self.path, self.name)
        part: np.ndarray = self.values[key]
        return part


def _open_hdf5(path: Path) -> SavedMaps:
    import h5py

    file = h5py.File(path, "r")
    arrays: dict[str, SavedArray] = {}

    def visit(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and name != IDS and _is_map(node.dtype, node.shape):
            _check_size(name, node.dtype, node.shape, node.chunks)
            arrays[name] = SavedArray(name, node.shape, node.dtype, node.__getitem__)

    file.visititems(visit)
    if IDS in file:
        _check_size(IDS, file[IDS].dtype, file[IDS].shape, file[IDS].chunks)
    ids = [str(sample) for sample in file[IDS].asstr()[:]] if IDS in file else None
    return SavedMaps(arrays, ids=ids, close=file.close)


def _open_zarr(path: Path) -> SavedMaps:
    import zarr

    node: Any = zarr.open(str(path), mode="r")
    if isinstance(node, zarr.Array):
        name = path.stem
        _refuse_pickle_codec(name, node)
        _refuse_objects(name, node.dtype)
        _check_size(name, node.dtype, node.shape, node.chunks)
        return SavedMaps({name: SavedArray(name, node.shape, node.dtype, node.__getitem__)})
    for name, member in node.members(max_depth=None):
        if isinstance(member, zarr.Array):
            _refuse_pickle_codec(name, member)
            _check_size(name, member.dtype, member.shape, member.chunks)
    if node.attrs.get("format") == FORMAT:
        return _open_store(path, node)
    arrays, ids = {}, None
    for name, array in node.arrays():
        if name == IDS:
            ids = [str(sample) for sample in array[:]]
        elif _is_map(array.dtype, array.shape):
            arrays[name] = SavedArray(name, array.shape, array.dtype, array.__getitem__)
    return SavedMaps(arrays, ids=ids)


def _refuse_pickle_codec(name: str, array: Any) -> None:
    """Zarr knows a codec that unpickles; look at what it would decode with, before anything is decoded."""
    told = {key: value for key, value in array.metadata.to_dict().items() if key != "attributes"}
    if _holds_pickle(told):
        raise DataError(f"maps: {name!r} asks for pickled data, which is not read")


def _holds_pickle(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_holds_pickle, value.values()))
    if isinstance(value, (list, tuple)):
        return any(map(_holds_pickle, value))
    return isinstance(value, str) and value.rpartition(".")[2] == "pickle"


def _open_store(path: Path, group: Any) -> SavedMaps:
    arrays = {}
    counts = {}
    for node_name, array in group["maps"].arrays() if "maps" in group else ():
        name = unquote(node_name)
        rows = int(array.attrs.get("finished", 0))
        if missing_chunks(array):
            raise DataError(
                f"maps: {path}: {missing_chunks(array)} files of {name!r} are missing; run what wrote them again: "
                "that makes them anew"
            )
        counts[name] = rows
        arrays[name] = SavedArray(name, (rows, *array.shape[1:]), array.dtype, _Rows(array, rows))
    n = int(group[IDS].attrs.get("finished", 0)) if IDS in group else 0
    unfinished = sorted(name for name, rows in counts.items() if rows < n)
    if unfinished or not group.attrs.get("complete", False):
        warnings.warn(
            f"{path}: the run that wrote these maps did not finish "
            f"({', '.join(f'{name}: {rows}' for name, rows in counts.items()) or 'none yet'} samples); "
            "run it again to complete them",
            RoadworthyWarning,
            stacklevel=4,
        )
    info: dict[str, dict[str, Any]] = {}
    for node_name, array in group["maps"].arrays() if "maps" in group else ():
        info[unquote(node_name)] = {**array.attrs.get("method", {}), **array.attrs.get("notes", {})}
    with contextlib.suppress(KeyError):
        for node_name, extra in group["per_sample"].groups():
            for key, values in extra.arrays():
                info[unquote(node_name)][unquote(key)] = values[: int(values.attrs["finished"])]
    return SavedMaps(
        arrays,
        ids=[str(sample) for sample in group[IDS][:n]] if n else [],
        targets=np.asarray(group["targets"][:n], dtype=np.int64) if "targets" in group else None,
        info=info,
        key=json.loads(group.attrs.get("key", "{}")),
    )


def missing_chunks(array: Any) -> int:
    """Return how many chunks of a store's array are not on disk although their rows count.

    Zarr would give their fill value, without a word.
    """
    rows = int(array.attrs.get("finished", 0))
    return max(0, math.ceil(rows / array.chunks[0]) - int(array.nchunks_initialized))


class _Rows:
    """The finished rows of a growing array."""

    def __init__(self, array: Any, rows: int) -> None:
        self.array, self.rows = array, rows

    def __call__(self, key: Any) -> np.ndarray:
        first, *rest = key if isinstance(key, tuple) else (key,)
        if isinstance(first, slice):
            first = slice(*first.indices(self.rows))
        elif isinstance(first, (int, np.integer)):
            if not -self.rows <= first < self.rows:
                raise IndexError(f"sample {first} of {self.rows}")
            first = int(first) % self.rows
        else:
            first = np.arange(self.rows)[first]
        part: np.ndarray = np.asarray(self.array.oindex[(first, *rest)])
        return part
