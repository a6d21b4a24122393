"""Curves over samples by falling rank: against sums written out, whatever the order and the ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.labelfree.selective import Ranked, bands, ranked, weights_of


def by_hand(scores: np.ndarray, values: np.ndarray, chance: np.ndarray) -> tuple[list[float], list[float], float]:
    """Threshold by threshold, the kept part gathered anew each time."""
    coverage, reliability, area = [], [], 0.0
    for threshold in sorted(set(scores.tolist()), reverse=True):
        kept = scores >= threshold
        room = kept.sum() - chance[kept].sum()
        reliability.append((values[kept].sum() - chance[kept].sum()) / room if room > 1e-9 else 0.0)
        area += (kept.mean() - (coverage[-1] if coverage else 0)) * reliability[-1]
        coverage.append(kept.mean())
    return coverage, reliability, area


def made(seed: int, n: int, levels: int, classes: int = 3) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(classes), size=n)
    predicted = rng.integers(classes, size=n)
    return rng.integers(levels, size=n) / levels, shares[np.arange(n), predicted], predicted, shares


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 40), st.integers(1, 30))
def test_steps_are_those_of_gathering_each_part(seed: int, n: int, levels: int) -> None:
    scores, values, predicted, shares = made(seed, n, levels)
    found = ranked(scores, values, predicted=predicted, shares=shares)
    chance = np.array([sum(np.mean(predicted == c) * row[c] for c in range(3)) for row in shares])
    coverage, reliability, area = by_hand(scores, values, chance)
    np.testing.assert_allclose(found.coverage, coverage, atol=1e-12)
    np.testing.assert_allclose(found.reliability, reliability, atol=1e-9)
    assert found.area == pytest.approx(area, abs=1e-9)
    assert found.coverage[-1] == 1  # the last step is closed


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 40), st.integers(1, 5))
def test_the_order_of_rows_changes_nothing(seed: int, n: int, levels: int) -> None:
    scores, values, predicted, shares = made(seed, n, levels)
    rows = np.random.default_rng(seed).permutation(n)
    one = ranked(scores, values, predicted=predicted, shares=shares)
    two = ranked(scores[rows], values[rows], predicted=predicted[rows], shares=shares[rows])
    assert one.area == two.area
    np.testing.assert_array_equal(one.reliability, two.reliability)
    steps = one.thinned(10)
    for (_, left), (_, right) in zip(one.resampled(steps, 20, 0), two.resampled(steps, 20, 0), strict=True):
        np.testing.assert_array_equal(left, right)


def test_equal_confidences_form_one_step_in_any_order() -> None:
    """Six of confidence .9 and four of .7: rows laid out in the caller's order gave .239 to .297 for the risk."""
    confidence = np.array([0.9] * 6 + [0.7] * 4)
    correct = np.array([1, 0, 1, 1, 0, 1, 0, 1, 0, 0])
    found = set()
    for seed in range(20):
        rows = np.random.default_rng(seed).permutation(10)
        curve = ranked(confidence[rows], correct[rows])
        found.add((curve.area, tuple(curve.coverage), tuple(curve.reliability)))
    assert len(found) == 1
    area, coverage, reliability = found.pop()
    assert area == pytest.approx(0.6 * 4 / 6 + 0.4 * 5 / 10)
    assert coverage == pytest.approx((0.6, 1.0))
    assert reliability == pytest.approx((4 / 6, 5 / 10))


def test_resampled_values_are_those_of_the_resampled_rows() -> None:
    scores, values, _, _ = made(3, 30, 8)
    curve = ranked(scores, values)
    steps = np.arange(len(curve.last))
    (drawn,) = weights_of(30, 5, 9)
    ((coverage, reliability),) = curve.resampled(steps, 5, 9)
    for draw, weights in enumerate(drawn):
        rows = curve.order[np.repeat(np.arange(30), weights.astype(int))]
        for k, threshold in enumerate(curve.thresholds):
            kept = scores[rows] >= threshold
            assert coverage[draw, k] == pytest.approx(kept.mean())
            wanted = values[rows][kept].mean() if kept.any() else np.nan
            assert reliability[draw, k] == pytest.approx(wanted, nan_ok=True)


def test_chance_of_a_draw_follows_its_class_shares() -> None:
    scores, values, predicted, shares = made(4, 4000, 4000)
    curve = ranked(scores, values, predicted=predicted, shares=shares)
    steps = curve.thinned(5)
    (drawn,) = weights_of(4000, 3, 2)
    ((_, reliability),) = curve.resampled(steps, 3, 2)
    for draw, weights in enumerate(drawn):
        rows = curve.order[np.repeat(np.arange(4000), weights.astype(int))]
        again = ranked(scores[rows], values[rows], predicted=predicted[rows], shares=shares[rows])
        at = np.searchsorted(-again.thresholds, -curve.thresholds[steps], side="right") - 1
        np.testing.assert_allclose(reliability[draw], again.reliability[at], atol=2e-3)


def test_thinning_keeps_the_last_step_and_the_spread() -> None:
    curve = ranked(np.arange(1000.0), np.ones(1000))
    steps = curve.thinned(10)
    np.testing.assert_allclose(curve.coverage[steps], np.arange(1, 11) / 10)
    assert ranked(np.zeros(1000), np.ones(1000)).thinned(10).tolist() == [0]


def test_bands_are_missing_where_they_cannot_be_known() -> None:
    drawn = np.array([[0.1, 0.2, np.nan]] * 20 + [[0.3, 0.4, 0.5]] * 80)
    low, high = bands(drawn, 0.9, np.array([1, 50, 50]))
    assert np.isnan(low).tolist() == [True, False, True]
    assert (low[1], high[1]) == (0.2, 0.4)


@pytest.mark.parametrize(
    ("scores", "values", "message"),
    [
        ([], [], r"expected \(N,\) each, N >= 1"),
        ([1.0, 2.0], [1.0], r"shape \(2,\) and values \(1,\)"),
        ([1.0, np.nan], [1.0, 1.0], "scores: rows 1 are not finite"),
        ([1.0, 2.0], [np.inf, 1.0], "values: rows 0 are not finite"),
    ],
)
def test_what_cannot_be_ranked_is_refused(scores: list[float], values: list[float], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ranked(np.array(scores), np.array(values))


def test_one_sample() -> None:
    only: Ranked = ranked(np.array([0.3]), np.array([0.8]))
    assert (only.area, only.coverage.tolist()) == (0.8, [1.0])
