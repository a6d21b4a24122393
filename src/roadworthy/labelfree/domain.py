"""Source against target: a cross-fitted classifier of where a sample is from, and what its odds say."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from roadworthy.labelfree.outputs import Outputs
from roadworthy.rng import numpy_generator
from roadworthy.statistics import area_under_roc

MOST_ROWS = 1000  # of each side; the area changes by less than its own error beyond
_FOLDS = 5
_WIDTH = 128  # wider features are brought to as many principal components
_RATIO = 20.0  # weights beyond make a mean of a few samples


@dataclass(frozen=True, eq=False)
class Domain:
    """What a classifier that tells source from target found.

    Attributes:
        auc: area under its ROC curve on samples it was not fitted on: .5 nothing to tell, 1 apart; NaN where a side
            has fewer than two samples.
        rows: source rows that were used.
        weights: for each of them how much commoner such samples are in the target, mean 1.
    """

    auc: float
    rows: np.ndarray
    weights: np.ndarray


# Two estimators, the measure of shift and a gate ask the same; nothing is kept longer than its samples are.
_found: WeakKeyDictionary[Outputs, WeakKeyDictionary[Outputs, dict[tuple[int, int], Domain]]] = WeakKeyDictionary()


def drawn_rows(outputs: Outputs, most: int, *, seed: int, purpose: str) -> np.ndarray:
    """Return at most ``most`` row numbers, drawn without replacement and the same for any order of the rows.

    Example:
        >>> said = Outputs.of([0.1, 0.2, 0.3], ids=["a", "b", "c"])
        >>> kept = said.take(drawn_rows(said, 2, seed=0, purpose="x")).ids
        >>> turned = said.take([2, 1, 0])
        >>> kept == turned.take(drawn_rows(turned, 2, seed=0, purpose="x")).ids
        True
    """
    order = np.argsort(np.array(outputs.ids, dtype=str), kind="stable")
    if len(order) <= most:
        return order
    return order[numpy_generator(seed, purpose).choice(len(order), most, replace=False)]


def description(outputs: Outputs) -> np.ndarray:
    """Return what a sample is described by, float64 (N, D): its features, or else the log of its probabilities."""
    if outputs.features is not None:
        return outputs.features.astype(np.float64)
    return np.log(np.maximum(outputs.probabilities, 1e-6))


def tell_apart(source: Outputs, target: Outputs, *, seed: int = 0, most: int = MOST_ROWS) -> Domain:
    """Fit logistic regressions that tell source from target samples, each judged on samples it has not seen.

    Features are standardised; more than 128 are brought to 128 principal components. Without features the log
    probabilities are used. Density ratios follow from the odds (Bickel et al. 2007); they are cut at 20.

    Args:
        source: samples of the user's own domain.
        target: the others.
        seed: for the draw of rows and the folds.
        most: rows of each side at most.

    Returns:
        The area under the curve, and weights of the source rows used.

    Example:
        >>> near = Outputs.of(np.full(40, 0.5), features=np.arange(40.0)[:, None])
        >>> far = Outputs.of(np.full(40, 0.5), features=np.arange(40.0)[:, None] + 100)
        >>> tell_apart(near, far).auc
        1.0
    """
    known = _found.setdefault(target, WeakKeyDictionary()).setdefault(source, {})
    if (seed, most) not in known:
        known[seed, most] = _told_apart(source, target, seed, most)
    return known[seed, most]


def _told_apart(source: Outputs, target: Outputs, seed: int, most: int) -> Domain:
    rows = drawn_rows(source, most, seed=seed, purpose="domain source")
    others = drawn_rows(target, most, seed=seed, purpose="domain target")
    folds = min(_FOLDS, len(rows), len(others))
    if folds < 2:
        return Domain(float("nan"), rows, np.ones(len(rows)))
    values = np.concatenate([description(source)[rows], description(target)[others]])
    values = _narrow(values - values.mean(axis=0), seed)
    is_target = np.repeat([0, 1], [len(rows), len(others)])
    scores = _cross_fitted(values, is_target, folds, seed)
    # the odds hold the sizes of the two sides too: they are taken out before the cut, which would depend on them
    ratio = np.minimum(np.exp(scores[: len(rows)]) * len(rows) / len(others), _RATIO)
    return Domain(area_under_roc(scores, is_target), rows, ratio / ratio.mean())


def _narrow(centred: np.ndarray, seed: int) -> np.ndarray:
    """Standardise, and take principal components of wide features."""
    spread = centred.std(axis=0)
    values = centred[:, spread > 0] / spread[spread > 0]
    if values.shape[1] > _WIDTH:
        from sklearn.decomposition import TruncatedSVD

        values = TruncatedSVD(_WIDTH, random_state=seed % 2**32).fit_transform(values)
        values = values / np.maximum(values.std(axis=0), 1e-12)
    return values if values.shape[1] else np.zeros((len(centred), 1))


def _cross_fitted(values: np.ndarray, is_target: np.ndarray, folds: int, seed: int) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    part = np.empty(len(is_target), dtype=np.int64)
    generator = numpy_generator(seed, "domain folds")
    for side in (0, 1):
        rows = np.flatnonzero(is_target == side)
        part[generator.permutation(rows)] = np.arange(len(rows)) % folds
    scores = np.empty(len(is_target))
    for fold in range(folds):
        model = LogisticRegression(C=0.1, max_iter=200).fit(values[part != fold], is_target[part != fold])
        scores[part == fold] = model.decision_function(values[part == fold])
    return scores
