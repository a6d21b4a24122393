"""Mean fill: removed units get the training-set mean of their channel."""

from __future__ import annotations

import torch

from roadworthy.imputation.imputer import Imputer, channel_values, imputers, require_floating
from roadworthy.imputation.operator import over_channels


class Mean(Imputer):
    """Fill with the training-set mean of the channel (images, series) or feature (tables), as ROAR does.

    The released ROAD code names a fill "fixed" that takes the mean of the image itself, removed units included;
    for a mean of the image see ``image-mean``.
    """

    name = "mean"

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Accept every floating input."""

    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Fill with ``mean``; see :meth:`Imputer.fill`. Raises InputError without it."""
        require_floating(self.name, images)
        return torch.where(over_channels(images, removed), channel_values(self.name, mean, images), images)


imputers.add("mean", lambda noise=0.0: Mean(), "training-set mean of the channel or feature (ROAR)")
