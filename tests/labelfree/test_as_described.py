"""The guide's curve: its own figures come out, faults included, and what was mere error does not."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import auc

from roadworthy.errors import InputError
from roadworthy.labelfree.as_described import as_described_from_counts


def test_counts_are_compared_so_that_21_of_30_reach_seven_tenths() -> None:
    assert np.linspace(0, 1, 101)[70] > 21 / 30  # by rounding alone
    curve = as_described_from_counts([21, 30], 30, [0, 1], 2, estimator="simple_majority")
    assert (curve.coverage[70], curve.coverage[71]) == (1.0, 0.5)
    np.testing.assert_allclose(curve.thresholds, np.linspace(0, 1, 101))


def test_the_perfect_model_gets_one_in_ten_and_the_collapsed_one_all() -> None:
    stable = np.full(1000, 30)
    perfect = as_described_from_counts(stable, 30, np.arange(1000) % 10, 10, estimator="simple_majority")
    collapsed = as_described_from_counts(stable, 30, np.zeros(1000, int), 10, estimator="simple_majority")
    assert set(perfect.reliability) == {0.1}
    assert set(collapsed.reliability) == {1.0}
    assert perfect.area == 0.0  # one completeness alone has no area
    assert "1/K" in perfect.notes[0]


def test_the_more_stable_the_smaller_the_area() -> None:
    """Two equal classes: reliability is one half, over the completeness that occurs."""
    rng = np.random.default_rng(0)
    areas = []
    for agreement in (0.8, 0.9, 0.97, 0.995):
        own = rng.binomial(30, agreement, size=20_000)
        curve = as_described_from_counts(
            np.maximum(own, 30 - own), 30, rng.integers(2, size=20_000), 2, estimator="simple_majority"
        )
        assert curve.area == pytest.approx((1 - agreement**30) / 2, abs=0.02)
        areas.append(curve.area)
    assert areas == sorted(areas, reverse=True)


def test_what_selects_nothing_is_missing_and_left_out_of_the_area() -> None:
    rng = np.random.default_rng(1)
    count, predicted = rng.integers(10, 26, size=500), rng.integers(3, size=500)
    curve = as_described_from_counts(count, 30, predicted, 3, estimator="simple_majority")
    empty = curve.coverage == 0
    assert np.isnan(curve.reliability[empty]).all()
    assert empty.sum() == 100 - int(25 / 30 * 100)
    assert curve.area == pytest.approx(auc(curve.coverage[~empty], curve.reliability[~empty]))
    for k in (0, 50, 70):
        part = predicted[count / 30 >= k / 100 - 1e-9]
        assert curve.reliability[k] == pytest.approx(max(np.mean(part == c) for c in range(3)))


def test_cluster_consistency_is_of_the_features_and_not_the_majority() -> None:
    rng = np.random.default_rng(2)
    predicted = np.arange(300) % 3
    features = 9 * np.eye(3)[predicted] + rng.normal(size=(300, 3))
    count = rng.integers(12, 31, size=300)
    clustered = as_described_from_counts(count, 30, predicted, 3, features=features)
    assert clustered.reliability[0] == pytest.approx(1)
    assert as_described_from_counts(count, 30, predicted, 3, estimator="simple_majority").reliability[0] < 0.4
    shuffled = as_described_from_counts(count, 30, predicted, 3, features=rng.permutation(features))
    assert shuffled.reliability[0] < 0.5
    rows = rng.permutation(300)
    again = as_described_from_counts(count[rows], 30, predicted[rows], 3, features=features[rows])
    assert again.area == pytest.approx(clustered.area)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(InputError, match="Unknown estimator of the curve as described 'majority'"):
        as_described_from_counts([1], 1, [0], 2, estimator="majority")
    with pytest.raises(InputError, match="features: cluster consistency needs"):
        as_described_from_counts([1], 1, [0], 2)
    with pytest.raises(InputError, match="got 1 rows for 2 samples"):
        as_described_from_counts([1, 1], 1, [0, 1], 2, features=[[1.0]])
    for counts in ([2], [0.5], [-1]):
        with pytest.raises(InputError, match="whole numbers from 0 to 1 passes"):
            as_described_from_counts(counts, 1, [0], 2, estimator="simple_majority")
    with pytest.raises(InputError, match=r"shape \(0,\)"):
        as_described_from_counts([], 1, [], 2, estimator="simple_majority")
