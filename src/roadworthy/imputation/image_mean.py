"""Image mean: removed units get the mean of what is kept of their channel in the same image."""

from __future__ import annotations

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.imputer import Imputer, channel_values, imputers, require_floating
from roadworthy.imputation.operator import over_channels


class ImageMean(Imputer):
    """Fill with the mean, per image and channel, of the KEPT values, so that removed content does not leak.

    The released ROAD code ("fixed") takes the mean over all values of the image, removed ones included.
    Where everything is removed, the training-set mean is taken, or, where none is known, the image's own mean.
    """

    name = "image-mean"

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse tables and token ids: the mean over different features says nothing."""
        if len(shape) not in (3, 4):
            raise InputError(
                f"image-mean: input of shape {tuple(shape)} has no positions to take a mean over; use imputer='mean'"
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
        """Fill with the mean of the kept values; see :meth:`Imputer.fill`."""
        self.check(tuple(images.shape), "pixel")
        require_floating(self.name, images)
        mask = over_channels(images, removed)
        ones = [1] * (images.ndim - 2)
        kept = (~mask).flatten(2).sum(2).view(len(images), -1, *ones)
        total = images.double().masked_fill(mask, 0).flatten(2).sum(2).view(*images.shape[:2], *ones)
        own = images.double().flatten(2).mean(2).view(*images.shape[:2], *ones)
        nothing = own if mean is None else channel_values(self.name, mean, images).double().expand_as(own)
        value = torch.where(kept > 0, total / kept.clamp_min(1), nothing).to(images.dtype)
        return torch.where(mask, value, images)


imputers.add("image-mean", lambda noise=0.0: ImageMean(), "mean of the kept values of the channel in the same image")
