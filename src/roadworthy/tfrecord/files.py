"""Bytes at a position of a file, plain or compressed with gzip; told apart by what they hold, not by name.

A gzip file is decompressed as it is read. Going back, or far ahead, starts at the nearest of some kept states of the
decompressor instead of at the beginning: at most :data:`_MOST_STATES` of them, evenly spread over what was read.
"""

from __future__ import annotations

import bisect
import os
import struct
import threading
import zlib
from pathlib import Path
from typing import Any

from roadworthy.errors import DataError
from roadworthy.tfrecord.extra import crc32c, masked

HEADER = 12  # bytes before a record's data: its length, and the checksum of that
_GZIP = b"\x1f\x8b\x08"
_RATIO = 1032  # deflate makes of one byte at most so many
_PIECE = 1 << 18  # bytes decompressed, and bytes read, at a time
_MOST_STATES = 64  # of about 48 KB


class PlainFile:
    """An uncompressed file. Reading moves no position, so processes and threads may share it."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self.most = os.fstat(descriptor).st_size
        """No record can be longer."""

    def read_at(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset`` on: ``size`` of them, fewer at the end."""
        return read_fully(self._descriptor, size, offset)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


class GzipFile:
    """A gzip file of one or more members; offsets count decompressed bytes."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path, self._descriptor = path, descriptor
        self.most = os.fstat(descriptor).st_size * _RATIO
        self._lock = threading.Lock()
        self._spacing = 1 << 20
        self._states: list[tuple[int, int, Any]] = [(0, 0, None)]
        self._restart(0)

    def _restart(self, number: int) -> None:
        """Go back, or on, to a kept state."""
        self._end, self._next, state = self._states[number]
        self._unzip = None if state is None else state.copy()
        self._input = b""
        self._held = b""  # what was decompressed last; it ends at self._end

    def read_at(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset`` on: ``size`` of them, fewer at the end.

        Raises:
            DataError: the compressed stream is damaged or cut off.
        """
        with self._lock:
            number = bisect.bisect_right(self._states, offset, key=lambda state: state[0]) - 1
            start = self._end - len(self._held)
            if offset < start or self._states[number][0] > self._end:
                self._restart(number)
            while self._end <= offset and self._advance():
                pass
            start = self._end - len(self._held)
            parts = [self._held[max(0, offset - start) : max(0, offset - start + size)]]
            missing = size - len(parts[0])
            while missing > 0 and self._advance():
                parts.append(self._held[:missing])
                missing -= len(parts[-1])
            return b"".join(parts)

    def _advance(self) -> bool:
        """Decompress the next piece; False at the end."""
        piece = self._piece()
        if piece:
            self._held = piece
            self._end += len(piece)
            self._keep_state()
        return bool(piece)

    def _piece(self) -> bytes:
        while True:
            exhausted = self._fill()
            if self._unzip is None:
                self._input = self._input.lstrip(b"\0")  # padding behind a member
                if not self._input:
                    if exhausted:
                        return b""
                    continue
                self._unzip = zlib.decompressobj(31)
            try:
                piece: bytes = self._unzip.decompress(self._input, _PIECE)
            except zlib.error as error:
                raise DataError(f"{self.path}: damaged gzip stream before byte {self._next}: {error}") from error
            self._input = self._unzip.unconsumed_tail or self._unzip.unused_data
            if self._unzip.eof:
                self._unzip = None
            elif exhausted and not piece:
                raise DataError(f"{self.path}: the gzip stream is cut off at byte {self._next}, in mid-stream")
            if piece:
                return piece

    def _fill(self) -> bool:
        """Read on if there is no input left; return whether the file has ended."""
        if self._input:
            return False
        self._input = read_fully(self._descriptor, _PIECE, self._next)
        self._next += len(self._input)
        return not self._input

    def _keep_state(self) -> None:
        if self._unzip is None or self._end < self._states[-1][0] + self._spacing:
            return
        self._states.append((self._end, self._next - len(self._input), self._unzip.copy()))
        if len(self._states) > _MOST_STATES:
            del self._states[1::2]
            self._spacing *= 2

    def close(self) -> None:
        """Close the file and forget what was decompressed."""
        os.close(self._descriptor)
        del self._states[1:]


def open_file(path: Path) -> PlainFile | GzipFile:
    """Open a file of records.

    Raises:
        DataError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        head = read_fully(descriptor, HEADER, 0)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror or error}") from error
    # a record of 560,927 bytes starts like a gzip file; its checksum tells
    gzip = head.startswith(_GZIP) and checked_length(head) is None
    return GzipFile(path, descriptor) if gzip else PlainFile(path, descriptor)


def checked_length(header: bytes) -> int | None:
    """Return the length that the 12 bytes before a record declare; None if their checksum is wrong."""
    if len(header) < HEADER:
        return None
    length, checksum = struct.unpack("<QI", header)
    return int(length) if masked(crc32c()(header[:8])) == checksum else None


def read_fully(descriptor: int, size: int, offset: int) -> bytes:
    """Read ``size`` bytes at ``offset``; a single call may give fewer of a large file, or over a network."""
    first = os.pread(descriptor, size, offset)
    if len(first) in (0, size):
        return first
    parts, at = [first], len(first)
    while at < size and (more := os.pread(descriptor, size - at, offset + at)):
        parts.append(more)
        at += len(more)
    return b"".join(parts)
