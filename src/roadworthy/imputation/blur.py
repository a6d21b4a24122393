"""Blur: removed units get the blurred original, the usual start of the insertion score."""

from __future__ import annotations

import math
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.imputer import Imputer, imputers, require_floating
from roadworthy.imputation.operator import over_channels


class Blur(Imputer):
    """Fill from the whole original image, blurred by a Gaussian.

    The kernel is cut at three standard deviations; weights beyond the border are dropped and the rest renormalised.
    The blurred image is that of the ORIGINAL: it does not depend on the mask, and what is removed still shows
    through, coarsely. That is what insertion wants (Petsiuk et al., RISE, 2018); it is not a way to hide content.

    Args:
        sd: standard deviation in units of position; by default a tenth of the longest side (22 at 224 x 224), at
            least 1.
    """

    name = "blur"

    def __init__(self, sd: float | None = None) -> None:
        if sd is not None and not 0 < sd < math.inf:
            raise InputError(f"blur: sd is {sd!r}, expected a positive number")
        self.sd = sd

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse tables and token ids, which have no neighbours."""
        if len(shape) not in (3, 4):
            raise InputError(
                f"blur: input of shape {tuple(shape)} is a table or a batch of token ids, whose entries have no "
                "neighbours. Use imputer='mean' or 'zero' for a table, MaskToken(id) for token ids"
            )

    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Fill with the blurred original; see :meth:`Imputer.fill`."""
        self.check(tuple(images.shape), "pixel")
        require_floating(self.name, images)
        mask = over_channels(images, removed)
        sd = self.sd or max(1.0, max(images.shape[2:]) / 10)
        blurred = images
        for dim in range(2, images.ndim):
            blurred = _blur_along(blurred, dim, sd)
        return torch.where(mask, blurred, images)

    def settings(self) -> dict[str, Any]:
        """Return name and sd (None: a tenth of the longest side)."""
        return {"name": self.name, "sd": self.sd}


def _blur_along(images: torch.Tensor, dim: int, sd: float) -> torch.Tensor:
    """Sum shifted copies: element-wise, so that the result does not depend on the batch."""
    size = images.shape[dim]
    total = images.clone()
    weights = torch.ones(size, dtype=images.dtype, device=images.device)
    for shift in range(1, min(math.ceil(3 * sd), size - 1) + 1):
        weight = math.exp(-0.5 * (shift / sd) ** 2)
        count = size - shift
        total.narrow(dim, shift, count).add_(images.narrow(dim, 0, count), alpha=weight)
        total.narrow(dim, 0, count).add_(images.narrow(dim, shift, count), alpha=weight)
        weights[shift:] += weight
        weights[:count] += weight
    shape = [1] * images.ndim
    shape[dim] = size
    return total.div_(weights.view(shape))


imputers.add("blur", lambda noise=0.0: Blur(), "the blurred original (the start of insertion); images and series")
