"""Telea's and the Navier-Stokes inpainting of OpenCV: removed units are continued inwards from their border.

OpenCV inpaints images of 8 bits: kept values are rounded to multiples of 1/255 before the fill is computed, so that
fills are such multiples too. Only removed units are taken from its result; kept ones stay as they are, bit for bit.

Sources: Telea, An image inpainting technique based on the fast marching method (2004); Bertalmio et al.,
Navier-Stokes, fluid dynamics, and image and video inpainting (CVPR 2001).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch

from roadworthy.errors import InputError, MissingExtraError
from roadworthy.imputation.imputer import Imputer, channel_values, imputers, require_floating
from roadworthy.imputation.operator import over_channels

RADIUS = 3.0
_LEVELS = 255
_OUTSIDE = 1e-3  # what rounding may put beyond [0, 1]


class OpenCVInpaint(Imputer):
    """Fill by OpenCV's ``inpaint``, on the CPU, image by image.

    A channel of which everything is removed gets the training-set mean, or, where none is known, its own mean.

    Args:
        method: ``"telea"`` or ``"navier-stokes"``.
        radius: how far around a unit known values count, in units of position.

    Raises:
        MissingExtraError: opencv-python-headless is not installed.
        InputError: an unknown method or a radius that is not positive.
    """

    def __init__(self, method: str = "telea", *, radius: float = RADIUS) -> None:
        if method not in ("telea", "navier-stokes"):
            raise InputError(f"OpenCVInpaint: method is {method!r}, expected 'telea' or 'navier-stokes'")
        if not 0 < radius < math.inf:
            raise InputError(f"{method}: radius is {radius!r}, expected a positive number")
        _opencv(method)
        self.name = method
        self.radius = float(radius)

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse what is not a batch of images."""
        if len(shape) != 4:
            raise InputError(
                f"{self.name}: input of shape {tuple(shape)}, expected images (N, C, H, W); use 'noisy-linear' for "
                "series, 'mean' for tables"
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
        """Inpaint at 8 bits; see :meth:`Imputer.fill`. Raises InputError for kept values outside [0, 1]."""
        self.check(tuple(images.shape), "pixel")
        require_floating(self.name, images)
        mask = over_channels(images, removed)
        kept = images.detach().masked_fill(mask, 0.0)
        low, high = (float(kept.min()), float(kept.max())) if kept.numel() else (0.0, 0.0)
        if not (low >= -_OUTSIDE and high <= 1 + _OUTSIDE):
            raise InputError(
                f"{self.name}: kept values lie in [{low:.3g}, {high:.3g}], expected [0, 1]: OpenCV inpaints images "
                "of 8 bits. Pass images in pixel units, or use imputer='noisy-linear'"
            )
        hollow = mask.flatten(2).all(2).view(*mask.shape[:2], 1, 1)
        levels = (kept * _LEVELS).round().clamp(0, _LEVELS).to(torch.uint8).cpu().numpy()
        filled = torch.from_numpy(self._inpainted(levels, mask.cpu().numpy())).to(images.device, images.dtype)
        own = images.flatten(2).mean(2).view(*images.shape[:2], 1, 1)
        nothing = own if mean is None else channel_values(self.name, mean, images)
        return torch.where(mask, torch.where(hollow, nothing, filled / _LEVELS), images)

    def _inpainted(self, levels: np.ndarray, removed: np.ndarray) -> np.ndarray:
        """Fill each plane; what is removed in ``levels`` is 0 and so cannot show through."""
        cv2 = _opencv(self.name)
        flag = cv2.INPAINT_TELEA if self.name == "telea" else cv2.INPAINT_NS
        masks = np.broadcast_to(removed, levels.shape).astype(np.uint8)
        filled = levels.copy()
        for n, c in np.ndindex(*levels.shape[:2]):
            if 0 < masks[n, c].sum() < masks[n, c].size:
                filled[n, c] = cv2.inpaint(levels[n, c], masks[n, c], self.radius, flag)
        return filled

    def settings(self) -> dict[str, Any]:
        """Return name, radius, and the number of grey levels a fill can have."""
        return {"name": self.name, "radius": self.radius, "levels": _LEVELS + 1}


def _opencv(name: str) -> Any:
    try:
        import cv2
    except ImportError as error:
        raise MissingExtraError(
            f"imputer {name!r} needs OpenCV: pip install 'roadworthy[opencv]' (opencv-python-headless)"
        ) from error
    return cv2


imputers.add(
    "telea", lambda noise=0.0: OpenCVInpaint("telea"), "Telea's inpainting, at 8 bits; extra [opencv]; images"
)
imputers.add(
    "navier-stokes",
    lambda noise=0.0: OpenCVInpaint("navier-stokes"),
    "Navier-Stokes inpainting, at 8 bits; extra [opencv]; images",
)
