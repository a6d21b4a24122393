"""Intervals, the learned map, the curve of tails: by hand and by symmetry."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from roadworthy.labelfree.discrepancy_parts import interval_of, learn_map, over_draws, pearson, tail_curve


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(-2, 12), min_size=1, max_size=30))
def test_every_score_is_in_one_interval_closed_above(tenths: list[int]) -> None:
    scores, edges = np.array(tenths) / 10, np.linspace(0, 1, 6)
    for score, place in zip(scores, interval_of(scores, edges), strict=True):
        if not 0 <= score <= 1:
            assert place == -1
        else:
            assert edges[place] < score <= edges[place + 1] or (place == 0 and score == 0)


def test_intervals_over_draws() -> None:
    values = np.array([[0.1, 0.4, 0.2, 0.3], [np.nan, 1.0, 1.0, 1.0], [np.nan, np.nan, np.nan, 0.5]])
    mean, low, high = over_draws(values, 0.9, "t", 0)
    expected = stats.t.interval(0.9, 3, loc=0.25, scale=stats.sem(values[0]))
    assert (low[0], high[0]) == pytest.approx(expected)
    assert mean.tolist() == [0.25, 1.0, 0.5]
    assert (low[1], high[1]) == (1.0, 1.0)
    assert np.isnan([low[2], high[2]]).all()
    assert np.isnan(over_draws(np.full((1, 3), np.nan), 0.9, "t", 0)).all()
    _, low, high = over_draws(values, 0.9, "bootstrap", 0)
    assert low[0] < 0.25 < high[0]
    assert over_draws(values, 0.9, "bootstrap", 0)[1][0] == low[0]


@pytest.mark.parametrize("method", ["t", "bootstrap"])
def test_intervals_over_draws_hold(method: str) -> None:
    rng = np.random.default_rng(0)
    _, low, high = over_draws(rng.normal(size=(400, 8)), 0.9, method, 1)
    assert 0.85 <= np.mean((low <= 0) & (high >= 0)) <= 0.95


def test_the_map_is_a_least_squares_line() -> None:
    rng = np.random.default_rng(0)
    discrepancy, middle = rng.normal(size=7), np.arange(7) / 7
    share = rng.random(7)
    share[3] = np.nan
    found = learn_map(discrepancy, middle, share)
    known = np.isfinite(share)
    line = stats.linregress(discrepancy[known], share[known])
    assert found is not None
    assert (found.slope, found.intercept) == pytest.approx((line.slope, line.intercept))
    assert found.n == 6
    errors = []
    for row in np.flatnonzero(known):
        rest = known & (np.arange(7) != row)
        part = stats.linregress(middle[rest], share[rest])
        errors.append(abs(np.clip(part.intercept + part.slope * middle[row], 0, 1) - share[row]))
    assert found.baseline_error == pytest.approx(np.mean(errors))
    assert found.share(np.array([-100.0, 100.0, np.nan]))[:2].tolist() in ([0, 1], [1, 0])


def test_no_map_of_too_little() -> None:
    three, nan = np.array([0.1, 0.2, 0.3]), np.nan
    assert learn_map(np.array([1.0, 0.0, nan]), three, three) is None
    assert learn_map(np.ones(3), three, three) is None
    assert learn_map(np.array([1.0, 1.0, 0.0]), three, three) is not None  # a line through equal ones is left out


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 1000))
def test_both_tails_are_treated_alike(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    discrepancy, counts = rng.uniform(-1, 1, size), rng.integers(0, 20, size)
    counts[0] += 1
    discrepancy[rng.random(size) < 0.2] = np.nan
    one, other = tail_curve(discrepancy, counts), tail_curve(-discrepancy[::-1], counts[::-1])
    assert other.completeness == pytest.approx(one.completeness)
    assert other.reliability == pytest.approx(one.reliability)
    assert other.area == pytest.approx(one.area, nan_ok=True)


def test_the_curve_by_hand() -> None:
    found = tail_curve(np.array([0.9, np.nan, 0.1, 0.5, -0.7]), np.array([30, 3, 10, 20, 37]))
    # the middle one is in no tail; the second interval is unknown, its samples count as taken
    assert found.completeness.tolist() == pytest.approx([0.67, 0.90])
    high = (-0.5 * 20 + 0.7 * 37) / 57
    assert found.reliability.tolist() == pytest.approx([0.8, (0.9 + high) / 2])
    last = found.reliability[1]
    assert found.area == pytest.approx(0.67 * 0.8 + 0.23 * (0.8 + last) / 2 + 0.1 * last)
    wrong = tail_curve(np.array([-1.0, 1.0]), np.array([5, 5]))
    assert (wrong.reliability.tolist(), wrong.area) == ([-1.0], -1.0)  # tails that look like the other class
    assert np.isnan(tail_curve(np.array([1.0]), np.array([5])).area)


def test_correlations_that_do_not_exist() -> None:
    assert np.isnan(pearson(np.array([1.0, 2.0]), np.array([1.0, 2.0])))
    assert np.isnan(pearson(np.ones(4), np.arange(4.0)))
    assert np.isnan(pearson(np.array([1.0, 2.0, np.nan]), np.arange(3.0)))
