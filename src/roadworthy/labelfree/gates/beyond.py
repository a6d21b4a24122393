"""Share of target samples beyond what nearly all of the source stays within; four gates differ in the score only."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import Gate, judged

_INSIDE = 0.99
_LEVEL = 0.95
_MANY = 0.5


def share_beyond(name: str, source: np.ndarray, target: np.ndarray, *, what: str, may_refuse: bool = True) -> Gate:
    """Judge the share of target scores above the 99 % quantile of the source's.

    Args:
        name: of the gate.
        source: (N,) scores of source samples as if they were new: high is unusual.
        target: (M,) scores of the target.
        what: the score in words, as the subject of a sentence.
        may_refuse: False warns at most.

    Returns:
        Warns above 2 %, if so many would lie beyond in one of twenty such sets of the source's own kind at the most
        (exact, also where the quantile comes from few samples); refuses where more than half surely do. Scores equal
        to the quantile are not beyond. The interval is Wilson's.
    """
    from scipy.stats import binomtest, hypergeom

    limit = float(np.quantile(source, _INSIDE, method="higher"))
    count = int((target > limit).sum())
    share = count / len(target)
    ends = binomtest(count, len(target)).proportion_ci(_LEVEL, method="wilson")
    most = 2 * (1 - _INSIDE)
    # of draws from one distribution: at least so many of the target are above the r-th largest of the source
    largest = int((source >= limit).sum())
    p = float(hypergeom.sf(count - 1, len(source) + len(target), len(target), count + largest - 1))
    return judged(
        name,
        share,
        warn=share > most and p < 1 - _LEVEL,
        refuse=may_refuse and ends.low > _MANY,
        low=ends.low,
        high=ends.high,
        expected=f"share above {most:.2f} with p below {1 - _LEVEL:.2f} warns, surely above {_MANY} refuses",
        why=f"{what} of {100 * share:.1f} % of these samples is beyond that of {100 * _INSIDE:.0f} % of the source "
        f"(p = {p:.3f})",
    )
