"""One value per unit: channels are reduced, and the shape of a map is held against the images."""

from __future__ import annotations

import numpy as np

from roadworthy.errors import AttributionError, InputError
from roadworthy.types import Reduction, Unit

REDUCTIONS = ("sum", "abs-sum", "max-abs", "l2", "mean")


def reduce_channels(attributions: np.ndarray, reduction: Reduction = "sum") -> np.ndarray:
    """Reduce the channel axis of attribution maps, in float64.

    Args:
        attributions: (N, C, ...).
        reduction: ``"sum"`` (signed, as ROAD), ``"abs-sum"``, ``"max-abs"``, ``"l2"`` or ``"mean"``.

    Returns:
        float64 (N, ...).

    Raises:
        InputError: an unknown reduction.

    Example:
        >>> reduce_channels(np.array([[[1.0, -3.0], [-1.0, -4.0]]]), "l2")
        array([[1.41421356, 5.        ]])
    """
    values = np.asarray(attributions, dtype=np.float64)
    if reduction == "sum":
        return values.sum(axis=1)
    if reduction == "abs-sum":
        return np.abs(values).sum(axis=1)
    if reduction == "max-abs":
        return np.abs(values).max(axis=1)
    if reduction == "l2":
        return np.sqrt(np.square(values).sum(axis=1))
    if reduction == "mean":
        return values.mean(axis=1)
    raise InputError(f"reduction: got {reduction!r}, expected one of {', '.join(REDUCTIONS)}")


def unit_values(
    attributions: np.ndarray,
    image_shape: tuple[int, ...],
    *,
    unit: Unit = "pixel",
    reduction: Reduction = "sum",
    name: str = "attribution",
) -> np.ndarray:
    """Bring maps to one value per unit of removal.

    Args:
        attributions: (N, H, W) or (N, C, H, W) for images (N, C, H, W); (N, T) or (N, C, T) for series;
            (N, F) for tables and tokens. With ``"channel"``, the channels of a position share a map's one value.
        image_shape: shape of one input, without N.
        unit: ``"pixel"`` (all channels of a position together) or ``"channel"`` (each value on its own).
        reduction: how channels are reduced for ``"pixel"``.
        name: the method, for messages.

    Returns:
        float64 (N, *positions), or (N, C, *positions) for ``"channel"``.

    Raises:
        AttributionError: the map's shape does not fit the input; both shapes are named.
        InputError: an unknown unit or reduction.
    """
    if unit not in ("pixel", "channel"):
        raise InputError(f"unit: got {unit!r}, expected 'pixel' or 'channel'")
    shape = tuple(attributions.shape[1:])
    positions = image_shape[1:] if len(image_shape) > 1 else image_shape
    if len(image_shape) == 1 or shape == positions:
        if shape != positions:
            raise _wrong_shape(name, shape, image_shape)
        values = np.asarray(attributions, dtype=np.float64)
        if unit == "channel" and len(image_shape) > 1:  # the channels of a position share its value: ties
            return np.repeat(values[:, None], image_shape[0], axis=1)
        return values
    if shape == image_shape:
        return (
            np.asarray(attributions, dtype=np.float64)
            if unit == "channel"
            else reduce_channels(attributions, reduction)
        )
    if shape == (1, *positions):
        return unit_values(np.asarray(attributions)[:, 0], image_shape, unit=unit, reduction=reduction, name=name)
    raise _wrong_shape(name, shape, image_shape)


def _wrong_shape(name: str, shape: tuple[int, ...], image_shape: tuple[int, ...]) -> AttributionError:
    hint = "Resize the maps to the images first."
    if len(image_shape) == 3:
        channels, height, width = image_shape
        if shape in ((width, height), (channels, width, height)):
            hint = "Height and width look swapped: transpose the last two axes."
        elif shape == (height, width, channels):
            hint = "The maps look channels last: move the last axis to the front."
    expected = f"{image_shape}" + (f" or {image_shape[1:]}" if len(image_shape) > 1 else "")
    return AttributionError(f"{name}: maps have shape {shape}, the inputs {image_shape}; expected {expected}. {hint}")
