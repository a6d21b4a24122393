"""How well can a classifier tell target from source? The area under its curve, with an interval."""

from __future__ import annotations

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.domain import MOST_ROWS, tell_apart
from roadworthy.labelfree.gates.base import FEW, NO_SOURCE, Evidence, Gate, gates, judged, not_run

_LEVEL = 0.95
_EASY, _APART = 0.8, 0.99


def area_interval(area: float, positive: int, negative: int, *, level: float = _LEVEL) -> tuple[float, float]:
    """Return the interval of an area under the ROC curve: all areas that do not contradict it (Newcombe 2006).

    Args:
        area: in [0, 1].
        positive: samples on one side.
        negative: samples on the other.
        level: of the interval.

    Returns:
        Its ends; not empty at an area of 0 or 1 either.

    Raises:
        InputError: a side without samples.

    Example:
        >>> low, high = area_interval(0.5, 100, 100)
        >>> round(low, 2), round(high, 2)
        (0.42, 0.58)
    """
    from scipy.optimize import brentq
    from scipy.stats import norm

    n, m = positive, negative
    if min(n, m) < 1:
        raise InputError(f"area: got {n} samples on one side and {m} on the other, expected some on both")
    z, middle = float(norm.ppf((1 + level) / 2)), (n + m) / 2 - 1

    def excess(true: float) -> float:
        rest = (1 - true) / (2 - true) + true / (1 + true)
        return abs(true - area) - z * float(np.sqrt(true * (1 - true) * (1 + middle * rest) / (n * m)))

    edge = 1e-9  # the variance is 0 at the ends, so that they would always be left out
    inner = float(np.clip(area, edge, 1 - edge))
    low = float(brentq(excess, edge, inner)) if excess(edge) > 0 > excess(inner) else 0.0
    high = float(brentq(excess, inner, 1 - edge)) if excess(1 - edge) > 0 > excess(inner) else 1.0
    return low, high


@gates.register("domain-classifier", "how well target is told from source by a cross-fitted classifier")
def domain_gate(evidence: Evidence) -> Gate:
    """Warn where source and target are easily told apart, refuse where they share nothing."""
    if evidence.source is None:
        return not_run("domain-classifier", NO_SOURCE)
    if min(len(evidence.source), len(evidence.target)) < FEW:
        return not_run("domain-classifier", f"needs at least {FEW} samples on each side")
    found = tell_apart(evidence.source, evidence.target, seed=evidence.seed)
    low, high = area_interval(found.auc, len(found.rows), min(len(evidence.target), MOST_ROWS))
    told = f"a classifier tells these samples from the source with an area of {found.auc:.2f}"
    by = "" if evidence.features is not None else " (by log probabilities, for want of features)"
    meaning = (
        "they have nothing in common with it"
        if low >= _APART
        else "much is different, which may or may not harm"
        if low > _EASY
        else "they are much alike"
    )
    return judged(
        "domain-classifier",
        found.auc,
        warn=low > _EASY,
        refuse=low >= _APART and evidence.live is None,
        low=low,
        high=high,
        expected=f"area surely above {_EASY} warns, surely {_APART} or more refuses",
        why=f"{told}{by}: {meaning}",
    )
