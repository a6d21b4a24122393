"""The whole self-test: every strategy against every meta-test, on the planted bench or on a user's own model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.evaluation.selftest import natural, nulls, trials
from roadworthy.evaluation.selftest.bench import Bench, planted_bench
from roadworthy.evaluation.selftest.contender import (
    DRAWS,
    OFFERED,
    RETRAINED,
    SHARES,
    Asked,
    Contender,
    View,
    asked_by_view,
    contenders,
)
from roadworthy.evaluation.selftest.empties import empty
from roadworthy.evaluation.selftest.encoding import encoding, gate_test
from roadworthy.evaluation.selftest.invariance import invariance
from roadworthy.evaluation.selftest.leakage import mask_leaks
from roadworthy.evaluation.selftest.power import power
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.selftest.redundancy import redundancy, two_copies
from roadworthy.evaluation.selftest.retraining import retrained
from roadworthy.evaluation.selftest.table import SelfTest
from roadworthy.evaluation.selftest.tabular import tabular
from roadworthy.evaluation.selftest.target import two_patterns, wrong_target
from roadworthy.evaluation.selftest.wired import wired
from roadworthy.evaluation.strategy import Strategy
from roadworthy.records import Data
from roadworthy.types import Progress


@dataclass(frozen=True)
class Effort:
    """How much a self-test does.

    Attributes:
        seeds: of the benches.
        n: samples of a bench.
        panels: all-null panels, shared out over the seeds.
        panel_n: samples of each.
    """

    seeds: tuple[int, ...]
    n: int
    panels: int
    panel_n: int


EFFORTS = {
    "quick": Effort(seeds=(0,), n=150, panels=5, panel_n=40),
    "full": Effort(seeds=(0, 1, 2), n=300, panels=20, panel_n=40),
}
QUICK = (
    "symmetric",
    "symmetric untouched",
    "symmetric fine-tuned",
    "symmetric area top1",
    "road",
    "road morf",
    "road lerf",
    "deletion",
)
REDRAWN = 150
"""Samples per seed that are drawn over, with a second pattern: what is expected there is no small difference."""
MASKED = 300
"""Samples per seed whose masks are classified, whatever the effort: from fewer, chance can tell the class."""
GATE, GATE_SHARES = View("untouched", "mean"), SHARES


def self_test(
    strategies: Sequence[str | Strategy | Contender] | None = None,
    *,
    data: Data | None = None,
    model: Callable[..., Any] | None = None,
    bases: Sequence[str] = natural.BASES,
    seeds: Sequence[int] | None = None,
    effort: str = "quick",
    retraining: bool = False,
    cache: str | None = None,
    progress: Progress | None = None,
) -> SelfTest:
    """Test strategies on cases whose right answer is known, and say which of them to believe.

    Without ``data`` and ``model`` the planted bench is used: images whose relevant pixels are known, and built maps
    from the truth down to its inverse (M1 to M9 and M11 to M15). With a model and data of one's own, only what
    needs no truth: the ladders over real methods, null maps, inverse and empty maps, and how much smoothing raises a
    score.

    Args:
        strategies: presets, names such as ``"road morf"`` (see
            :func:`~roadworthy.evaluation.selftest.contender.contender`), or strategies; by default all that are
            offered for ``"full"``, a few for ``"quick"``. Those that train a network for each explanation need
            ``retraining``, and are by default among them then.
        data: samples to test on; ``data.train`` is what a fine-tuned judge is trained on.
        model: what is explained and asked; needed with ``data``, and the other way round.
        bases: methods on top of the ladders, for data of one's own.
        seeds: of the benches; by default 0 (quick), or 0, 1 and 2.
        effort: ``"quick"`` (minutes) or ``"full"``.
        retraining: also test strategies that train a network for each explanation (ROAR, KAR and both together,
            behind the leak gate, M10, and on a table, M16) on the first seed; these take many times longer than all
            the rest.
        cache: folder of the trained networks of the planted bench.
        progress: called with the number of copies just scored. If it has a method ``begin(total, what)``, that is
            called first.

    Returns:
        The trials, as tables, and the strategy that they support.

    Raises:
        InputError: an unknown strategy or effort, or data without a model.

    Example:
        >>> found = self_test(["road", "road lerf"], seeds=(5,))  # doctest: +SKIP
        >>> found.believed  # doctest: +SKIP
        'road'
    """
    if effort not in EFFORTS:
        raise InputError(f"effort: got {effort!r}, expected one of {', '.join(EFFORTS)}")
    if (data is None) != (model is None):
        raise InputError("self_test: data and model go together; give both, or neither for the planted bench")
    level, began = EFFORTS[effort], time.monotonic()
    every = requested(strategies, effort=effort, retraining=retraining, own=data is not None)
    found = [one for one in every if one.training != "retrain"]
    trained = [one for one in every if one.training == "retrain"]
    chosen = level.seeds if seeds is None else tuple(seeds)
    if not chosen:
        raise InputError("seeds: got none, expected at least one")
    notes = [f"{one.name}: {DRAWS} draw of the random removal" for one in found if _thinned(one)]
    if data is None or model is None:
        made = _planted(found, chosen, level, cache, progress) if found else []
        if retraining:
            made += _retrained(trained, chosen[0], cache, progress)
        subject = "planted"
    else:
        found, left_out = _possible(found, model)
        notes += left_out
        made = _own(found, data, model, chosen, level, bases, notes, progress)
        subject = data.name
    tested = [one.name for one in (*found, *trained)]
    return SelfTest(made, tested, effort, chosen, subject, notes, round(time.monotonic() - began, 1))


def requested(
    strategies: Sequence[str | Strategy | Contender] | None, *, effort: str, retraining: bool, own: bool
) -> list[Contender]:
    """Return the strategies that a self-test is asked for, or refuse before anything is trained.

    Args:
        strategies, effort, retraining: see :func:`self_test`.
        own: whether the model and the data are the user's own.

    Raises:
        InputError: an unknown strategy; retraining that was not asked for, or on data of one's own.
    """
    usual = QUICK if effort == "quick" else OFFERED
    found = contenders(strategies or ((*usual, *RETRAINED) if retraining else usual))
    trained = [one.name for one in found if one.training == "retrain"]
    if trained and not retraining:
        raise InputError(
            f"strategies: {trained[0]!r} trains a network for each explanation, which takes far longer than all the "
            "rest; ask for it with retraining=True (--retraining)"
        )
    if retraining and own:
        raise InputError("retraining: its tests need planted data; leave out data and model")
    return found


def _thinned(one: Contender) -> bool:
    """Whether a strategy removes at random, which a self-test draws less often than an evaluation does."""
    return any(view.alpha < 1 or view.beta < 1 for view in one.views)


def _planted(
    found: list[Contender], seeds: tuple[int, ...], level: Effort, cache: str | None, progress: Progress | None
) -> list[Trial]:
    asked = asked_by_view(found)
    benches = [planted_bench(seed, asked, n=level.n, real=False, cache=cache, progress=progress) for seed in seeds]
    panels = _panels(benches, level)
    fewer = [bench.first(REDRAWN) for bench in benches]
    doubled, copied = [two_patterns(bench) for bench in fewer], [two_copies(bench) for bench in fewer]
    _announce(progress, [*benches, *panels, *copied, *(bench for pair in doubled for bench in pair)])
    masked = [planted_bench(seed, {}, n=MASKED, real=False, cache=cache) for seed in seeds]
    made = [*wired(found, seeds=seeds), mask_leaks(masked)]
    for one in found:
        made += trials.suite(benches, one)
        made += [trials.ladder_order(benches, one, kind) for kind in ("permuted", "swapped")]
        made += [trials.inverse(benches, one), trials.smoothing(benches, one), nulls.null_gap(benches, panels, one)]
        made += [nulls.null_panels(panels, one), trials.decoy(benches, one), empty(benches, one)]
        made += [wrong_target(doubled, one), power(benches, one)]
    removing = [one for one in found if not one.by_patches]
    return [*made, *(redundancy(copied, one) for one in removing), *invariance(benches[0], removing)]


def _panels(benches: list[Bench], level: Effort) -> list[Bench]:
    """Return the benches of null panels, one for each, so that together there are as many as the effort asks for."""
    each = max(nulls.FEWEST, -(-level.panels // len(benches)))
    return [nulls.null_bench(bench, each, n=level.panel_n) for bench in benches]


def _retrained(found: list[Contender], seed: int, cache: str | None, progress: Progress | None) -> list[Trial]:
    """Hold the meta-tests of strategies that train a network for each explanation."""
    made = retrained(found, seed, cache=cache, progress=progress) if found else []
    return [*made, encoding([gate_test(seed, cache=cache)]), tabular()]


def _own(
    found: list[Contender],
    data: Data,
    model: Callable[..., Any],
    seeds: tuple[int, ...],
    level: Effort,
    bases: Sequence[str],
    notes: list[str],
    progress: Progress | None,
) -> list[Trial]:
    asked = asked_by_view(found)
    gate = Asked(GATE_SHARES, ("morf", "lerf"))
    asked[GATE] = gate.also(asked.get(GATE, gate))
    benches, known = [], list(bases)
    for seed in seeds:
        bench, computed = natural.natural_bench(
            data.name,
            model,
            data.train,
            data.test,
            asked,
            mean=data.mean,
            bases=known,
            n=level.n,
            seed=seed,
            progress=progress,
        )
        benches.append(bench)
        known = computed
    notes += [f"{base}: cannot be computed for this model" for base in bases if base not in known]
    sound = [base for base in known if all(natural.beats_random(bench, base, GATE) for bench in benches)]
    notes += [
        f"{base}: does not beat a random map here, so its ladder says nothing" for base in known if base not in sound
    ]
    panels = _panels(benches, level)
    _announce(progress, [*benches, *panels])
    return [trial for one in found for trial in _trials_of(one, benches, panels, sound)]


def _trials_of(one: Contender, benches: list[Bench], panels: list[Bench], sound: list[str]) -> Iterator[Trial]:
    for kind in ("permuted", "swapped"):
        yield from natural.ladders(benches, one, sound, kind)
    for base in sound:
        yield natural.inverse_below(benches, one, base)
        yield natural.smoothness_effect(benches, one, base)
        gap = nulls.null_gap(benches, panels, one, top=base, bottom=f"{base} inverse")
        yield replace(gap, id=f"M6 {base}")
        yield empty(benches, one, base)
        yield power(benches, one, base=base)
    yield nulls.null_panels(panels, one)


def _announce(progress: Progress | None, benches: list[Bench]) -> None:
    """Tell a progress bar how many degraded copies there will be."""
    begin = getattr(progress, "begin", None)
    if begin is not None:
        begin(sum(bench.copies for bench in benches), "self-test")


def _possible(found: list[Contender], model: Callable[..., Any]) -> tuple[list[Contender], list[str]]:
    """Leave out strategies that need a fine-tuned copy of what cannot be trained."""
    if isinstance(model, torch.nn.Module):
        return found, []
    kept = [one for one in found if not one.by_patches and all(view.judge == "untouched" for view in one.views)]
    left_out = [one.name for one in found if one not in kept]
    if not kept:
        raise InputError(f"strategies: {', '.join(left_out)} need a torch.nn.Module to fine-tune; name others too")
    note = f"not tested, since a callable cannot be fine-tuned: {', '.join(left_out)}"
    return kept, [note] if left_out else []
