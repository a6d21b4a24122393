"""M11: maps that say nothing, everywhere or in some images or of most pixels.

A constant map has no order: its units are removed at random, and how many maps were such is told. It must score as a
random one, neither better nor worse; so must zeros in those images where a map is empty, and a map of 94 % zeros
whose few other values know nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from roadworthy.evaluation.selftest.bench import Bench
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.record import Trial, within
from roadworthy.statistics import paired_bootstrap

GAP = 0.03
"""Share of the range by which a map that says nothing may differ from a random one."""
_DRAWS = 2000
_LEVEL = 1 - 0.05 / 3  # three differences
_WHAT = ("constant", "sparse", "half empty, where it is")


def empty(benches: Sequence[Bench], one: Contender, base: str = "") -> Trial:
    """M11: do maps that say nothing score as a random one, and are they counted?

    Args:
        benches: a bench per seed, with the maps ``constant``, ``sparse``, ``null white`` and, of the base, the map,
            its ``half empty`` and its ``inverse``.
        one: the strategy.
        base: the map that is empty in half of the images; by default the planted truth.

    Returns:
        ``measured`` is the largest distance from random as a share of the range from inverse to map. It passes if
        each of the three lies within 0.03, with an interval (paired bootstrap over all seeds' images, three at once)
        that holds 0 and is no wider; if the map that is empty in half of the images lies between map and constant;
        and if the product counts as undefined all the constant maps, those of the empty half, and no other.
    """
    names = [base, f"{base} half empty", f"{base} inverse"] if base else ["truth", "half empty", "inverse"]
    top, half, bottom = np.concatenate([bench.scores(one, names) for bench in benches], axis=1).mean(axis=1)
    gaps = [_gap(benches, one, *kind) for kind in _rows(benches, names[1])]
    constant = float(np.concatenate([bench.scores(one, ["constant"])[0] for bench in benches]).mean())
    span = (top - bottom) or np.nan  # a strategy that scores all alike has no range
    told = [(mean / span, width / abs(span)) for mean, width in gaps]
    counted, said = _counted(benches, one, names[1])
    between = bool(top > half > constant)
    worst = int(np.argmax([abs(gap) for gap, _ in told]))
    verdicts = [within(gap, width, GAP) for gap, width in told]
    note = [f"farthest from random: {_WHAT[worst]}, {told[worst][0]:+.4f} +- {told[worst][1]:.4f}", said]
    note += [] if between else [f"half empty is not between constant and {names[0]}"]
    return Trial(
        f"M11 {base}" if base else "M11",
        one.name,
        float(told[worst][0]),
        f"within {GAP:g} of random and their interval holds it, half empty between, and all counted",
        False if not (between and counted) or False in verdicts else None if None in verdicts else True,
        "; ".join(note),
        benches[0].n,
        tuple(bench.seed for bench in benches),
    )


def _rows(benches: Sequence[Bench], half: str) -> list[tuple[str, list[np.ndarray]]]:
    """Return each kind of map that says nothing with the images, by bench, in which it does."""
    everywhere = [np.ones(bench.n, dtype=bool) for bench in benches]
    nowhere = [np.equal(bench.maps[half].reshape(bench.n, -1), 0).all(axis=1) for bench in benches]
    return [("constant", everywhere), ("sparse", everywhere), (half, nowhere)]


def _gap(benches: Sequence[Bench], one: Contender, name: str, rows: list[np.ndarray]) -> tuple[float, float]:
    """Return how far a map is ahead of a random one, with half the width of the interval."""
    pairs = [bench.scores(one, [name, "null white"])[:, chosen] for bench, chosen in zip(benches, rows, strict=True)]
    scores = np.concatenate(pairs, axis=1)
    told = paired_bootstrap(scores, draws=_DRAWS, level=_LEVEL, seed=benches[0].seed)
    mean = float(told.difference[0, 1])
    return mean, max(float(told.difference_high[0, 1]) - mean, mean - float(told.difference_low[0, 1]))


def _counted(benches: Sequence[Bench], one: Contender, half: str) -> tuple[bool, str]:
    """Return whether the product counts the maps without order as they are, and what it counts."""
    expected = {
        name: sum(int(rows.sum()) for rows in by_bench) for name, by_bench in _rows(benches, half) if name != "sparse"
    } | {"sparse": 0}
    found = {name: sum(bench.undefined(one)[name] for bench in benches) for name in expected}
    shown = ", ".join(f"{count} of {name}" for name, count in found.items())
    return found == expected, f"undefined maps counted: {shown}, of {sum(bench.n for bench in benches)} each"
