"""Have the classes become more or less common? Shares by expectation maximisation, if looks within a class stay."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.calibration import apply_temperature, fit_temperature
from roadworthy.labelfree.gates.base import FEW, NO_SOURCE, Evidence, Gate, gates, judged, not_run
from roadworthy.rng import numpy_generator

_DRAWS = 60
_ROWS = 2000  # of each side at most
_Z = 1.96  # standard errors on either side: 95 %
_CHANGED, _UPSIDE_DOWN = 0.1, 0.5
_STEPS, _TOLERANCE = 100, 1e-5


def class_shares(chances: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Estimate class shares of unlabelled samples (Saerens et al. 2002).

    Args:
        chances: (N, C), calibrated chances of each class as they are where the classes have shares ``prior``.
        prior: (C,), shares in the source.

    Returns:
        float64 (C,). A class that the source lacks stays at 0.

    Example:
        >>> class_shares(np.array([[0.9, 0.1]] * 3 + [[0.1, 0.9]]), np.array([0.5, 0.5])).round(2).tolist()
        [0.81, 0.19]
    """
    known, shares = prior > 0, prior.astype(np.float64)
    for _ in range(_STEPS):
        moved = chances * np.divide(shares, prior, out=np.zeros_like(shares), where=known)
        whole = moved.sum(axis=1, keepdims=True)
        new = np.divide(moved, whole, out=np.zeros_like(moved), where=whole > 0).mean(axis=0)
        new = new / max(new.sum(), 1e-300)
        change, shares = float(np.abs(new - shares).max()), new
        if change < _TOLERANCE:
            break
    return shares


@gates.register("class-shares", "how far the shares of the classes have moved, if nothing else has")
def class_shares_gate(evidence: Evidence) -> Gate:
    """Warn where classes have become more or less common; it holds only if looks within a class are the same.

    The interval draws source and target anew; what a distance of shares is above 0 by chance alone is taken off.
    """
    source, target = evidence.source, evidence.target
    if source is None:
        return not_run("class-shares", NO_SOURCE)
    if min(len(source), len(target)) < FEW:
        return not_run("class-shares", f"needs at least {FEW} samples on each side")
    labels = source.known_labels("the gate class-shares")
    generator = numpy_generator(evidence.seed, "class shares gate")
    kept = [generator.permutation(len(part))[:_ROWS] for part in (source, target)]
    known, labels, unknown = source.probabilities[kept[0]], labels[kept[0]], target.probabilities[kept[1]]
    moved = _moved(known, labels, unknown)
    drawn = []
    for _ in range(_DRAWS):
        rows, others = (generator.integers(len(part), size=len(part)) for part in (known, unknown))
        drawn.append(_moved(known[rows], labels[rows], unknown[others]))
    half = _Z * float(np.std(drawn))
    by_chance = max(0.0, float(np.mean(drawn)) - moved)
    low, high = max(0.0, moved - by_chance - half), min(1.0, moved + half)
    return judged(
        "class-shares",
        moved,
        warn=bool(low > _CHANGED),
        refuse=bool(low > _UPSIDE_DOWN) and evidence.live is None,
        low=low,
        high=high,
        expected=f"surely above {_CHANGED} warns, surely above {_UPSIDE_DOWN} refuses",
        why=f"the shares of the classes have moved by {100 * moved:.0f} % in all (total variation), as estimated "
        "if the classes themselves look as before",
    )


def _moved(known: np.ndarray, labels: np.ndarray, unknown: np.ndarray) -> float:
    """Return the total variation between the class shares of source and target."""
    prior = np.bincount(labels, minlength=known.shape[1]) / len(labels)
    chances = apply_temperature(unknown, fit_temperature(known, labels))
    return float(np.abs(class_shares(chances, prior) - prior).sum() / 2)
