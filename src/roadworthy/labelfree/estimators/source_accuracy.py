"""Source accuracy: nothing has changed. The baseline that beats the rest where the shift is mild."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from roadworthy.labelfree.estimators.base import Estimate, accuracy_alone, estimators, fitted, labelled, of_confusion
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class SourceAccuracy:
    """Accuracy, recall and F1 of the labelled source samples, unchanged.

    Example:
        >>> source = Outputs.of([0.1, 0.9, 0.8, 0.7], labels=[0, 1, 1, 0])
        >>> SourceAccuracy().fit(source).estimate(Outputs.of([0.5])).accuracy
        0.75
    """

    name: str = "source"
    needs: frozenset[str] = frozenset()
    confusion: np.ndarray | None = None

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Count the source's confusion matrix."""
        table = np.zeros((source.class_count, source.class_count))
        np.add.at(table, (labelled(self.name, source), source.predicted), 1)
        return replace(self, confusion=table)

    def estimate(self, target: Outputs) -> Estimate:
        """Return the source's figures; NaN of no samples."""
        table = fitted(self.name, self.confusion)
        return of_confusion(self.name, table) if len(target) else accuracy_alone(self.name, 0, target)


estimators.add("source", SourceAccuracy(), "accuracy on the labelled source samples, unchanged")
