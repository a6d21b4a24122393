"""A part of each sample hidden: a square of an image, a stretch of a series, some columns of a table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from roadworthy.labelfree.perturbation.base import Facts, InputPerturbation, need_floating, perturbations
from roadworthy.labelfree.perturbation.draws import Draws


@perturbations.register("occlusion", "a random square, stretch or set of columns is covered by the mean")
@dataclass(frozen=True, eq=False)
class Occlusion(InputPerturbation):
    """Cover a random part of each sample.

    Images and series are covered by their own mean per channel, columns of a table by the mean of the column (0 where
    that is not known).

    Args:
        strength: share of the sample that is covered, in [0, 1].
        fill: a value to cover with instead of the mean.
    """

    name = "occlusion"
    unit = "share of the sample"
    strength: float = 0.1
    fill: Any = None

    def check(self, values: torch.Tensor) -> None:
        """Refuse whole numbers."""
        need_floating(self.name, values)

    def fitted(self, facts: Facts) -> Self:
        """Take the mean of each column from the data."""
        return self if self.fill is not None or facts.mean is None else replace(self, fill=facts.mean)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Cover the drawn parts."""
        share = strength.clamp(0, 1)
        if values.ndim == 2:
            order = draws.uniform(values.shape[1]).argsort(1).argsort(1)
            hidden = order < (share * values.shape[1]).round().clamp(min=1)[:, None]
            hidden &= (share > 0)[:, None]
        else:
            axes = values.shape[2:]
            side = share ** (1 / len(axes))
            places = draws.uniform(len(axes))
            hidden = torch.ones(len(values), 1, *axes, dtype=torch.bool)
            for axis, length in enumerate(axes):
                covered = (side * length).round()[:, None]
                start = (places[:, axis : axis + 1] * (length - covered + 1)).floor()
                at = torch.arange(length)[None]
                inside = (at >= start) & (at < start + covered)
                hidden &= inside.view(len(values), 1, *[length if a == axis else 1 for a in range(len(axes))])
        return torch.where(hidden, self._cover(values), values)

    def _cover(self, values: torch.Tensor) -> torch.Tensor:
        if values.ndim > 2 and not isinstance(self.fill, (int, float)):
            return values.mean(dim=tuple(range(2, values.ndim)), keepdim=True)
        return torch.as_tensor(0.0 if self.fill is None else self.fill, dtype=values.dtype)
