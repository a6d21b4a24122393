from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.statistics.resampling import canonical, expanded_interval, resampled_means


@settings(max_examples=40, deadline=None)
@given(
    hnp.arrays(np.float64, st.tuples(st.integers(1, 6), st.integers(1, 7)), elements=st.integers(-2, 2).map(float))
)
def test_canonical_rows_and_columns_are_those_of_lexsort(values: np.ndarray) -> None:
    kind = np.unique(np.sort(values + 0.0, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
    columns = np.lexsort((values + 0.0)[np.argsort(kind, kind="stable")])
    expected, places = np.unique((values + 0.0)[:, columns], axis=0, return_inverse=True)
    rows, back = canonical(values)
    assert np.array_equal(rows, expected)
    assert np.array_equal(back, places.reshape(-1))


def test_zero_has_one_sign_and_other_signs_are_in_order() -> None:
    rows, back = canonical(np.array([[-0.0, 1e-300], [0.0, 1e-300], [-2.0, -1e-300]]))
    assert rows.tolist() == [[-2.0, -1e-300], [0.0, 1e-300]]
    assert back.tolist() == [1, 1, 0]


def test_a_resampled_mean_is_that_of_drawn_columns() -> None:
    values = np.random.default_rng(1).random((3, 40))
    means = resampled_means(values, 4000, 7)
    assert means.mean(axis=0) == pytest.approx(values.mean(axis=1), abs=0.004)
    assert means.std(axis=0) == pytest.approx(values.std(axis=1) / np.sqrt(40), rel=0.06)
    weights = resampled_means(np.eye(40), 50, 7) * 40  # the mean of a column's indicator is its count
    assert weights == pytest.approx(np.round(weights), abs=1e-12)
    assert weights.sum(axis=1) == pytest.approx(np.full(50, 40))
    assert resampled_means(values, 50, 7) == pytest.approx(weights @ values.T / 40)


def test_hits_have_exact_means_and_purposes_draw_on_their_own() -> None:
    hits = np.random.default_rng(2).integers(0, 2, (5, 30)).astype(float)
    means = resampled_means(hits, 100, 0)
    assert np.array_equal(means, np.round(means * 30) / 30)
    assert not np.array_equal(means, resampled_means(hits, 100, 0, "another"))
    assert np.array_equal(means, resampled_means(hits, 100, 0))


def test_the_interval_is_widened_by_students_t() -> None:
    moved = np.random.default_rng(3).normal(size=(5000, 2))
    low, high = expanded_interval(moved, 0.9, 8)
    tail = scipy.stats.norm.cdf(scipy.stats.t.ppf(0.05, 7) * np.sqrt(8 / 7))
    assert np.stack([low, high]) == pytest.approx(np.quantile(moved, [tail, 1 - tail], axis=0))
    assert np.isnan(expanded_interval(moved, 0.9, 1)).all()
