"""The options that every source of data takes, checked once."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from roadworthy.errors import InputError, unknown_name


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


def split_argument(argument: str, known: Collection[str], source: str) -> tuple[str, dict[str, str]]:
    """Take the options off the end of ``PATH,name=value,name=value``.

    Args:
        argument: what stands behind the colon of a specification.
        known: names of options.
        source: name of the source, for messages.

    Raises:
        InputError: an option that is not known, or none before the ``=``.

    Example:
        >>> split_argument("data/train-*,label_offset=1", ["label_offset"], "tfrecord")
        ('data/train-*', {'label_offset': '1'})
    """
    found = re.fullmatch(r"(.*?)((?:,\s*[a-z_]+\s*=[^,/=]*)*)", argument, re.DOTALL)
    assert found is not None  # the first group takes anything
    chosen = {}
    for item in filter(None, found[2].split(",")):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in known:
            raise unknown_name(f"option of {source}", name, known)
        chosen[name] = value
    return found[1], chosen


def parse_whole(name: str, value: str | None, low: int, high: int) -> int | None:
    """Read the value of an option that is an integer from ``low`` to ``high``; None stays None.

    Raises:
        InputError: it is something else.
    """
    if value is None:
        return None
    if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
        raise InputError(f"{name}={value}: expected an integer from {low} to {high}")
    return int(value)
