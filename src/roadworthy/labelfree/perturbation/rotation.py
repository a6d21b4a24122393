"""A small rotation about the centre; equals torchvision's ``rotate`` (bilinear), with an angle for each image."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.affine import moved
from roadworthy.labelfree.perturbation.base import InputPerturbation, need_images, perturbations
from roadworthy.labelfree.perturbation.draws import Draws


@perturbations.register("rotation", "images rotated by a random small angle")
@dataclass(frozen=True, eq=False)
class Rotation(InputPerturbation):
    """Rotate by an angle drawn evenly from [-strength, strength].

    Args:
        strength: largest angle, in degrees.
        border: what lies outside the image: ``"edge"`` or ``"zero"``.
    """

    name = "rotation"
    unit = "degrees"
    strength: float = 10.0
    border: str = "edge"

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but images."""
        need_images(self.name, values)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Rotate each image by its own angle, counter-clockwise if positive."""
        angle = torch.deg2rad(draws.signed() * strength)
        cos, sin, zero = angle.cos(), angle.sin(), torch.zeros_like(angle)
        tall = values.shape[2] / values.shape[3]
        maps = torch.stack([cos, -sin * tall, zero, sin / tall, cos, zero], dim=1).view(-1, 2, 3)
        return moved(values, maps, self.border)
