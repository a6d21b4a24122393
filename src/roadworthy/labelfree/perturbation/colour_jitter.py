"""Brightness, contrast and saturation; equals torchvision's ``adjust_*`` with factors of each image's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch

from roadworthy.labelfree.perturbation.base import Facts, InputPerturbation, need_images, per_sample, perturbations
from roadworthy.labelfree.perturbation.draws import Draws

_LUMA = (0.2989, 0.587, 0.114)  # shares of red, green and blue in a grey value, ITU-R BT.601


@perturbations.register("colour-jitter", "brightness, contrast and saturation changed by random factors")
@dataclass(frozen=True, eq=False)
class ColourJitter(InputPerturbation):
    """Multiply brightness, then contrast, then saturation (of three channels) by factors from [1 - s, 1 + s].

    Args:
        strength: s, the largest relative change, in [0, 1].
        valid_range: (smallest, largest) value, to which each step is clipped; None clips nothing. By default (0, 1)
            for images in pixel units, else nothing.
    """

    name = "colour-jitter"
    unit = "largest relative change"
    strength: float = 0.2
    valid_range: tuple[float, float] | str | None = "auto"

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but images."""
        need_images(self.name, values)

    def fitted(self, facts: Facts) -> Self:
        """Take the range from the data where it was left open."""
        return replace(self, valid_range=facts.valid_range) if self.valid_range == "auto" else self

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Change each image by its own factors."""
        factors = 1 + draws.signed(3) * strength[:, None]
        brightness, contrast, saturation = (per_sample(factors[:, k], values).to(values.dtype) for k in range(3))
        values = self._clipped(values * brightness)
        values = self._clipped(values.lerp(_grey(values).mean(dim=(1, 2, 3), keepdim=True), 1 - contrast))
        if values.shape[1] == 3:
            values = self._clipped(torch.lerp(values, _grey(values), 1 - saturation))
        return values

    def _clipped(self, values: torch.Tensor) -> torch.Tensor:
        if self.valid_range is None:
            return values
        return values.clamp_(*map(float, self.valid_range))


def _grey(images: torch.Tensor) -> torch.Tensor:
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    return torch.einsum("nchw,c->nhw", images, images.new_tensor(_LUMA))[:, None]
