"""A slice of each series, stretched to the whole length."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.base import InputPerturbation, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.series import need_series, read_at


@perturbations.register("slice", "a random slice of the series stretched to its length")
@dataclass(frozen=True, eq=False)
class Slice(InputPerturbation):
    """Cut away a share at the two ends, at a random place, and stretch what is left to the whole length.

    Args:
        strength: share that is cut away, in [0, 1).
    """

    name = "slice"
    unit = "share cut away"
    strength: float = 0.1

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but series."""
        need_series(self.name, values)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Cut each series at its own place."""
        last = values.shape[-1] - 1
        cut = strength.clamp(0, 1).double() * last
        along = torch.linspace(0, 1, last + 1, dtype=torch.float64)[None]
        return read_at(values, (draws.uniform().double() * cut)[:, None] + along * (last - cut)[:, None])
