"""The system that noisy linear imputation solves, and the forms in which images and masks come.

Each removed unit is the weighted mean of its neighbours: weight 1/6 for the four direct ones, 1/12 for the four
diagonal ones; neighbours outside the image are dropped and the rest renormalised. Channels do not mix; a mask
holds for all channels of an image or for one of them. The matrix is a symmetric M-matrix, so without noise the
fill lies between the least and the greatest kept value of its channel.

Source: Rong et al., A consistent and efficient evaluation strategy for attribution methods (ICML 2022), section 5.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from roadworthy.errors import InputError

DIRECT = 1 / 6
DIAGONAL = 1 / 12


class System(NamedTuple):
    """Images and what is removed of them, in the one form that solvers take.

    Attributes:
        images: float32 or float64 (N, C, H, W), contiguous; a series is an image of height 1.
        removed: bool (N, 1, H, W), or (N, C, H, W) where each channel has its own mask.
    """

    images: torch.Tensor
    removed: torch.Tensor


def over_channels(images: torch.Tensor, removed: torch.Tensor) -> torch.Tensor:
    """Bring ``removed`` to a shape that broadcasts over ``images``.

    Args:
        images: (N, C, H, W), (N, C, T), (N, F) or token ids (N, T).
        removed: bool, True = removed: of the images' shape, or without the channel dimension.

    Returns:
        bool (N, 1, ...) or of the images' shape; a view.

    Raises:
        InputError: another dtype or shape, naming both shapes.

    Example:
        >>> over_channels(torch.zeros(2, 3, 4, 5), torch.zeros(2, 4, 5, dtype=torch.bool)).shape
        torch.Size([2, 1, 4, 5])
    """
    if removed.dtype != torch.bool:
        raise InputError(f"removed: got {removed.dtype}, expected torch.bool with True = removed")
    if removed.shape == images.shape:
        return removed
    if images.ndim > 2 and removed.shape == (images.shape[0], *images.shape[2:]):
        return removed.unsqueeze(1)
    per_unit = "" if images.ndim == 2 else f" or {(images.shape[0], *images.shape[2:])} (one for all channels)"
    raise InputError(
        f"removed: shape {tuple(removed.shape)} does not fit images of shape {tuple(images.shape)}; "
        f"expected {tuple(images.shape)}{per_unit}"
    )


def as_system(images: torch.Tensor, removed: torch.Tensor) -> System:
    """Check images and masks and bring them to the solvers' form.

    Args:
        images: floating (N, C, H, W) or (N, C, T).
        removed: bool, see :func:`over_channels`.

    Returns:
        The system; nothing is copied where the input has the form already.

    Raises:
        InputError: not a batch of images or series, not floating, empty, or a mask that does not fit.
    """
    if images.ndim not in (3, 4) or images.numel() == 0:
        raise InputError(
            f"images: got shape {tuple(images.shape)}, expected non-empty (N, C, H, W), or (N, C, T) for series"
        )
    if not images.is_floating_point():
        raise InputError(
            f"images: got {images.dtype}, expected a floating dtype in pixel units; divide integers by their maximum"
        )
    mask = over_channels(images, removed.to(images.device))
    images = images.detach()
    if images.dtype not in (torch.float32, torch.float64):
        images = images.float()
    if images.ndim == 3:
        images, mask = images.unsqueeze(2), mask.unsqueeze(2)
    return System(images.contiguous(), mask.contiguous())


def defect(filled: torch.Tensor, removed: torch.Tensor) -> torch.Tensor:
    """Say by how much each removed unit differs from the weighted mean of its neighbours.

    Args:
        filled: floating (N, C, H, W) or (N, C, T).
        removed: bool, see :func:`over_channels`.

    Returns:
        float64 of the shape (N, C, H, W); 0 at kept units.

    Example:
        >>> removed = torch.zeros(1, 3, 3, dtype=torch.bool); removed[0, 1, 1] = True
        >>> float(defect(torch.arange(9.0).view(1, 1, 3, 3), removed).abs().max())
        0.0
    """
    images, mask = as_system(filled, removed)
    sums, weights = neighbour_sums(images.double()), neighbour_sums(torch.ones_like(images[:1, :1]).double())
    return torch.where(mask & (weights > 0), images - sums / weights.clamp_min(DIAGONAL), 0.0)


def neighbour_sums(images: torch.Tensor) -> torch.Tensor:
    """Sum the neighbours of each unit of (N, C, H, W) with their weights; outside the image there is nothing."""
    padded = torch.nn.functional.pad(images, (1, 1, 1, 1))
    rows = padded[:, :, :-2] + padded[:, :, 2:] + 2 * padded[:, :, 1:-1]
    return (rows[..., :-2] + rows[..., 2:] + 2 * rows[..., 1:-1] - 4 * images) * DIAGONAL
