"""M14: a map of the wrong class. Two class patterns in one image; a map of the other one is no explanation of this.

Made here from the planted bench: in each image the class-free pattern's cell is overwritten by the pattern of another
class. What the model then answers is the class to explain; the truth is the cell of that class, and the map of the
wrong class is the other cell.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from roadworthy.data.planted import patterns
from roadworthy.evaluation.selftest.bench import Bench, answers
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.maps import white
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.statistics import paired_bootstrap

_AMPLITUDE = 0.8 / 6  # of a class pattern, in pixel values


def two_patterns(bench: Bench) -> Bench:
    """Return a bench of images with the patterns of two classes, and maps of either.

    Args:
        bench: the planted bench, grey; it holds the cells of both patterns in its maps ``truth`` and ``decoy``.

    Returns:
        The samples for which the model answers one of the two classes, labelled with its answer; maps ``own``,
        ``other`` and ``random``.
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
    return bench.with_maps(maps, samples=samples, targets=answer, relevant=own > 0.5)


def wrong_target(benches: Sequence[Bench], one: Contender) -> Trial:
    """M14: does the map of the other class score below that of the class explained, and not above a random one?

    Args:
        benches: a bench per seed, from :func:`two_patterns`.
        one: the strategy.

    Returns:
        The score of the wrong map as a share of that of the right one, each less that of the random map.
    """
    scores = np.concatenate([bench.scores(one) for bench in benches], axis=1)
    own, other, random = scores.mean(axis=1)
    compared = paired_bootstrap(scores, draws=1000, seed=benches[0].seed)
    below = compared.difference_high[1, 0] < 0
    above_random = compared.difference_low[1, 2] > 0
    return Trial(
        "M14",
        one.name,
        float((other - random) / (own - random)) if own > random else float("nan"),
        "below the right map, not above random",
        bool(below and not above_random),
        "" if below else "the map of the other class is not told from the right one",
        min(bench.n for bench in benches),
        tuple(bench.seed for bench in benches),
    )
