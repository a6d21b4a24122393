"""Controls: maps that know nothing of the model, or the opposite of what another method says."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch
from scipy import ndimage

from roadworthy.attribution.base import Block, Family, Job, Kind, methods
from roadworthy.rng import normal_fields

_ALL: frozenset[Kind] = frozenset(("images", "series", "tables", "tokens"))


def _positions(job: Job) -> tuple[int, ...]:
    """Shape of a sample without its channels."""
    shape = tuple(job.images.shape[1:])
    return shape[1:] if job.kind in ("images", "series") else shape


def random(job: Job, members: Collection[str]) -> Block:
    """Compute ``random``: standard normal values drawn from each sample's own stream."""
    return Block({"random": normal_fields(job.seed, "random-attribution", job.ids, _positions(job))})


def constant(job: Job, members: Collection[str]) -> Block:
    """Compute ``constant``: zero everywhere, so that only the tie-break orders the units."""
    return Block({"constant": np.zeros((len(job.ids), *_positions(job)), dtype=np.float32)})


def center(job: Job, members: Collection[str]) -> Block:
    """Compute ``center``: minus the distance to the middle, in pixels."""
    sides = _positions(job)
    offsets = np.meshgrid(*[np.arange(side) - (side - 1) / 2 for side in sides], indexing="ij")
    field = -np.sqrt(sum(offset**2 for offset in offsets)).astype(np.float32)
    return Block({"center": np.broadcast_to(field, (len(job.ids), *sides))})


def sobel(job: Job, members: Collection[str]) -> Block:
    """Compute ``sobel``: magnitude of the Sobel gradient of the channel mean, borders mirrored."""
    return Block({"sobel": sobel_magnitude(job.images.mean(dim=1).cpu())})


def sobel_magnitude(grey: torch.Tensor) -> np.ndarray:
    """Return the gradient magnitude of images (n, H, W) by Sobel's kernels, image by image."""
    values = grey.numpy().astype(np.float64)
    # not ndimage.sobel: it would smooth along the axis of samples too
    rows, columns = (
        ndimage.correlate1d(ndimage.correlate1d(values, [-1, 0, 1], axis=along), [1, 2, 1], axis=across)
        for along, across in ((1, 2), (2, 1))
    )
    return np.hypot(rows, columns).astype(np.float32)


methods.add("random", Family("random", random, _ALL), "control: random values, seeded per sample")
methods.add("constant", Family("constant", constant, _ALL), "control: the same value everywhere")
methods.add(
    "center",
    Family(
        "center", center, frozenset(("images", "series")), "its features have no middle; use 'random' or 'constant'"
    ),
    "control: closeness to the middle",
)
methods.add(
    "sobel",
    Family("sobel", sobel, frozenset(("images",)), "edges are of images; use 'random' or 'constant' as the control"),
    "control: edges, by Sobel's gradient magnitude",
)
