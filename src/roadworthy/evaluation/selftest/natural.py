"""Meta-tests that need no truth, on any model and data: ladders, null maps, smoothing, inverses and empty maps.

The truth is not known, but what makes a map worse is: its values exchanged, another image's map, its negative, no
content at all. A ladder says something only where its top beats a random map.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from roadworthy.errors import AttributionError
from roadworthy.evaluation.selftest import trials
from roadworthy.evaluation.selftest.bench import Bench, Judges, answers, chosen_samples
from roadworthy.evaluation.selftest.contender import Asked, Contender, View
from roadworthy.evaluation.selftest.ladders import ladder
from roadworthy.evaluation.selftest.maps import BLURS, blobs, blurred, max_filtered, real_maps, sparse, white
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.records import Split
from roadworthy.statistics import paired_bootstrap
from roadworthy.types import Progress

BASES = ("ig", "ig-sq", "gradcam")
SMOOTHED = (*(f"blur {width}" for width in BLURS), "max 3")
_DRAWS = 1000


class Least(NamedTuple):
    """The least rank correlation that passes: of the mean over bases and seeds, and of each of them."""

    mean: float
    each: float | None


LEAST = {"permuted": Least(0.98, 0.90), "swapped": Least(0.95, None)}


def natural_bench(
    name: str,
    model: Callable[..., Any],
    train: Split | None,
    test: Split,
    asked: Mapping[View, Asked],
    *,
    mean: Sequence[float],
    bases: Sequence[str] = BASES,
    n: int = 300,
    seed: int = 0,
    progress: Progress | None = None,
) -> tuple[Bench, list[str]]:
    """Return a bench of real samples, with maps of real methods and what is made of them.

    Args:
        name: what tables call the data.
        model: what is explained and asked, in pixel units.
        train: training samples, for fine-tuned judges; None does without.
        test: where the samples are drawn from.
        asked: see :func:`~roadworthy.evaluation.selftest.contender.asked_by_view`.
        mean: training mean per channel.
        bases: methods on top of the ladders.
        n: samples.
        seed: of the draws.
        progress: called with the number of copies just scored.

    Returns:
        The bench, and the bases that could be computed for this model.
    """
    samples = chosen_samples(test, n, seed)
    predicted = answers(model, samples.images)
    found: dict[str, np.ndarray] = {}
    for base in bases:
        try:
            found |= real_maps(
                model, samples.images, predicted, seed=seed, ids=samples.ids, mean=mean, methods=[base]
            )
        except AttributionError:
            continue  # such as Grad-CAM on a model without convolutions: the other bases remain
    if not found:
        raise AttributionError(f"none of the methods {', '.join(bases)} can be computed for this model")
    known = list(found)
    for base in known:
        values = found[base]
        for kind in ("permuted", "swapped"):
            found |= dict(list(ladder(values, kind, seed=seed, ids=samples.ids, name=f"{base} ").items())[1:])
        found |= {f"{base} blur {width}": blurred(values, width) for width in BLURS}
        found[f"{base} max 3"] = max_filtered(values)
        found[f"{base} inverse"] = -values
        found[f"{base} half empty"] = values * (np.arange(len(values)) % 2).reshape(-1, *[1] * (values.ndim - 1))
    shape = found[known[0]].shape[1:]
    found["null white"], found["null blob"] = (make(seed, samples.ids, shape) for make in (white, blobs))
    found["constant"] = np.zeros((len(samples.ids), *shape), dtype=np.float32)
    found["sparse"] = sparse(np.abs(white(seed, samples.ids, shape, "sparse")))
    judges = Judges(model, train, mean=mean, seed=seed)
    return Bench(name, seed, samples, predicted, judges, found, asked, None, progress), known


def beats_random(bench: Bench, base: str, view: View) -> bool:
    """Return whether a base beats a random map beyond its interval, by the symmetric gain of one view.

    One gate for all strategies: a strategy that puts the base below random must not thereby be spared its ladder.
    """
    gate = Contender("gate", (view,), ("morf", "lerf"), "probability", bench.asked[view].fractions)
    compared = paired_bootstrap(bench.scores(gate, [base, "null white"]), draws=_DRAWS, seed=bench.seed)
    return bool(compared.difference_low[0, 1] > 0)


def smoothness_effect(benches: Sequence[Bench], one: Contender, base: str) -> Trial:
    """M5 without a truth: how much does smoothing a map raise its score? Never a quality, and no verdict.

    Returns:
        The largest gain of a smoothed map over the raw one, as a share of the raw one's lead over random.
    """
    names = [base, "null white", *(f"{base} {how}" for how in SMOOTHED)]
    scores = np.concatenate([bench.scores(one, names) for bench in benches], axis=1).mean(axis=1)
    lead = scores[0] - scores[1]
    gains = (scores[2:] - scores[0]) / (abs(lead) or np.nan)
    best = int(np.argmax(gains))
    return _trial(
        f"M5 {base}",
        one,
        benches,
        float(gains[best]),
        "no verdict: the smoothness effect",
        None,
        f"{SMOOTHED[best]}, as a share of the lead of {base} over random ({lead:+.3f})",
    )


def inverse_below(benches: Sequence[Bench], one: Contender, base: str) -> Trial:
    """M4 without a truth: is a map that beats random above its own negative, and is random between the two?"""
    names = [base, "null white", f"{base} inverse"]
    top, random, bottom = np.concatenate([bench.scores(one, names) for bench in benches], axis=1).mean(axis=1)
    return _trial(
        f"M4 {base}",
        one,
        benches,
        float((random - bottom) / (top - bottom)) if top > bottom else float("nan"),
        "random between the inverse (0) and the map (1)",
        bool(top > random > bottom),
        "",
    )


def ladders(benches: Sequence[Bench], one: Contender, bases: Sequence[str], kind: str) -> list[Trial]:
    """M3 on real methods: are the ladders in order, over all bases and seeds?

    Args:
        benches: a bench per seed.
        one: the strategy.
        bases: the methods on top of the ladders that beat a random map.
        kind: ``"permuted"`` or ``"swapped"``.

    Returns:
        A trial without a verdict for each base, and one over all cells of base and seed: a mean of 0.98, none below
        0.90 (permuted), or a mean of 0.95 (swapped); an undefined cell does not pass.
    """
    alone = [trials.ladder_order(benches, one, kind, base=base, expected=None) for base in bases]
    cells = [order.rho for base in bases for order in trials.ladder_orders(benches, one, kind, base)]
    if not cells:
        return []
    mean, lowest = float(np.mean(cells)), float(np.min(cells))  # NaN where a cell is undefined
    least = LEAST[kind]
    return [
        *alone,
        _trial(
            "M3a" if kind == "permuted" else "M3b",
            one,
            benches,
            mean,
            f"mean at least {least.mean:g}" + (f", none below {least.each:g}" if least.each is not None else ""),
            mean >= least.mean - 1e-12 and (least.each is None or lowest >= least.each - 1e-12),
            f"{len(cells)} cells of base and seed, lowest {lowest:.3f}",
        ),
    ]


def _trial(
    mark: str,
    one: Contender,
    benches: Sequence[Bench],
    measured: float,
    expected: str,
    passed: bool | None,
    note: str,
) -> Trial:
    seeds = tuple(bench.seed for bench in benches)
    return Trial(mark, one.name, measured, expected, passed, note, benches[0].n, seeds)
