"""Strategies that train a network for each explanation (ROAR, KAR, both together), on the planted bench.

One evaluation in both orders serves all three. It takes few maps and two shares, since each point is a training. The
leak gate runs first, as in the product: maps that it withholds have no KAR score, so they are left out of what is
ranked by one.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roadworthy.data import load_data
from roadworthy.errors import RoadworthyWarning
from roadworthy.evaluation.audit.gate_rule import gate_verdict
from roadworthy.evaluation.flow import evaluate
from roadworthy.evaluation.result import READOUTS, Result
from roadworthy.evaluation.selftest import trials
from roadworthy.evaluation.selftest.bench import Bench, Judges, answers
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.leakage import CLEAN, LEAKS
from roadworthy.evaluation.selftest.maps import planted_maps
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.strategy import Strategy
from roadworthy.model import load_model
from roadworthy.records import Split
from roadworthy.types import Progress

FRACTIONS = (0.3, 0.7)
MAPS = (
    "truth",
    *(f"permuted {share:g}" for share in (0.2, 0.4, 0.6, 0.8, 1.0)),
    *(f"blur {width}" for width in (1, 2, 4)),
    "coarse",
    "edge",
    "decoy",
    "null white",
    "null blob",
    "inverse",
    "leak",
)
RECIPE = "small"


def retrained(
    found: Sequence[Contender],
    seed: int,
    *,
    maps: Sequence[str] = MAPS,
    train: int = 2400,
    test: int = 300,
    fractions: tuple[float, ...] = FRACTIONS,
    recipe: str = RECIPE,
    cache: str | None = None,
    progress: Progress | None = None,
) -> list[Trial]:
    """Hold retrained strategies against built maps: M1, the permuted ladder, M4, M5, M8, and the gate (M10).

    Args:
        found: strategies with training ``"retrain"``, each of whose shares are replaced by ``fractions``.
        seed: of images, maps and trainings.
        maps: names of built maps.
        train: training images.
        test: test images.
        fractions: shares removed.
        recipe: how networks are trained.
        cache: folder of trained models, see :func:`roadworthy.load_model`.
        progress: called with the number of samples just trained on.

    Returns:
        The trials of each strategy, a single training of each point behind all of them.
    """
    data = load_data(f"planted:n={train},test={test}", seed=seed)
    model = load_model("small-cnn", data, seed=seed, cache=cache)
    both = [_built(split, answers(model, split.images).numpy(), seed) for split in (data.train, data.test)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)
        result = evaluate(
            model,
            data.test,
            None,
            {name: (both[0][name], both[1][name]) for name in maps},
            strategy=Strategy.of("roar", order="both", fractions=fractions),
            train=data.train,
            recipe=recipe,
            mean=data.mean,
            seed=seed,
            progress=progress,
        )
    samples = next(data.test.batches(test))
    bench = Bench(
        "planted",
        seed,
        samples,
        samples.labels,
        Judges(model, None, mean=data.mean, seed=seed),
        {name: both[1][name] for name in maps},
        {},
        data.relevant,
    )
    withheld = {row["method"] for row in gate_verdict(result.audit["gate"]) if row["verdict"] == "withheld"}
    return [trial for one in found for trial in _trials(bench, one, result, withheld)]


def _built(split: Split, predicted: np.ndarray, seed: int) -> dict[str, np.ndarray]:
    source, rows = split.source, split.indices
    relevant, decoy = source.relevant()[rows], source.decoy()[rows]  # type: ignore[attr-defined]
    return planted_maps(split.images, relevant, decoy, predicted, seed=seed, ids=split.ids)


def _trials(bench: Bench, one: Contender, result: Result, withheld: set[str]) -> list[Trial]:
    scores = _scores(one, result)
    whole = bench.with_scores(one, scores)
    gated = "lerf" in one.orders
    kept = [name for name in bench.maps if not (gated and name in withheld)]
    rows = [list(bench.maps).index(name) for name in kept]
    ranked = bench.with_maps({name: bench.maps[name] for name in kept}).with_scores(one, scores[rows])
    found = [*trials.suite([ranked], one), trials.ladder_order([whole], one, "permuted")]
    found += [test([whole], one) for test in (trials.inverse, trials.smoothing, trials.decoy)]
    return [*found, _gate(bench, one, withheld)] if gated else found


def _scores(one: Contender, result: Result) -> np.ndarray:
    orders = [result.orders.index(order) for order in one.orders]
    readouts = {name: result.scores[name][:, orders] for name in READOUTS}
    own = replace(result, orders=list(one.orders), scores=replace(result.scores, **readouts))
    scores, _, higher = own.method_scores(one.readout)
    return scores if higher else -scores


def _gate(bench: Bench, one: Contender, withheld: set[str]) -> Trial:
    """M10: does the gate stop the leak before this strategy ranks it, and let truth, blurs and nulls pass?"""
    missed = [name for name in LEAKS if name in bench.maps and name not in withheld]
    alarms = sorted(name for name in withheld if name.startswith(CLEAN))
    others = sorted(name for name in withheld if not name.startswith((*CLEAN, *LEAKS)))
    named = {"withheld": sorted(withheld), "of these neither leak nor clean": others}
    return Trial(
        "M10",
        one.name,
        float(len(missed) + len(alarms)),
        "the leak withheld, and truth, blurs and nulls not: 0 errors",
        not missed and not alarms,
        "; ".join(f"{what}: {', '.join(names) or 'none'}" for what, names in named.items()),
        bench.n,
        (bench.seed,),
    )
