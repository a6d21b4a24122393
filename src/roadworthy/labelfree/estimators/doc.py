"""Difference of confidences (Guillory et al. 2021): source accuracy moved by the change of mean confidence."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from roadworthy.labelfree.estimators.base import Estimate, accuracy_alone, estimators, fitted, labelled
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class DifferenceOfConfidences:
    """acc_source + mean confidence of the target - mean confidence of the source, within [0, 1].

    Example:
        >>> source = Outputs.of([0.1, 0.9, 0.9, 0.9], labels=[0, 1, 1, 0])
        >>> round(DifferenceOfConfidences().fit(source).estimate(Outputs.of([0.8])).accuracy, 3)
        0.65
    """

    name: str = "doc"
    needs: frozenset[str] = frozenset()
    offset: float | None = None

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Remember by how much the source's accuracy exceeds its confidence."""
        labelled(self.name, source)
        return replace(self, offset=source.accuracy - float(source.confidence.mean()))

    def estimate(self, target: Outputs) -> Estimate:
        """Move the target's mean confidence by that."""
        mean = float(target.confidence.sum()) / max(len(target), 1)
        return accuracy_alone(self.name, fitted(self.name, self.offset) + mean, target)


estimators.add("doc", DifferenceOfConfidences(), "source accuracy moved by the change of mean confidence")
