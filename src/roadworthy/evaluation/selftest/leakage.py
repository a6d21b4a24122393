"""M9: do masks alone tell the class, where the map writes it down, and not where it does not?

A classifier sees which fifth of the pixels a map removes and nothing else, and has to tell the class that the model
predicts. What it reaches by guessing is measured by permuting the classes. A map that is found may still be right
(what it shows has a shape, too): M9 is a warning about retraining, and what stops a map is the gate, M10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy.evaluation.audit.mask_only import mask_only
from roadworthy.evaluation.selftest.bench import Bench
from roadworthy.evaluation.selftest.maps import NULLS
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.removal import removal_ranks, removed_at, tie_draw
from roadworthy.rng import numpy_generator

SHARE = 0.2
AHEAD = 0.10
"""Accuracy above that of permuted classes from which on masks are said to tell the class."""
_PERMUTED = 19  # the least that can hold a share of errors of 1 in 20
LEAKS, CLEAN = ("leak",), ("truth", "blur", *(f"null {kind}" for kind in NULLS))


@dataclass(frozen=True)
class Told:
    """How often the class is told from a map's masks.

    Attributes:
        accuracy: share of classes told, cross-fitted.
        guessed: the same with permuted classes, one for each permutation.
    """

    accuracy: float
    guessed: tuple[float, ...]

    @property
    def ahead(self) -> float:
        """How far the accuracy is above the mean of the permuted classes."""
        return self.accuracy - float(np.mean(self.guessed))

    @property
    def flagged(self) -> bool:
        """Whether the masks tell the class: more often than any permutation, and clearly so."""
        return self.accuracy > max(self.guessed) and self.ahead > AHEAD


def told_by_masks(
    maps: np.ndarray, classes: np.ndarray, *, seed: int, ids: Sequence[str], share: float = SHARE
) -> Told:
    """Tell the class from which units are removed first.

    Args:
        maps: (N, *units), one value per unit.
        classes: int (N,), the class that each map is of.
        seed: of the draw among equal values, of the folds and of the permutations.
        ids: N sample ids.
        share: of the units removed.

    Example:
        >>> classes = np.arange(80) % 2
        >>> maps = np.zeros((80, 4, 4))
        >>> maps[classes == 1, 0] = maps[classes == 0, 3] = 1
        >>> told = told_by_masks(maps, classes, seed=0, ids=[str(row) for row in range(80)])
        >>> told.accuracy, told.flagged
        (1.0, True)
    """
    draw = tie_draw(seed, ids, int(np.prod(maps.shape[1:])))
    masks = removed_at(removal_ranks(maps, draw, "morf"), share)
    generator = numpy_generator(seed, "selftest-permuted-classes")
    permuted = [generator.permutation(classes) for _ in range(_PERMUTED)]
    accuracy, *guessed = (mask_only(masks, each, seed=seed).accuracy for each in (classes, *permuted))
    return Told(accuracy, tuple(guessed))


def mask_leaks(benches: Sequence[Bench]) -> Trial:
    """M9: is the map that writes the class down found, and are truth, blurs and random maps not?

    Args:
        benches: a bench per seed, with the built maps.

    Returns:
        ``measured`` is the lowest accuracy for the leak. Other maps that tell the class are named, and fail nothing.
    """
    lowest, missed = 1.0, list[str]()
    alarms, others = set[str](), set[str]()
    for bench in benches:
        for name, maps in bench.maps.items():
            told = told_by_masks(maps, bench.targets.numpy(), seed=bench.seed, ids=bench.samples.ids)
            if name in LEAKS:
                lowest = min(lowest, told.accuracy)
                missed += [] if told.flagged else [name]
            elif told.flagged:
                (alarms if name.startswith(CLEAN) else others).add(name)
    named = {"not found": missed, "false alarms": sorted(alarms), "other maps that tell the class": sorted(others)}
    return Trial(
        "M9",
        "mask-only classifier",
        lowest,
        f"the leak found at {SHARE:.0%} removed, {AHEAD:g} above permuted classes; truth, blurs and nulls not",
        not missed and not alarms,
        "; ".join(f"{what}: {', '.join(names) or 'none'}" for what, names in named.items()),
        benches[0].n,
        tuple(bench.seed for bench in benches),
    )
