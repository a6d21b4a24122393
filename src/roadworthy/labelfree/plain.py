"""Results as plain values that JSON can hold."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return records as mappings, arrays and tuples as lists, and NumPy numbers as Python's.

    Numbers that are not finite become None.

    Example:
        >>> plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), "x")})
        {'a': [1.0, None], 'b': [2, 'x']}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: plain(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
