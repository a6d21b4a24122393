"""Each estimator's number against its formula, written out another way."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.special import softmax
from sklearn.isotonic import IsotonicRegression
from sklearn.metrics import confusion_matrix, f1_score, recall_score

from roadworthy.labelfree.estimators import estimators
from roadworthy.labelfree.estimators.base import of_confusion
from roadworthy.labelfree.estimators.cot import transported
from roadworthy.labelfree.estimators.nuclear_norm import nuclear_norm
from roadworthy.labelfree.outputs import Outputs


def said(n: int, count: int, seed: int, *, step: float | None = None) -> Outputs:
    rng = np.random.default_rng(seed)
    table = softmax(2 * rng.normal(size=(n, count)), axis=1)
    if step:  # ties
        table = np.maximum(np.round(table / step), 0.01)
        table /= table.sum(axis=1, keepdims=True)
    return Outputs.of(table, labels=rng.integers(0, count, n))


def test_source_accuracy_is_scikit_learns() -> None:
    source = said(200, 4, 0)
    found = estimators["source"].fit(source).estimate(said(3, 4, 1))
    np.testing.assert_allclose(found.recall, recall_score(source.labels, source.predicted, average=None))
    np.testing.assert_allclose(found.f1, f1_score(source.labels, source.predicted, average=None))
    assert found.accuracy == source.accuracy


def test_doc_is_the_change_of_confidence_within_bounds() -> None:
    source = Outputs.of([0.9, 0.8, 0.7, 0.6], labels=[1, 1, 1, 0])
    doc = estimators["doc"].fit(source)
    assert doc.estimate(Outputs.of([0.6, 0.6])).accuracy == pytest.approx(0.75 + 0.6 - 0.75)
    assert doc.estimate(Outputs.of([1.0])).accuracy == pytest.approx(1.0)
    wrong = Outputs.of([0.99] * 4, labels=[0] * 4)
    assert estimators["doc"].fit(wrong).estimate(Outputs.of([0.6])).accuracy == 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 30), st.sampled_from([None, 0.25]), st.sampled_from(["atc", "atc-entropy"])
)
def test_the_atc_threshold_is_the_best_of_all(seed: int, n: int, step: float | None, name: str) -> None:
    source, target = said(n, 3, seed, step=step), said(25, 3, seed + 1, step=step)

    def scores(outputs: Outputs) -> np.ndarray:
        p = outputs.probabilities
        found = p.max(axis=1) if name == "atc" else (p * np.log(np.where(p > 0, p, 1))).sum(axis=1)
        return found.round(9)

    error = 1 - source.accuracy
    candidates = [*sorted(set(scores(source))), np.inf]
    gaps = [abs((scores(source) < t).mean() - error) for t in candidates]
    best = min(gaps)
    allowed = [
        (scores(target) >= t - 1e-12).mean() for t, gap in zip(candidates, gaps, strict=True) if gap <= best + 1e-12
    ]
    assert min(abs(estimators[name].fit(source).estimate(target).accuracy - a) for a in allowed) < 1e-9


def test_cbpe_is_the_sum_of_calibrated_chances() -> None:
    source, target = said(300, 2, 2), said(80, 2, 3)
    line = IsotonicRegression(out_of_bounds="clip").fit(source.probabilities[:, 1], source.labels)
    one = line.predict(target.probabilities[:, 1])
    chances = np.stack([1 - one, one], axis=1)
    found = estimators["cbpe"].fit(source).estimate(target)
    assert found.accuracy == pytest.approx(chances[np.arange(80), target.predicted].mean())
    for c in (0, 1):
        hits = chances[target.predicted == c, c].sum()
        assert found.recall[c] == pytest.approx(hits / chances[:, c].sum())
        assert found.f1[c] == pytest.approx(2 * hits / (chances[:, c].sum() + (target.predicted == c).sum()))


def test_pape_with_the_source_as_target_is_close_to_cbpe() -> None:
    rng = np.random.default_rng(4)
    base = said(600, 2, 4)
    source = Outputs.of(base.probabilities, labels=base.labels, features=rng.normal(size=(600, 2)))
    pape, cbpe = (estimators[name].fit(source).estimate(source).accuracy for name in ("pape", "cbpe"))
    assert pape == pytest.approx(cbpe, abs=0.02)


def test_pape_calibrates_where_the_target_is() -> None:
    """The model says .7 everywhere; it is right half of the time at x = 0 and nine times of ten at x = 1."""
    rng = np.random.default_rng(5)
    x = np.arange(1000) % 2
    labels = (rng.uniform(size=1000) < np.where(x == 1, 0.9, 0.5)).astype(int)
    source = Outputs.of(np.full(1000, 0.7), labels=labels, features=x)
    target = Outputs.of(np.full(300, 0.7), features=np.ones(300))
    assert estimators["cbpe"].fit(source).estimate(target).accuracy == pytest.approx(0.7, abs=0.03)
    assert estimators["pape"].fit(source).estimate(target).accuracy == pytest.approx(0.9, abs=0.04)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6))
def test_transport_is_the_best_of_all_assignments(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = softmax(rng.normal(size=(6, 3)), axis=1)
    slots = [0, 0, 0, 1, 1, 2]
    best = max(sum(table[row, c] for row, c in enumerate(given_)) for given_ in set(permutations(slots)))
    given_labels = transported(table, np.array([0.5, 1 / 3, 1 / 6]))
    assert np.bincount(given_labels).tolist() == [3, 2, 1]
    assert table[np.arange(6), given_labels].sum() == pytest.approx(best)


def test_class_counts_are_rounded_by_largest_remainders() -> None:
    table = said(7, 3, 10).probabilities
    assert np.bincount(transported(table, np.array([0.5, 0.3, 0.2]))).tolist() == [4, 2, 1]  # 3.5, 2.1, 1.4


def test_transport_costs_what_a_linear_program_says() -> None:
    source, target = said(400, 4, 5), said(40, 4, 6)
    marginal = np.bincount(source.labels, minlength=4) / 400
    counts = np.bincount(transported(target.probabilities, marginal), minlength=4)
    cost = 0.5 * np.abs(target.probabilities[:, None] - np.eye(4)[None]).sum(axis=2)
    rows = np.kron(np.eye(40), np.ones(4))
    columns = np.kron(np.ones(40), np.eye(4))
    solved = linprog(cost.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([np.ones(40), counts]))
    assert np.abs(counts / 40 - marginal).max() < 1 / 40
    assert 1 - estimators["cot"].fit(source).estimate(target).accuracy == pytest.approx(solved.fun / 40)


def test_transport_sees_that_a_collapsed_model_cannot_be_right() -> None:
    source = Outputs.of([0.1, 0.9] * 50, labels=[0, 1] * 50)
    collapsed = Outputs.of(np.full(100, 0.999))
    assert estimators["cot"].fit(source).estimate(collapsed).accuracy == pytest.approx(0.5)
    assert estimators["ac"].fit(source).estimate(collapsed).accuracy > 0.95


def test_gde_is_agreement_with_the_second_model_as_truth() -> None:
    first, second = said(150, 3, 7), said(150, 3, 8)
    both = Outputs.of(first.probabilities, labels=first.labels, second=second.probabilities)
    found = estimators["gde"].fit(both).estimate(both)
    assert found.accuracy == pytest.approx((first.predicted == second.predicted).mean())
    np.testing.assert_allclose(found.recall, recall_score(second.predicted, first.predicted, average=None))


def test_the_nuclear_norm_at_its_ends_and_by_hand() -> None:
    assert nuclear_norm(np.eye(4)[np.arange(40) % 4]) == pytest.approx(1)  # sure, all classes
    assert nuclear_norm(np.eye(4)[np.zeros(40, dtype=int)]) == pytest.approx(0.5)  # sure, one class: 1 / sqrt(C)
    assert nuclear_norm(np.full((40, 4), 0.25)) == pytest.approx(0.25)  # nothing known
    table = said(30, 3, 9).probabilities
    eigen = np.linalg.eigvalsh(table.T @ table)
    assert nuclear_norm(table) == pytest.approx(np.sqrt(eigen).sum() / np.sqrt(3 * 30))
    assert np.isnan(nuclear_norm(np.zeros((0, 3))))


def test_the_nuclear_norm_ranks() -> None:
    rng = np.random.default_rng(0)
    logits, labels = rng.normal(size=(1500, 5)), rng.integers(0, 5, 1500)
    logits[np.arange(1500), labels] += 3
    source = Outputs.of(logits=2 * logits, labels=labels)
    fitted = estimators["nuclear-norm"].fit(source)
    values = [fitted.estimate(Outputs.of(logits=scale * logits)).accuracy for scale in (0.8, 1, 1.5, 2)]
    assert values == sorted(values)
    assert len(set(values)) == 4


def test_a_confusion_matrix_gives_scikit_learns_figures() -> None:
    rng = np.random.default_rng(1)
    true, predicted = rng.integers(0, 4, (2, 300))
    found = of_confusion("x", confusion_matrix(true, predicted).astype(float))
    np.testing.assert_allclose(found.recall, recall_score(true, predicted, average=None))
    np.testing.assert_allclose(found.f1, f1_score(true, predicted, average=None))
    assert found.accuracy == (true == predicted).mean()
