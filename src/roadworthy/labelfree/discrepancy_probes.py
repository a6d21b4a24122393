"""Small classifiers that tell a few wild samples from source samples, and how well they then do on held-out ones."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from roadworthy.registry import Registry
from roadworthy.rng import derive, numpy_generator
from roadworthy.statistics import area_under_roc

Metric: TypeAlias = Callable[[np.ndarray, np.ndarray], float]
Probe: TypeAlias = Callable[[int], Any]

probes: Registry[Probe] = Registry("probe")
metrics: Registry[Metric] = Registry("metric")


@probes.register("logistic", "logistic regression with scikit-learn's defaults, as published")
def _logistic(seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


@probes.register("random-forest", "200 trees (published with 1000)")
def _forest(seed: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=200, random_state=seed)


@probes.register("linear-svc", "linear support vector machine")
def _svc(seed: int) -> Any:
    from sklearn.svm import LinearSVC

    return LinearSVC(max_iter=10_000, random_state=seed)


@probes.register("mlp", "network with hidden layers of 100 and 50")
def _mlp(seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(hidden_layer_sizes=(100, 50), max_iter=500, random_state=seed)


metrics.add("auc", area_under_roc, "area under the ROC curve of the probe's scores")


@metrics.register("accuracy", "share of held-out samples that the probe gets right")
def _accuracy(scores: np.ndarray, positive: np.ndarray) -> float:
    return float(((scores > 0) == positive).mean())


@metrics.register("precision", "share of those called positive that are; NaN where none is")
def _precision(scores: np.ndarray, positive: np.ndarray) -> float:
    said = scores > 0
    return float(positive[said].mean()) if said.any() else float("nan")


@metrics.register("recall", "share of positives that are called so; NaN where there is none")
def _recall(scores: np.ndarray, positive: np.ndarray) -> float:
    return float((scores > 0)[positive].mean()) if positive.any() else float("nan")


@dataclass(frozen=True, eq=False)
class Bench:
    """Source samples of one class against the rest, and how a probe is tried on them.

    Attributes:
        train: float64 (S, D), standardised features.
        train_positive: bool (S,).
        test: float64 (T, D), in the same units.
        test_positive: bool (T,).
        probe: a name of ``probes``.
        metric: a name of ``metrics``.
        points: samples of each side that a probe is fitted on.
        repeats: draws.
        seed: of all draws.
    """

    train: np.ndarray
    train_positive: np.ndarray
    test: np.ndarray
    test_positive: np.ndarray
    probe: str
    metric: str
    points: int
    repeats: int
    seed: int

    def discrepancies(self, wild: np.ndarray, key: str, own_test: np.ndarray | None = None) -> np.ndarray:
        """Return the discrepancy of each draw, float64 (R,); NaN where too few samples are there.

        Args:
            wild: float64 (M, D), samples of one interval in an order that does not depend on the caller's.
            key: names the interval: others draw independently.
            own_test: (M,) rows of ``test`` where the wild samples are held-out ones; those drawn are not tried on.
        """
        found = np.full(self.repeats, np.nan)
        sides = [np.flatnonzero(self.train_positive == side) for side in (False, True)]
        if min(len(wild), *map(len, sides)) < self.points:
            return found
        for repeat in range(self.repeats):
            generator = numpy_generator(self.seed, "discrepancy", key, repeat)
            scores = []
            for label in (0, 1):  # drawn anew for each label: what one draw is off by does not count twice
                chosen = generator.permutation(len(wild))[: self.points]
                other = sides[1 - label][generator.permutation(len(sides[1 - label]))[: self.points]]
                kept = np.ones(len(self.test), dtype=bool)
                if own_test is not None:
                    kept[own_test[chosen]] = False
                scores.append(self._tried(wild[chosen], self.train[other], label, kept, repeat))
            found[repeat] = scores[0] - scores[1]
        return found

    def _tried(self, wild: np.ndarray, others: np.ndarray, label: int, kept: np.ndarray, repeat: int) -> float:
        """Give all wild samples one label, the source samples have the other; how well does that serve the source?"""
        from sklearn.exceptions import ConvergenceWarning

        if not kept.any():
            return float("nan")
        values = np.concatenate([wild, others])
        called = np.repeat([label, 1 - label], self.points)
        model = probes[self.probe](derive(self.seed, "probe", repeat) % 2**32)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # a few points are often parted without end
            model.fit(values, called)
        if hasattr(model, "decision_function"):
            scores = model.decision_function(self.test[kept])
        else:
            scores = model.predict_proba(self.test[kept])[:, 1] - 0.5
        return metrics[self.metric](np.asarray(scores), self.test_positive[kept])
