"""Records one after the other: length, checksum of the length, data, checksum of the data; both are verified.

The format: ``uint64 length | uint32 masked CRC-32C of length | data | uint32 masked CRC-32C of data``, little-endian
(TensorFlow, "TFRecord and tf.train.Example").
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from roadworthy.errors import DataError
from roadworthy.tfrecord.extra import crc32c, masked
from roadworthy.tfrecord.files import HEADER, GzipFile, PlainFile, checked_length, open_file

FOOTER = 4  # bytes behind a record's data: its checksum
MAX_RECORD = 2**31 - 1
"""Bytes in one record at most: no protobuf message may be longer."""
_CHUNK = 1 << 20  # bytes read at a time
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
    checksum, unpack = crc32c(), _UINT32.unpack_from
    known: dict[bytes, int] = {}
    buffer, base, at = b"", 0, 0  # the buffer starts at byte `base` of the file; the next record at `at` in it
    while True:
        header = buffer[at : at + HEADER]
        if len(header) < HEADER:
            buffer, base, at = _more(file, buffer, base, at, HEADER), base + at, 0
            header = buffer[:HEADER]
            if not header:
                return
        length = known.get(header)
        if length is None:
            length = record_length(file, header, base + at)
            if len(known) < _MOST_KNOWN:
                known[header] = length
        end = at + HEADER + length
        if end + FOOTER > len(buffer):
            needed = HEADER + length + FOOTER
            buffer, base, at, end = _more(file, buffer, base, at, needed), base + at, 0, HEADER + length
            if len(buffer) < needed:
                raise cut(file.path, base, needed, len(buffer))
        data = buffer[at + HEADER : end]
        found = checksum(data)
        # masked(), written out: a call for each small record would cost as much as its checksum
        if (((found >> 15) | (found << 17)) + 0xA282EAD8) & 0xFFFFFFFF != unpack(buffer, end)[0]:
            raise damaged(file.path, base + at)
        at = end + FOOTER
        yield data


def _more(file: PlainFile | GzipFile, buffer: bytes, base: int, at: int, needed: int) -> bytes:
    """Return what is left of the buffer, and the file from there on."""
    rest = buffer[at:]
    return rest + file.read_at(base + len(buffer), max(_CHUNK, needed - len(rest)))


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
        raise cut(file.path, offset, size, len(frame))
    length = record_length(file, frame[:HEADER], offset)
    data = frame[HEADER:-FOOTER]
    if length != len(data) or masked(crc32c()(data)) != _UINT32.unpack_from(frame, size - FOOTER)[0]:
        raise damaged(file.path, offset)
    return data


def record_length(file: PlainFile | GzipFile, header: bytes, offset: int) -> int:
    """Return the length in a header.

    Raises:
        DataError: it is cut off, its checksum is wrong, or no record can be as long.
    """
    if len(header) < HEADER:
        raise cut(file.path, offset, HEADER, len(header))
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


def damaged(path: Path, offset: int) -> DataError:
    """Build the error for data whose checksum is wrong."""
    return DataError(f"{path}: the record at byte {offset} is damaged: the checksum of its data is wrong")


def cut(path: Path, offset: int, needed: int, found: int) -> DataError:
    """Build the error for a record that ends early."""
    return DataError(f"{path}: the record at byte {offset} is cut off: {found} of {needed} bytes are there")
