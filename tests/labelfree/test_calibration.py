"""Calibration against a grid, scikit-learn and a plain loop over bins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.isotonic import IsotonicRegression

from roadworthy.errors import InputError
from roadworthy.labelfree.calibration import (
    IsotonicCalibration,
    apply_temperature,
    expected_calibration_error,
    fit_temperature,
)


def drawn(n: int, count: int, seed: int, sharper: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities, and labels drawn from them before they were made ``sharper``."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(n, count)) * 2
    chances = softmax(logits, axis=1)
    labels = (rng.uniform(size=(n, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    return softmax(sharper * logits, axis=1), np.minimum(labels, count - 1)


def test_the_temperature_is_the_best_of_a_fine_grid() -> None:
    said, labels = drawn(500, 3, 0, sharper=2.5)
    grid = np.exp(np.linspace(np.log(0.2), np.log(10), 4000))
    losses = [-log_softmax(np.log(said) / t, axis=1)[np.arange(500), labels].mean() for t in grid]
    assert fit_temperature(said, labels) == pytest.approx(grid[np.argmin(losses)], rel=2e-3)


def test_a_planted_temperature_is_found() -> None:
    said, labels = drawn(20_000, 4, 1, sharper=3)
    assert fit_temperature(said, labels) == pytest.approx(3, rel=0.05)


def test_temperature_of_no_samples_of_one_and_of_a_source_without_errors() -> None:
    assert fit_temperature(np.zeros((0, 2)), np.zeros(0, dtype=int)) == 1
    sure = np.array([[0.9, 0.1]] * 20)
    assert fit_temperature(sure, np.zeros(20, dtype=int)) < 0.1  # only the bound of the search stops it
    assert 0.05 <= fit_temperature(np.array([[1.0, 0.0]]), np.array([1])) <= 20 * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.1, 10))
def test_temperature_keeps_the_order_of_classes(seed: int, temperature: float) -> None:
    said, _ = drawn(20, 4, seed)
    scaled = apply_temperature(said, temperature)
    np.testing.assert_allclose(scaled.sum(axis=1), 1)
    np.testing.assert_array_equal(scaled.argmax(axis=1), said.argmax(axis=1))


def test_two_classes_are_scikit_learns_isotonic_regression() -> None:
    said, labels = drawn(300, 2, 2, sharper=3)
    weights = np.random.default_rng(0).uniform(0.1, 2, 300)
    there, _ = drawn(200, 2, 3)
    for given_weights in (None, weights):
        theirs = IsotonicRegression(out_of_bounds="clip").fit(said[:, 1], labels, sample_weight=given_weights)
        ours = IsotonicCalibration.fit(said, labels, given_weights).apply(there)
        np.testing.assert_allclose(ours[:, 1], theirs.predict(there[:, 1]), atol=1e-12)
        np.testing.assert_allclose(ours.sum(axis=1), 1)


def test_several_classes_are_one_regression_each_made_to_add_up() -> None:
    said, labels = drawn(400, 3, 4)
    columns = [
        IsotonicRegression(out_of_bounds="clip").fit(said[:, c], labels == c).predict(said[:, c]) for c in range(3)
    ]
    table = np.stack(columns, axis=1)
    ours = IsotonicCalibration.fit(said, labels).apply(said)
    np.testing.assert_allclose(ours, table / table.sum(axis=1, keepdims=True), atol=1e-12)


def test_a_class_never_seen_gets_no_chance_and_an_empty_row_stays() -> None:
    said = np.array([[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.6, 0.2, 0.2]])
    calibration = IsotonicCalibration.fit(said, np.array([0, 1, 0]))
    assert calibration.apply(said)[:, 2].tolist() == [0, 0, 0]
    only_third = np.array([[0.0, 0.0, 1.0]])
    np.testing.assert_array_equal(calibration.apply(only_third), only_third)


def test_isotonic_needs_samples() -> None:
    with pytest.raises(InputError, match="needs labelled samples, got none"):
        IsotonicCalibration.fit(np.zeros((0, 2)), np.zeros(0, dtype=int))


def by_hand(confidence: np.ndarray, correct: np.ndarray, bins: int) -> float:
    order = np.argsort(confidence, kind="stable")
    parts = np.array_split(order, min(bins, len(order)))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    return sum(len(p) * abs(confidence[p].mean() - correct[p].mean()) for p in parts) / len(order)


def test_calibration_error_without_ties_is_the_plain_loop() -> None:
    rng = np.random.default_rng(5)
    sure = rng.uniform(size=103)
    hit = rng.uniform(size=103) < sure
    for bins in (1, 7, 15, 103, 500):
        assert expected_calibration_error(sure, hit, bins=bins) == pytest.approx(by_hand(sure, hit, bins), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([0.5, 0.6, 0.9, 1.0]), st.booleans()), min_size=1, max_size=40), st.randoms()
)
def test_calibration_error_does_not_depend_on_the_order_of_rows(rows: list, random) -> None:  # type: ignore[no-untyped-def]
    first = expected_calibration_error(*zip(*rows, strict=True), bins=4)
    random.shuffle(rows)
    assert expected_calibration_error(*zip(*rows, strict=True), bins=4) == first


def test_calibration_error_at_the_edges() -> None:
    assert expected_calibration_error([1.0], [True]) == 0  # the last bin is closed
    assert expected_calibration_error([1.0, 1.0], [True, False]) == 0.5
    assert np.isnan(expected_calibration_error([], []))
    with pytest.raises(InputError, match=r"got shape \(2,\), correct has \(1,\)"):
        expected_calibration_error([0.5, 0.5], [True])
    with pytest.raises(InputError, match="got 0, expected at least 1"):
        expected_calibration_error([0.5], [True], bins=0)
