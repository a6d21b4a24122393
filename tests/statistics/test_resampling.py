from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.statistics.resampling import (
    canonical,
    expanded_interval,
    random_bytes,
    resampled_means,
    weighted_means,
)


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


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_draws_of_few_samples_are_multinomial(n: int) -> None:
    counts = np.round(resampled_means(np.eye(n), 20_000, 11) * n).astype(int)
    kinds, seen = np.unique(counts, axis=0, return_counts=True)
    expected = 20_000 * scipy.stats.multinomial.pmf(kinds, n, np.full(n, 1 / n))
    assert expected.sum() == pytest.approx(20_000)  # every way to draw has come up
    assert n == 1 or scipy.stats.chisquare(seen, expected).pvalue > 0.01


def test_draws_of_many_samples_are_multinomial() -> None:
    n, draws = 600, 3000
    counts = np.round(resampled_means(np.eye(n), draws, 12) * n).astype(int)
    assert (counts.sum(axis=1) == n).all()
    one_cell = n * draws * scipy.stats.binom.pmf(np.arange(8), n, 1 / n)
    assert scipy.stats.chisquare(np.bincount(counts.ravel())[:7], one_cell[:7], sum_check=False).pvalue > 0.01
    cells = counts.sum(axis=0)  # every sample is drawn equally often
    assert scipy.stats.chisquare(cells).pvalue > 0.01
    for part in (150, 300):  # and what falls into a part of the samples is binomial: cells depend on each other
        tails = scipy.stats.binom.cdf(counts[:, :part].sum(axis=1), n, part / n)
        assert np.bincount((10 * tails).astype(int).clip(0, 9)) == pytest.approx(np.full(10, draws / 10), rel=0.25)
        assert counts[:, :part].sum(axis=1).var() == pytest.approx(part * (1 - part / n), rel=0.1)


def test_blocks_of_samples_and_draws_add_up() -> None:
    values = np.random.default_rng(4).normal(size=(3, 1100))
    weights = resampled_means(np.eye(1100), 600, 9) * 1100  # more than one block of either
    assert weights == pytest.approx(np.round(weights), abs=1e-9)
    assert resampled_means(values, 600, 9) == pytest.approx(np.round(weights) @ values.T / 1100, abs=1e-14)


def test_weights_may_come_in_fewer_rows_than_asked_for() -> None:
    drawn = iter(np.arange(14).reshape(7, 2))
    asked: list[int] = []

    def weights(size: int) -> np.ndarray:
        asked.append(size)
        return np.array([next(drawn) for _ in range(min(size, 2))])

    means = weighted_means(weights, np.array([[1.0, 10.0], [2.0, 0.0]]), 5)
    assert means.tolist() == [[5, 0], [16, 2], [27, 4], [38, 6], [49, 8]]
    assert asked == [5, 3, 1]


def test_bytes_are_those_of_the_generator_from_the_lowest() -> None:
    words = [int(word) for word in np.random.Philox(key=5).random_raw(2)]
    expected = b"".join(word.to_bytes(8, "little") for word in words)
    assert random_bytes(np.random.Generator(np.random.Philox(key=5)), 11).tobytes() == expected[:11]
