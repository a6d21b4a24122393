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


def invariance(
    bench: Bench, found: Sequence[Contender], names: Sequence[str] = ("truth", "null white")
) -> list[Trial]:
    """M13: are the scores bit-equal?

    Args:
        bench: of which the first samples are taken.
        found: the strategies; what two of them ask alike is compared once.
        names: the maps, with ties and without.

    Returns:
        A trial for each. ``measured`` is the number of scores (of a map, order, share and image) that differ from
        those of the map as it is, over all the shares evaluated for its views; the note names what made them differ.
    """
    views = dict.fromkeys(view for one in found for view in one.views)
    by_view = {view: _differing(bench, view, names) for view in views}
    return [_trial(bench, one, [by_view[view] for view in one.views]) for one in found]


def _trial(bench: Bench, one: Contender, by_view: Sequence[dict[str, int]]) -> Trial:
    differing = {what: sum(each[what] for each in by_view) for what in by_view[0]}
    bad = [what for what, count in differing.items() if count]
    return Trial(
        "M13",
        one.name,
        float(sum(differing.values())),
        "0 scores that differ",
        not bad,
        f"differs with {', '.join(bad)}" if bad else f"{', '.join(differing)}: bit-equal",
        min(SAMPLES, bench.n),
        (bench.seed,),
    )


def _differing(bench: Bench, view: View, names: Sequence[str]) -> dict[str, int]:
    """Count the scores that each change moves."""
    rows = np.arange(min(SAMPLES, bench.n))
    maps = {name: _spaced(bench.maps[name][rows]) for name in names}
    base = _asked(bench, view, maps, rows)
    found = {}
    for what, function in FUNCTIONS.items():
        moved = _asked(bench, view, {name: function(values) for name, values in maps.items()}, rows)
        found[what] = _unequal(base, moved, ("top1", "probability", "logit"))
    for size in BATCHES:
        found[f"batches of {size}"] = _unequal(base, _asked(bench, view, maps, rows, size), ("top1",))
    order = numpy_generator(bench.seed, "selftest-order-of-images").permutation(len(rows))
    moved = _asked(bench, view, {name: values[order] for name, values in maps.items()}, rows[order])
    found["another order of images"] = _unequal(base, moved, ("top1",), np.argsort(order))
    return found


def _spaced(maps: np.ndarray) -> np.ndarray:
    """Return maps of the same order whose values lie in [0, 1], so far apart that no function here can join them."""
    flat = maps.reshape(len(maps), -1)
    ranks = [np.unique(row, return_inverse=True)[1].reshape(-1) for row in flat]
    return np.stack(ranks).reshape(maps.shape) / flat.shape[1]


def _asked(bench: Bench, view: View, maps: dict[str, np.ndarray], rows: np.ndarray, max_batch: int = 256) -> Result:
    samples = cut(bench.samples, rows)
    of = bench.asked[view]
    tuned = view.judge == "fine-tuned"
    strategy = Strategy(
        name="selftest",
        training="finetune" if tuned else "none",
        order="both" if len(of.orders) == 2 else of.orders[0],
        imputer=view.imputer,
        fractions=of.fractions,
        alpha=view.alpha,
        beta=view.beta,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)  # so few samples are meant
        return evaluate(
            bench.judges.model,
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
            judge=bench.judges.ask(view) if tuned else None,  # type: ignore[arg-type]
            audit="off",
        )


def _unequal(base: Result, other: Result, readouts: Sequence[str], rows: np.ndarray | None = None) -> int:
    """Count the scores that differ in any of the readouts."""
    differs = False
    for readout in readouts:
        moved = other.scores[readout]
        differs = differs | (base.scores[readout] != (moved if rows is None else moved[..., rows]))
    return int(np.sum(differs))
