"""Does the classifier say one class of everything, or far fewer classes than on the source?"""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import FEW, Evidence, Gate, gates, judged, not_run
from roadworthy.labelfree.gates.entropy import entropy

_ONE = 1.05  # classes in effect
_SHARE = 0.5  # of the source's classes in effect


@gates.register("collapsed", "how many classes the classifier uses in effect")
def collapsed_gate(evidence: Evidence) -> Gate:
    """Refuse a classifier that gives one class to all; warn where it uses half as many classes as on the source.

    Classes in effect: the exponential of the entropy of the shares of predicted classes. A set that truly holds one
    class looks the same; without labels nobody can tell.
    """
    target, source = evidence.target, evidence.source
    if len(target) < FEW:
        return not_run("collapsed", f"needs at least {FEW} samples")
    used = classes_in_effect(target.predicted, target.class_count)
    before = None if source is None or len(source) < FEW else classes_in_effect(source.predicted, source.class_count)
    fewer = before is not None and used < _SHARE * before
    beside = "" if before is None else f"; on the source {before:.1f}"
    return judged(
        "collapsed",
        used,
        warn=fewer,
        refuse=used < _ONE,
        expected=f"fewer than {_ONE} classes in effect refuses, fewer than half of the source's warns",
        why=f"the classifier uses {used:.1f} of {target.class_count} classes in effect{beside}",
    )


def classes_in_effect(predicted: np.ndarray, count: int) -> float:
    """Return the exponential of the entropy of class shares.

    Example:
        >>> classes_in_effect(np.array([0, 0, 1, 1]), 10)
        2.0
    """
    shares = np.bincount(predicted, minlength=count) / max(len(predicted), 1)
    return float(np.exp(entropy(shares[None])[0]).round(12))
