"""Are target features within the range of the source's? Mahalanobis distance, with a shrunk covariance."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import FEW, Evidence, Gate, feature_sides, gates
from roadworthy.labelfree.gates.beyond import share_beyond
from roadworthy.rng import numpy_generator

_WIDTH = 128  # directions of largest variance; more cost time and add noise
_ROWS = 5000


@gates.register("mahalanobis", "share of samples beyond the source's range, by Mahalanobis distance of features")
def mahalanobis_gate(evidence: Evidence) -> Gate:
    """Judge the share far from the source's mean, in units of its spread (Lee et al. 2018, without classes)."""
    sides = feature_sides("mahalanobis", evidence, least=(2 * FEW, FEW))
    if isinstance(sides, Gate):
        return sides
    source, target = mahalanobis_scores(*sides, seed=evidence.seed)
    return share_beyond(
        "mahalanobis", source, target, what="the Mahalanobis distance", may_refuse=evidence.live is None
    )


def mahalanobis_scores(source: np.ndarray, target: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances of one half of the source from the other half, and of the target from that half.

    Half against half, since samples lie closer to a mean and covariance that were taken from them. The covariance is
    that of Ledoit and Wolf (2004), so that more features than samples do no harm; constant features are left out.

    Args:
        source: (N, D).
        target: (M, D).
        seed: for the halves.

    Returns:
        float64 (N - N // 2,) and (M,).

    Example:
        >>> values = np.random.default_rng(0).normal(size=(400, 3))
        >>> own, far = mahalanobis_scores(values, values + 10)
        >>> bool(own.max() < far.min())
        True
    """
    from sklearn.covariance import LedoitWolf

    order = numpy_generator(seed, "mahalanobis").permutation(len(source))[:_ROWS]
    fit, own = source[order[: len(order) // 2]], source[order[len(order) // 2 :]]
    mean, spread = fit.mean(axis=0), fit.std(axis=0)
    kept = spread > 0
    if not kept.any():
        return np.zeros(len(own)), (target != mean).any(axis=1).astype(np.float64)
    fit, own, target = ((part - mean)[:, kept] / spread[kept] for part in (fit, own, target))
    if fit.shape[1] > _WIDTH:
        axes = np.linalg.svd(fit, full_matrices=False)[2][:_WIDTH]
        fit, own, target = (part @ axes.T for part in (fit, own, target))
    model = LedoitWolf(assume_centered=True).fit(fit)
    return model.mahalanobis(own), model.mahalanobis(target)
