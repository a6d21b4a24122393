"""What the perturbations of series share: their shape, and reading a series between its points."""

from __future__ import annotations

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import need_floating


def need_series(name: str, values: torch.Tensor) -> None:
    """Refuse all but series (N, C, T) or (N, T) of at least two points.

    Raises:
        InputError: naming the perturbations of other data.
    """
    need_floating(name, values)
    if values.ndim not in (2, 3) or values.shape[-1] < 2:
        raise InputError(
            f"{name}: got values of shape {tuple(values.shape)}, expected series (N, C, T) or (N, T) with at least "
            "two points; for images use rotation, translation, colour-jitter or occlusion"
        )


def read_at(values: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """Read series (N, ..., T) at places (N, T) between 0 and T - 1, by linear interpolation; all channels alike."""
    left = places.floor().long().clamp(0, values.shape[-1] - 2)
    part = (places - left).to(values.dtype)
    while left.ndim < values.ndim:
        left, part = left.unsqueeze(1), part.unsqueeze(1)
    left = left.expand(values.shape)
    return torch.lerp(values.gather(-1, left), values.gather(-1, left + 1), part.expand(values.shape))
