"""Where the records of a file begin, and a few numbers of each, kept beside the file so that it is read through once.

An index is the file ``.NAME.rwindex`` in the same folder or, where that cannot be written, one named after the path
in the cache folder (``ROADWORTHY_CACHE``, else ``~/.cache/roadworthy``). It counts while the size and the time of the
last change of the record file are those it was made for and its own checksum is right; else it is made anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from roadworthy.errors import DataError
from roadworthy.files import replacing
from roadworthy.tfrecord.example import decode
from roadworthy.tfrecord.extra import crc32c
from roadworthy.tfrecord.files import HEADER
from roadworthy.tfrecord.framing import FOOTER, read_records

_MAGIC = b"rwindex1"
_MOST_BYTES = 1 << 32  # of an index: one of more is no index of ours

Kind = Literal["int", "bytes"]


@dataclass(frozen=True)
class Column:
    """The first value of one feature in every record of a file.

    Attributes:
        values: int64 (n,): the integers, or for bytes the position in :attr:`table`. 0 where there is none.
        present: bool (n,), whether the record has such a feature, with a value of this kind.
        table: for bytes, the different values; None for integers.
    """

    values: np.ndarray
    present: np.ndarray
    table: tuple[bytes, ...] | None = None


@dataclass(frozen=True)
class Index:
    """The places of a file's records.

    Attributes:
        offsets: int64 (n + 1,): the byte at which each record begins, and the end of the last; of decompressed bytes
            where the file is compressed.
        columns: by name, what was asked for of every record.
    """

    offsets: np.ndarray
    columns: dict[str, Column]

    def __len__(self) -> int:
        return len(self.offsets) - 1


def open_index(path: str | Path, columns: Mapping[str, Kind] | None = None) -> Index:
    """Return the index of a record file: the one that is kept, or else a new one, made in one pass over the file.

    Args:
        path: a TFRecord file, plain or compressed with gzip.
        columns: features of which to keep the first value: name -> ``"int"`` or ``"bytes"``. With columns, the
            records must be ``tf.train.Example``.

    Returns:
        The index; its columns are those asked for, and any that were asked for before.

    Raises:
        DataError: a record is damaged, cut off, or no example; names the file and the byte.

    Example:
        >>> import tempfile
        >>> from roadworthy.tfrecord import encode, record_writer
        >>> path = tempfile.mkdtemp() + "/shard"
        >>> with record_writer(path) as write:
        ...     for label in (4, 2):
        ...         write(encode({"label": label}))
        >>> index = open_index(path, {"label": "int"})
        >>> len(index), index.columns["label"].values.tolist()
        (2, [4, 2])
    """
    path = Path(path)
    wanted = dict(columns or {})
    try:
        status = os.stat(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    stamp = [status.st_size, status.st_mtime_ns]
    for place in _places(path):
        found = _load(place, stamp)
        if found is not None and wanted.items() <= _kinds(found).items():
            return found
        wanted = {**_kinds(found), **wanted} if found is not None else wanted
    index = _build(path, wanted)
    beside, cached = _places(path)
    # a folder that nobody may write is meant to stay as it is, also where the superuser could
    for place in (beside, cached) if path.parent.stat().st_mode & 0o222 else (cached,):
        with contextlib.suppress(OSError):  # a folder that cannot be written, a full disk: the next place, or none
            _save(place, index, stamp)
            break
    return index


def _places(path: Path) -> tuple[Path, Path]:
    cache = Path(os.environ.get("ROADWORTHY_CACHE") or Path.home() / ".cache" / "roadworthy")
    name = hashlib.blake2b(os.fsencode(path.resolve()), digest_size=12).hexdigest()
    return path.with_name(f".{path.name}.rwindex"), cache / "tfrecord" / f"{name}.rwindex"


def _kinds(index: Index) -> dict[str, Kind]:
    return {name: "int" if column.table is None else "bytes" for name, column in index.columns.items()}


def _build(path: Path, wanted: Mapping[str, Kind]) -> Index:
    offsets, at = [0], 0
    firsts: dict[str, list[Any]] = {name: [] for name in wanted}
    for record in read_records(path):
        if wanted:
            features = decode(record, wanted, where=f"{path}: the record at byte {at}")
            for name, kind in wanted.items():
                value = features.get(name)
                right = isinstance(value, list) if kind == "bytes" else getattr(value, "dtype", None) == np.int64
                firsts[name].append(value[0] if value is not None and right and len(value) else None)
        at += HEADER + len(record) + FOOTER
        offsets.append(at)
    columns = {name: _column(values, wanted[name]) for name, values in firsts.items()}
    return Index(np.array(offsets, dtype=np.int64), columns)


def _column(values: list[Any], kind: Kind) -> Column:
    present = np.array([value is not None for value in values], dtype=bool)
    table: dict[bytes, int] = {}
    if kind == "bytes":
        values = [0 if value is None else table.setdefault(value, len(table)) for value in values]
    numbers = np.array([0 if value is None else int(value) for value in values], dtype=np.int64)
    return Column(numbers, present, tuple(table) if kind == "bytes" else None)


def _save(place: Path, index: Index, stamp: list[int]) -> None:
    columns = {
        name: None if column.table is None else [value.decode("latin-1") for value in column.table]
        for name, column in index.columns.items()
    }
    head = json.dumps({"stamp": stamp, "n": len(index), "columns": columns}).encode()
    arrays = [index.offsets.astype("<i8").tobytes()]
    for column in index.columns.values():
        arrays += [column.values.astype("<i8").tobytes(), column.present.astype(np.uint8).tobytes()]
    body = b"".join((struct.pack("<Q", len(head)), head, *arrays))
    with replacing(place) as beside:
        beside.write_bytes(_MAGIC + struct.pack("<I", crc32c()(body)) + body)


def _load(place: Path, stamp: list[int]) -> Index | None:
    """Read a kept index; None if it is not there, of another state of the file, or not sound."""
    try:
        if place.stat().st_size > _MOST_BYTES:
            return None
        kept = place.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + 4
    if kept[: len(_MAGIC)] != _MAGIC or kept[len(_MAGIC) : start] != struct.pack("<I", crc32c()(kept[start:])):
        return None
    try:
        return _parsed(kept, start, stamp)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, struct.error):
        return None  # a right checksum does not make it one of ours


def _parsed(kept: bytes, start: int, stamp: list[int]) -> Index | None:
    """Take an index apart; None if it is of another state of the file, any error if it is no index."""
    (length,) = struct.unpack_from("<Q", kept, start)
    at = start + 8 + length
    head = json.loads(kept[start + 8 : at])
    if head["stamp"] != stamp:
        return None
    n = head["n"]
    offsets = np.frombuffer(kept, "<i8", n + 1, at).astype(np.int64)
    if len(offsets) != n + 1 or offsets[0] != 0 or (np.diff(offsets) <= 0).any():
        raise ValueError("offsets do not ascend from 0")
    at += 8 * (n + 1)
    columns = {}
    for name, listed in head["columns"].items():
        values = np.frombuffer(kept, "<i8", n, at).astype(np.int64)
        present = np.frombuffer(kept, np.uint8, n, at + 8 * n).astype(bool)
        table = None if listed is None else tuple(value.encode("latin-1") for value in listed)
        if table is not None and n and not 0 <= values.min() <= values.max() < max(1, len(table)):
            raise ValueError("values lie beyond their table")
        columns[name] = Column(values, present, table)
        at += 9 * n
    return Index(offsets, columns)
