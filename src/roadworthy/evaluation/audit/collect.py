"""The samples an audit looks at: drawn evenly from a run, as many as it needs and memory allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import torch

from roadworthy.rng import derive

BYTES = 2**28  # of images held for an audit


class Part(NamedTuple):
    """Some samples: images in pixel units, the class each map explains, reduced maps, and ids."""

    images: torch.Tensor
    classes: np.ndarray
    values: dict[str, np.ndarray]
    ids: list[str]

    def of(self, ids: Sequence[str]) -> Part:
        """Return the samples of these ids that are there."""
        wanted = set(ids)
        rows = [row for row, sample in enumerate(self.ids) if sample in wanted]
        values = {name: array[rows] for name, array in self.values.items()}
        return Part(self.images[rows], self.classes[rows], values, [self.ids[row] for row in rows])


@dataclass
class AuditSamples:
    """Draws samples by their ids, whatever their order: data may be sorted by class.

    What has to be worked out anew for a block waits until it is asked for.

    Attributes:
        most: samples to take; fewer where images are large.
        length: samples there are, as far as is known.
        seed: of the draw.
    """

    most: int
    length: int
    seed: int
    _parts: list[Callable[[], Part]] = field(default_factory=list)
    _kept_as: list[str] = field(default_factory=list)

    @property
    def kept_as(self) -> list[str]:
        """What the blocks taken are known by."""
        return self._kept_as

    def take(self, ids: Sequence[str], images: torch.Tensor, make: Callable[[], Part], kept_as: list[str]) -> None:
        """Draw from a block.

        Args:
            ids: of the block.
            images: of the block, to know their size.
            make: returns the block's part.
            kept_as: what its scores follow from.
        """
        if not len(images):
            return
        self.most = min(self.most, max(1, BYTES // (images[0].numel() * images.element_size())))
        # each sample on its own, so their number varies: a few too many are drawn, and left out in the end
        share = (self.most + 4 * self.most**0.5) / max(1, self.length)
        drawn = [sample for sample in ids if self._lot(sample) < share]
        if drawn:
            self._parts.append(lambda: make().of(drawn))
            self._kept_as += kept_as

    def gathered(self) -> Part | None:
        """Return all samples in one part, or None if there are none."""
        parts = [part for part in (make() for make in self._parts) if part.ids]
        if not parts:
            return None
        whole = Part(
            torch.cat([part.images for part in parts]),
            np.concatenate([part.classes for part in parts]),
            {name: np.concatenate([part.values[name] for part in parts]) for name in parts[0].values},
            [sample for part in parts for sample in part.ids],
        )
        return whole.of(sorted(whole.ids, key=self._lot)[: self.most])

    def _lot(self, sample: str) -> float:
        return derive(self.seed, "audit", sample) / 2**128
