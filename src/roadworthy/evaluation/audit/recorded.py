"""Numbers read back from a recorded audit: files may be damaged or of another version, and nothing here raises."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_MOST = 1e15  # no number of an audit comes near; beyond it, infinity included, a file is damaged


def rows_of(found: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a list; what is no list of rows has none.

    Example:
        >>> rows_of([{"n": 1}, "x"]), rows_of(None)
        ([{'n': 1}], [])
    """
    return [row for row in found if isinstance(row, Mapping)] if isinstance(found, list | tuple) else []


def text_of(row: Mapping[str, Any], name: str) -> str:
    """Return a text by name, empty where it is missing."""
    return str(row.get(name, ""))


def number_of(row: Mapping[str, Any], name: str) -> float:
    """Return a number by name; what is missing or is no number is NaN.

    Example:
        >>> number_of({"n": 2}, "n"), number_of({"n": True}, "n"), number_of({"n": 10**400}, "n")
        (2.0, nan, nan)
    """
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return math.nan
    return float(value) if abs(value) < _MOST else math.nan


def count_of(row: Mapping[str, Any], name: str) -> int:
    """Return a whole number by name, 0 where it is missing."""
    value = number_of(row, name)
    return 0 if math.isnan(value) else int(value)
