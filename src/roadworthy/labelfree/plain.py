"""Records as plain values that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Turn a record, or anything made of records, arrays and numbers, into dicts, lists and scalars.

    Args:
        value: a frozen dataclass, mapping, sequence, array or scalar.

    Returns:
        The same in plain values; numbers that are not finite become None.

    Example:
        >>> plain({"low": np.array([0.5, np.nan]), "n": np.int64(3)})
        {'low': [0.5, None], 'n': 3}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
