"""Meta-tests on maps without information: M6, the null pair, and M7, the all-null panel.

Both ask about panels of five white and five smooth maps. None of them knows anything, so the smooth ones may not be
ahead of the white ones, and no two may be told apart. Each panel is a new draw; panels come from the benches of all
seeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roadworthy.evaluation.selftest.bench import Bench
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.maps import NULLS, blobs, white
from roadworthy.evaluation.selftest.record import Trial, within
from roadworthy.statistics import over_repeats

EACH = 5  # white maps, and blobs, in a panel
FEWEST = 5  # panels of a bench
WHOLE = 20  # panels from which on the share of silent ones gives a verdict
GAP = 0.03
"""Share of the range by which smooth maps without information may differ from rough ones."""


class Gap(NamedTuple):
    """How far smooth null maps are ahead of white ones, as a share of the range, with half of its interval."""

    mean: float
    half: float


def null_bench(bench: Bench, panels: int, *, n: int) -> Bench:
    """Return a bench whose maps are ``panels`` times five white and five smooth ones, all without information.

    Args:
        bench: whose samples (the first ``n``) and judges are taken.
        panels: how many panels, numbered from 0.
        n: samples.
    """
    few = bench.first(n)
    samples = few.samples
    shape = next(iter(bench.maps.values())).shape[1:]
    maps = {
        f"{kind} {panel}.{number}": make(bench.seed, samples.ids, shape, f"panel {panel}.{number}")
        for panel in range(panels)
        for kind, make in zip(NULLS, (white, blobs), strict=True)
        for number in range(EACH)
    }
    return few.with_maps(maps, relevant=None)


def panels_of(bench: Bench) -> list[list[str]]:
    """Return the names of the maps of each panel."""
    numbers = dict.fromkeys(name.split()[1].partition(".")[0] for name in bench.maps if name.split()[0] in NULLS)
    return [[name for name in bench.maps if name.partition(" ")[2].startswith(f"{number}.")] for number in numbers]


def null_gap(
    benches: Sequence[Bench],
    nulls: Sequence[Bench],
    one: Contender,
    *,
    top: str = "truth",
    bottom: str = "inverse",
) -> Trial:
    """M6: does the strategy prefer smooth maps without information to rough ones, or the other way round?

    Args:
        benches: a bench per seed, with ``top`` and ``bottom``, which span the range.
        nulls: the bench of null panels of each, from :func:`null_bench`.
        one: the strategy.
        top: the map on top of the range.
        bottom: the map at its end.

    Returns:
        The mean of (smooth - white) over all panels as a share of the range. It passes if it is at most 0.03, its
        interval (Student's t over the panels, each a seed of its own) holds 0 and is no wider than 0.03 either side,
        and no bench lies beyond 0.03 by more than its own interval. Where the interval is wider there is no verdict.
    """
    per_bench = [_gaps(bench, drawn, one, top, bottom) for bench, drawn in zip(benches, nulls, strict=True)]
    alone = [_gap(gaps) for gaps in per_bench]
    whole = _gap(np.concatenate(per_bench))
    beyond = any(abs(gap.mean) - gap.half > GAP for gap in alone)
    worst = max(alone, key=lambda gap: abs(gap.mean))
    return Trial(
        "M6",
        one.name,
        whole.mean,
        f"within {GAP:g} of 0, and its interval holds 0",
        False if beyond else within(*whole, GAP),
        f"{whole.mean:+.4f} +- {whole.half:.4f} over {sum(map(len, per_bench))} draws; "
        f"largest of a seed {worst.mean:+.4f} +- {worst.half:.4f}",
        nulls[0].n,
        tuple(bench.seed for bench in benches),
    )


def _gaps(bench: Bench, nulls: Bench, one: Contender, top: str, bottom: str) -> np.ndarray:
    """Return the gap in each panel; NaN where the strategy gives top and bottom the same score."""
    span = np.subtract(*bench.scores(one, [top, bottom]).mean(axis=1)) or np.nan
    found = []
    for names in panels_of(nulls):
        means = dict(zip(names, nulls.scores(one, names).mean(axis=1), strict=True))
        rough, smooth = (np.mean([means[name] for name in names if name.startswith(kind)]) for kind in NULLS)
        found.append((smooth - rough) / span)
    return np.array(found)


def _gap(values: np.ndarray) -> Gap:
    if np.isnan(values).any():
        return Gap(np.nan, np.nan)
    found = over_repeats(values)
    return Gap(float(found.mean), float(found.high - found.mean))


def null_panels(nulls: Sequence[Bench], one: Contender) -> Trial:
    """M7: does the product refuse to rank ten maps that all know nothing?

    Args:
        nulls: the bench of null panels of each seed.
        one: the strategy.

    Returns:
        The share of panels in whose ranking (:meth:`roadworthy.evaluation.Result.ranking`) all maps share one group,
        from which a report says that there is no ranking. A sound strategy ranks a panel in 20, so a single one among
        fewer than 20 panels gives no verdict.
    """
    silent = [(bench.ranking(one, names)["group"] == "a").all() for bench in nulls for names in panels_of(bench)]
    share = float(np.mean(silent))
    alone = len(silent) < WHOLE and int(np.sum(silent)) == len(silent) - 1
    return Trial(
        "M7",
        one.name,
        share,
        "no ranking in at least 0.95 of the panels",
        None if alone else bool(share >= 0.95),
        f"{int(np.sum(silent))} of {len(silent)} panels of {2 * EACH} maps, from {len(nulls)} benches",
        min(bench.n for bench in nulls),
        tuple(bench.seed for bench in nulls),
    )
