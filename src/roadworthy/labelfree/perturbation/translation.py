"""A small shift up or down and left or right."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.affine import moved
from roadworthy.labelfree.perturbation.base import InputPerturbation, need_images, perturbations
from roadworthy.labelfree.perturbation.draws import Draws


@perturbations.register("translation", "images shifted by a random small distance")
@dataclass(frozen=True, eq=False)
class Translation(InputPerturbation):
    """Shift along both axes by shares drawn evenly from [-strength, strength].

    Args:
        strength: largest shift, as a share of height and width.
        border: what lies outside the image: ``"edge"`` or ``"zero"``.
    """

    name = "translation"
    unit = "share of height and width"
    strength: float = 0.1
    border: str = "edge"

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but images."""
        need_images(self.name, values)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Shift each image by its own distance, to the right and down if positive."""
        shift = -2 * draws.signed(2) * strength[:, None]  # the axis runs from -1 to 1
        maps = torch.eye(2).expand(len(values), 2, 2)
        return moved(values, torch.cat([maps, shift[:, :, None]], dim=2), self.border)
