"""Time that runs a little faster here and slower there."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.base import InputPerturbation, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.series import need_series, read_at


@perturbations.register("time-warp", "series stretched and compressed along time")
@dataclass(frozen=True, eq=False)
class TimeWarp(InputPerturbation):
    """Read the series at a speed that changes smoothly; the first and last point stay.

    The logarithm of the speed is normal at ``knots`` evenly spaced times, and linear between them.

    Args:
        strength: standard deviation of the logarithm of the speed; 0.2 is a change of about 20 %.
        knots: how many times the speed is drawn at; at least 2.
    """

    name = "time-warp"
    unit = "standard deviation of the logarithm of the speed"
    strength: float = 0.2
    knots: int = 4

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but series."""
        need_series(self.name, values)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Warp each series in its own way."""
        steps = values.shape[-1] - 1
        drawn = draws.normal(self.knots)[:, None] * strength[:, None, None]
        speed = torch.nn.functional.interpolate(drawn, size=steps, mode="linear", align_corners=True)[:, 0].double()
        speed = torch.where(strength[:, None] > 0, speed.exp(), 1.0)
        gone = torch.cat([torch.zeros(len(values), 1, dtype=torch.float64), speed.cumsum(1)], dim=1)
        return read_at(values, gone / gone[:, -1:] * steps)
