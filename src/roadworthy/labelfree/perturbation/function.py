"""A user's own perturbation: any callable on a batch, such as a torchvision v2 transform."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import InputPerturbation
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.rng import seeded_globals


@dataclass(frozen=True, eq=False)
class Function(InputPerturbation):
    """Call a function on every sample, as a batch of one, with the global generators seeded for that call.

    So the function may draw from torch, NumPy or ``random``: what it draws belongs to the sample and the pass, and
    the global generators are put back.

    Args:
        call: takes (1, ...) and returns it disturbed, of the same shape.
    """

    name = "function"
    call: Callable[..., Any]

    def check(self, values: torch.Tensor) -> None:
        """Take any values."""

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Call the function on each sample."""
        rows = []
        for row, seed in zip(values, draws.seeds(), strict=True):
            with seeded_globals(seed):
                changed = self.call(row[None].clone())
            if not isinstance(changed, torch.Tensor) or changed.shape != (1, *row.shape):
                came = f"shape {tuple(changed.shape)}" if hasattr(changed, "shape") else type(changed).__name__
                raise InputError(f"perturbation: the function returned {came}, expected {(1, *row.shape)}")
            rows.append(changed.detach())
        return torch.cat(rows)
