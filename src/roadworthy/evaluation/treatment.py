"""What a training set goes through before a new model sees it: nothing, removal by a method's maps, or at random."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.stats
import torch

from roadworthy.errors import AttributionError
from roadworthy.evaluation.degrade import Filler, block_values, nonfinite_samples, tie_order
from roadworthy.evaluation.strategy import Strategy
from roadworthy.provenance import ids_hash
from roadworthy.records import Batch, Split
from roadworthy.removal import ranks_without_ties, removal_ranks, removed_at
from roadworthy.rng import normal_fields, permutations
from roadworthy.types import Order

RANDOM = "random"
_BLOCK_VALUES = 2**22  # pixels that are degraded together


@dataclass(frozen=True)
class Treatment:
    """What is done to every image of a training and its test.

    Attributes:
        kind: ``"unmodified"``, ``"estimator"`` (a method's maps say what goes) or ``"random"``.
        method: name of the method, for an estimator.
        order: ``"morf"`` or ``"lerf"``, for an estimator; a random mask has no order.
        fraction: the share removed.

    Example:
        >>> Treatment.of("ig", "morf", 0.5)
        Treatment(kind='estimator', method='ig', order='morf', fraction=0.5)
        >>> Treatment.of("random", "lerf", 0.5) == Treatment.of("random", "morf", 0.5)
        True
    """

    kind: Literal["unmodified", "estimator", "random"] = "unmodified"
    method: str = ""
    order: Order = "morf"
    fraction: float = 0.0

    @staticmethod
    def of(method: str, order: Order, fraction: float) -> Treatment:
        """Return the treatment at a point of a method's curve; p = 0 and random are the same for all."""
        if fraction == 0:
            return Treatment()
        if method == RANDOM:
            return Treatment("random", fraction=fraction)
        return Treatment("estimator", method, order, fraction)

    def __str__(self) -> str:
        if self.kind == "unmodified":
            return "unmodified"
        what = RANDOM if self.kind == "random" else f"{self.method} {self.order}"
        return f"{what} {self.fraction:g}"


class MapRows:
    """The maps of one method, cut by sample id.

    Args:
        name: the method.
        array: array-like (N, ...), possibly on disk.
        ids: N sample ids, in the order of the rows.
    """

    def __init__(self, name: str, array: Any, ids: Sequence[str]) -> None:
        if len(array) != len(ids):
            raise AttributionError(f"{name}: {len(array)} maps for {len(ids)} samples")
        self.name, self.array = name, array
        self._rows = {sample: row for row, sample in enumerate(ids)}

    def __call__(self, ids: Sequence[str]) -> np.ndarray:
        """Return the maps of these samples (n, ...).

        Raises:
            AttributionError: there is none for some of them.
        """
        missing = [sample for sample in ids if sample not in self._rows]
        if missing:
            raise AttributionError(
                f"{self.name}: there is no map for {len(missing)} of {len(ids)} samples, the first {missing[0]!r}; "
                "make maps of these samples"
            )
        rows = np.array([self._rows[sample] for sample in ids])
        first, last = int(rows.min()), int(rows.max())
        if last - first < 2 * len(rows):  # one read of neighbours instead of many
            return np.asarray(self.array[first : last + 1])[rows - first]
        order = np.argsort(rows)
        return np.asarray(self.array[rows[order]])[np.argsort(order)]


class DegradedSplit(Split):
    """A split whose images are degraded when they are read; labels, ids and order are those of the split.

    Args:
        base: the split.
        degrade: returns a batch with degraded images.
        for_epoch: returns the split as one epoch sees it; None where all epochs see the same.
    """

    def __init__(
        self, base: Split, degrade: Callable[[Batch], Batch], for_epoch: Callable[[int], Split] | None = None
    ) -> None:
        super().__init__(base.source, base.name, base.indices)
        self.broken = base.broken
        self._base, self._degrade = base, degrade
        if for_epoch is not None:
            self.for_epoch = for_epoch

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        image, label = self._base[position]
        sample = self.ids[position]
        return self._degrade(Batch(image[None], torch.tensor([label]), [sample])).images[0], label

    def batches(self, size: int = 256) -> Iterator[Batch]:
        """Read and degrade the split in order, ``size`` samples at a time."""
        if self._images is not None:
            yield from self._in_memory(size)
        else:
            for batch in self._base.batches(size):
                yield self._degrade(batch)

    def _restricted(self, indices: np.ndarray) -> Split:
        return DegradedSplit(self._base._restricted(indices), self._degrade)


@dataclass(frozen=True)
class Degrader:
    """Degrades the images of a split, the same way for training and test.

    Attributes:
        strategy: what to remove.
        filler: what to fill it with.
        repeat: which repeat: ties, noise and random masks are drawn anew for each.
    """

    strategy: Strategy
    filler: Filler
    repeat: int = 0

    def split(self, base: Split, treatment: Treatment, maps: MapRows | None = None) -> Split:
        """Return the split as a treatment leaves it.

        Args:
            base: the samples, after whatever resizing and cropping is deterministic; augmentation comes later.
            treatment: what to do.
            maps: the method's maps of these samples, for an estimator.
        """
        if treatment.kind == "unmodified":
            return base
        # partial, not lambda: a split travels to the processes that share a training
        degrade = functools.partial(self._batch, treatment=treatment, maps=maps)
        if treatment.kind == "estimator" or self.strategy.random_masks == "fixed":
            return DegradedSplit(base, degrade)
        return DegradedSplit(base, degrade, functools.partial(self._epoch, base, treatment))

    def _epoch(self, base: Split, treatment: Treatment, epoch: int) -> Split:
        return DegradedSplit(base, functools.partial(self._batch, treatment=treatment, maps=None, epoch=epoch))

    def _batch(self, batch: Batch, treatment: Treatment, maps: MapRows | None, epoch: int = -1) -> Batch:
        size = max(1, _BLOCK_VALUES // max(1, batch.images[0].numel()))
        parts = []
        for start in range(0, len(batch.ids), size):
            rows = slice(start, start + size)
            parts.append(self._block(batch.images[rows], batch.ids[rows], treatment, maps, epoch))
        return batch._replace(images=parts[0] if len(parts) == 1 else torch.cat(parts))

    def _block(
        self, images: torch.Tensor, ids: list[str], treatment: Treatment, maps: MapRows | None, epoch: int
    ) -> torch.Tensor:
        shape = tuple(images.shape[1:])
        self.filler.imputer.check(tuple(images.shape), self.strategy.unit)
        if treatment.kind == "random":
            removed = self._random(ids, shape, treatment.fraction, epoch)
        else:
            assert maps is not None
            removed = removed_at(
                self._ranks(Batch(images, torch.zeros(len(ids)), ids), treatment, maps), treatment.fraction
            )
        noise = self.filler.noise(ids, shape, self.repeat)
        key = (self.repeat, str(treatment.fraction))
        filled = self.filler.fill(images.to(self.filler.place), removed, noise, key=key, block=ids_hash(ids))[1]
        return filled.to(images.device)

    def _ranks(self, batch: Batch, treatment: Treatment, maps: MapRows) -> np.ndarray:
        values = block_values({maps.name: maps(batch.ids)}, batch, self.strategy)
        bad, _ = nonfinite_samples(values)
        if bad.any():
            named = [sample for sample, is_bad in zip(batch.ids, bad, strict=True) if is_bad]
            raise AttributionError(
                f"{maps.name}: maps with NaN or infinite values for {len(named)} samples, the first {named[0]!r}; "
                "mend the maps, or leave these samples out of the data"
            )
        array = values[maps.name]
        ranks, tied = ranks_without_ties(array, treatment.order, self.strategy.sign)
        if tied.any():
            ids = [sample for sample, is_tied in zip(batch.ids, tied, strict=True) if is_tied]
            draw = tie_order(self.strategy, self.filler.seed, ids, array.shape[1:], self.repeat)
            ranks[tied] = removal_ranks(array[tied], draw, treatment.order, self.strategy.sign)
        return ranks

    def _random(self, ids: Sequence[str], shape: tuple[int, ...], fraction: float, epoch: int) -> np.ndarray:
        """Draw masks by sample: the same for every share, so that they nest, and in fixed mode for every epoch."""
        units = shape[1:] if self.strategy.unit == "pixel" and len(shape) > 1 else shape
        purpose = f"random-masks/{self.repeat}/{epoch}"
        if self.strategy.random_masks == "bernoulli":
            fields = normal_fields(self.filler.seed, purpose, ids, units)
            return fields < scipy.stats.norm.ppf(fraction)
        ranks = permutations(self.filler.seed, purpose, ids, int(np.prod(units))).reshape(len(ids), *units)
        return removed_at(ranks, fraction)
