"""Share of target samples beyond what nearly all of the source stays within; four gates differ in the score only."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import Gate, judged

_INSIDE = 0.99
_LEVEL = 0.95
_MANY = 0.5


def share_beyond(name: str, source: np.ndarray, target: np.ndarray, *, what: str) -> Gate:
    """Judge the share of target scores above the 99 % quantile of the source's.

    Args:
        name: of the gate.
        source: (N,) scores of source samples as if they were new: high is unusual.
        target: (M,) scores of the target.
        what: the score in words, as the subject of a sentence.

    Returns:
        Passes where the share may be 2 % or less; warns above; refuses where more than half lie beyond. Scores equal
        to the quantile are not beyond. The interval is Wilson's.
    """
    from scipy.stats import binomtest

    limit = float(np.quantile(source, _INSIDE, method="higher"))
    count = int((target > limit).sum())
    share = count / len(target)
    ends = binomtest(count, len(target)).proportion_ci(_LEVEL, method="wilson")
    most = 2 * (1 - _INSIDE)
    return judged(
        name,
        share,
        warn=ends.low > most,
        refuse=ends.low > _MANY,
        low=ends.low,
        high=ends.high,
        expected=f"share surely above {most:.2f} warns, surely above {_MANY} refuses",
        why=f"{what} of {share:.1%} of these samples is beyond that of {_INSIDE:.0%} of the source",
    )
