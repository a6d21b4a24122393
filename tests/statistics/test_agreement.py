from __future__ import annotations

import numpy as np
import pytest
import scipy.stats

from roadworthy.errors import InputError
from roadworthy.statistics import area, rank_agreement

SHARES = [0.0, 0.1, 0.3, 0.5, 0.9]


def curves(seed: int = 71, methods: int = 8) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    morf, lerf = np.round(rng.random((2, methods, 5)), 1)  # rounding makes ties
    morf[:, 0] = lerf[:, 0] = 0.9
    return morf, lerf


def test_agreement_equals_scipy_per_share_with_morf_turned_round() -> None:
    morf, lerf = curves()
    found = rank_agreement(SHARES, morf, lerf)
    assert np.isnan(found.spearman[0])
    assert np.isnan(found.kendall[0])
    rho = [scipy.stats.spearmanr(-morf[:, p], lerf[:, p]).statistic for p in range(1, 5)]
    tau = [scipy.stats.kendalltau(-morf[:, p], lerf[:, p]).statistic for p in range(1, 5)]
    assert found.spearman[1:] == pytest.approx(rho, abs=1e-12)
    assert found.kendall[1:] == pytest.approx(tau, abs=1e-12)
    assert (found.spearman_mean, found.kendall_mean) == pytest.approx((np.mean(rho), np.mean(tau)), abs=1e-12)
    areas = -area(SHARES, morf), area(SHARES, lerf)
    assert found.spearman_area == pytest.approx(scipy.stats.spearmanr(*areas).statistic, abs=1e-12)
    assert found.kendall_area == pytest.approx(scipy.stats.kendalltau(*areas).statistic, abs=1e-12)
    assert (found.undefined, found.methods) == (1, 8)


@pytest.mark.parametrize(("turn", "expected"), [(1, 1.0), (-1, -1.0)])
def test_orders_that_agree_or_oppose_give_exactly_1_or_minus_1(turn: int, expected: float) -> None:
    quality = np.arange(5.0)[:, None] * np.ones(3)
    found = rank_agreement([0.1, 0.2, 0.4], -quality, turn * quality)
    assert (found.spearman == expected).all()
    assert (found.spearman_mean, found.kendall_mean) == (expected, expected)
    assert (found.spearman_area, found.kendall_area) == (expected, expected)
    assert found.undefined == 0


def test_undefined_shares_are_counted_and_left_out_of_the_mean() -> None:
    morf = np.array([[0.5, 0.1, np.nan], [0.5, 0.2, 0.3]])
    found = rank_agreement([0.1, 0.5, 0.9], morf, 1 - np.nan_to_num(morf))
    assert found.undefined == 2
    assert found.spearman_mean == found.kendall_mean == 1
    assert np.isnan(found.spearman_area)


@pytest.mark.parametrize("methods", [1, 3])
def test_without_any_ranking_all_is_nan(methods: int) -> None:
    flat = np.full((methods, 5), 0.5)
    found = rank_agreement(SHARES, flat, flat)
    assert np.isnan([found.spearman_mean, found.kendall_mean, found.spearman_area, found.kendall_area]).all()
    assert found.undefined == 5


def test_a_single_share_has_no_area() -> None:
    found = rank_agreement([0.5], [[0.1], [0.2]], [[0.9], [0.8]])
    assert found.spearman.tolist() == [1.0]
    assert found.spearman_mean == 1
    assert np.isnan([found.spearman_area, found.kendall_area]).all()


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"morf has shape \(2, 3\) and lerf \(2, 2\)"):
        rank_agreement([0.1, 0.2, 0.3], np.zeros((2, 3)), np.zeros((2, 2)))
    with pytest.raises(InputError, match="morf has 3 columns for 2 fractions"):
        rank_agreement([0.1, 0.2], np.zeros((2, 3)), np.zeros((2, 3)))
    with pytest.raises(InputError, match="rising"):
        rank_agreement([0.2, 0.1], np.zeros((2, 2)), np.zeros((2, 2)))
    with pytest.raises(InputError, match="expected 2 axes"):
        rank_agreement([0.2, 0.3], [0.1, 0.2], [0.1, 0.2])
