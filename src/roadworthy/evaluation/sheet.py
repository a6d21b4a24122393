"""A few samples with their maps and degraded copies, kept for pictures within a bound on their size."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch

from roadworthy.evaluation.degrade import Copies
from roadworthy.evaluation.result import Sheet
from roadworthy.records import Batch

MAX_BYTES = 24_000_000
_SIDE = 112  # pixels of a side that larger pictures may be thinned to, for more samples


class SheetMaker:
    """Chooses samples evenly over the data and keeps their degraded copies as 8-bit images.

    All copies together take at most :data:`MAX_BYTES`. Large images are thinned by whole pixels, down to 112 a side,
    so that more samples fit; beyond that fewer samples are kept.

    Args:
        count: how many samples to keep at the most; 0 keeps none.
        length: how many samples there are.
    """

    def __init__(self, count: int, length: int) -> None:
        self.count = count
        self.length = length

    def begin(
        self, batch: Batch, values: Mapping[str, np.ndarray], start: int, shape: tuple[int, int]
    ) -> SheetPart | None:
        """Return a part that takes this block's chosen samples, or None if it has none.

        Args:
            batch: the block.
            values: a value per unit for each method.
            start: how many samples came before.
            shape: number of orders and of shares, 0 included.
        """
        images = batch.images
        if self.count < 1 or images.ndim != 4 or images.shape[1] not in (1, 3) or not images.is_floating_point():
            return None
        step, fitting = self._fitting(len(values) * shape[0] * shape[1], *images.shape[1:])
        count = max(1, min(self.count, self.length, fitting))
        chosen = np.linspace(0, self.length - 1, count).round().astype(int)
        rows = [int(row) - start for row in chosen if start <= row < start + len(batch.ids)]
        if not rows:
            return None
        return SheetPart(batch, values, rows, shape, step=step)

    def _fitting(self, copies: int, channels: int, height: int, width: int) -> tuple[int, int]:
        """Return the step between pixels that are kept, and how many samples of so many copies fit."""
        one = copies * channels * height * width
        asked = max(1, min(self.count, self.length))
        needed, wanted = (max(1, math.ceil(math.sqrt(samples * one / MAX_BYTES))) for samples in (1, asked))
        step = max(needed, min(wanted, max(height, width) // _SIDE))
        return step, MAX_BYTES // (copies * channels * math.ceil(height / step) * math.ceil(width / step))


class SheetPart:
    """The chosen samples of one block."""

    def __init__(
        self, batch: Batch, values: Mapping[str, np.ndarray], rows: list[int], shape: tuple[int, int], step: int
    ) -> None:
        self.rows, self.step = rows, step
        maps = np.stack([array[rows] for array in values.values()], axis=1)
        maps = maps.sum(axis=2) if maps.ndim == 5 else maps  # unit = channel: one picture for all channels
        intact = self._small(batch.images[rows])
        copies = np.empty((len(rows), len(values), *shape, *intact.shape[1:]), dtype=np.uint8)
        copies[:, :, :, 0] = intact[:, None, None]
        self.arrays = {
            "ids": np.array([batch.ids[row] for row in rows], dtype=str),
            "labels": batch.labels[rows].numpy(),
            "images": intact,
            "maps": maps[..., ::step, ::step].astype(np.float32),
            "copies": copies,
            "answers": np.full((len(rows), len(values), *shape), -1, dtype=np.int64),
        }

    def answer_intact(self, predicted: np.ndarray) -> None:
        """Note the answers on the intact images."""
        self.arrays["answers"][:, :, :, 0] = predicted[self.rows][:, None, None]

    def take(self, copies: Copies, answers: np.ndarray) -> None:
        """Keep the chosen rows of some copies and the model's answers; the first repeat only."""
        if copies.repeat == 0:
            place = (slice(None), copies.method, copies.order, copies.fraction)
            self.arrays["copies"][place] = self._small(copies.images[self.rows])
            self.arrays["answers"][place] = answers[self.rows]

    def _small(self, images: torch.Tensor) -> np.ndarray:
        thinned = images[..., :: self.step, :: self.step]
        return (thinned.clamp(0, 1) * 255).round().to(torch.uint8).cpu().numpy()


def as_sheet(arrays: dict[str, np.ndarray]) -> Sheet | None:
    """Turn collected arrays into a record."""
    if not arrays:
        return None
    return Sheet(ids=arrays["ids"].tolist(), **{name: array for name, array in arrays.items() if name != "ids"})
