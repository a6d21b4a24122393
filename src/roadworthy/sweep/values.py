"""Values of an experiment file, brought to one form; each function says what it expected where that fails.

They run before pydantic's own checks and pass on what those judge better.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from roadworthy.sweep.paths import is_record_pattern

_UNITS = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def as_size(value: Any) -> Any:
    """Read a side or a pair of sides."""
    pair = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if value is not None and not (len(pair) in (1, 2) and all(_whole(side) and side > 0 for side in pair)):
        raise ValueError("expected a positive whole number or a pair [height, width] of them")
    return value if not isinstance(value, list) else pair


def as_shares(value: Any) -> Any:
    """Read shares removed: ascending, each once, without 0."""
    if value is None:
        return None
    shares = [value] if isinstance(value, (int, float)) else value
    if not isinstance(shares, (list, tuple)) or not all(
        isinstance(share, (int, float)) and not isinstance(share, bool) for share in shares
    ):
        raise ValueError("expected shares removed such as [0.1, 0.3, 0.5]")
    bad = [share for share in shares if not (math.isfinite(share) and 0 <= share <= 1)]
    if bad and all(1 < share <= 100 for share in bad):
        raise ValueError("expected shares between 0 and 1; these look like percentages: divide by 100")
    if bad:
        raise ValueError("expected shares between 0 and 1")
    found = tuple(sorted({float(share) for share in shares if share > 0}))
    if not found:
        raise ValueError("expected at least one share above 0; 0 itself is always evaluated")
    return found


def as_names(value: Any) -> Any:
    """Read a name or a list of names."""
    names = [value] if isinstance(value, str) else value
    if value is None:
        return None
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) and name for name in names) or not names:
        raise ValueError("expected a list of names")
    twice = next((name for name in names if list(names).count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"expected each name once; {twice!r} is there twice")
    return tuple(names)


def as_fills(value: Any) -> Any:
    """Read a name or a list of names of imputers; each makes a result, called what stands before the colon."""
    found = as_names(value)
    as_names(None if found is None else [fill_name(imputer) for imputer in found])
    return found


def fill_name(imputer: str) -> str:
    """Return what the result of an imputer is called.

    Example:
        >>> fill_name("gain:/runs/gain.safetensors"), fill_name("mean")
        ('gain', 'mean')
    """
    return imputer.partition(":")[0]


def as_methods(value: Any) -> Any:
    """Read a mapping, or a list of methods that are named by themselves.

    Example:
        >>> as_methods({"mine": "tfrecord:IG/*"})
        {'mine': {'train': 'tfrecord:IG/*', 'test': 'tfrecord:IG/*'}}
    """
    if not isinstance(value, Mapping):
        return {name: name for name in as_names(value) or ()}
    # record files name the samples that they hold, so those of both splits may lie under one pattern
    return {
        name: {"train": source, "test": source} if is_record_pattern(source) else source
        for name, source in value.items()
    }


def as_settings(value: Any) -> Any:
    """Read a name, or a mapping of changes to a named set."""
    if not isinstance(value, (str, Mapping)) or not value:
        raise ValueError("expected a name, or a mapping of settings with 'base'")
    return dict(value) if isinstance(value, Mapping) else value


def as_bytes(value: Any) -> Any:
    """Read a number of bytes, with or without a unit; GB is 10**9, GiB is 2**30.

    Example:
        >>> as_bytes("2GiB"), as_bytes("1.5 MB")
        (2147483648, 1500000)
    """
    if _whole(value):
        return value
    found = (
        re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([KMG]I?B|)", value.strip().upper())
        if isinstance(value, str)
        else None
    )
    if found is None:
        raise ValueError("expected a number of bytes, or text such as 2GB or 512MiB")
    return int(float(found[1]) * _UNITS[found[2]])


def as_normalize(value: Any) -> Any:
    """Read auto, imagenet, null or a pair of lists, mean and standard deviation."""
    if value is None or value in ("auto", "imagenet"):
        return value
    parts = (
        [list(part) if isinstance(part, (list, tuple)) else None for part in value]
        if isinstance(value, (list, tuple))
        else []
    )
    numbers = [number for part in parts if part for number in part]
    if (
        len(parts) != 2
        or not all(parts)
        or not all(isinstance(n, (int, float)) and math.isfinite(n) for n in numbers)
    ):
        raise ValueError("expected auto, imagenet, null or a pair [mean, std] of lists with a number per channel")
    return tuple(tuple(float(number) for number in part or ()) for part in parts)
