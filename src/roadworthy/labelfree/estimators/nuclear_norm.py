"""Nuclear norm of the prediction matrix (Deng et al. 2023): confidence and dispersity in one number.

It ranks data sets. Here it is brought to the scale of accuracy through source samples: parts of the source with a
planted share of errors give the norm that goes with each accuracy. Weak where classes are far from balanced.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from roadworthy.labelfree.domain import drawn_rows
from roadworthy.labelfree.estimators.base import Estimate, accuracy_alone, estimators, fitted, labelled
from roadworthy.labelfree.outputs import Outputs
from roadworthy.rng import numpy_generator

_POINTS = 500  # the norm depends a little on the number of rows: the same for source and target
_DRAWS = 20


def nuclear_norm(probabilities: np.ndarray) -> float:
    """Sum of singular values, over the largest it can be, in (0, 1]; NaN of no rows.

    The largest is sqrt(min(N, C) * N), reached by one-hot rows in equal shares.

    Example:
        >>> nuclear_norm(np.eye(3)[[0, 1, 2, 0, 1, 2]])
        1.0
    """
    n, count = probabilities.shape
    if n == 0:
        return float("nan")
    values = np.linalg.svd(probabilities, compute_uv=False)
    return float(min(1.0, round(values.sum() / np.sqrt(min(n, count) * n), 12)))


@dataclass(frozen=True, eq=False)
class NuclearNorm:
    """Accuracy read off the norm, along a rising line through parts of the source with known shares of errors.

    Example:
        >>> source = Outputs.of([0.02, 0.98, 0.45, 0.55] * 5, labels=[0, 1, 1, 0] * 5)
        >>> fitted = NuclearNorm().fit(source)
        >>> unsure, sure = fitted.estimate(Outputs.of([0.45, 0.55])), fitted.estimate(Outputs.of([0.02, 0.98]))
        >>> unsure.accuracy < 0.2, sure.accuracy > 0.8
        (True, True)
    """

    name: str = "nuclear-norm"
    needs: frozenset[str] = frozenset()
    line: tuple[np.ndarray, np.ndarray] | None = None  # norms, and the accuracy at each
    seed: int = 0

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Learn the line."""
        from sklearn.isotonic import isotonic_regression

        labelled(self.name, source)
        ordered = source.take(drawn_rows(source, len(source), seed=seed, purpose="nuclear norm"))
        right, wrong = np.flatnonzero(ordered.correct), np.flatnonzero(~ordered.correct)
        if not (len(right) and len(wrong)):  # nothing to learn from: every sample is right, or wrong
            return replace(self, line=(np.array([0.0, 1.0]), np.full(2, ordered.accuracy)), seed=seed)
        generator, size = numpy_generator(seed, "nuclear norm"), min(_POINTS, len(source))
        accuracies = np.linspace(0, 1, _DRAWS + 1)
        norms = []
        for accuracy in accuracies:
            hits = round(accuracy * size)
            rows = np.concatenate([generator.choice(right, hits), generator.choice(wrong, size - hits)])
            norms.append(nuclear_norm(ordered.probabilities[rows]))
        order = np.argsort(norms, kind="stable")
        rising = np.asarray(isotonic_regression(accuracies[order], y_min=0, y_max=1))
        return replace(self, line=(np.array(norms)[order], rising), seed=seed)

    def estimate(self, target: Outputs) -> Estimate:
        """Read the accuracy off."""
        norms, accuracies = fitted(self.name, self.line)
        rows = drawn_rows(target, _POINTS, seed=self.seed, purpose="nuclear norm target")
        value = np.interp(nuclear_norm(target.probabilities[rows]), norms, accuracies)
        return accuracy_alone(self.name, float(value), target)


estimators.add("nuclear-norm", NuclearNorm(), "nuclear norm of the prediction matrix, scaled through the source")
