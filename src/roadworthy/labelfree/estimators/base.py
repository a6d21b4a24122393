"""What an estimate of accuracy without labels is, and the table of estimators."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Protocol, Self, TypeVar

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.registry import Registry

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Estimate:
    """What one estimator says of unlabelled samples.

    Attributes:
        name: the estimator.
        accuracy: in [0, 1]; NaN of no samples.
        recall: (C,) of each class; NaN where it is undefined or the estimator has none.
        f1: (C,) likewise.
        note: what stands in the way of the rest, or "".
    """

    name: str
    accuracy: float
    recall: np.ndarray
    f1: np.ndarray
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return {entry.name: plain(getattr(self, entry.name)) for entry in fields(self)}


class Estimator(Protocol):
    """An estimator of accuracy: learns from labelled source samples, then judges samples without labels.

    Attributes:
        name: its public name.
        needs: what it takes beside probabilities: "features", "second" (probabilities of a second model).
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def needs(self) -> frozenset[str]: ...  # noqa: D102

    def fit(self, source: Outputs, *, seed: int = 0) -> Self:
        """Return a fitted copy."""

    def estimate(self, target: Outputs) -> Estimate:
        """Judge samples; their labels, where there are any, are not read."""


estimators: Registry[Estimator] = Registry("estimator")


def labelled(name: str, source: Outputs) -> np.ndarray:
    """Return the source's labels, or say what is missing.

    Raises:
        InputError: no labels, or no samples.
    """
    labels = source.known_labels(f"the estimator {name!r}")
    if len(labels) == 0:
        raise InputError(f"source: the estimator {name!r} learns from labelled samples, got none")
    return labels


def fitted(name: str, learnt: T | None) -> T:
    """Return what ``fit`` has learnt, or say that it was not called.

    Raises:
        InputError: the estimator is not fitted.
    """
    if learnt is None:
        raise InputError(f"the estimator {name!r} is not fitted; call its fit(source) and use what that returns")
    return learnt


def of_confusion(name: str, confusion: np.ndarray, note: str = "", *, accuracy: float | None = None) -> Estimate:
    """Build an estimate from an expected confusion matrix.

    Args:
        name: the estimator.
        confusion: (C, C) non-negative, rows the true class, columns the predicted one, in any unit.
        note: see :class:`Estimate`.
        accuracy: in place of the share on the diagonal.

    Returns:
        The estimate. Recall of a class that is never there is NaN, so is F1 of one neither there nor predicted.

    Example:
        >>> found = of_confusion("x", np.array([[3.0, 1.0], [0.0, 0.0]]))
        >>> found.accuracy, found.recall.tolist(), found.f1.round(3).tolist()
        (0.75, [0.75, nan], [0.857, 0.0])
    """
    hits, true, said = np.diag(confusion), confusion.sum(axis=1), confusion.sum(axis=0)
    total = confusion.sum()
    if accuracy is None:
        accuracy = float(hits.sum() / total) if total > 0 else float("nan")
    return Estimate(name, accuracy, _ratio(hits, true), _ratio(2 * hits, true + said), note)


def expected_confusion(probabilities: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Return the confusion matrix (C, C) to expect if these are the chances (N, C) of the true class."""
    count = probabilities.shape[1]
    return np.stack([np.bincount(predicted, weights=probabilities[:, c], minlength=count) for c in range(count)])


def accuracy_alone(name: str, accuracy: float, target: Outputs) -> Estimate:
    """Build an estimate of a method that says nothing of single classes."""
    nothing = np.full(target.class_count, np.nan)
    value = float(np.clip(accuracy, 0, 1)) if len(target) else float("nan")
    return Estimate(name, value, nothing, nothing, "estimates accuracy only, nothing of single classes")


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.where(whole > 0, part / np.where(whole > 0, whole, 1), np.nan)
