"""Images moved by a map of their own each, all of a batch at once."""

from __future__ import annotations

import torch

from roadworthy.errors import InputError

_PADDING = {"edge": "border", "zero": "zeros"}


def moved(images: torch.Tensor, maps: torch.Tensor, border: str) -> torch.Tensor:
    """Sample each image (N, C, H, W) at the places that its map (N, 2, 3) names, bilinearly.

    Args:
        images: float.
        maps: from a place in the result to the place in the image, in coordinates that run from -1 to 1.
        border: ``"edge"`` continues the outermost pixels, ``"zero"`` is 0 outside.

    Raises:
        InputError: another border.
    """
    if border not in _PADDING:
        raise InputError(f"border: got {border!r}, expected 'edge' or 'zero'")
    maps = maps.to(images.dtype)
    grid = torch.nn.functional.affine_grid(maps, list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(
        images, grid, mode="bilinear", padding_mode=_PADDING[border], align_corners=False
    )
