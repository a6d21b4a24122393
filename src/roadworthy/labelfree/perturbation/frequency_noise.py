"""Noise in the frequency domain."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.base import InputPerturbation, per_sample, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.series import need_series


@perturbations.register("frequency-noise", "amplitude and phase of every frequency changed a little")
@dataclass(frozen=True, eq=False)
class FrequencyNoise(InputPerturbation):
    """Multiply every frequency by 1 + strength x (a + ib), with a and b standard normal.

    The level (frequency 0) stays. Strong frequencies change most, and frequencies that are absent stay absent.

    Args:
        strength: standard deviation of the relative change of each part.
    """

    name = "frequency-noise"
    unit = "relative change of each frequency"
    strength: float = 0.1

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but series."""
        need_series(self.name, values)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Change the spectrum of each series."""
        length = values.shape[-1]
        spectrum = torch.fft.rfft(values.float(), dim=-1)
        drawn = torch.view_as_complex(draws.normal(*spectrum.shape[1:], 2))
        factor = 1 + per_sample(strength, values) * drawn
        factor[..., 0] = 1
        changed = torch.fft.irfft(spectrum * factor, n=length, dim=-1).to(values.dtype)
        return torch.where(per_sample(strength, values) > 0, changed, values)
