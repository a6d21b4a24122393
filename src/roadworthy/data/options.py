"""The options that every source of data takes, checked once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from roadworthy.errors import InputError


@dataclass(frozen=True)
class Options:
    """What the caller of ``load_data`` asks of a source.

    Attributes:
        spec: the specification as it came; the name of the data set.
        size: (height, width) to bring images to, or None to leave them.
        channels: 1, 3 or 4, or None to take what the images have.
        seed: decides splits and planted images.
        test_share: share of samples that become the test split where a source has none, in (0, 1).
    """

    spec: str
    size: tuple[int, int] | None = None
    channels: int | None = None
    seed: int = 0
    test_share: float = 0.2


def parse_size(size: int | Sequence[int] | None) -> tuple[int, int] | None:
    """Return (height, width) for what a user passes as ``size``.

    Raises:
        InputError: neither a positive integer nor a pair of them.

    Example:
        >>> parse_size(32), parse_size((24, 48))
        ((32, 32), (24, 48))
    """
    if size is None:
        return None
    pair = (size, size) if isinstance(size, int) else tuple(size) if isinstance(size, (tuple, list)) else ()
    if len(pair) != 2 or not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in pair):
        raise InputError(f"size: got {size!r}, expected a positive integer or a pair (height, width) of them")
    return int(pair[0]), int(pair[1])


def parse_channels(channels: int | None) -> int | None:
    """Check what a user passes as ``channels``.

    Raises:
        InputError: none of None, 1, 3 and 4.
    """
    if channels is not None and channels not in (1, 3, 4):
        raise InputError(f"channels: got {channels!r}, expected 1 (grey), 3 (RGB), 4 (RGB and alpha) or None")
    return channels


def parse_share(test_share: float) -> float:
    """Check what a user passes as ``test_share``.

    Raises:
        InputError: not between 0 and 1.
    """
    if not isinstance(test_share, (int, float)) or not 0 < test_share < 1:
        raise InputError(f"test_share: got {test_share!r}, expected a number between 0 and 1")
    return float(test_share)
