"""Average confidence after temperature scaling (Hendrycks & Gimpel 2017, Guo et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from roadworthy.labelfree.calibration import apply_temperature, fit_temperature
from roadworthy.labelfree.estimators.base import (
    Estimate,
    estimators,
    expected_confusion,
    fitted,
    labelled,
    of_confusion,
)
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class AverageConfidence:
    """Mean top probability, with one temperature learnt on the source.

    The calibrated probabilities are taken as the chances of the true class; recall and F1 come from the confusion
    matrix to expect by them.

    Example:
        >>> source = Outputs.of([0.1] * 10 + [0.9] * 10, labels=[0] * 9 + [1] + [1] * 9 + [0])
        >>> round(AverageConfidence().fit(source).estimate(Outputs.of([0.9, 0.3])).accuracy, 3)
        0.8
    """

    name: str = "ac"
    needs: frozenset[str] = frozenset()
    temperature: float | None = None

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Find the temperature."""
        return replace(self, temperature=fit_temperature(source.probabilities, labelled(self.name, source)))

    def estimate(self, target: Outputs) -> Estimate:
        """Average the scaled probabilities."""
        scaled = apply_temperature(target.probabilities, fitted(self.name, self.temperature))
        return of_confusion(self.name, expected_confusion(scaled, target.predicted))


estimators.add("ac", AverageConfidence(), "mean confidence after temperature scaling on the source")
