"""Confidence-based performance estimation: isotonic calibration, then the confusion matrix to expect.

The method that NannyML made known, with the calibration of every class against the rest. With density weights in the
calibration it is the multi-calibrated form (M-CBPE, also called PAPE; Bialek et al. 2024).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from roadworthy.labelfree.calibration import IsotonicCalibration
from roadworthy.labelfree.estimators.base import (
    Estimate,
    estimators,
    expected_confusion,
    fitted,
    labelled,
    of_confusion,
)
from roadworthy.labelfree.estimators.weighting import Weighting
from roadworthy.labelfree.outputs import Outputs


@dataclass(frozen=True, eq=False)
class ExpectedConfusion:
    """Calibrated chances of every class, summed by the predicted class; any figure of a confusion matrix follows.

    Example:
        >>> source = Outputs.of([0.2] * 4 + [0.8] * 4, labels=[0, 0, 0, 1, 1, 1, 1, 1])
        >>> found = ExpectedConfusion().fit(source).estimate(Outputs.of([0.2, 0.8]))
        >>> found.accuracy, found.recall.round(3).tolist()
        (0.875, [1.0, 0.8])
    """

    name: str = "cbpe"
    needs: frozenset[str] = frozenset()
    calibration: IsotonicCalibration | None = None

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Calibrate on the source."""
        labels = labelled(self.name, source)
        return replace(self, calibration=IsotonicCalibration.fit(source.probabilities, labels))

    def estimate(self, target: Outputs) -> Estimate:
        """Sum the calibrated chances."""
        chances = fitted(self.name, self.calibration).apply(target.probabilities)
        return of_confusion(self.name, expected_confusion(chances, target.predicted))


@dataclass(frozen=True, eq=False)
class WeightedExpectedConfusion(Weighting):
    """The same, calibrated on source samples weighted by how common such samples are in the target.

    Example:
        >>> rows = [[float(i)] for i in range(8)]
        >>> source = Outputs.of([0.2] * 4 + [0.8] * 4, labels=[0, 0, 0, 1, 1, 1, 1, 1], features=rows)
        >>> 0.5 < WeightedExpectedConfusion().fit(source).estimate(source).accuracy <= 1
        True
    """

    name: str = "pape"

    def estimate(self, target: Outputs) -> Estimate:
        """Weight, calibrate, sum."""
        near, weights = self.weighted(target)
        calibration = IsotonicCalibration.fit(near.probabilities, labelled(self.name, near), weights)
        return of_confusion(self.name, expected_confusion(calibration.apply(target.probabilities), target.predicted))


estimators.add("cbpe", ExpectedConfusion(), "expected confusion matrix after isotonic calibration")
estimators.add("pape", WeightedExpectedConfusion(), "the same, calibrated on density-weighted source samples")
