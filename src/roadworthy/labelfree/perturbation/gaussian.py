"""Gaussian noise on every value, with a scale of its own for each feature."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import Facts, InputPerturbation, need_floating, per_sample, perturbations
from roadworthy.labelfree.perturbation.draws import Draws


@perturbations.register("gaussian", "Gaussian noise; images in pixel units, else relative to each feature's spread")
@dataclass(frozen=True, eq=False)
class Gaussian(InputPerturbation):
    """Add strength x scale x standard normal noise.

    Args:
        strength: standard deviation of the noise in units of ``scale``; advised are 0.01 to 0.1.
        scale: one number, or one for each feature (F,) or channel (C,). By default 1 for images in pixel units,
            else each feature's or channel's standard deviation in the data where these lie in memory.
        valid_range: (smallest, largest) value, to which the result is clipped; None clips nothing. By default
            (0, 1) for images in pixel units, else nothing.
    """

    name = "gaussian"
    unit = "standard deviations of a feature, or pixel units"
    strength: float = 0.05
    scale: Any = None
    valid_range: tuple[float, float] | str | None = "auto"

    def check(self, values: torch.Tensor) -> None:
        """Refuse whole numbers, and a scale that does not fit."""
        need_floating(self.name, values)
        scale = _as_scale(self.scale)
        if scale.ndim == 1 and len(scale) not in (1, values.shape[1]):
            raise InputError(f"gaussian: scale has {len(scale)} values, the samples have {values.shape[1]} features")

    def fitted(self, facts: Facts) -> Self:
        """Take scale and range from the data where they were left open."""
        scale = self.scale if self.scale is not None else 1.0 if facts.scale is None else facts.scale
        known = facts.valid_range if self.valid_range == "auto" else self.valid_range
        if known is not None and (len(known) != 2 or not float(known[0]) < float(known[1])):
            raise InputError(f"gaussian: valid_range is {known!r}, expected (smallest, largest), None or 'auto'")
        return replace(self, scale=scale, valid_range=known)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Add the noise and clip to the valid range."""
        scale = _as_scale(self.scale)
        if scale.ndim == 1:
            scale = scale.view(1, -1, *[1] * (values.ndim - 2))
        noisy = draws.normal(*values.shape[1:], reuse=True).to(values.dtype)
        noisy.mul_(per_sample(strength, values) * scale).add_(values)
        return noisy if self.valid_range is None else noisy.clamp_(*map(float, self.valid_range))


def _as_scale(scale: Any) -> torch.Tensor:
    given = torch.as_tensor(1.0 if scale is None else scale, dtype=torch.float32)
    if not bool((given.isfinite() & (given >= 0)).all()):
        raise InputError("gaussian: scale holds values that are negative or not finite")
    return given
