"""Are target samples as near to the source as source samples are to each other? Distance to the k-th neighbour."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import FEW, Evidence, Gate, feature_sides, gates
from roadworthy.labelfree.gates.beyond import share_beyond
from roadworthy.rng import numpy_generator

_K = 5
_ROWS = 2000


@gates.register("neighbour", "share of samples farther from their source neighbours than source samples are")
def neighbour_gate(evidence: Evidence) -> Gate:
    """Judge the share without source samples nearby (Sun et al. 2022)."""
    sides = feature_sides("neighbour", evidence, least=(2 * FEW, FEW))
    if isinstance(sides, Gate):
        return sides
    source, target = neighbour_scores(*sides, seed=evidence.seed)
    return share_beyond(
        "neighbour",
        source,
        target,
        what=f"the distance to the {_K}th nearest source sample",
        may_refuse=evidence.live is None,
    )


def neighbour_scores(source: np.ndarray, target: np.ndarray, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return distances to the fifth nearest sample of one half of the source: of the other half, and of the target.

    Features are brought to unit variance; at most 2,000 rows of each are used, drawn by the seed.

    Args:
        source: (N, D).
        target: (M, D).
        seed: of the draws.

    Returns:
        float64 arrays.
    """
    from sklearn.neighbors import NearestNeighbors

    generator = numpy_generator(seed, "neighbour")
    order = generator.permutation(len(source))[: 2 * _ROWS]
    known, own = source[order[: len(order) // 2]], source[order[len(order) // 2 :]]
    target = target[generator.permutation(len(target))[:_ROWS]]
    spread = np.where(known.std(axis=0) > 0, known.std(axis=0), 1)
    search = NearestNeighbors(n_neighbors=_K).fit(known / spread)
    own, far = (search.kneighbors(part / spread)[0][:, -1] for part in (own, target))
    return own, far
