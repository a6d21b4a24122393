"""Maps whose quality is known: from the truth down to its inverse, and the traps between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy import ndimage

from roadworthy.attribution import Settings, attribute
from roadworthy.attribution.controls import sobel_magnitude
from roadworthy.evaluation.selftest.ladders import ladder
from roadworthy.rng import normal_fields

BLURS = (1, 2, 4)
BLOB = 3.0  # width in pixels of the smooth map without information
SPREAD = (0.5, 1.0, 2.0)  # of the noise on noisy truths, in units of the truth's own step
UNORDERED = ("constant", "sparse")  # planted maps that say nothing of most pixels, or of all
KEPT = 0.06  # of the values of a sparse map that are not 0
NULLS = ("white", "blob")  # kinds of maps without information; a panel's are named "white 0.1" and so on
_SETTINGS = Settings(ig_steps=16, samples=6)
REAL = ("grad", "ig", "gradcam", "occlusion")


def white(seed: int, ids: Sequence[str], shape: tuple[int, ...], purpose: str = "null") -> np.ndarray:
    """Return maps without information: independent normal values, float32 (N, *shape)."""
    return normal_fields(seed, f"selftest-white/{purpose}", ids, shape)


def blobs(seed: int, ids: Sequence[str], shape: tuple[int, ...], purpose: str = "null") -> np.ndarray:
    """Return maps without information that are smooth: normal values blurred by 3 pixels, float32 (N, *shape)."""
    return blurred(normal_fields(seed, f"selftest-blobs/{purpose}", ids, shape), BLOB)


def blurred(maps: np.ndarray, width: float) -> np.ndarray:
    """Blur each map by a Gaussian of this sd in pixels; edges are mirrored."""
    axes = tuple(range(1, maps.ndim))
    return np.asarray(ndimage.gaussian_filter(maps.astype(np.float32), width, axes=axes, mode="nearest"))


def sparse(maps: np.ndarray, kept: float = KEPT) -> np.ndarray:
    """Return maps as a rectifier leaves them: the largest values, and zeros for all the others.

    Example:
        >>> sparse(np.array([[3.0, 1.0, 2.0, 0.0]]), 0.25).tolist()
        [[3.0, 0.0, 0.0, 0.0]]
    """
    flat = maps.reshape(len(maps), -1)
    count = int(kept * flat.shape[1])
    least = np.partition(flat, -count, axis=1)[:, [-count]]
    return np.where(flat >= least, flat, 0).reshape(maps.shape)


def max_filtered(maps: np.ndarray, side: int = 3) -> np.ndarray:
    """Replace each value by the largest within a square around it."""
    return np.asarray(ndimage.maximum_filter(maps, (1, *[side] * (maps.ndim - 1)), mode="nearest"))


def pooled(maps: np.ndarray, cell: int, offset: int) -> np.ndarray:
    """Average maps (N, H, W) over a grid of square cells that is moved by ``offset`` pixels both ways."""
    row, column = ((np.arange(side) + cell - offset) // cell for side in maps.shape[1:])
    cells = row[:, None] * (column.max() + 1) + column
    flat = maps.reshape(len(maps), -1).astype(np.float64)
    inside = np.eye(cells.max() + 1)[cells.ravel()]
    means = (flat @ inside) / np.maximum(inside.sum(axis=0), 1)
    return means[:, cells.ravel()].reshape(maps.shape).astype(np.float32)


def quadrants(classes: np.ndarray, side: int) -> np.ndarray:
    """Return maps that write the class down instead of explaining it: one of four quadrants is marked.

    Args:
        classes: int (N,); classes from 4 on go round.
        side: height and width.
    """
    half = side // 2
    number = (np.arange(side) // half)[:, None].clip(0, 1) * 2 + (np.arange(side) // half)[None, :].clip(0, 1)
    return (number[None] == (classes % 4)[:, None, None]).astype(np.float32)


def planted_maps(
    images: torch.Tensor,
    relevant: np.ndarray,
    decoy: np.ndarray,
    predicted: np.ndarray,
    *,
    seed: int,
    ids: Sequence[str],
) -> dict[str, np.ndarray]:
    """Return the built maps of the planted bench: 26, and two that say nothing of most pixels or of all.

    Args:
        images: (N, C, H, W), for the edges.
        relevant: bool (N, H, W), where the class pattern is.
        decoy: bool (N, H, W), where the class-free pattern is.
        predicted: int (N,), for the map that writes the class down.
        seed: of all draws.
        ids: N sample ids.

    Returns:
        name -> float32 (N, H, W). ``truth``; its permuted and swapped ladders; three blurs; ``coarse`` (pooled over a
        grid that does not meet the cells); noisy truths and a widened one; ``edge``; ``decoy``; two maps without
        information, ``null white`` and ``null blob``; ``inverse``; ``leak``; ``half empty`` (the truth in half of the
        images, zeros in the others); ``constant``; ``sparse`` (a map without information, 94 % zeros).
    """
    truth = relevant.astype(np.float32)
    shape = truth.shape[1:]
    cell = shape[0] // 4
    found: dict[str, np.ndarray] = {"truth": truth}
    for kind in ("permuted", "swapped"):
        steps = ladder(truth, kind, seed=seed, ids=ids)
        found |= dict(list(steps.items())[1:])
    found |= {f"blur {width}": blurred(truth, width) for width in BLURS}
    found["coarse"] = pooled(truth, cell, cell // 3)
    for sd in SPREAD:
        found[f"noisy {sd:g}"] = truth + np.float32(sd) * white(seed, ids, shape, f"noisy {sd:g}")
    found["widened"] = max_filtered(truth)
    found["edge"] = sobel_magnitude(images.mean(dim=1).cpu())
    found["decoy"] = decoy.astype(np.float32)
    found["null white"] = white(seed, ids, shape)
    found["null blob"] = blobs(seed, ids, shape)
    found["inverse"] = -truth
    found["leak"] = quadrants(predicted, shape[0])
    found["half empty"] = truth * (np.arange(len(truth)) % 8 < 4)[:, None, None]
    found["constant"] = np.zeros_like(truth)
    found["sparse"] = sparse(np.abs(white(seed, ids, shape, "sparse")))
    return found


def real_maps(
    model: Callable[..., Any],
    images: torch.Tensor,
    targets: torch.Tensor,
    *,
    seed: int,
    ids: Sequence[str],
    mean: Sequence[float],
    methods: Sequence[str] = REAL,
) -> dict[str, np.ndarray]:
    """Return maps of real methods, channels summed: name -> float32 (N, H, W).

    Integrated gradients take 16 steps and ensembles 6 copies: a ladder needs a map that beats random, not the best
    one, and the usual numbers would take longer than all the rest.
    """
    maps = attribute(
        model, images, list(methods), target=targets, seed=seed, ids=list(ids), mean=mean, settings=_SETTINGS
    )
    return {name: values if values.ndim == 3 else values.sum(axis=1) for name, values in maps.items()}
