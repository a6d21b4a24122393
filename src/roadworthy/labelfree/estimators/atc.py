"""Average thresholded confidence (Garg et al. 2022): the share of samples above a confidence learnt on the source."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from roadworthy.labelfree.estimators.base import Estimate, accuracy_alone, estimators, fitted, labelled
from roadworthy.labelfree.outputs import Outputs

_DECIMALS = 12  # sums of the same values in another order of classes tie


@dataclass(frozen=True, eq=False)
class ThresholdedConfidence:
    """Share of target samples whose score reaches the threshold below which a share of the source lies that errs.

    The threshold is one of the source's scores, or infinity: the one whose share below is nearest to the source's
    error, the lower of two equally near.

    Attributes:
        entropy: score by the negative entropy of the probabilities in place of the largest one.

    Example:
        >>> source = Outputs.of([0.6, 0.7, 0.8, 0.9], labels=[0, 1, 1, 1])
        >>> fitted = ThresholdedConfidence().fit(source)
        >>> fitted.threshold, fitted.estimate(Outputs.of([0.65, 0.75])).accuracy
        (0.7, 0.5)
    """

    name: str = "atc"
    needs: frozenset[str] = frozenset()
    entropy: bool = False
    threshold: float | None = None

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Find the threshold."""
        labelled(self.name, source)
        values, counts = np.unique(self._scores(source), return_counts=True)
        below = np.concatenate([[0], np.cumsum(counts)])  # of each value, and of infinity
        wrong = len(source) - int(source.correct.sum())
        return replace(self, threshold=float(np.append(values, np.inf)[np.abs(below - wrong).argmin()]))

    def estimate(self, target: Outputs) -> Estimate:
        """Count the samples that reach it."""
        reached = int((self._scores(target) >= fitted(self.name, self.threshold)).sum())
        return accuracy_alone(self.name, reached / max(len(target), 1), target)

    def _scores(self, outputs: Outputs) -> np.ndarray:
        from scipy.special import xlogy

        p = outputs.probabilities
        scores = xlogy(p, p).sum(axis=1) if self.entropy else outputs.confidence
        return np.round(scores, _DECIMALS)


estimators.add("atc", ThresholdedConfidence(), "share above a threshold of the largest probability")
estimators.add(
    "atc-entropy", ThresholdedConfidence("atc-entropy", entropy=True), "share above a threshold of negative entropy"
)
