"""M12: two copies of the evidence, each of which suffices.

A map of one copy is as good as a map of both for what must be kept, and worth nothing for what must be removed. Both
answers are right, so the two orders *should* rank the maps differently, and a score that knows one order only gives
half of the answer for the whole.

Made here from the planted bench: the cell of the class pattern is pasted over the cell of the class-free one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from roadworthy.evaluation.selftest.bench import Bench, answers
from roadworthy.evaluation.selftest.contender import Contender
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.rng import numpy_generator
from roadworthy.statistics import paired_bootstrap

MAPS = ("both copies", "one copy", "other copy")
REMOVED = 0.2  # more than both copies cover (an eighth), and too little for random removal to matter
APART = 0.5
SAME = 0.05
AGREE = 0.8  # mean Spearman correlation from which on a report says that the orders agree


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
    shares = {view: tuple(sorted({*of, REMOVED})) for view, of in bench.shares.items()}
    return bench.with_maps(maps, samples=samples, targets=samples.labels, relevant=both, shares=shares)


def redundancy(benches: Sequence[Bench], one: Contender) -> Trial:
    """M12: is it seen that both copies are needed to lose the class, and that either is enough to keep it?

    Args:
        benches: a bench per seed, from :func:`two_copies`.
        one: the strategy.

    Returns:
        ``measured`` is how far both copies are ahead of one when the most relevant fifth is removed. It passes if
        that is above 0.5 of accuracy, if with the least relevant removed the two differ by 0.05 at most, and if the
        strategy has both orders and its result does not say that they agree. A strategy of one order fails.
    """
    morf, lerf = (np.concatenate([_ahead(bench, one, order) for bench in benches]) for order in ("morf", "lerf"))
    told = paired_bootstrap(np.stack([morf, lerf]), draws=1000, seed=benches[0].seed)
    removing, keeping = float(told.mean[0]), float(told.mean[1])
    found = (
        f"both copies are ahead of one by {removing:.2f} when removed ({told.low[0]:.2f} to {told.high[0]:.2f}) and "
        f"by {keeping:.2f} when kept ({told.low[1]:.2f} to {told.high[1]:.2f})"
    )
    agreement = [
        float(bench.result(view, one.repeats).agreement("top1").spearman_mean)
        for bench in benches
        for view in one.views
    ]
    agree = one.symmetric and any(rho >= AGREE for rho in agreement)
    if not one.symmetric:
        found = f"one order only, which cannot show that the orders disagree; {found}"
    elif agree:
        found = f"the orders are said to agree; {found}"
    return Trial(
        "M12",
        one.name,
        removing,
        f"above {APART:g} when removed, within {SAME:g} when kept, and the orders are not said to agree",
        removing > APART and abs(keeping) <= SAME and one.symmetric and not agree,
        found,
        min(bench.n for bench in benches),
        tuple(bench.seed for bench in benches),
    )


def _ahead(bench: Bench, one: Contender, order: str) -> np.ndarray:
    """Return how far the map of both copies is ahead of that of one in an order, (N,), by accuracy.

    Most relevant first: at a fifth removed. Least relevant first: the mean over the shares up to where both copies
    are still whole.
    """
    shares = [REMOVED] if order == "morf" else [share for share in one.fractions if share <= 1 - 1 / 8] or [REMOVED]
    found = []
    for view in one.views:
        result = bench.result(view, one.repeats)
        columns = [result.fractions.index(share) for share in shares]
        hits = result.scores.top1[:2, result.orders.index(order)][:, columns].astype(np.float64)
        found.append(hits.mean(axis=(1, 2)))
    both, single = np.mean(found, axis=0)
    return np.asarray(single - both if order == "morf" else both - single)
