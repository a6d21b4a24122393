"""The range of what is kept of a channel, and the way from values to shares of that range and back."""

from __future__ import annotations

from typing import NamedTuple

import torch

from roadworthy.imputation.operator import System
from roadworthy.imputation.solution import Outcome

_TINY = 1e-300  # a smaller range is a constant


class Scale(NamedTuple):
    """Ranges of a batch, float64 (N, C, 1, 1), and what rules a channel out.

    Attributes:
        low: least kept value; 0 where the channel is ruled out.
        high: greatest kept value; likewise.
        outcomes: int64 (N, C, 1, 1), see :class:`Outcome`.
    """

    low: torch.Tensor
    high: torch.Tensor
    outcomes: torch.Tensor

    @classmethod
    def of(cls, system: System) -> Scale:
        """Measure a system."""
        images, gone = system
        low = images.masked_fill(gone, float("inf")).amin((2, 3), keepdim=True).double()
        high = images.masked_fill(gone, float("-inf")).amax((2, 3), keepdim=True).double()
        finite = images.masked_fill(gone, 0).isfinite().all(3, keepdim=True).all(2, keepdim=True)
        outcomes = torch.where(finite, int(Outcome.SUCCESSFUL), int(Outcome.NONFINITE_INPUT))
        outcomes = outcomes.masked_fill(gone.all(3, keepdim=True).all(2, keepdim=True), int(Outcome.SINGULAR))
        sound = outcomes == Outcome.SUCCESSFUL
        return cls(torch.where(sound, low, 0.0), torch.where(sound, high, 0.0), outcomes)

    def shares(self, images: torch.Tensor) -> torch.Tensor:
        """Turn values into shares of the range, float32; in halves, since a range of float64 may overflow."""
        half = 0.5 * self.high - 0.5 * self.low
        inverse = torch.where(half > _TINY, 1 / half.clamp_min(_TINY), 0.0)
        return ((0.5 * images.double() - 0.5 * self.low) * inverse).nan_to_num(0.0).float()

    def restore(self, shares: torch.Tensor, system: System) -> torch.Tensor:
        """Turn shares at removed units into values within the range; kept units are those of the system."""
        exact = shares.double()
        fill = torch.clamp(self.low * (1 - exact) + self.high * exact, self.low, self.high)
        fill = fill.masked_fill(self.outcomes >= Outcome.SINGULAR, float("nan")).to(system.images.dtype)
        return torch.where(system.removed, fill, system.images)
