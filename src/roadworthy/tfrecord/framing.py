"""Records one after the other: length, checksum of the length, data, checksum of the data; both are verified.

The format: ``uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data``, little-endian
(TensorFlow, "TFRecord and tf.train.Example").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from roadworthy.errors import DataError
from roadworthy.tfrecord.extra import MASK, crc32c, masked
from roadworthy.tfrecord.files import HEADER, GzipFile, PlainFile, checked_length, open_file

FOOTER = 4  # bytes behind a record's data: its checksum
MAX_RECORD = 2**31 - 1
"""Bytes in one record at most: no protobuf message may be longer."""
_CHUNK = 1 << 18  # bytes read at a time
_MOST_KNOWN = 4096  # headers whose checksum was found right; records of equal length have equal ones
_UINT32 = struct.Struct("<I")


def read_records(path: str | Path) -> Iterator[bytes]:
    """Read all records of a file in order, each once, verifying both checksums.

    Args:
        path: a TFRecord file, plain or compressed with gzip. An empty file has no records.

    Yields:
        The data of each record.

    Raises:
        DataError: a record is damaged, cut off, or declares an impossible length; names the file and the byte.
        MissingExtraError: google-crc32c is not installed.

    Example:
        >>> import tempfile
        >>> from roadworthy.tfrecord import record_writer
        >>> path = tempfile.mkdtemp() + "/two"
        >>> with record_writer(path) as write:
        ...     write(b"first")
        ...     write(b"")
        >>> list(read_records(path))
        [b'first', b'']
    """
    path = Path(path)
    file = open_file(path)
    try:
        yield from _records(file)
    finally:
        file.close()


def _records(file: PlainFile | GzipFile) -> Iterator[bytes]:
    """Take the whole records of a chunk together: their checksums are compared at once, which small ones feel."""
    known: dict[bytes, int] = {}
    buffer, base = b"", 0
    while True:
        found, at, needed, error = _whole(file, buffer, base, known)
        sound = _sound(buffer, found)
        if sound < len(found):
            yield from found[:sound]
            raise _damaged(file.path, base + sum(HEADER + len(record) + FOOTER for record in found[:sound]))
        yield from found
        if error is not None:
            raise error
        rest, base = buffer[at:], base + at
        buffer = rest + file.read_at(base + len(rest), max(_CHUNK, needed - len(rest)))
        if not buffer:
            return
        if len(buffer) < needed:
            raise _cut(file.path, base, needed, len(buffer))


def _whole(
    file: PlainFile | GzipFile, buffer: bytes, base: int, known: dict[bytes, int]
) -> tuple[list[bytes], int, int, DataError | None]:
    """Cut a buffer into records.

    Returns:
        The data of those that are whole; the position behind them; the bytes that the next one needs from there; and
        what is wrong with it, if its length tells.
    """
    found: list[bytes] = []
    at, size = 0, len(buffer)
    while at + HEADER <= size:
        header = buffer[at : at + HEADER]
        length = known.get(header)
        if length is None:
            try:
                length = _record_length(file, header, base + at)
            except DataError as error:
                return found, at, HEADER, error
            if len(known) < _MOST_KNOWN:
                known[header] = length
        end = at + HEADER + length
        if end + FOOTER > size:
            return found, at, HEADER + length + FOOTER, None
        found.append(buffer[at + HEADER : end])
        at = end + FOOTER
    return found, at, HEADER, None


def _sound(buffer: bytes, records: list[bytes]) -> int:
    """Return how many of the buffer's records, from its start on, come before the first with a wrong checksum."""
    if not records:
        return 0
    sizes = np.fromiter(map(len, records), np.int64, len(records))
    ends = np.cumsum(sizes + HEADER + FOOTER) - FOOTER
    stored = np.frombuffer(buffer, np.uint8)[ends[:, None] + np.arange(FOOTER)].view("<u4")[:, 0]
    found = np.fromiter(map(crc32c(), records), np.uint32, len(records))
    wrong = np.flatnonzero(((found >> 15) | (found << 17)) + np.uint32(MASK) != stored)  # wraps round at 32 bits
    return int(wrong[0]) if len(wrong) else len(records)


def record_at(file: PlainFile | GzipFile, offset: int, size: int) -> bytes:
    """Return the data of the record at a known place.

    Args:
        file: where it lies.
        offset: byte at which its length stands.
        size: bytes from there to the next record.

    Raises:
        DataError: it is damaged, cut off, or of another size.
    """
    frame = file.read_at(offset, size)
    if len(frame) < size:
        raise _cut(file.path, offset, size, len(frame))
    length = _record_length(file, frame[:HEADER], offset)
    data = frame[HEADER:-FOOTER]
    if length != len(data) or masked(crc32c()(data)) != _UINT32.unpack_from(frame, size - FOOTER)[0]:
        raise _damaged(file.path, offset)
    return data


def _record_length(file: PlainFile | GzipFile, header: bytes, offset: int) -> int:
    """Return the length in a header.

    Raises:
        DataError: it is cut off, its checksum is wrong, or no record can be as long.
    """
    if len(header) < HEADER:
        raise _cut(file.path, offset, HEADER, len(header))
    length = checked_length(header)
    if length is None:
        what = "is no TFRecord file, or its first record is damaged" if offset == 0 else "is damaged"
        raise DataError(f"{file.path}: {what}: the checksum of the record length at byte {offset} is wrong")
    if length > min(MAX_RECORD, file.most):
        raise DataError(
            f"{file.path}: the record at byte {offset} declares {length} bytes, more than "
            f"{'the file can hold' if length > file.most else f'a record may have ({MAX_RECORD})'}"
        )
    return length


def _damaged(path: Path, offset: int) -> DataError:
    """Build the error for data whose checksum is wrong."""
    return DataError(f"{path}: the record at byte {offset} is damaged: the checksum of its data is wrong")


def _cut(path: Path, offset: int, needed: int, found: int) -> DataError:
    """Build the error for a record that ends early."""
    return DataError(f"{path}: the record at byte {offset} is cut off: {found} of {needed} bytes are there")
