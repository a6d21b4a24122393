"""``parquet:PATH``: images in Parquet files, in the layout of Hugging Face data sets, larger than memory.

Only labels and the number of rows are read up front. Images are read in blocks of rows, forwards within a row group,
and the blocks used last are kept: reading in order touches every byte once, and a data set smaller than the cache is
read once whatever the order. Memory holds the cache and a block or a data page, whichever is larger (Arrow writes
pages of at least 1,024 rows unless told otherwise).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roadworthy.data.decode import decode
from roadworthy.data.encoded import common_channels
from roadworthy.data.options import Options
from roadworthy.data.parquet_schema import Columns, class_names, columns_of
from roadworthy.data.registry import sources
from roadworthy.data.splits import by_split, check_classes, hash_split
from roadworthy.errors import DataError, InputError
from roadworthy.records import Data, Split

CACHE_BYTES = 128 << 20  # encoded images kept in memory, for each split
_BLOCK_BYTES, _BLOCK_ROWS = 16 << 20, 1024
_RUN = 50  # consecutive rows that a sample for statistics takes together when the cache cannot hold all
_MAX_CLASSES = 1_000_000


class RowIds(Sequence[str]):
    """Ids ``FILE:ROW`` of all rows of some files, made when they are asked for.

    Args:
        files: names of the files.
        starts: position of each file's first row, and the total last, int64 (files + 1,).
    """

    def __init__(self, files: Sequence[str], starts: np.ndarray) -> None:
        self._files, self._starts = files, starts

    def __len__(self) -> int:
        return int(self._starts[-1])

    def __getitem__(self, index: Any) -> Any:
        file = int(np.searchsorted(self._starts, index, side="right")) - 1
        return f"{self._files[file]}:{index - self._starts[file]}"


class Blocks:
    """Rows of one image column over several files, read block by block with the last ones kept.

    Args:
        paths: the files.
        column: the image column in each.
        cache_bytes: how much to keep; the block in use is kept in any case.
    """

    def __init__(self, paths: Sequence[Path], column: str, cache_bytes: int) -> None:
        import pyarrow.parquet as pq

        self._paths, self._column, self._cache_bytes = paths, column, cache_bytes
        self._metadata = [pq.read_metadata(path) for path in paths]
        self._groups = [
            np.cumsum([0, *(meta.row_group(group).num_rows for group in range(meta.num_row_groups))])
            for meta in self._metadata
        ]
        sizes = [self._group_bytes(file) for file in range(len(paths))]
        self.bytes = sum(map(sum, sizes))
        self._block_rows = [
            [
                max(1, min(_BLOCK_ROWS, rows * _BLOCK_BYTES // max(size, 1)))
                for rows, size in zip(np.diff(groups).tolist(), sizes[file], strict=True)
            ]
            for file, groups in enumerate(self._groups)
        ]
        self._reset()

    def _reset(self) -> None:
        self._kept: OrderedDict[tuple[int, int, int], Any] = OrderedDict()
        self._kept_bytes = 0
        self._open: tuple[int, int, int, Iterator[Any]] | None = None  # file, group, next block, its reader

    def __getstate__(self) -> dict[str, Any]:
        """Leave blocks and readers behind when a worker process gets a copy."""
        return {name: value for name, value in vars(self).items() if name not in ("_kept", "_kept_bytes", "_open")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def row(self, file: int, row: int) -> Any:
        """Return the Arrow scalar in this row of this file.

        Raises:
            DataError: the file cannot be read there.
        """
        group = int(np.searchsorted(self._groups[file], row, side="right")) - 1
        within = row - int(self._groups[file][group])
        rows = self._block_rows[file][group]
        block = self._block(file, group, within // rows)
        if isinstance(block, str):
            raise DataError(block)
        return block[within % rows]

    def _block(self, file: int, group: int, number: int) -> Any:
        key = (file, group, number)
        if key not in self._kept:
            position = self._open
            if position is None or position[:2] != key[:2] or position[2] > number:
                position = (file, group, 0, self._reader(file, group))
            for at in range(position[2], number + 1):
                self._keep((file, group, at), self._next(file, group, at, position[3]))
            self._open = (file, group, number + 1, position[3])
        self._kept.move_to_end(key)
        return self._kept[key]

    def _reader(self, file: int, group: int) -> Iterator[Any]:
        import pyarrow.parquet as pq

        path, metadata = self._paths[file], self._metadata[file]
        with pq.ParquetFile(path, metadata=metadata, buffer_size=1 << 20, pre_buffer=False) as opened:
            yield from opened.iter_batches(
                self._block_rows[file][group], row_groups=[group], columns=[self._column], use_threads=False
            )

    def _next(self, file: int, group: int, number: int, reader: Iterator[Any]) -> Any:
        """Return the next block, or the text of what is wrong with it."""
        import pyarrow as pa

        rows = self._block_rows[file][group]
        expected = min(rows, int(self._groups[file][group + 1] - self._groups[file][group]) - number * rows)
        try:
            block = next(reader).column(0)
            cause = "" if len(block) == expected else f"{len(block)} rows came at once, not {expected}"
        except StopIteration:
            cause = "it ends early"
        except (pa.ArrowException, OSError) as error:
            cause = str(error)
        return f"{self._paths[file]}: row group {group} cannot be read: {cause}" if cause else block

    def _keep(self, key: tuple[int, int, int], block: Any) -> None:
        if key not in self._kept:
            self._kept[key] = block
            self._kept_bytes += _size(block)
        while len(self._kept) > 1 and self._kept_bytes > self._cache_bytes:
            self._kept_bytes -= _size(self._kept.popitem(last=False)[1])

    def _group_bytes(self, file: int) -> list[int]:
        """Return the uncompressed size of the image column in each row group."""
        sizes = []
        for group in range(self._metadata[file].num_row_groups):
            columns = self._metadata[file].row_group(group)
            chunks = (columns.column(position) for position in range(columns.num_columns))
            own = (chunk for chunk in chunks if chunk.path_in_schema.split(".")[0] == self._column)
            sizes.append(sum(chunk.total_uncompressed_size for chunk in own))
        return sizes


def _size(block: Any) -> int:
    return 0 if isinstance(block, str) else int(block.nbytes)


class ParquetSource:
    """The rows of some Parquet files.

    Args:
        root: the folder that file names in ids are relative to.
        files: names relative to it.
        columns: names of the image and the label column.
        options: ``size`` and ``channels`` to bring the images to.
    """

    def __init__(self, root: Path, files: Sequence[str], columns: Columns, options: Options) -> None:
        self._root, self._files, self._options = root, files, options
        parts = [_read_labels(root / file, columns.label) for file in files]
        self.labels = np.concatenate(parts)
        self._starts = np.cumsum([0, *map(len, parts)])
        self.ids: Sequence[str] = RowIds(files, self._starts)
        if columns.id is not None:
            self.ids = [sample for file in files for sample in _read_ids(root / file, columns.id)]
            if len(set(self.ids)) < len(self.ids):
                raise DataError(f"{root}: the ids in the column {columns.id!r} are not unique")
        self._blocks = Blocks([root / file for file in files], columns.image, CACHE_BYTES)
        self.run = 1 if self._blocks.bytes <= CACHE_BYTES else _RUN

    def with_channels(self, channels: int | None) -> None:
        """Settle the channels that images are brought to."""
        self._options = replace(self._options, channels=channels)

    def encoded(self, index: int) -> bytes:
        """Return the encoded bytes of one image.

        Raises:
            DataError: there are none.
        """
        file = int(np.searchsorted(self._starts, index, side="right")) - 1
        value: Any = self._blocks.row(file, index - int(self._starts[file])).as_py()
        if isinstance(value, Mapping):
            path, value = value.get("path"), value.get("bytes")
            if value is None and path is not None:
                raise DataError(f"{self.where(index)}: has no bytes, only the path {path!r}; embed the images")
        if value is None:
            raise DataError(f"{self.where(index)}: has no image")
        return bytes(value)

    def read(self, index: int) -> torch.Tensor:
        """Decode one row, float32 (C, H, W) in [0, 1]."""
        return decode(
            self.encoded(index), self.where(index), channels=self._options.channels, size=self._options.size
        )

    def paths(self) -> list[Path]:
        """Return the files that samples are read from."""
        return [self._root / file for file in self._files]

    def where(self, index: int) -> str:
        """Return the path and row of a sample."""
        return f"{self._root}/{self.ids[index]}"


@sources.register("parquet", "Parquet files with image bytes and labels, as Hugging Face data sets lay them out")
def load_parquet(argument: str, options: Options) -> Data:
    """Open a Parquet file, or a folder of them.

    The column ``image`` (or ``img``) holds encoded bytes, bare or in a struct with ``bytes``; ``label`` (or
    ``labels``) integers. Files belong to a split by their name or folder: ``train*``, ``test*``, or else
    ``validation*``, ``valid*``, ``val*``; without a test split, rows are split by a hash of their ids, by class.
    Class names come from the schema's metadata (``classes``, comma-separated, or Hugging Face's features), else
    they are numbers. Ids are ``FILE:ROW``, or those that :func:`convert` kept. Unless ``channels`` is given, grey
    images become RGB when any of the first 256 has colour.

    Raises:
        InputError: no path given.
        DataError: nothing there, or columns, labels or classes that cannot be used.
    """
    if not argument:
        raise InputError("data: 'parquet' needs a path behind the colon: 'parquet:PATH'")
    path = Path(argument).expanduser()
    if not path.exists():
        raise DataError(f"{path}: no such file or folder; expected train*.parquet and test*.parquet below it")
    root, train_files, test_files = _locate(path)
    columns = columns_of(root, [*train_files, *test_files])
    train_source = ParquetSource(root, train_files, columns, options)
    test_source = ParquetSource(root, test_files, columns, options) if test_files else None
    classes = _classes(root, train_files, train_source, test_source)
    channels = options.channels or common_channels(train_source)
    for source in filter(None, (train_source, test_source)):
        source.with_channels(channels)
    if test_source is not None:
        train, test = Split(train_source, "train"), Split(test_source, "test")
    else:
        rows = hash_split(train_source.ids, train_source.labels, test_share=options.test_share, seed=options.seed)
        train, test = (Split(train_source, name, part) for name, part in zip(("train", "test"), rows, strict=True))
    return Data(options.spec, train, test, classes, seed=options.seed)


def _locate(path: Path) -> tuple[Path, list[str], list[str]]:
    """Return the root and the files of the two splits; no test files where there is one pool."""
    if path.is_file():
        return path.parent, [path.name], []
    relative = (file.relative_to(path) for file in path.rglob("*.parquet") if file.is_file())
    files = sorted(file.as_posix() for file in relative if not any(part.startswith(".") for part in file.parts))
    if not files:
        raise DataError(f"{path}: no .parquet file below it; expected train*.parquet and test*.parquet")
    train, test = by_split(path, files, ".parquet")
    return path, train, test


def _read_column(path: Path, column: str) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # row group by row group, so that a broken one is met here or named later, and nothing else is read
        return pq.ParquetFile(path).read(columns=[column], use_threads=False).column(0)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: column {column!r} cannot be read: {error}") from error


def _read_ids(path: Path, column: str) -> list[str]:
    return [str(sample) for sample in _read_column(path, column).to_pylist()]


def _read_labels(path: Path, column: str) -> np.ndarray:
    import pyarrow as pa

    values = _read_column(path, column)
    if not pa.types.is_integer(values.type):
        raise DataError(f"{path}: column {column!r} holds {values.type}, expected integers")
    if values.null_count:
        row = values.is_null().index(True).as_py()
        raise DataError(f"{path}: row {row} has no label ({values.null_count} such rows)")
    return values.to_numpy().astype(np.int64)


def _classes(root: Path, files: Sequence[str], train: ParquetSource, test: ParquetSource | None) -> list[str]:
    labels = train.labels
    if labels.size == 0 or (test is not None and test.labels.size == 0):
        raise DataError(f"{root}: a split has no rows")
    names = class_names(root / files[0])
    if names is None:
        if labels.max() >= _MAX_CLASSES:
            raise DataError(f"{root}: labels go up to {labels.max()}, expected class numbers from 0 on")
        names = [str(label) for label in range(int(labels.max()) + 1)]
    for split, source in (("train", train), ("test", test)):
        if source is not None and not 0 <= source.labels.min() <= source.labels.max() < len(names):
            raise DataError(
                f"{root}: labels of the {split} split go from {source.labels.min()} to {source.labels.max()}, "
                f"expected 0 to {len(names) - 1} for {len(names)} classes (-1 marks hidden labels)"
            )
    check_classes(names, str(root))
    return names
