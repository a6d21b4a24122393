"""The whole self-test: every strategy against every meta-test, on the planted bench or on a user's own model."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.evaluation.selftest import natural, nulls, trials
from roadworthy.evaluation.selftest.bench import Bench, planted_bench
from roadworthy.evaluation.selftest.contender import OFFERED, Contender, View, contenders, shares_by_view
from roadworthy.evaluation.selftest.encoding import encoding, gate_test, mask_leaks
from roadworthy.evaluation.selftest.invariance import invariance
from roadworthy.evaluation.selftest.power import power
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.selftest.redundancy import redundancy, two_copies
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
        panels: all-null panels.
        panel_n: samples of each.
    """

    seeds: tuple[int, ...]
    n: int
    panels: int
    panel_n: int


EFFORTS = {
    "quick": Effort(seeds=(0,), n=150, panels=5, panel_n=100),
    "full": Effort(seeds=(0, 1, 2), n=300, panels=20, panel_n=100),
}
QUICK = (
    "symmetric",
    "symmetric area top1",
    "untouched gain ends probability",
    "fine-tuned gain ends probability",
    "road",
    "road morf",
    "road lerf",
    "deletion",
)
GATE = View("untouched", "mean")


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
    from the truth down to its inverse (M1 to M8 and M11 to M15). With a model and data of one's own, only what
    needs no truth: the ladders over real methods, null maps, inverse and empty maps, and how much smoothing raises a
    score.

    Args:
        strategies: presets, names such as ``"road morf"`` (see
            :func:`~roadworthy.evaluation.selftest.contender.contender`), or strategies; by default all that are
            offered for ``"full"``, a few for ``"quick"``. None may train a network for each explanation.
        data: samples to test on; ``data.train`` is what a fine-tuned judge is trained on.
        model: what is explained and asked; needed with ``data``, and the other way round.
        bases: methods on top of the ladders, for data of one's own.
        seeds: of the benches; by default 0 (quick), or 0, 1 and 2.
        effort: ``"quick"`` (minutes) or ``"full"``.
        retraining: also hold the tests of strategies that train a network for each explanation (M9, M10, M16) on the
            first seed; these take many times longer than all the rest.
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
    found = contenders(strategies or (QUICK if effort == "quick" else OFFERED))
    chosen = level.seeds if seeds is None else tuple(seeds)
    if retraining and data is not None:
        raise InputError("retraining: its tests need planted data; leave out data and model")
    if not chosen:
        raise InputError("seeds: got none, expected at least one")
    notes: list[str] = []
    if data is None or model is None:
        made = _planted(found, chosen, level, cache, progress)
        if retraining:
            made += _retrained(chosen, cache)
        subject = "planted"
    else:
        found, notes = _possible(found, model)
        made = _own(found, data, model, chosen, level, bases, notes, progress)
        subject = data.name
    tested = [one.name for one in found]
    return SelfTest(made, tested, effort, chosen, subject, notes, round(time.monotonic() - began, 1))


def _planted(
    found: list[Contender], seeds: tuple[int, ...], level: Effort, cache: str | None, progress: Progress | None
) -> list[Trial]:
    shares = shares_by_view(found)
    benches = [
        nulls.with_nulls(planted_bench(seed, shares, n=level.n, real=False, cache=cache, progress=progress))
        for seed in seeds
    ]
    doubled, copied = [two_patterns(bench) for bench in benches], [two_copies(bench) for bench in benches]
    panels = nulls.null_bench(benches[0], level.panels, n=level.panel_n)
    _announce(progress, [*benches, *doubled, *copied, panels])
    made = wired(found, seeds=seeds)
    for one in found:
        made += trials.suite(benches, one)
        made += [trials.ladder_order(benches, one, kind) for kind in ("permuted", "swapped")]
        made += [test(benches, one) for test in (trials.inverse, trials.smoothing, nulls.null_gap)]
        made.append(nulls.null_panels(panels, one, level.panels))
        made += [trials.decoy(benches, one), trials.empty(benches, one), wrong_target(doubled, one)]
        made += [redundancy(copied, one), invariance(benches[:1], one), power(benches, one)]
    return made


def _retrained(seeds: tuple[int, ...], cache: str | None) -> list[Trial]:
    """Hold the meta-tests of strategies that train a network for each explanation: M9, M10 and M16."""
    gates = [gate_test(seed, cache=cache) for seed in seeds[:1]]
    return [mask_leaks(gates), encoding(gates), *tabular()]


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
    shares = shares_by_view(found)
    shares = {GATE: found[0].fractions} | shares
    benches, known = [], list(bases)
    for seed in seeds:
        bench, computed = natural.natural_bench(
            data.name,
            model,
            data.train,
            data.test,
            shares,
            mean=data.mean,
            bases=known,
            n=level.n,
            seed=seed,
            progress=progress,
        )
        benches.append(nulls.with_nulls(bench))
        known = computed
    notes += [f"{base}: cannot be computed for this model" for base in bases if base not in known]
    sound = [base for base in known if all(natural.beats_random(bench, base, GATE) for bench in benches)]
    notes += [
        f"{base}: does not beat a random map here, so its ladder says nothing" for base in known if base not in sound
    ]
    panels = nulls.null_bench(benches[0], level.panels, n=level.panel_n)
    _announce(progress, [*benches, panels])
    made: list[Trial] = []
    for one in found:
        made += _trials_of(one, benches, sound)
        made.append(nulls.null_panels(panels, one, level.panels))
    return made


def _trials_of(one: Contender, benches: list[Bench], sound: list[str]) -> Iterator[Trial]:
    for base in sound:
        for kind, expected in (("permuted", 0.9), ("swapped", 0.9)):
            yield trials.ladder_order(benches, one, kind, base=base, expected=expected)
        for test in (natural.inverse_below, natural.smoothness_effect, natural.null_pair, natural.empty_between):
            yield test(benches, one, base)
        yield power(benches, one, base=base)


def _announce(progress: Progress | None, benches: list[Bench]) -> None:
    """Tell a progress bar how many degraded copies there will be."""
    begin = getattr(progress, "begin", None)
    if begin is not None:
        begin(sum(bench.copies for bench in benches), "self-test")


def _possible(found: list[Contender], model: Callable[..., Any]) -> tuple[list[Contender], list[str]]:
    """Leave out strategies that need a fine-tuned copy of what cannot be trained."""
    if isinstance(model, torch.nn.Module):
        return found, []
    kept = [one for one in found if all(view.judge == "untouched" for view in one.views)]
    left_out = [one.name for one in found if one not in kept]
    if not kept:
        raise InputError(f"strategies: {', '.join(left_out)} need a torch.nn.Module to fine-tune; name others too")
    note = f"not tested, since a callable cannot be fine-tuned: {', '.join(left_out)}"
    return kept, [note] if left_out else []
