"""Meta-tests on maps without information: M6, the null pair, and M7, the all-null panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from roadworthy.evaluation.selftest.bench import Bench, cut
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.maps import NULLS, blobs, white
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.statistics import rank_methods

EACH = 5  # white maps, and blobs, in a panel
_DRAWS = 2000  # enough for Holm over the 45 pairs of a panel


def null_bench(bench: Bench, panels: int, *, n: int) -> Bench:
    """Return a bench whose maps are ``panels`` times five white and five smooth ones, all without information.

    Args:
        bench: whose samples (the first ``n``) and judges are taken.
        panels: how many panels, numbered from 0.
        n: samples.
    """
    rows = np.arange(min(n, bench.n))
    samples = cut(bench.samples, rows)
    shape = next(iter(bench.maps.values())).shape[1:]
    maps = {
        f"{kind} {panel}.{number}": make(bench.seed, samples.ids, shape, f"panel {panel}.{number}")
        for panel in range(panels)
        for kind, make in zip(NULLS, (white, blobs), strict=True)
        for number in range(EACH)
    }
    return bench.with_maps(maps, samples=samples, targets=bench.targets[: len(rows)], relevant=None)


def null_gap(benches: Sequence[Bench], one: Contender, *, top: str = "truth", bottom: str = "inverse") -> Trial:
    """M6: does the strategy prefer smooth maps without information to rough ones, or the other way round?

    Args:
        benches: a bench per seed, with five white and five smooth null maps, and ``top`` and ``bottom``.
        one: the strategy.
        top: the map on top of the range.
        bottom: the map at its end.

    Returns:
        The mean over seeds of (smooth - white) as a share of the range. It passes within 0.03 for the mean and where
        no seed is beyond 0.03 by more than its sampling error.
    """
    gaps, errors = [], []
    for bench in benches:
        span = np.subtract(*bench.scores(one, [top, bottom]).mean(axis=1))
        smooth, rough = (
            bench.scores(one, [name for name in bench.maps if name.startswith(f"{kind} ")]).mean(axis=0)
            for kind in reversed(NULLS)
        )
        difference = (smooth - rough) / span
        gaps.append(difference.mean())
        errors.append(difference.std(ddof=1) / np.sqrt(len(difference)))
    worst = max(gaps, key=abs)
    mean, error = float(np.mean(gaps)), float(np.sqrt(np.mean(np.square(errors)) / len(errors)))
    beyond = [abs(gap) > 0.03 + 2 * error for gap, error in zip(gaps, errors, strict=True)]
    return Trial(
        "M6",
        one.name,
        mean,
        "within 0.03 of 0",
        None if error > 0.03 else bool(abs(mean) <= 0.03 and not any(beyond)),  # too few images to tell
        f"standard error {error:.3f}; largest of a seed {worst:+.3f}",
        benches[0].n,
        tuple(bench.seed for bench in benches),
    )


def null_panels(bench: Bench, one: Contender, panels: int) -> Trial:
    """M7: does the strategy refuse to rank ten maps that all know nothing?

    Args:
        bench: from :func:`null_bench`.
        one: the strategy.
        panels: how many panels it holds.

    Returns:
        The share of panels in which no pair of maps is told apart (Holm over the 45 pairs at level 0.95).
    """
    silent = []
    for panel in range(panels):
        names = [name for name in bench.maps if name.partition(" ")[2].startswith(f"{panel}.")]
        table = rank_methods(bench.scores(one, names), names, draws=_DRAWS, seed=panel)
        silent.append(not np.any(table.attrs["different"]))
    share = float(np.mean(silent))
    return Trial(
        "M7",
        one.name,
        share,
        "no ranking in at least 0.95 of the panels",
        bool(share >= 0.95),
        f"{panels} panels of {2 * EACH} maps",
        bench.n,
        tuple(range(panels)),
    )


def with_nulls(bench: Bench) -> Bench:
    """Return the bench with five white and five smooth null maps added to its own."""
    nulls = null_bench(bench, 1, n=bench.n).maps
    return replace(bench, maps=bench.maps | nulls)
