"""Importance weighting (Shimodaira 2000): source accuracy, samples weighted by how common they are in the target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from roadworthy.labelfree.estimators.base import Estimate, accuracy_alone, estimators, labelled, of_confusion
from roadworthy.labelfree.estimators.weighting import Weighting
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class ImportanceWeighted(Weighting):
    """Source confusion matrix with the density ratios of a cross-fitted classifier of source and target.

    The effective number of source samples is in the note: weights that lie on a few samples say little.

    Example:
        >>> source = Outputs.of([0.1, 0.9] * 20, labels=[0, 1, 0, 0] * 10, features=np.arange(40.0) % 2)
        >>> ones = Outputs.of([0.9] * 40, features=np.ones(40))
        >>> found = ImportanceWeighted().fit(source).estimate(ones).accuracy
        >>> 0.5 < found < source.accuracy
        True
    """

    name: str = "importance-weighted"

    def estimate(self, target: Outputs) -> Estimate:
        """Weight the source's confusion matrix."""
        if not len(target):
            return accuracy_alone(self.name, 0, target)
        near, weights = self.weighted(target)
        table = np.zeros((near.class_count, near.class_count))
        np.add.at(table, (labelled(self.name, near), near.predicted), weights)
        effective = weights.sum() ** 2 / (weights**2).sum()
        return of_confusion(self.name, table, f"{effective:.0f} of {len(near)} source samples count in effect")


estimators.add("importance-weighted", ImportanceWeighted(), "source accuracy under density ratios")
