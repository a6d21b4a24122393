"""The samples an audit looks at: the first of a run, as many as it needs and memory allows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

SAMPLES = 1000
BYTES = 2**28  # of images held for it


class Part(NamedTuple):
    """Some samples: images in pixel units, the class each map explains, reduced maps, and ids."""

    images: torch.Tensor
    classes: np.ndarray
    values: dict[str, np.ndarray]
    ids: list[str]


@dataclass
class AuditSamples:
    """Takes blocks until it has enough; what has to be worked out anew for a block waits until it is asked for.

    Attributes:
        most: samples it takes.
    """

    most: int = SAMPLES
    _parts: list[Callable[[], Part]] = field(default_factory=list)
    _kept_as: list[str] = field(default_factory=list)
    _count: int = 0

    @property
    def wants(self) -> bool:
        """Whether more samples are needed."""
        return self._count < self.most

    @property
    def kept_as(self) -> list[str]:
        """What the blocks taken are known by."""
        return self._kept_as

    def take(self, images: torch.Tensor, make: Callable[[], Part], kept_as: list[str]) -> None:
        """Take a block.

        Args:
            images: of the block, to know its size.
            make: returns the block's part.
            kept_as: what its scores follow from.
        """
        if not self.wants:
            return
        if self._count == 0 and len(images):
            one = images[0].numel() * images.element_size()
            self.most = min(self.most, max(1, BYTES // one))
        self._parts.append(make)
        self._kept_as += kept_as
        self._count += len(images)

    def gathered(self) -> Part | None:
        """Return all samples in one part, or None if there are none."""
        parts = [part for part in (make() for make in self._parts) if part.ids]
        if not parts:
            return None
        return Part(
            torch.cat([part.images for part in parts])[: self.most],
            np.concatenate([part.classes for part in parts])[: self.most],
            {name: np.concatenate([part.values[name] for part in parts])[: self.most] for name in parts[0].values},
            [sample for part in parts for sample in part.ids][: self.most],
        )
