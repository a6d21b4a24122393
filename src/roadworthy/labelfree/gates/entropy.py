"""Is the classifier less sure than it ever is on the source? Entropy of its probabilities."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import FEW, NO_SOURCE, Evidence, Gate, gates, not_run
from roadworthy.labelfree.gates.beyond import share_beyond


@gates.register("entropy", "share of samples on which the classifier is less sure than on the source")
def entropy_gate(evidence: Evidence) -> Gate:
    """Judge the share of samples whose predictive entropy is beyond the source's."""
    if evidence.source is None:
        return not_run("entropy", NO_SOURCE)
    if min(len(evidence.source), len(evidence.target)) < FEW:
        return not_run("entropy", f"needs at least {FEW} samples on each side")
    source, target = (entropy(part.probabilities) for part in (evidence.source, evidence.target))
    return share_beyond(
        "entropy", source, target, what="the entropy of the probabilities", may_refuse=evidence.live is None
    )


def entropy(probabilities: np.ndarray) -> np.ndarray:
    """Return the entropy of each row (N, C) in nats, float64 (N,).

    Example:
        >>> entropy(np.array([[0.5, 0.5], [1.0, 0.0]])).round(3).tolist()
        [0.693, 0.0]
    """
    from scipy.special import entr

    return np.asarray(entr(probabilities).sum(axis=1))
