"""What a job leaves behind, and its file: a plain zip of JSON and .npy members with a checksum at its end.

The zip is not compressed and bears no times, so that equal records are equal files. Its comment, the last bytes of
the file, is a BLAKE2b hash of all bytes before it: a file that was cut, half written or changed in one bit is known
as such before anything in it is believed. ``numpy.load`` reads the arrays.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import re
import zipfile
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from roadworthy.errors import DataError, InputError

MAX_BYTES = 1 << 30  # of one record's file
MAX_ARRAYS = 1000
_OVERHEAD = 1 << 20  # of it, left to the zip's own bookkeeping
_HEAD = "head.json"
_CHECKSUM = 64  # hexadecimal digits
_NAME = re.compile(r"[A-Za-z0-9_.,=+@-]{1,200}")


@dataclass
class Record:
    """The result of a job.

    Args:
        head: JSON types; NaN and infinity are refused, write None.
        arrays: numeric, boolean or fixed-width text arrays by name (letters, digits and ``_.,=+@-``).
    """

    head: dict[str, Any]
    arrays: dict[str, np.ndarray] = field(default_factory=dict)


def encode(record: Record) -> bytes:
    """Write a record as the bytes of its file; equal records give equal bytes.

    Raises:
        InputError: what JSON or .npy without pickle cannot hold, or more than MAX_BYTES.

    Example:
        >>> decode(encode(Record({"top1": 0.5}, {"hits": np.array([True, False])})))
        Record(head={'top1': 0.5}, arrays={'hits': array([ True, False])})
    """
    try:
        head = json.dumps(record.head, sort_keys=True, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"head of a record: {error}; expected JSON types and finite numbers") from error
    size = len(head) + sum(array.nbytes for array in record.arrays.values())
    if size > MAX_BYTES - _OVERHEAD or len(record.arrays) > MAX_ARRAYS:
        raise InputError(
            f"a record of {size:,} bytes in {len(record.arrays)} arrays; {MAX_BYTES - _OVERHEAD:,} bytes in "
            f"{MAX_ARRAYS} arrays are the most. Keep large arrays in a file beside"
        )
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        archive.comment = b"0" * _CHECKSUM
        archive.writestr(_member(_HEAD), head)
        for name in sorted(record.arrays):
            archive.writestr(_member(f"{name}.npy"), _npy(name, record.arrays[name]))
    body = stream.getvalue()[:-_CHECKSUM]
    return body + _checksum(body)


def _member(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)  # dated 1980, whatever the clock says
    info.create_system = 3
    return info


def _npy(name: str, array: np.ndarray) -> bytes:
    if not _NAME.fullmatch(name):
        raise InputError(f"array {name!r} of a record: a name has 1 to 200 of letters, digits and _.,=+@-")
    array = np.asanyarray(array)
    if array.dtype.kind not in "biufcSU":
        raise InputError(f"array {name!r} of a record has dtype {array.dtype}; expected numbers, booleans or text")
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.require(array, requirements="C"), allow_pickle=False)
    return stream.getvalue()


def _checksum(body: bytes | memoryview) -> bytes:
    return hashlib.blake2b(body, digest_size=_CHECKSUM // 2).hexdigest().encode()


def is_whole(data: bytes) -> bool:
    """Tell whether bytes are a record's file as it was written."""
    view = memoryview(data)
    return len(data) > _CHECKSUM and _checksum(view[:-_CHECKSUM]) == bytes(view[-_CHECKSUM:])


def decode(data: bytes) -> Record:
    """Read what :func:`encode` wrote.

    Raises:
        DataError: the checksum does not hold, or this is no record.
    """
    if not is_whole(data):
        raise DataError(f"{len(data)} bytes whose checksum does not hold")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = archive.infolist()
            if any(info.compress_type != zipfile.ZIP_STORED for info in members):
                raise ValueError("a compressed member")
            parts = {info.filename: archive.read(info) for info in members}
        arrays = {name.removesuffix(".npy"): _array(part) for name, part in parts.items() if name != _HEAD}
        return Record(json.loads(parts[_HEAD]), arrays)
    except (ValueError, KeyError, zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise DataError(f"no record of this package: {error}") from error


def _array(data: bytes) -> np.ndarray:
    """Read an array whose header is held against the bytes that are there before any memory is taken."""
    stream = io.BytesIO(data)
    if np.lib.format.read_magic(stream) == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    else:
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    size = len(data) - stream.tell()
    if dtype.hasobject or math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"an array of {dtype} {shape} in {size} bytes")
    return np.frombuffer(data, dtype, math.prod(shape), stream.tell()).reshape(shape).copy()
