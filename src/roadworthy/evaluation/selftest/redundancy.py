"""M12: two copies of the evidence, each of which suffices.

A map of one copy is as good as a map of both for what must be kept, and worth nothing for what must be removed. Both
answers are right, so the two orders *should* rank the maps differently, and a score that knows one order only gives
half of the answer for the whole.

Made here from the planted bench: the cell of the class pattern is pasted over the cell of the class-free one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch

from roadworthy.evaluation.selftest.bench import Bench, answers
from roadworthy.evaluation.selftest.contender import Asked, Contender
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.rng import numpy_generator
from roadworthy.statistics import paired_bootstrap

MAPS = ("both copies", "one copy", "other copy")
REMOVED = 0.2  # more than both copies cover (an eighth), and too little for random removal to matter
APART = 0.5
SAME = 0.05
DISAGREE = 0.5  # mean Spearman correlation below which a report says that the orders hardly agree


def two_copies(bench: Bench) -> Bench:
    """Return a bench of images with the class pattern twice, and maps of both copies and of one.

    Args:
        bench: the planted bench; it holds the cells of both its patterns in its maps ``truth`` and ``decoy``.

    Returns:
        The samples that the model answers right also with either copy gone; maps ``both copies``, ``one copy``
        (of two, drawn) and ``other copy``.
    """
    first, second = (bench.maps[name] > 0.5 for name in ("truth", "decoy"))
    images, grey = bench.samples.images.clone(), torch.as_tensor(bench.judges.mean).view(-1, 1)
    for row in range(len(images)):  # cells of equal size, read row by row
        images[row][:, torch.from_numpy(second[row])] = images[row][:, torch.from_numpy(first[row])]
    right = np.ones(len(images), dtype=bool)
    for gone in (first, second):
        without = images.clone()
        for row in range(len(images)):
            without[row][:, torch.from_numpy(gone[row])] = grey
        right &= (answers(bench.judges.model, without) == bench.samples.labels).numpy()
    rows = np.flatnonzero(right)
    kept = torch.from_numpy(rows)
    ids = [bench.samples.ids[int(row)] for row in rows]
    heads = numpy_generator(bench.seed, "selftest-copies").random((len(rows), 1, 1)) < 0.5
    copies = (first[rows], second[rows])
    both = copies[0] | copies[1]
    made = (both, np.where(heads, *copies), np.where(heads, *copies[::-1]))
    maps = {name: mask.astype(np.float32) for name, mask in zip(MAPS, made, strict=True)}
    samples = bench.samples._replace(images=images[kept], labels=bench.samples.labels[kept], ids=ids)
    whole = Asked((REMOVED,), ("morf", "lerf"))
    asked = {view: of.also(whole) for view, of in bench.asked.items()}
    return bench.with_maps(maps, samples=samples, targets=samples.labels, relevant=both, asked=asked)


def redundancy(benches: Sequence[Bench], one: Contender) -> Trial:
    """M12: is it seen that both copies are needed to lose the class, and that either is enough to keep it?

    Args:
        benches: a bench per seed, from :func:`two_copies`.
        one: the strategy.

    Returns:
        ``measured`` is how far both copies are ahead of one when the most relevant fifth is removed. It passes if
        that is above 0.5 of accuracy; if with the least relevant removed the two differ by 0.05 at most; and if the
        product itself says for every seed that the orders disagree: the agreement of its result is defined, and it
        is too low to speak of (below 0.5) or the orders tell both copies and one apart in opposite ways, which a
        report calls a contradiction. There is no single rank: where the ranking by one order tells both copies above
        one, that by the other must not. A strategy of one order fails.
    """
    morf, lerf = (np.concatenate([_ahead(bench, one, order) for bench in benches]) for order in ("morf", "lerf"))
    told = paired_bootstrap(np.stack([morf, lerf]), draws=1000, seed=benches[0].seed)
    removing, keeping = float(told.mean[0]), float(told.mean[1])
    found = (
        f"both copies are ahead of one by {removing:.2f} when removed ({told.low[0]:.2f} to {told.high[0]:.2f}) and "
        f"by {keeping:.2f} when kept ({told.low[1]:.2f} to {told.high[1]:.2f})"
    )
    said = [_said(bench, one) for bench in benches] if one.symmetric else []
    if said:
        agreement = ", ".join(f"{each.agreement:.2f}" for each in said)
        ranks = ", ".join(f"{each.morf:+d}/{each.lerf:+d}" for each in said)
        found = (
            f"agreement of the orders {agreement}; both told above one (+1) or below by MoRF/LeRF {ranks}; {found}"
        )
    else:
        found = f"one order only, which cannot show that the orders disagree; {found}"
    return Trial(
        "M12",
        one.name,
        removing,
        f"above {APART:g} when removed, within {SAME:g} when kept, and the orders are said to disagree",
        removing > APART and abs(keeping) <= SAME and bool(said) and all(each.disagree for each in said),
        found,
        min(bench.n for bench in benches),
        tuple(bench.seed for bench in benches),
    )


class _Said(NamedTuple):
    """What the product says of one bench.

    Attributes:
        agreement: of the orders, NaN where undefined.
        morf: 1 where the ranking by MoRF tells both copies above one, -1 below, 0 not apart.
        lerf: likewise.
    """

    agreement: float
    morf: int
    lerf: int

    @property
    def disagree(self) -> bool:
        """Whether it says that the orders disagree, and gives no single rank."""
        against = self.agreement < DISAGREE or self.morf * self.lerf < 0
        return not math.isnan(self.agreement) and against and self.morf != self.lerf


def _said(bench: Bench, one: Contender) -> _Said:
    told = []
    for order in one.orders:
        ranking = bench.ranking(replace(one, orders=(order,)), MAPS[:2])
        first, apart = ranking["method"].iloc[0], not set(ranking["group"].iloc[0]) & set(ranking["group"].iloc[1])
        told.append(apart * (1 if first == MAPS[0] else -1))
    return _Said(float(bench.found(one, MAPS).agreement().spearman_mean), *told)


def _ahead(bench: Bench, one: Contender, order: str) -> np.ndarray:
    """Return how far the map of both copies is ahead of that of one in an order, (N,), by accuracy.

    Most relevant first: at a fifth removed. Least relevant first: the mean over the shares up to where both copies
    are still whole.
    """
    shares = [REMOVED] if order == "morf" else [share for share in one.fractions if share <= 1 - 1 / 8] or [REMOVED]
    found = []
    for view in one.views:
        result = bench.result(view)
        columns = [result.fractions.index(share) for share in shares]
        hits = result.scores.top1[:2, result.orders.index(order)][:, columns].astype(np.float64)
        found.append(hits.mean(axis=(1, 2)))
    both, single = np.mean(found, axis=0)
    return np.asarray(single - both if order == "morf" else both - single)
