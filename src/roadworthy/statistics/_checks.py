"""What the functions of this stage ask of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.errors import InputError


def to_array(values: Any) -> np.ndarray:
    """Return an array of what came: a sequence, an array, or a tensor on any device.

    Example:
        >>> to_array([1, 2]).tolist()
        [1, 2]
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu()
        if str(values.dtype) == "torch.bfloat16":  # NumPy has no such type; float32 holds all its values
            values = values.float()
    return np.asarray(values)


def numeric(values: Any, name: str, ndim: int) -> np.ndarray:
    """Return float64 values with ``ndim`` axes.

    Raises:
        InputError: other than numbers, another number of axes, or an empty axis; naming the shape.
    """
    array = to_array(values)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}: values of type {array.dtype} came, expected real numbers")
    if array.ndim != ndim or 0 in array.shape:
        raise InputError(f"{name}: shape {array.shape} came, expected {ndim} axes, none of them empty")
    return array.astype(np.float64)


SAME_SAMPLES = "comparisons need every method on the same samples: leave these samples out for all methods"


def finite(values: Any, name: str, ndim: int, axes: Sequence[str], advice: str = SAME_SAMPLES) -> np.ndarray:
    """Return float64 values with ``ndim`` axes, all of them finite.

    Raises:
        InputError: as :func:`numeric`; or NaN or infinite values, naming how many and where along each axis, and
            the way out.
    """
    array = numeric(values, name, ndim)
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        where = "; ".join(f"{axis} {listed(np.unique(bad[:, i]))}" for i, axis in enumerate(axes))
        raise InputError(f"{name}: {len(bad)} of {array.size} values are NaN or infinite ({where}); {advice}")
    return array


def listed(values: Any, most: int = 10) -> str:
    """Write up to ``most`` values and how many more there are.

    Example:
        >>> listed([3, 5, 8], most=2)
        '3, 5 and 1 more'
    """
    shown = ", ".join(str(value) for value in list(values)[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def check_level(level: float) -> float:
    """Return the confidence level.

    Raises:
        InputError: not between 0 and 1.
    """
    if not 0 < level < 1:
        raise InputError(f"level: {level} came, expected a share between 0 and 1, such as 0.95")
    return float(level)


def check_draws(draws: int) -> int:
    """Return the number of resamples.

    Raises:
        InputError: not a positive whole number.
    """
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 1:
        raise InputError(f"draws: {draws!r} came, expected a positive whole number, such as 10000")
    return int(draws)
