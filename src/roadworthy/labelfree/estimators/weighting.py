"""What estimators share that weight source samples by how common such samples are in the target."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from roadworthy.labelfree.domain import tell_apart
from roadworthy.labelfree.estimators.base import fitted, labelled
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class Weighting:
    """Keeps the source, since weights depend on the target."""

    name: str
    needs: frozenset[str] = frozenset({"features"})
    source: Outputs | None = None
    seed: int = 0

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Keep the source; its weights depend on the target."""
        labelled(self.name, source)
        source.known_features(f"the estimator {self.name!r}")
        return replace(self, source=source, seed=seed)

    def weighted(self, target: Outputs) -> tuple[Outputs, np.ndarray]:
        """Return the source samples that are used, and the density ratio of each, mean 1."""
        source = fitted(self.name, self.source)
        target.known_features(f"the estimator {self.name!r}")
        domain = tell_apart(source, target, seed=self.seed)
        return source.take(domain.rows), domain.weights
