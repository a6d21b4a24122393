"""Calibration: one temperature, isotonic regression of every class, and how far confidence is from accuracy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError

_FLOOR = 1e-12  # a probability of 0 has no logarithm
_TEMPERATURES = (0.05, 20.0)  # a search beyond would only follow a source without one wrong sample


def fit_temperature(probabilities: np.ndarray, labels: np.ndarray) -> float:
    """Find the temperature that makes softmax(log p / T) most likely (Guo et al. 2017).

    Args:
        probabilities: (N, C), rows add up to 1.
        labels: (N,) true classes.

    Returns:
        The temperature, within [0.05, 20]; above 1 where the classifier is too confident, 1 of no samples.

    Example:
        >>> sure = np.array([[0.9, 0.1]] * 10)
        >>> round(fit_temperature(sure, np.array([0] * 9 + [1])), 3)  # right as often as it says
        1.0
    """
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    if len(labels) == 0:
        return 1.0
    logs, rows = np.log(np.maximum(probabilities, _FLOOR)), np.arange(len(labels))

    def loss(log_temperature: float) -> float:
        return float(-log_softmax(logs / np.exp(log_temperature), axis=1)[rows, labels].mean())

    bounds = (float(np.log(_TEMPERATURES[0])), float(np.log(_TEMPERATURES[1])))
    found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(found.x))


def apply_temperature(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(log p / T), float64 (N, C).

    Example:
        >>> apply_temperature(np.array([[0.8, 0.2]]), 2.0).round(3).tolist()
        [[0.667, 0.333]]
    """
    from scipy.special import softmax

    return np.asarray(softmax(np.log(np.maximum(probabilities, _FLOOR)) / temperature, axis=1))


@dataclass(frozen=True, eq=False)
class IsotonicCalibration:
    """Isotonic regression of "is it class c" on the probability of c, for each class, rows made to add up to 1.

    Make one with :meth:`fit`.

    Attributes:
        knots: for each class the probabilities at the steps and the shares there.
    """

    knots: tuple[tuple[np.ndarray, np.ndarray], ...]

    @staticmethod
    def fit(probabilities: np.ndarray, labels: np.ndarray, weights: np.ndarray | None = None) -> IsotonicCalibration:
        """Learn from labelled samples.

        Args:
            probabilities: (N, C), rows add up to 1.
            labels: (N,) true classes.
            weights: (N,), how much each sample counts; alike by default.

        Returns:
            The calibration. Two classes share one regression, so that their probabilities still add up to 1.

        Raises:
            InputError: there are no samples.

        Example:
            >>> said = np.array([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.2, 0.8]])
            >>> IsotonicCalibration.fit(said, np.array([0, 1, 0, 1])).apply(said)[:, 1].tolist()
            [0.0, 0.5, 0.5, 1.0]
        """
        from sklearn.isotonic import IsotonicRegression

        if len(labels) == 0:
            raise InputError("labels: isotonic calibration needs labelled samples, got none")
        first = 1 if probabilities.shape[1] == 2 else 0
        steps: list[tuple[np.ndarray, np.ndarray]] = []
        for c in range(first, probabilities.shape[1]):
            line = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip")
            line.fit(probabilities[:, c], (labels == c).astype(np.float64), sample_weight=weights)
            steps.append((np.asarray(line.X_thresholds_), np.asarray(line.y_thresholds_)))
        return IsotonicCalibration(tuple(steps))

    def apply(self, probabilities: np.ndarray) -> np.ndarray:
        """Return calibrated probabilities (N, C); a row where every class becomes 0 is left as it was."""
        columns = [
            np.interp(probabilities[:, probabilities.shape[1] - len(self.knots) + c], x, y)
            for c, (x, y) in enumerate(self.knots)
        ]
        if probabilities.shape[1] == 2:
            columns = [1 - columns[0], columns[0]]
        table = np.stack(columns, axis=1)
        sums = table.sum(axis=1, keepdims=True)
        return np.where(sums > 0, table / np.where(sums > 0, sums, 1), probabilities)


def expected_calibration_error(confidence: ArrayLike, correct: ArrayLike, *, bins: int = 15) -> float:
    """Mean distance of confidence from accuracy over bins that hold equally many samples.

    Bins differ by at most one sample and the last one is closed. Samples of equal confidence count with their common
    accuracy, so that the order of rows changes nothing where a bin ends among them.

    Args:
        confidence: (N,) in [0, 1].
        correct: (N,) truth values.
        bins: how many bins; no more than samples are used.

    Returns:
        The error in [0, 1], NaN of no samples.

    Raises:
        InputError: lengths that differ, or fewer than one bin.

    Example:
        >>> round(expected_calibration_error([0.9] * 4, [1, 1, 1, 0], bins=2), 6)
        0.15
    """
    sure, hit = np.asarray(confidence, dtype=np.float64), np.asarray(correct, dtype=np.float64)
    if sure.shape != hit.shape or sure.ndim != 1:
        raise InputError(f"confidence: got shape {sure.shape}, correct has {hit.shape}; expected (N,) for both")
    if bins < 1:
        raise InputError(f"bins: got {bins}, expected at least 1")
    if len(sure) == 0:
        return float("nan")
    values, inverse = np.unique(sure, return_inverse=True)
    common = np.bincount(inverse, weights=hit) / np.bincount(inverse)
    order = np.sort(inverse)
    parts = np.array_split(order, min(bins, len(order)))
    return float(sum(abs((values[part] - common[part]).sum()) for part in parts) / len(sure))
