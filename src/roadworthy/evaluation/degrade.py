"""Degraded copies of a block of samples: rank, remove, fill, add noise; in a fixed order, share after share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.special import ndtr

from roadworthy.errors import AttributionError
from roadworthy.evaluation.strategy import Strategy
from roadworthy.imputation import FunctionImputer, Imputer, add_noise
from roadworthy.records import Batch
from roadworthy.removal import nonfinite_rows, removal_ranks, removed_at, tie_draw, unit_values
from roadworthy.rng import normal_fields, torch_generator


class Copies(NamedTuple):
    """Degraded copies of one block for one method, order, share and repeat (given as positions)."""

    images: torch.Tensor
    method: int
    order: int
    fraction: int
    repeat: int


def block_values(maps: Mapping[str, np.ndarray], batch: Batch, strategy: Strategy) -> dict[str, np.ndarray]:
    """Reduce each method's maps to one value per unit, and hold their number against the block.

    Raises:
        AttributionError: a wrong shape or a wrong number of maps.
    """
    shape = tuple(batch.images.shape[1:])
    found = {}
    for name, array in maps.items():
        if len(array) != len(batch.ids):
            raise AttributionError(f"{name}: {len(array)} maps for {len(batch.ids)} samples")
        found[name] = unit_values(array, shape, unit=strategy.unit, reduction=strategy.reduction, name=name)
    return found


def nonfinite_samples(values: Mapping[str, np.ndarray]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return which rows of a block have a map that is not finite, over all methods and for each."""
    by_method = {name: nonfinite_rows(array) for name, array in values.items()}
    return np.logical_or.reduce(list(by_method.values())), by_method


@dataclass(frozen=True)
class Filler:
    """Fills what is removed, and adds the imputer's noise.

    Attributes:
        imputer: what fills.
        mean: training mean per channel, or None.
        seed: the seed of the run.
        device: where fills are computed; a callable imputer gets tensors and a generator on the CPU.
    """

    imputer: Imputer
    mean: torch.Tensor | None
    seed: int
    device: torch.device

    @property
    def place(self) -> torch.device:
        """Where images and masks must lie."""
        return torch.device("cpu") if isinstance(self.imputer, FunctionImputer) else self.device

    def noise(self, ids: Sequence[str], shape: tuple[int, ...], repeat: int) -> torch.Tensor | None:
        """Return the noise field of each sample for a repeat, the same for every method, order and share."""
        if self.imputer.noise <= 0:
            return None
        purpose = "imputation-noise" if repeat == 0 else f"imputation-noise/{repeat}"
        return torch.from_numpy(normal_fields(self.seed, purpose, ids, shape)).to(self.place)

    def fill(
        self,
        images: torch.Tensor,
        removed: np.ndarray,
        noise: torch.Tensor | None,
        *,
        key: tuple[int | str, ...],
        block: str = "",
        previous: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Fill images that lie at :attr:`place`.

        Args:
            images: (N, C, ...) in pixel units.
            removed: bool, True = removed.
            noise: see :meth:`noise`.
            key: what the draws of an imputer are keyed by: a callable's by ``block`` too.
            block: the images of this batch.
            previous: the fill at a smaller share, to start from.

        Returns:
            The fill without noise, and with it.
        """
        mask = torch.from_numpy(removed).to(self.place)
        keys = key if self.imputer.per_image else (*key, block)
        generator = torch_generator(self.seed, "imputer", *keys)
        mean = None if self.mean is None else self.mean.to(self.place)
        filled = self.imputer.fill(images, mask, mean=mean, previous=previous, generator=generator)
        return filled, filled if noise is None else add_noise(filled, mask, noise, self.imputer.noise)


def tie_order(strategy: Strategy, seed: int, ids: Sequence[str], shape: tuple[int, ...], repeat: int) -> np.ndarray:
    """Return the order in which equal values are taken: int64 (N, units).

    Args:
        strategy: ``ties``.
        seed: the seed of the run.
        ids: sample ids.
        shape: of one sample's units, (H, W) or (C, H, W).
        repeat: which repeat.
    """
    units = int(np.prod(shape))
    if strategy.ties == "random":
        return tie_draw(seed, ids, units, repeat)
    places = np.arange(units).reshape(shape)
    first = np.moveaxis(places, 0, -1) if len(shape) == 3 else places
    return np.broadcast_to(first.reshape(-1), (len(ids), units))


def thinning(strategy: Strategy, seed: int, ids: Sequence[str], shape: tuple[int, ...], repeat: int) -> np.ndarray:
    """Draw a number in (0, 1) for each unit, the same for every method, order and share: float64 (N, *units).

    A unit that the order takes at share p is removed if its number is below the strategy's probability at p.
    """
    return np.asarray(ndtr(normal_fields(seed, f"thinning/{repeat}", ids, shape).astype(np.float64)))


def degraded(
    batch: Batch,
    values: Mapping[str, np.ndarray],
    strategy: Strategy,
    filler: Filler,
    *,
    block: str,
    repeats: int,
) -> Iterator[Copies]:
    """Yield the copies of a block: for each repeat, method and order, at growing shares.

    The tie draw and the noise field of a sample are the same for every method, order and share, so that methods
    are compared on common random numbers and masks nest. Each share starts from the fill at the one before.

    Args:
        batch: the samples, in pixel units.
        values: a value per unit for each method, see :func:`block_values`.
        strategy: what to remove and at which shares.
        filler: what fills the removed units.
        block: what the draws of a callable imputer are keyed by: the block, whether or not some of it was dropped.
        repeats: how often ties and noise are drawn anew.
    """
    images, ids = batch.images.to(filler.place), batch.ids
    shape = next(iter(values.values())).shape[1:]
    for repeat in range(repeats):
        draw = tie_order(strategy, filler.seed, ids, shape, repeat)
        noise = filler.noise(ids, tuple(images.shape[1:]), repeat)
        chances = None if strategy.removes_all else thinning(strategy, filler.seed, ids, shape, repeat)
        for m, array in enumerate(values.values()):
            for o, order in enumerate(strategy.orders):
                ranks = removal_ranks(array, draw, order, strategy.sign)
                filled = None
                for p, fraction in enumerate(strategy.fractions, start=1):
                    removed = removed_at(ranks, fraction)
                    if chances is not None:  # such masks do not nest: there is no fill to start from
                        removed, filled = removed & (chances < strategy.removal_probability(fraction)), None
                    filled, copies = filler.fill(
                        images, removed, noise, key=(repeat, p), block=block, previous=filled
                    )
                    yield Copies(copies, m, o, p, repeat)
