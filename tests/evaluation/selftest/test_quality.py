"""Average precision, order and clear pairs against scikit-learn, SciPy and counts by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn.metrics import average_precision_score

from roadworthy.errors import InputError
from roadworthy.evaluation.selftest.quality import Order, average_precision, clear_pairs, order_found, together


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_average_precision_is_sklearns_where_nothing_is_tied(seed: int) -> None:
    draw = np.random.default_rng(seed)
    values, relevant = draw.permutation(30).reshape(2, 3, 5), draw.random((2, 3, 5)) < 0.4
    relevant[:, 0, 0] = True
    found = average_precision(values, relevant, seed=0, ids=["a", "b"])
    for row in range(2):
        assert found[row] == pytest.approx(average_precision_score(relevant[row].ravel(), values[row].ravel()))


def test_ties_are_taken_by_the_draw_of_the_evaluation_so_a_constant_map_is_a_random_one() -> None:
    relevant = np.zeros((400, 5, 5), dtype=bool)
    relevant[:, 2, 2] = True
    found = average_precision(np.zeros((400, 5, 5)), relevant, seed=0, ids=[str(row) for row in range(400)])
    # one relevant unit among 25: precision is 1 / place, the place uniform
    assert found.mean() == pytest.approx(np.mean(1 / np.arange(1, 26)), abs=0.03)
    assert len(np.unique(found)) > 20


def test_a_sample_without_a_relevant_unit_has_no_precision() -> None:
    with pytest.raises(InputError, match="sample 1 has no relevant unit"):
        average_precision(np.zeros((2, 3)), np.array([[True, False, False], [False] * 3]), seed=0, ids=["a", "b"])


def test_order_is_spearmans_of_the_means_and_its_interval_holds_it() -> None:
    draw = np.random.default_rng(5)
    scores = draw.normal(size=(8, 60)) + np.arange(8)[:, None] * 0.3
    quality = draw.normal(size=8)
    found = order_found(scores, quality, draws=400)
    assert found.rho == pytest.approx(stats.spearmanr(scores.mean(axis=1), quality).statistic)
    assert found.low <= found.rho <= found.high
    assert found.low < found.high


def test_quality_per_sample_is_resampled_with_the_scores() -> None:
    draw = np.random.default_rng(5)
    quality = draw.random((6, 40))
    assert order_found(quality**3 * 0 + quality, quality, draws=100) == (1.0, 1.0, 1.0)


def test_scores_that_are_all_alike_have_no_order() -> None:
    found = order_found(np.ones((4, 10)), np.arange(4), draws=50)
    assert np.isnan([found.rho, found.low, found.high]).all()


def test_clear_pairs_counts_by_hand() -> None:
    # pairs with a gap of 0.1: (0, 2), (1, 2); the second is tied in its scores, which is not right
    assert clear_pairs(np.array([0.1, 0.4, 0.4]), np.array([0.3, 0.35, 0.9])) == (0.5, 2)
    share, count = clear_pairs(np.array([1.0, 2.0]), np.array([0.5, 0.52]))
    assert np.isnan(share)
    assert count == 0


def test_the_interval_holds_the_order_without_noise() -> None:
    """Percentiles of resampled correlations would hold it in a quarter of the panels."""
    quality = np.linspace(0, 1, 26)
    held = 0
    for panel in range(60):
        scores = quality[:, None] + np.random.default_rng(panel).normal(size=(26, 200)) * 3
        found = order_found(scores, quality, draws=300, seed=panel)
        assert found.low <= found.rho <= found.high
        held += found.low <= 1.0 <= found.high + 1e-12
    assert held >= 0.85 * 60


def test_independent_benches_together_are_narrower() -> None:
    one = Order(0.8, 0.6, 0.9)
    found = together([one] * 4)
    assert (found.rho, found.low, found.high) == pytest.approx((0.8, 0.7, 0.9))
    assert np.isnan(together([one, Order(0.8, np.nan, np.nan)]).low)
