"""The two packages of the extra ``[tfrecord]``, imported when the first record is touched."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from roadworthy.errors import MissingExtraError

MASK = 0xA282EAD8


@functools.cache
def crc32c() -> Callable[[bytes], int]:
    """Return the function from bytes to their CRC-32C (Castagnoli).

    Raises:
        MissingExtraError: google-crc32c is not installed.
    """
    try:
        import google_crc32c
    except ImportError as error:
        raise _missing("google-crc32c") from error
    value: Callable[[bytes], int] = google_crc32c.value
    return value


@functools.cache
def protobuf() -> tuple[Any, Any, Any]:
    """Return the modules ``descriptor_pb2``, ``descriptor_pool`` and ``message_factory``.

    Raises:
        MissingExtraError: protobuf is not installed.
    """
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    except ImportError as error:
        raise _missing("protobuf") from error
    return descriptor_pb2, descriptor_pool, message_factory


def masked(checksum: int) -> int:
    """Return a checksum as TFRecord stores it: rotated right by 15 bits, plus a constant.

    Example:
        >>> hex(masked(0))
        '0xa282ead8'
    """
    return (((checksum >> 15) | (checksum << 17)) + MASK) & 0xFFFFFFFF


def _missing(package: str) -> MissingExtraError:
    return MissingExtraError(f"TFRecord files need {package}: pip install 'roadworthy[tfrecord]'")
