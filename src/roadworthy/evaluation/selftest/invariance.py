"""M13: nothing but the ranks of a map counts, and nothing of how the work is cut up.

Scores of a monotone function of a map (exp, ten times, plus five), in batches of 1, 7 and 64, and of the same images
in another order are compared bit by bit. Probabilities are compared as well where only the map changes; between batch
sizes they may differ by the rounding of the network's own sums, hits may not.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence

import numpy as np
import torch

from roadworthy.errors import RoadworthyWarning
from roadworthy.evaluation.flow import evaluate
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.selftest.bench import Bench, cut
from roadworthy.evaluation.selftest.contender import Contender, View
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.strategy import Strategy
from roadworthy.rng import numpy_generator

FUNCTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "exp": np.exp,
    "x10": lambda values: 10 * values,
    "+5": lambda values: values + 5,
}
BATCHES = (1, 7, 64)
SAMPLES = 24


def invariance(benches: Sequence[Bench], one: Contender, names: Sequence[str] = ("truth", "null white")) -> Trial:
    """M13: are the scores bit-equal?

    Args:
        benches: a bench per seed; of each the first samples are taken.
        one: the strategy.
        names: the maps, with ties and without.

    Returns:
        ``measured`` is the number of scores (of a map, order, share and image) that differ from those of the map as
        it is; the note names what made them differ.
    """
    differing: dict[str, int] = {}
    for bench in benches:
        for view in one.views:
            for what, count in _differing(bench, one, view, names).items():
                differing[what] = differing.get(what, 0) + count
    bad = [what for what, count in differing.items() if count]
    return Trial(
        "M13",
        one.name,
        float(sum(differing.values())),
        "0 scores that differ",
        not bad,
        f"differs with {', '.join(bad)}" if bad else f"{', '.join(differing)}: bit-equal",
        min(SAMPLES, *(bench.n for bench in benches)),
        tuple(bench.seed for bench in benches),
    )


def _differing(bench: Bench, one: Contender, view: View, names: Sequence[str]) -> dict[str, int]:
    """Count the scores that each change moves."""
    rows = np.arange(min(SAMPLES, bench.n))
    maps = {name: _spaced(bench.maps[name][rows]) for name in names}
    base = _asked(bench, one, view, maps, rows)
    found = {}
    for what, function in FUNCTIONS.items():
        moved = _asked(bench, one, view, {name: function(values) for name, values in maps.items()}, rows)
        found[what] = _unequal(base, moved, ("top1", "probability", "logit"))
    for size in BATCHES:
        found[f"batches of {size}"] = _unequal(base, _asked(bench, one, view, maps, rows, size), ("top1",))
    order = numpy_generator(bench.seed, "selftest-order-of-images").permutation(len(rows))
    moved = _asked(bench, one, view, {name: values[order] for name, values in maps.items()}, rows[order])
    found["another order of images"] = _unequal(base, moved, ("top1",), np.argsort(order))
    return found


def _spaced(maps: np.ndarray) -> np.ndarray:
    """Return maps of the same order whose values lie in [0, 1], so far apart that no function here can join them."""
    flat = maps.reshape(len(maps), -1)
    ranks = [np.unique(row, return_inverse=True)[1].reshape(-1) for row in flat]
    return np.stack(ranks).reshape(maps.shape) / flat.shape[1]


def _asked(
    bench: Bench, one: Contender, view: View, maps: dict[str, np.ndarray], rows: np.ndarray, max_batch: int = 256
) -> Result:
    samples = cut(bench.samples, rows)
    strategy = Strategy(
        name="selftest", imputer=view.imputer, fractions=one.fractions, alpha=view.alpha, beta=view.beta
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)  # so few samples are meant
        return evaluate(
            bench.judges.ask(view),
            samples.images,
            samples.labels,
            maps,
            strategy=strategy,
            target=bench.targets[torch.from_numpy(rows)],
            mean=bench.judges.mean,
            seed=bench.seed,
            ids=samples.ids,
            max_batch=max_batch,
            intact_check="warn",
            sheet=0,
        )


def _unequal(base: Result, other: Result, readouts: Sequence[str], rows: np.ndarray | None = None) -> int:
    """Count the scores that differ in any of the readouts."""
    differs = False
    for readout in readouts:
        moved = other.scores[readout]
        differs = differs | (base.scores[readout] != (moved if rows is None else moved[..., rows]))
    return int(np.sum(differs))
