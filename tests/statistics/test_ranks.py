from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import roc_auc_score

from roadworthy.errors import InputError
from roadworthy.statistics import area_under_roc, kendall, midranks, spearman

VALUES = st.sampled_from([-np.inf, -2.5, -1, 0, 0.5, 1, 3, np.inf])  # few values, so ties are common
PAIRS = st.integers(2, 12).flatmap(lambda n: hnp.arrays(np.float64, (2, 3, n), elements=VALUES))


def relu_maps() -> tuple[np.ndarray, np.ndarray]:
    """Two 512 x 512 maps, most of whose entries are tied at 0."""
    rng = np.random.default_rng(31)
    first = np.maximum(rng.normal(size=512 * 512) - 0.4, 0)
    return first, np.maximum(first + 0.8 * rng.normal(size=first.size) - 0.4, 0)


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_midranks_equal_scipy(pair: np.ndarray) -> None:
    assert (midranks(pair[0]) == scipy.stats.rankdata(pair[0], axis=-1)).all()
    assert (midranks(pair[0], axis=0) == scipy.stats.rankdata(pair[0], axis=0)).all()


def test_area_under_the_curve_equals_that_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    for _ in range(20):
        values, positive = draw.integers(0, 6, 15) / 5, draw.random(15) < 0.4
        if 0 < positive.sum() < 15:
            assert area_under_roc(values, positive) == pytest.approx(roc_auc_score(positive, values))
    assert np.isnan(area_under_roc([1.0, 2.0], [True, True]))
    with pytest.raises(InputError, match=r"positive: got shape \(1,\)"):
        area_under_roc([1.0, 2.0], [True])


@settings(max_examples=60, deadline=None)
@given(PAIRS)
def test_correlations_equal_scipy_row_by_row(pair: np.ndarray) -> None:
    rho, tau = spearman(pair[0], pair[1]), kendall(pair[0], pair[1])
    for row, (a, b) in enumerate(zip(pair[0], pair[1], strict=True)):
        if len(set(a)) == 1 or len(set(b)) == 1:
            assert math.isnan(rho[row])
            assert math.isnan(tau[row])
            continue
        # SciPy's spearmanr needs finite values: their ranks carry the same order
        ranks = scipy.stats.rankdata(a), scipy.stats.rankdata(b)
        assert rho[row] == pytest.approx(scipy.stats.spearmanr(*ranks).statistic, abs=1e-12)
        assert tau[row] == pytest.approx(scipy.stats.kendalltau(*ranks).statistic, abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(hnp.arrays(np.int64, (2, 9), elements=st.integers(-3, 3)))
def test_tau_counts_pairs(pair: np.ndarray) -> None:
    x, y = pair
    signs = [(np.sign(x[i] - x[j]), np.sign(y[i] - y[j])) for i, j in itertools.combinations(range(9), 2)]
    left, right = sum(s != 0 for s, _ in signs), sum(t != 0 for _, t in signs)
    expected = sum(s * t for s, t in signs) / math.sqrt(left * right) if left * right else math.nan
    assert float(kendall(x, y)) == pytest.approx(expected, abs=1e-14, nan_ok=True)


@settings(max_examples=40, deadline=None)
@given(PAIRS)
def test_rising_transforms_change_nothing_and_falling_ones_the_sign(pair: np.ndarray) -> None:
    for correlation in (spearman, kendall):
        plain = correlation(pair[0], pair[1])
        assert np.array_equal(correlation(np.arctan(pair[0]), pair[1]), plain, equal_nan=True)
        assert np.array_equal(correlation(-pair[0], pair[1]), -plain, equal_nan=True)
        assert np.array_equal(correlation(pair[1], pair[0]), plain, equal_nan=True)


def test_large_maps_with_most_values_tied_equal_scipy() -> None:
    a, b = relu_maps()
    assert (midranks(a) == scipy.stats.rankdata(a)).all()
    assert float(spearman(a, b)) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-12)
    assert float(kendall(a, b)) == pytest.approx(scipy.stats.kendalltau(a, b).statistic, abs=1e-12)
    single = a.astype(np.float32), b.astype(np.float32)
    assert float(spearman(*single)) == pytest.approx(scipy.stats.spearmanr(*single).statistic, abs=1e-12)


@pytest.mark.parametrize("correlation", [spearman, kendall])
def test_agreement_is_exactly_one_at_any_length(correlation: object) -> None:
    assert callable(correlation)
    a, _ = relu_maps()
    for values in (np.array([1.0, 2.0]), np.array([3, 1, 1]), a):
        assert float(correlation(values, values)) == 1.0
        assert float(correlation(values, -values)) == -1.0


def test_undefined_is_nan_neither_0_nor_1() -> None:
    for correlation in (spearman, kendall):
        assert np.isnan(correlation([1, 2, 3], [5, 5, 5]))
        assert np.isnan(correlation([5, 5], [5, 5]))
        assert np.isnan(correlation([1], [1]))
        assert np.isnan(correlation([], []))
    assert midranks([]).shape == (0,)
    assert midranks([7]).tolist() == [1.0]


def test_nan_undoes_its_row_only() -> None:
    a = np.array([[1.0, np.nan, 2.0], [1.0, 3.0, 2.0]])
    assert np.isnan(midranks(a)[0]).all()
    assert midranks(a)[1].tolist() == [1, 3, 2]
    for correlation in (spearman, kendall):
        found = correlation(a, [1, 2, 3])
        assert np.isnan(found[0])
        assert not np.isnan(found[1])


def test_rows_broadcast_and_any_axis_works() -> None:
    rng = np.random.default_rng(32)
    a, b = rng.normal(size=(4, 6, 5)), rng.normal(size=6)
    for correlation, reference in ((spearman, scipy.stats.spearmanr), (kendall, scipy.stats.kendalltau)):
        found = correlation(a, b[:, None], axis=-2)
        assert found.shape == (4, 5)
        assert found[2, 3] == pytest.approx(reference(a[2, :, 3], b).statistic, abs=1e-12)


def test_integers_beyond_float_precision_stay_apart() -> None:
    big = np.array([2**53, 2**53 + 1, 2**53 + 2])
    assert midranks(big).tolist() == [1, 2, 3]
    assert float(kendall(big, [1, 2, 3])) == 1.0
    assert midranks(np.array([True, False, True])).tolist() == [2.5, 1, 2.5]
    assert midranks(torch.tensor([3.0, 1.0])).tolist() == [2, 1]


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="a has 3 entries and b 2 along axis -1"):
        spearman([1, 2, 3], [1, 2])
    with pytest.raises(InputError, match="rows cannot be paired"):
        kendall(np.zeros((2, 5)), np.zeros((3, 5)))
    with pytest.raises(InputError, match="no axis 1"):
        midranks([1, 2], axis=1)
    with pytest.raises(InputError, match="real numbers"):
        midranks(["a", "b"])
    with pytest.raises(InputError, match="no axis -1"):
        midranks(3.0)
