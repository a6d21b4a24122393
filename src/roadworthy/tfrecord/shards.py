"""Several record files as one sequence, read in any order, and how such files are found."""

from __future__ import annotations

import glob
import re
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.errors import DataError
from roadworthy.tfrecord.files import HEADER, GzipFile, PlainFile, checked_length, open_file
from roadworthy.tfrecord.framing import record_at
from roadworthy.tfrecord.index import Column, Kind, open_index

_MOST_OPEN = 32  # files at a time
_SHARD_NAME = re.compile(r"-\d{5,}-of-\d{5,}(\D|$)|\.tfrecords?(\.gz)?$")


class Shards(Sequence[bytes]):
    """The records of some files, in order, each at a known place; a copy in another process opens files of its own.

    Args:
        root: the folder that names are relative to.
        names: the files.
        columns: features of which to hold the first value of every record, see :func:`open_index`.

    Attributes:
        names: the files, relative to the root.
        starts: int64 (files + 1,): number of records before each file, and the total last.
        columns: by name, the first value of the feature in all records.

    Raises:
        DataError: a file cannot be read, or a record in it is damaged.

    Example:
        >>> import tempfile
        >>> from roadworthy.tfrecord import record_writer
        >>> folder = Path(tempfile.mkdtemp())
        >>> for number, records in enumerate(([b"a", b"b"], [], [b"c"])):
        ...     with record_writer(folder / f"train-{number}") as write:
        ...         for record in records:
        ...             write(record)
        >>> shards = Shards(folder, ["train-0", "train-1", "train-2"])
        >>> len(shards), shards[2], shards.id_of(2)
        (3, b'c', 'train-2:0')
    """

    def __init__(self, root: Path, names: Sequence[str], columns: Mapping[str, Kind] | None = None) -> None:
        self.root, self.names = root, list(names)
        indices = [open_index(root / name, columns) for name in self.names]
        self._offsets = [index.offsets for index in indices]
        self.starts = np.cumsum([0, *map(len, indices)])
        self.columns = {name: _joined([index.columns[name] for index in indices]) for name in columns or {}}
        self._open: OrderedDict[int, PlainFile | GzipFile] = OrderedDict()

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, number: Any) -> Any:
        """Return the data of one record.

        Raises:
            DataError: it is damaged, or the file has changed since it was indexed.
        """
        if isinstance(number, slice):
            return [self[position] for position in range(*number.indices(len(self)))]
        if not -len(self) <= number < len(self):
            raise IndexError(f"record {number} of {len(self)}")
        shard, row = self.place(int(number) % len(self))
        begin, end = self._offsets[shard][row : row + 2].tolist()
        return record_at(self._file(shard), begin, end - begin)

    def place(self, number: int) -> tuple[int, int]:
        """Return the position of the file that holds a record, and the record's row there."""
        shard = int(np.searchsorted(self.starts, number, side="right")) - 1
        return shard, number - int(self.starts[shard])

    def id_of(self, number: int) -> str:
        """Return ``SHARD:ROW`` of a record."""
        shard, row = self.place(number)
        return f"{self.names[shard]}:{row}"

    def where(self, number: int) -> str:
        """Return the path and the row of a record, for messages."""
        return f"{self.root}/{self.id_of(number)}"

    def close(self) -> None:
        """Close all files; they are opened again when they are needed."""
        while self._open:
            self._open.popitem()[1].close()

    def _file(self, shard: int) -> PlainFile | GzipFile:
        if shard not in self._open:
            if len(self._open) >= _MOST_OPEN:
                self._open.popitem(last=False)[1].close()
            self._open[shard] = open_file(self.root / self.names[shard])
        self._open.move_to_end(shard)
        return self._open[shard]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_open": OrderedDict()}

    def __del__(self) -> None:
        if "_open" in vars(self):
            self.close()


def _joined(columns: Sequence[Column]) -> Column:
    tables = [column.table for column in columns]
    if not columns or tables[0] is None:
        values = [column.values for column in columns]
        table = None
    else:
        known: dict[bytes, int] = {}
        values = []
        for column in columns:
            places = [known.setdefault(value, len(known)) for value in column.table or ()]
            values.append(np.array([*places, 0], dtype=np.int64)[column.values])
        table = tuple(known)
    present = [column.present for column in columns]
    return Column(
        np.concatenate([np.empty(0, np.int64), *values]), np.concatenate([np.empty(0, bool), *present]), table
    )


def find_shards(pattern: str | Path) -> tuple[Path, list[str]]:
    """Find record files.

    Args:
        pattern: a file, a pattern (``*``, ``?``, ``[...]``, ``**`` for folders), or a folder, of which the files
            named ``*-00000-of-00000`` or ``*.tfrecord`` (also ``.tfrecords``, ``.gz``) are taken.

    Returns:
        The folder that names are relative to, and the sorted names. Hidden files are left out.

    Raises:
        DataError: there is none.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> for name in ("train-00000-of-00001", "labels.txt"):
        ...     folder.joinpath(name).touch()
        >>> find_shards(folder)[1]
        ['train-00000-of-00001']
    """
    path = Path(pattern).expanduser()
    if path.is_dir():
        root = path
        names = sorted(entry.name for entry in path.iterdir() if entry.is_file() and _SHARD_NAME.search(entry.name))
    elif path.is_file():
        root, names = path.parent, [path.name]
    else:
        root = _fixed(path)
        found = (Path(file) for file in glob.glob(str(path), recursive=True))
        names = sorted(file.relative_to(root).as_posix() for file in found if file.is_file())
    names = [name for name in names if not any(part.startswith(".") for part in name.split("/"))]
    if not names:
        raise DataError(
            f"{path}: no record files there; expected files such as train-00000-of-00010, a folder of them, or a "
            "pattern such as PATH/train-*"
        )
    return root, names


def _fixed(path: Path) -> Path:
    """Return the folder before the first part of a path that is a pattern."""
    parts: list[str] = []
    for part in path.parts[:-1]:
        if glob.has_magic(part):
            break
        parts.append(part)
    return Path(*parts)


def is_tfrecord(path: str | Path) -> bool:
    """Return whether a file begins with a sound record header, decompressed if need be; not so an empty one."""
    try:
        file = open_file(Path(path))
    except DataError:
        return False
    try:
        return checked_length(file.read_at(0, HEADER)) is not None
    except DataError:
        return False
    finally:
        file.close()
