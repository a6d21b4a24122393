"""Confidence optimal transport (Lu et al. 2023): how far predictions are from the source's labels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from roadworthy.labelfree.domain import drawn_rows
from roadworthy.labelfree.estimators.base import Estimate, accuracy_alone, estimators, fitted, labelled
from roadworthy.labelfree.outputs import Outputs

_POINTS = 800


@dataclass(frozen=True, eq=False)
class OptimalTransport:
    """1 - least cost of moving the target's probabilities to one-hot labels in the source's proportions.

    The cost of giving a sample with probabilities p the label y is half the L1 distance to the one-hot vector,
    1 - p_y. The transport is exact (an assignment, ``scipy.optimize.linear_sum_assignment``) on at most 800 samples,
    drawn by seed. It holds as far as the target's class shares are those of the source.

    Example:
        >>> source = Outputs.of([0.1, 0.9], labels=[0, 1])
        >>> found = OptimalTransport().fit(source).estimate(Outputs.of([0.8, 0.9]))  # one of them must be a 0
        >>> round(found.accuracy, 3)
        0.55
    """

    name: str = "cot"
    needs: frozenset[str] = frozenset()
    marginal: np.ndarray | None = None
    seed: int = 0

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Count the label marginal."""
        counts = np.bincount(labelled(self.name, source), minlength=source.class_count)
        return replace(self, marginal=counts / counts.sum(), seed=seed)

    def estimate(self, target: Outputs) -> Estimate:
        """Assign labels at least cost."""
        marginal = fitted(self.name, self.marginal)
        if not len(target):
            return accuracy_alone(self.name, 0, target)
        said = target.probabilities[drawn_rows(target, _POINTS, seed=self.seed, purpose="cot")]
        given = transported(said, marginal)
        return accuracy_alone(self.name, float(said[np.arange(len(said)), given].mean()), target)


def transported(probabilities: np.ndarray, marginal: np.ndarray) -> np.ndarray:
    """Return the class (N,) given to each sample so that the sum of p_y is largest and counts follow ``marginal``.

    Counts are the marginal times N, rounded by largest remainders.

    Example:
        >>> transported(np.array([[0.2, 0.8], [0.4, 0.6]]), np.array([0.5, 0.5])).tolist()
        [1, 0]
    """
    from scipy.optimize import linear_sum_assignment

    exact = marginal * len(probabilities)
    counts = np.floor(exact + 1e-9).astype(np.int64)
    left = len(probabilities) - counts.sum()
    counts[np.argsort(-(exact - counts), kind="stable")[:left]] += 1
    slots = np.repeat(np.arange(len(marginal)), counts)
    rows, columns = linear_sum_assignment(probabilities[:, slots], maximize=True)
    given = np.empty(len(probabilities), dtype=np.int64)
    given[rows] = slots[columns]
    return given


estimators.add("cot", OptimalTransport(), "optimal transport of predictions to the source's label marginal")
