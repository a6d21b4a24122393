"""Writing records: a whole file that appears at once, or one that an interrupted run goes on with."""

from __future__ import annotations

import contextlib
import gzip
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, cast

from roadworthy.errors import DataError, InputError
from roadworthy.files import replacing
from roadworthy.tfrecord.extra import crc32c, masked
from roadworthy.tfrecord.files import HEADER
from roadworthy.tfrecord.framing import FOOTER, MAX_RECORD, read_records


def frame(record: bytes) -> bytes:
    """Put length and checksums around the data of a record.

    Raises:
        InputError: it is longer than a record may be.

    Example:
        >>> frame(b"").hex()
        '000000000000000029039807d8ea82a2'
    """
    if len(record) > MAX_RECORD:
        raise InputError(f"a record of {len(record)} bytes; at most {MAX_RECORD} can be written")
    length = struct.pack("<Q", len(record))
    checksum = crc32c()
    return b"".join(
        (length, struct.pack("<I", masked(checksum(length))), record, struct.pack("<I", masked(checksum(record))))
    )


@contextlib.contextmanager
def record_writer(path: str | Path, *, compress: bool = False) -> Iterator[Callable[[bytes], None]]:
    """Write a TFRecord file that appears whole, when the block ends without an error, or not at all.

    Args:
        path: the file to write or to replace; folders on the way are made.
        compress: with gzip; the same records give the same bytes.

    Yields:
        A function that writes one record.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/shard"
        >>> with record_writer(path, compress=True) as write:
        ...     write(b"some bytes")
        >>> list(read_records(path))
        [b'some bytes']
    """
    with replacing(path) as beside, contextlib.ExitStack() as stack:
        file = cast(IO[bytes], stack.enter_context(open(beside, "wb")))
        if compress:
            file = cast(IO[bytes], stack.enter_context(gzip.GzipFile("", "wb", fileobj=file, mtime=0)))
        target = file

        def write(record: bytes) -> None:
            target.write(frame(record))

        yield write


class Appender:
    """A TFRecord file in the making, hidden beside its place until it is finished.

    What a killed run left is read, and cut behind its last whole record.

    Args:
        path: where the finished file will stand.
        keep: how many of the records found to keep, given their number; all by default.

    Attributes:
        count: records written so far, by this run and those before.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "shard"
        >>> with Appender(path) as file:
        ...     file.append(b"one")
        >>> path.exists()
        False
        >>> with Appender(path) as file:
        ...     file.append(b"two")
        ...     file.finish()
        >>> list(read_records(path))
        [b'one', b'two']
    """

    def __init__(self, path: str | Path, keep: Callable[[int], int] = int) -> None:
        self.path = Path(path)
        self.partial = self.path.with_name(f".{self.path.name}.partial")
        self.partial.parent.mkdir(parents=True, exist_ok=True)
        ends = _whole_records(self.partial) if self.partial.exists() else [0]
        self.count = keep(len(ends) - 1)
        self._file = open(self.partial, "ab")  # noqa: SIM115  closed by close()
        self._file.truncate(ends[self.count])

    def __enter__(self) -> Appender:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def append(self, record: bytes) -> None:
        """Write one record behind the others."""
        self._file.write(frame(record))
        self.count += 1

    def flush(self) -> None:
        """Hand what was written to the system, so that it outlives this process."""
        self._file.flush()

    def finish(self) -> None:
        """Close the file and put it in its place."""
        self.close()
        os.replace(self.partial, self.path)

    def close(self) -> None:
        """Close the file; it stays hidden unless it was finished."""
        self._file.close()


def _whole_records(path: Path) -> list[int]:
    """Return the byte at which each record ends, before the first that is damaged or cut off; 0 comes first."""
    ends = [0]
    with contextlib.suppress(DataError):
        for record in read_records(path):
            ends.append(ends[-1] + HEADER + len(record) + FOOTER)
    return ends
