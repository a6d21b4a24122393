"""Degradation ladders: maps made worse step by step, so that their order is known without knowing the truth.

*Permuted* (Zheng et al. 2025, arXiv 2410.02970): a share of the units of each map exchange their values. That changes
what a map knows, how scattered it is, and how well its masks tell the class, all at once. *Swapped*: a share of the
images get the map of another image. That changes what the maps know and nothing else about them: every map is still a
map of the same method.

Steps are nested: what is exchanged at one step stays so at the next, and an image's partner is always the same. So
neighbouring steps differ in what the next step adds and in nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.errors import InputError
from roadworthy.rng import numpy_generator, permutations

LEVELS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def permuted(maps: np.ndarray, share: float, *, seed: int, ids: Sequence[str]) -> np.ndarray:
    """Let a share of the units of each map exchange their values.

    Args:
        maps: (N, *units), one value per unit.
        share: of the units, in [0, 1].
        seed: decides which units, and who gets whose value.
        ids: N sample ids.

    Returns:
        An array of the same shape and dtype; each map keeps its values.

    Example:
        >>> maps = np.arange(8.0).reshape(1, 8)
        >>> moved = permuted(maps, 0.5, seed=0, ids=["a"])
        >>> int((moved != maps).sum()) <= 4, sorted(moved[0].tolist()) == maps[0].tolist()
        (True, True)
    """
    flat = maps.reshape(len(maps), -1)
    chosen = permutations(seed, "permuted-units", ids, flat.shape[1])[:, : round(share * flat.shape[1])]
    # the order in which the chosen units take over each other's values
    order = np.argsort(permutations(seed, "permuted-values", ids, flat.shape[1])[:, : chosen.shape[1]], axis=1)
    moved = flat.copy()
    values = np.take_along_axis(flat, chosen, axis=1)
    np.put_along_axis(moved, chosen, np.take_along_axis(values, order, axis=1), axis=1)
    return moved.reshape(maps.shape)


def swapped(maps: np.ndarray, share: float, *, seed: int) -> np.ndarray:
    """Give a share of the images the map of another image, their partner.

    Args:
        maps: (N, *units), N at least 2.
        share: of the images, in [0, 1].
        seed: decides which images, and their partners.

    Returns:
        An array of the same shape and dtype.

    Raises:
        InputError: fewer than two maps.

    Example:
        >>> swapped(np.array([[1], [2], [3]]), 1.0, seed=0).ravel().tolist() in ([2, 3, 1], [3, 1, 2])
        True
    """
    if len(maps) < 2:
        raise InputError(f"swapped: got {len(maps)} maps, expected at least 2 that can change places")
    generator = numpy_generator(seed, "swapped-images")
    circle = generator.permutation(len(maps))
    partner = np.empty(len(maps), dtype=np.int64)
    partner[circle] = np.roll(circle, 1)  # one round through all, so that nobody is their own partner
    chosen = generator.permutation(len(maps))[: round(share * len(maps))]
    moved = maps.copy()
    moved[chosen] = maps[partner[chosen]]
    return moved


def ladder(maps: np.ndarray, kind: str, *, seed: int, ids: Sequence[str], name: str = "") -> dict[str, np.ndarray]:
    """Return the steps of a ladder, best first, named ``NAMEpermuted 0.2`` and so on; step 0 is the maps themselves.

    Args:
        maps: (N, *units).
        kind: ``"permuted"`` or ``"swapped"``.
        seed: of the draws.
        ids: N sample ids.
        name: put in front of each step's name.
    """
    if kind not in ("permuted", "swapped"):
        raise InputError(f"ladder: got {kind!r}, expected 'permuted' or 'swapped'")
    return {
        f"{name}{kind} {share:g}": permuted(maps, share, seed=seed, ids=ids)
        if kind == "permuted"
        else swapped(maps, share, seed=seed)
        for share in LEVELS
    }
