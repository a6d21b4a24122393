"""What holds of every estimator: edge cases, order of rows, planted accuracy, and the errors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from roadworthy.errors import InputError
from roadworthy.labelfree.estimators import Estimate, estimators
from roadworthy.labelfree.outputs import Outputs

NAMES = tuple(estimators)
CONFUSION = ("source", "ac", "cbpe", "pape", "gde", "importance-weighted")


def planted(n: int, mean: float, seed: int, start: int = 0, *, labels: bool = True) -> Outputs:
    """Gaussian features, two classes with P(1 | x) = expit(2 x); the model knows it. The second draws from it."""
    rng = np.random.default_rng(seed)
    x = rng.normal(mean, 1, n)
    p = expit(2 * x)
    truth = (rng.uniform(size=n) < p).astype(int)
    second = np.where(rng.uniform(size=n) < p, 0.9, 0.1)
    return Outputs.of(p, features=x, labels=truth if labels else None, second=second, ids=range(start, start + n))


def accuracy(mean: float) -> float:
    """Accuracy of the planted model, by integration."""
    return quad(lambda x: norm.pdf(x, mean) * max(expit(2 * x), 1 - expit(2 * x)), -9, 9, limit=200)[0]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "nuclear-norm"])
def test_accuracy_in_the_own_domain_is_close(name: str) -> None:
    found = estimators[name].fit(planted(4000, 0, 0)).estimate(planted(4000, 0, 1, 10**5))
    assert found.name == name
    assert found.accuracy == pytest.approx(accuracy(0), abs=0.03)


@pytest.mark.parametrize("name", ["ac", "doc", "cbpe", "pape", "importance-weighted", "gde"])
def test_accuracy_is_close_where_the_inputs_alone_have_moved(name: str) -> None:
    found = estimators[name].fit(planted(4000, 0, 0)).estimate(planted(4000, 1, 1, 10**5))
    assert abs(accuracy(1) - accuracy(0)) > 0.05
    assert found.accuracy == pytest.approx(accuracy(1), abs=0.03)


@pytest.mark.parametrize("name", CONFUSION)
def test_recall_and_f1_in_the_own_domain_are_close(name: str) -> None:
    target = planted(4000, 0.5, 1, 10**5)
    source = planted(4000, 0.5, 0)
    found = estimators[name].fit(source).estimate(target)
    assert target.labels is not None
    for c in (0, 1):
        hits = ((target.labels == c) & (target.predicted == c)).sum()
        true, said = (target.labels == c).sum(), (target.predicted == c).sum()
        assert found.recall[c] == pytest.approx(hits / true, abs=0.05)
        assert found.f1[c] == pytest.approx(2 * hits / (true + said), abs=0.05)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_rows_changes_nothing(name: str) -> None:
    source, target = planted(1100, 0, 2), planted(1200, 0.5, 3, 10**5)
    rng = np.random.default_rng(0)
    first = estimators[name].fit(source).estimate(target)
    turned = estimators[name].fit(source.take(rng.permutation(1100))).estimate(target.take(rng.permutation(1200)))
    assert turned.accuracy == pytest.approx(first.accuracy, abs=1e-9)
    np.testing.assert_allclose(turned.recall, first.recall, atol=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_labels_of_the_target_are_not_read_and_calls_repeat(name: str) -> None:
    fitted = estimators[name].fit(planted(300, 0, 2), seed=3)
    with_labels, without = planted(200, 0, 3, 10**5), planted(200, 0, 3, 10**5, labels=False)
    assert fitted.estimate(with_labels).accuracy == fitted.estimate(without).accuracy
    assert fitted.estimate(without).accuracy == fitted.estimate(without).accuracy


@pytest.mark.parametrize("name", NAMES)
def test_one_class_and_one_prediction(name: str) -> None:
    """100 confidences, all predictions class 0 and all labels 0: a row for each class, K - 1 of them undefined."""
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.5, 1, 100)
    rest = (1 - sure)[:, None] * [0.5, 0.5]
    lone = Outputs.of(
        np.hstack([sure[:, None], rest]),
        labels=np.zeros(100),
        features=rng.normal(size=(100, 2)),
        second=np.hstack([sure[:, None], rest]),
    )
    found = estimators[name].fit(lone).estimate(lone)
    assert len(found.recall) == len(found.f1) == 3
    assert 0 <= found.accuracy <= 1
    if name in ("source", "cbpe", "pape", "importance-weighted", "gde"):
        assert found.accuracy == pytest.approx(1)
        assert found.recall[0] == found.f1[0] == 1
        assert np.isnan(found.recall[1:]).all()
        assert np.isnan(found.f1[1:]).all()


@pytest.mark.parametrize("name", NAMES)
def test_one_sample_and_none(name: str) -> None:
    fitted = estimators[name].fit(planted(100, 0, 4))
    one = planted(1, 0, 5, 10**5)
    assert 0 <= fitted.estimate(one).accuracy <= 1
    nothing = fitted.estimate(one.take([]))
    assert np.isnan(nothing.accuracy)
    assert nothing.recall.shape == (2,)
    assert 0 <= estimators[name].fit(one).estimate(planted(50, 0, 6)).accuracy <= 1


@pytest.mark.parametrize("name", NAMES)
def test_equal_probabilities_everywhere(name: str) -> None:
    flat = Outputs.of(
        np.full((40, 4), 0.25), labels=np.arange(40) % 4, features=np.ones((40, 1)), second=np.full((40, 4), 0.25)
    )
    assert 0 <= estimators[name].fit(flat).estimate(flat).accuracy <= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_source_without_labels_or_samples_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="pass labels="):
        estimators[name].fit(planted(10, 0, 0, labels=False))
    with pytest.raises(InputError, match="learns from labelled samples, got none"):
        estimators[name].fit(planted(10, 0, 0).take([]))


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gde"])
def test_an_estimator_that_was_not_fitted_says_so(name: str) -> None:
    with pytest.raises(InputError, match="not fitted"):
        estimators[name].estimate(planted(10, 0, 0))


def test_what_an_estimator_needs_is_asked_for() -> None:
    bare, full = Outputs.of([0.2, 0.8], labels=[0, 1]), planted(50, 0, 0)
    for name in ("pape", "importance-weighted"):
        assert estimators[name].needs == {"features"}
        with pytest.raises(InputError, match="pass features="):
            estimators[name].fit(bare)
        with pytest.raises(InputError, match="pass features="):
            estimators[name].fit(full).estimate(bare)
    with pytest.raises(InputError, match="pass second="):
        estimators["gde"].fit(full).estimate(bare)


def test_names_and_descriptions() -> None:
    with pytest.raises(InputError, match="Did you mean 'cbpe'"):
        estimators["cbpee"]
    assert all(estimators[name].name == name for name in NAMES)
    assert all(estimators.describe(name) for name in NAMES)


def test_an_estimate_becomes_json() -> None:
    found = Estimate("x", float("nan"), np.array([0.5, np.nan]), np.array([1.0, np.nan]), "why").as_dict()
    assert json.loads(json.dumps(found)) == {
        "name": "x",
        "accuracy": None,
        "recall": [0.5, None],
        "f1": [1.0, None],
        "note": "why",
    }
