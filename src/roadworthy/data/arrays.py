"""A source over arrays that lie in memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from PIL import Image

from roadworthy.data.decode import to_tensor, unit_tensor
from roadworthy.data.options import Options


class ArraySource:
    """Grey images of one size in memory.

    Args:
        images: uint8 (n, H, W), or float32 (n, H, W) in [0, 1].
        labels: int (n,).
        ids: n unique ids.
        options: ``size`` and ``channels`` to bring the images to.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, ids: Sequence[str], options: Options) -> None:
        self.labels = np.asarray(labels, dtype=np.int64)
        self.ids = ids
        self._images = images
        self._options = options

    def read(self, index: int) -> torch.Tensor:
        """Return one image, float32 (C, H, W)."""
        image = Image.fromarray(self._images[index])
        return to_tensor(image, channels=self._options.channels, size=self._options.size)

    def read_many(self, indices: np.ndarray) -> torch.Tensor:
        """Return several images, float32 (n, C, H, W)."""
        size = self._options.size
        if (size is not None and size != self._images.shape[1:]) or self._options.channels == 4:
            return torch.stack([self.read(int(index)) for index in indices])
        values = self._images[indices][:, None]
        images = unit_tensor(values) if values.dtype == np.uint8 else torch.from_numpy(values)
        return images.repeat(1, self._options.channels or 1, 1, 1)

    def where(self, index: int) -> str:
        """Return what to call a sample in messages."""
        return f"{self._options.spec} {self.ids[index]}"
