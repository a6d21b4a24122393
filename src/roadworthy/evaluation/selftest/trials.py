"""Meta-tests on the planted bench whose answer follows from how a map was built: M1, M3, M4, M5 and M8.

Each takes a bench per seed and a strategy, and returns what it found. The protocols follow the planted-truth and
degradation designs of the literature (F-Fidelity, arXiv 2410.02970; smoothing, arXiv 2304.13836).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from roadworthy.evaluation.selftest.bench import Bench
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.ladders import LEVELS
from roadworthy.evaluation.selftest.maps import BLURS, NULLS, REAL, UNORDERED
from roadworthy.evaluation.selftest.quality import Order, clear_pairs, order_found, together
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.statistics import paired_bootstrap

DRAWS = 1000


def suite(benches: Sequence[Bench], one: Contender) -> list[Trial]:
    """M1: does the strategy put the built maps into the order of their average precision?

    Returns:
        Two trials: Spearman's correlation over the built maps that have an order (mean of the seeds), and the
        share of pairs whose qualities differ by 0.1 or more that are in the right order.
    """
    found, pairs = [], []
    for bench in benches:
        names = [name for name in bench.maps if name not in (*REAL, *UNORDERED) and name.split()[0] not in NULLS]
        rows = [list(bench.maps).index(name) for name in names]
        quality, scores = bench.quality()[rows], bench.scores(one, names)
        found.append(order_found(scores, quality, draws=DRAWS, seed=bench.seed))
        pairs.append(clear_pairs(scores.mean(axis=1), quality.mean(axis=1)))
    rho, shares = [one.rho for one in found], [share for share, _ in pairs]
    whole = together(found)
    return [
        _trial(
            "M1",
            one,
            benches,
            np.mean(rho),
            "mean at least 0.97, none below 0.95",
            np.mean(rho) >= 0.97 and min(rho) >= 0.95,
            f"Spearman over {len(names)} maps; lowest {min(rho):.3f}; interval {whole.low:.3f} to {whole.high:.3f}",
        ),
        _trial(
            "M1 pairs",
            one,
            benches,
            np.mean(shares),
            "at least 0.99",
            np.mean(shares) >= 0.99,
            f"of {pairs[0][1]} pairs with a gap of 0.1 or more; lowest {min(shares):.3f}",
        ),
    ]


def ladder_order(
    benches: Sequence[Bench], one: Contender, kind: str, *, base: str = "truth", expected: float | None = 0.99
) -> Trial:
    """M3: does the strategy put the steps of a ladder into their order?

    Args:
        benches: a bench per seed, with the maps of the ladder: ``base`` and ``[base ]permuted 0.2`` and so on.
        one: the strategy.
        kind: ``"permuted"`` or ``"swapped"``.
        base: the map on top of the ladder.
        expected: the least mean correlation that passes; no seed may be negative. None gives no verdict.
    """
    prefix = "" if base == "truth" else f"{base} "
    found = ladder_orders(benches, one, kind, base)
    rho = [order.rho for order in found]
    whole = together(found)
    mark = "M3a" if kind == "permuted" else "M3b"
    return _trial(
        f"{mark} {base}" if prefix else mark,
        one,
        benches,
        np.mean(rho),
        "no verdict alone" if expected is None else f"mean at least {expected:g}, none negative",
        None if expected is None else np.mean(rho) >= expected - 1e-12 and min(rho) > 0,
        f"lowest {min(rho):.3f}; interval {whole.low:.3f} to {whole.high:.3f}",
    )


def ladder_orders(benches: Sequence[Bench], one: Contender, kind: str, base: str = "truth") -> list[Order]:
    """Return how far a strategy follows a ladder on each bench."""
    prefix = "" if base == "truth" else f"{base} "
    names = [base, *(f"{prefix}{kind} {share:g}" for share in LEVELS[1:])]
    steps = -np.asarray(LEVELS)
    return [order_found(bench.scores(one, names), steps, draws=DRAWS, seed=bench.seed) for bench in benches]


def inverse(benches: Sequence[Bench], one: Contender) -> Trial:
    """M4: is the inverse of the truth last, and with both orders exactly as bad as the truth is good?"""
    places, exact = [], True
    for bench in benches:
        scores = dict(zip(bench.maps, bench.scores(one), strict=True))
        mean = {name: values.mean() for name, values in scores.items()}
        places.append(1 + sum(value < mean["inverse"] for value in mean.values()))
        exact &= bool(np.abs(scores["inverse"] + scores["truth"]).max() < 1e-6)
    note = f"score of the inverse is {'' if exact else 'NOT '}minus that of the truth" if one.symmetric else ""
    return _trial(
        "M4",
        one,
        benches,
        max(places),
        "place 1 from the bottom",
        max(places) == 1 and (exact or not one.symmetric or one.training == "retrain"),  # trainings differ
        note,
    )


def smoothing(benches: Sequence[Bench], one: Contender) -> Trial:
    """M5: does blurring the truth, which adds nothing to it, raise its score?

    All seeds' samples count together. It fails if the interval of a difference lies above 0 and the difference is
    more than a hundredth of the range from inverse to truth.
    """
    names = ["truth", "inverse", *(f"blur {width}" for width in BLURS)]
    scores = np.concatenate([bench.scores(one, names) for bench in benches], axis=1)
    mean = scores.mean(axis=1)
    span = mean[0] - mean[1]
    compared = paired_bootstrap(scores, draws=DRAWS, seed=benches[0].seed)
    gains, lows = compared.difference[2:, 0] / span, compared.difference_low[2:, 0] / span
    worst = int(np.argmax(gains))
    above = (lows > 0) & (gains > 0.01)
    return _trial(
        "M5",
        one,
        benches,
        gains[worst],
        "no blurred truth above the truth",
        span > 0 and not above.any(),
        f"share of the range truth to inverse; largest: blur {BLURS[worst]}, lower end {lows[worst]:+.3f}",
    )


def decoy(benches: Sequence[Bench], one: Contender) -> Trial:
    """M8: does what is visible but unused stay low?

    The class-free pattern may not score above a random map beyond its interval; edges may not score above a map whose
    average precision is above 0.5. ``measured`` is the difference of decoy and random, as a share of the range.
    """
    gaps, lows, ahead = [], [], []
    for bench in benches:
        quality = dict(zip(bench.maps, bench.quality().mean(axis=1), strict=True))
        mean = dict(zip(bench.maps, bench.scores(one).mean(axis=1), strict=True))
        span = mean["truth"] - mean["inverse"]
        compared = paired_bootstrap(bench.scores(one, ["decoy", "null white"]), draws=DRAWS, seed=bench.seed)
        gaps.append(compared.difference[0, 1] / span)
        lows.append(compared.difference_low[0, 1] / span)
        better = [name for name in mean if quality[name] > max(0.5, quality["edge"]) and name not in REAL]
        ahead += [name for name in better if mean["edge"] > mean[name]]
    return _trial(
        "M8",
        one,
        benches,
        max(gaps),
        "decoy not above random, edge below every map of precision above 0.5",
        max(lows) <= 0 and not ahead,
        f"edge above {', '.join(sorted(set(ahead)))}" if ahead else "",
    )


def _trial(
    mark: str, one: Contender, benches: Sequence[Bench], measured: Any, expected: str, passed: Any, note: str
) -> Trial:
    return Trial(
        id=mark,
        strategy=one.name,
        measured=float(measured),
        expected=expected,
        passed=None if passed is None else bool(passed),
        note=note,
        n=benches[0].n,
        seeds=tuple(bench.seed for bench in benches),
    )
