"""M14: a map of the wrong class. Two class patterns in one image; a map of the other one is no explanation of this.

Made here from the planted bench: in each image the class-free pattern's cell is overwritten by the pattern of another
class. What the model then answers is the class to explain; the truth is the cell of that class, and the map of the
wrong class is the other cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from roadworthy.data.planted import patterns
from roadworthy.evaluation.selftest.bench import Bench, answers
from roadworthy.evaluation.selftest.contender import Asked, Contender
from roadworthy.evaluation.selftest.maps import white
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.statistics import paired_bootstrap

_AMPLITUDE = 0.8 / 6  # of a class pattern, in pixel values


def two_patterns(bench: Bench) -> tuple[Bench, Bench]:
    """Return benches of images with the patterns of two classes, and maps of either.

    Args:
        bench: the planted bench, grey; it holds the cells of both patterns in its maps ``truth`` and ``decoy``.

    Returns:
        The samples for which the model answers one of the two classes, labelled with its answer, with the maps
        ``own``, ``other`` and ``random``; and the same samples with the other class as the one whose probability is
        read, with the latter two maps.
    """
    images = bench.samples.images.clone()
    first, cells = bench.samples.labels.numpy(), {name: bench.maps[name] > 0.5 for name in ("truth", "decoy")}
    second = (first + 1 + np.arange(len(first)) // 4 % 3) % 4
    of_class, class_free = patterns(images.shape[-1] // 4)
    for row in range(len(images)):
        # the class-free pattern is taken away (its amplitude is 1.2 where the class patterns' is 0.8) and replaced
        change = _AMPLITUDE * (of_class[second[row]] - 1.5 * class_free)
        images[row, 0][torch.from_numpy(cells["decoy"][row])] += torch.from_numpy(change.ravel()).float()
    images = images.clamp(0, 1)
    predicted = answers(bench.judges.model, images).numpy()
    rows = np.flatnonzero((predicted == first) | (predicted == second))
    is_first = (predicted == first)[rows, None, None]
    own = np.where(is_first, cells["truth"][rows], cells["decoy"][rows]).astype(np.float32)
    other = np.where(is_first, cells["decoy"][rows], cells["truth"][rows]).astype(np.float32)
    ids = [bench.samples.ids[int(row)] for row in rows]
    answer = torch.from_numpy(predicted[rows])
    samples = bench.samples._replace(images=images[rows], labels=answer, ids=ids)
    maps = {"own": own, "other": other, "random": white(bench.seed, ids, own.shape[1:], "target")}
    of_own = bench.with_maps(maps, samples=samples, targets=answer, relevant=own > 0.5)
    turned = {name: maps[name] for name in ("other", "random")}
    asked = {view: of.also(Asked(of.fractions, ("morf",))) for view, of in bench.asked.items()}
    other_class = torch.from_numpy(np.where(predicted == first, second, first)[rows])
    return of_own, of_own.with_maps(turned, targets=other_class, relevant=other > 0.5, asked=asked)


def wrong_target(benches: Sequence[tuple[Bench, Bench]], one: Contender) -> Trial:
    """M14: is the map of the other class no explanation of this one, and one of the other?

    Args:
        benches: two benches per seed, from :func:`two_patterns`.
        one: the strategy.

    Returns:
        The score of the wrong map as a share of that of the right one, each less that of the random map. It passes if
        the map of the other class is told below the right one and not above a random one; and if with the probability
        of the other class read out it is told above random by what the most relevant removed first costs.
    """
    scores = np.concatenate([own.scores(one) for own, _ in benches], axis=1)
    own, other, random = scores.mean(axis=1)
    compared = paired_bootstrap(scores, draws=1000, seed=benches[0][0].seed)
    below = compared.difference_high[1, 0] < 0
    above_random = compared.difference_low[1, 2] > 0
    turned = _of_the_other(one)
    its = np.concatenate([of.scores(turned, ["other", "random"]) for _, of in benches], axis=1)
    told = paired_bootstrap(its, draws=1000, seed=benches[0][0].seed)
    lead, low = float(told.difference[0, 1]), float(told.difference_low[0, 1])
    note = [] if below else ["the map of the other class is not told from the right one"]
    note += ["it is above random"] if above_random else []
    return Trial(
        "M14",
        one.name,
        float((other - random) / (own - random)) if own > random else float("nan"),
        "below the right map, not above random, and for the other class above random",
        bool(below and not above_random and low > 0),
        "; ".join([*note, f"for the other class {lead:+.3f} ahead of random, lower end {low:+.3f}"]),
        min(bench.n for bench, _ in benches),
        tuple(bench.seed for bench, _ in benches),
    )


def _of_the_other(one: Contender) -> Contender:
    """Return the strategy in MoRF order by a readout of the class whose map it is; IDSDS as it is."""
    if one.by_patches:
        return one
    # hits are of the label, whatever class is read out
    return replace(one, orders=("morf",), readout="probability" if one.readout.startswith("top") else one.readout)
