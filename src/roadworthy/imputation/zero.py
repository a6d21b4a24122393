"""Zero fill: removed units get 0 in pixel units, which is black for images."""

from __future__ import annotations

import torch

from roadworthy.imputation.imputer import Imputer, imputers, require_floating
from roadworthy.imputation.operator import over_channels


class Zero(Imputer):
    """Fill with 0 in pixel units. For images that are normalised already, pass ``normalized=`` to ``impute``."""

    name = "zero"

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
        """Fill with 0; see :meth:`Imputer.fill`."""
        require_floating(self.name, images)
        return images.masked_fill(over_channels(images, removed), 0.0)


imputers.add("zero", lambda noise=0.0: Zero(), "black: 0 in pixel units")
