"""Normalisation as the first layer of a model, so that the model takes images in pixel units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.forward import as_stats
from roadworthy.types import Normalize

IMAGENET: Normalize = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


class PixelNormalize(torch.nn.Module):
    """Subtract a mean and divide by a standard deviation per channel; nothing is learned.

    Args:
        mean: mean per channel, in pixel units.
        std: standard deviation per channel, in pixel units.
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
        super().__init__()
        # not persistent: a state dict holds what was learned, and fits the bare network as well
        self.register_buffer("mean", torch.tensor(mean, dtype=torch.float32), persistent=False)
        self.register_buffer("std", torch.tensor(std, dtype=torch.float32), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise images (N, C, ...)."""
        # torch.fx, by which DeepLIFT and LRP read a model, follows no condition on what it traces
        if not isinstance(images, torch.fx.Proxy):
            self._check(images)
        # elementwise work keeps the memory layout that came in, channels-last as well
        return ((images.movedim(1, -1) - self.mean) / self.std).movedim(-1, 1)

    def _check(self, images: torch.Tensor) -> None:
        channels = len(self.mean)
        if images.ndim < 2 or images.shape[1] != channels:
            raise InputError(
                f"The model takes images with {channels} channels, (N, {channels}, ...); got {tuple(images.shape)}"
            )

    def extra_repr(self) -> str:
        """Show the statistics where torch prints a module."""
        return f"mean={self.mean.tolist()}, std={self.std.tolist()}"


class Normalized(torch.nn.Module):
    """A network behind its normalisation; takes images in pixel units.

    Args:
        body: the network, which takes normalised images.
        normalize: ``(mean per channel, std per channel)`` in pixel units.

    Attributes:
        normalize: the first layer.
        body: the network.
        pixel_mean: the mean, as a tuple.
        pixel_std: the standard deviation, as a tuple.

    Example:
        >>> model = Normalized(torch.nn.Flatten(), ([0.5], [0.25]))
        >>> model(torch.ones(1, 1, 1, 2)), model.pixel_mean
        (tensor([[2., 2.]]), (0.5,))
    """

    def __init__(self, body: torch.nn.Module, normalize: Normalize) -> None:
        super().__init__()
        self.pixel_mean, self.pixel_std = per_channel(normalize)
        self.normalize = PixelNormalize(self.pixel_mean, self.pixel_std)
        self.body = body
        self.training = body.training

    def forward(self, images: torch.Tensor) -> Any:
        """Return what the network returns for the normalised images."""
        return self.body(self.normalize(images))


def per_channel(normalize: Normalize) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Check ``(mean, std)`` and return both as tuples of one length.

    Raises:
        InputError: not such a pair.

    Example:
        >>> per_channel(([0.5, 0.4, 0.3], [0.2]))
        ((0.5, 0.4, 0.3), (0.2, 0.2, 0.2))
    """
    try:
        parts = [torch.as_tensor(part, dtype=torch.float64).flatten() for part in normalize]
        channels = max(part.numel() for part in parts)
    except (TypeError, ValueError, RuntimeError):
        parts, channels = [], 1
    as_stats(normalize, channels)  # says what is wrong
    mean, std = (tuple(part.expand(channels).tolist()) for part in parts)
    return mean, std
