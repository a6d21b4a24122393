"""Degraded copies of a block of samples: rank, remove, fill, add noise; in a fixed order, share after share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import torch

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


def degraded(
    batch: Batch,
    values: Mapping[str, np.ndarray],
    strategy: Strategy,
    imputer: Imputer,
    *,
    block: str,
    mean: torch.Tensor | None,
    seed: int,
    repeats: int,
    device: torch.device,
) -> Iterator[Copies]:
    """Yield the copies of a block: for each repeat, method and order, at growing shares.

    The tie draw and the noise field of a sample are the same for every method, order and share, so that methods
    are compared on common random numbers and masks nest. Each share starts from the fill at the one before.

    Args:
        batch: the samples, in pixel units.
        values: a value per unit for each method, see :func:`block_values`.
        strategy: what to remove and at which shares.
        imputer: what fills the removed units.
        block: what the draws of a callable imputer are keyed by: the block, whether or not some of it was dropped.
        mean: training mean per channel, or None.
        seed: the seed of the run.
        repeats: how often ties and noise are drawn anew.
        device: where fills are computed; a callable imputer gets tensors and a generator on the CPU.
    """
    place = torch.device("cpu") if isinstance(imputer, FunctionImputer) else device
    images, ids = batch.images.to(place), batch.ids
    mean = None if mean is None else mean.to(place)
    units = int(np.prod(next(iter(values.values())).shape[1:]))
    for repeat in range(repeats):
        draw = tie_draw(seed, ids, units, repeat)
        noise = None
        if imputer.noise > 0:
            purpose = "imputation-noise" if repeat == 0 else f"imputation-noise/{repeat}"
            noise = torch.from_numpy(normal_fields(seed, purpose, ids, tuple(images.shape[1:]))).to(place)
        for m, array in enumerate(values.values()):
            for o, order in enumerate(strategy.orders):
                ranks = removal_ranks(array, draw, order, strategy.sign)
                filled = None
                for p, fraction in enumerate(strategy.fractions, start=1):
                    removed = torch.from_numpy(removed_at(ranks, fraction)).to(place)
                    generator = torch_generator(seed, "imputer", repeat, p, block)
                    filled = imputer.fill(images, removed, mean=mean, previous=filled, generator=generator)
                    copies = filled if noise is None else add_noise(filled, removed, noise, imputer.noise)
                    yield Copies(copies, m, o, p, repeat)
