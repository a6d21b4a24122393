"""Quantiles against NumPy, and coverage by simulation where the truth is planted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.labelfree.intervals import Experience, sampling_half_width, weighted_quantile


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 10), min_size=1, max_size=60), st.floats(0.05, 0.95))
def test_with_equal_weights_it_is_the_split_conformal_quantile(scores: list[float], level: float) -> None:
    rank = int(np.ceil(level * (len(scores) + 1) - 1e-9))
    expected = np.sort(scores)[rank - 1] if rank <= len(scores) else np.inf
    assert weighted_quantile(np.array(scores), np.ones(len(scores)), level) == expected


def test_weights_count_as_copies() -> None:
    scores = np.array([3.0, 1.0, 2.0])
    copies = np.repeat(scores, [4, 8, 12])
    assert weighted_quantile(scores, np.array([4.0, 8, 12]), 0.8) == weighted_quantile(copies, np.ones(24), 0.8)


def test_sampling_interval_covers_a_binomial() -> None:
    rng = np.random.default_rng(0)
    for truth in (0.5, 0.9, 0.98):
        hits = rng.binomial(120, truth, 4000)
        half = np.array([sampling_half_width(value / 120, 120, 0.9) for value in range(121)])
        assert (np.abs(hits / 120 - truth) <= half[hits]).mean() > 0.86
    assert sampling_half_width(1.0, 50, 0.9) > 0  # all correct is not certain


def grown(rng: np.random.Generator, kinds: int = 6, each: int = 8) -> tuple[Experience, np.ndarray]:
    """Two estimators: the first errs more where the first shift is large, the second where it is small."""
    shifts = np.zeros((kinds * each, 5))
    shifts[:, 0] = rng.uniform(0, 1, kinds * each)
    errors = rng.normal(size=(kinds * each, 2)) * np.stack(
        [0.02 + 0.2 * shifts[:, 0], 0.22 - 0.2 * shifts[:, 0]], axis=1
    )
    return Experience(shifts, errors, np.repeat(np.arange(kinds), each).astype(str)), shifts


def test_the_error_to_expect_is_that_of_similar_shifts() -> None:
    seen, _ = grown(np.random.default_rng(1), kinds=10, each=60)
    low, high = (seen.expected_errors(np.array([x, 0, 0, 0, 0])) for x in (0.05, 0.95))
    assert low.argmin() == 0
    assert high.argmin() == 1
    assert low[0] < high[0]
    assert high[1] < low[1]


def test_kinds_count_alike() -> None:
    errors = np.concatenate([np.full((30, 1), 0.1), np.full((2, 1), 0.5)])
    seen = Experience(np.zeros((32, 5)), errors, np.array(["many"] * 30 + ["few"] * 2))
    assert seen.mean_errors()[0] == pytest.approx(0.3)
    assert seen.expected_errors(np.zeros(5))[0] == pytest.approx(0.3)


def test_many_mild_pseudo_targets_do_not_narrow_an_interval() -> None:
    for many in (12, 120):
        errors = np.concatenate([np.full(many, 0.01), np.full(12, 0.5)])
        seen = Experience(np.zeros((many + 12, 5)), errors[:, None], np.array(["mild"] * many + ["harsh"] * 12))
        expected = np.full(many + 12, 0.09)
        assert seen.half_width(np.zeros(5), errors, expected, 0.09, 0.8) == pytest.approx(0.5)


def test_left_out_errors_are_those_of_the_other_kinds() -> None:
    errors = np.array([[0.1], [0.1], [0.4], [0.4]])
    seen = Experience(np.zeros((4, 5)), errors, np.array(["a", "a", "b", "b"]))
    np.testing.assert_allclose(seen.left_out[:, 0], [0.4, 0.4, 0.1, 0.1])
    one = Experience(np.zeros((2, 5)), np.array([[0.1], [0.3]]), np.array(["a", "a"]))
    np.testing.assert_allclose(one.left_out[:, 0], [0.3, 0.1])
    lone = Experience(np.zeros((1, 5)), np.array([[0.1]]), np.array(["a"]))
    assert np.isnan(lone.left_out).all()
    assert lone.half_width(np.zeros(5), np.array([0.1]), lone.left_out[:, 0], 0.1, 0.9) == np.inf


def test_far_away_the_nearest_decides() -> None:
    shifts = np.array([[0.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0]])
    seen = Experience(shifts, np.array([[0.1, 0.3], [0.3, 0.1]]), np.array(["a", "b"]))
    assert seen.expected_errors(np.array([1e4, 0, 0, 0, 0])).tolist() == pytest.approx([0.3, 0.1])


@pytest.mark.parametrize("level", [0.8, 0.9])
def test_the_interval_covers_errors_of_the_same_sort(level: float) -> None:
    rng = np.random.default_rng(2)
    held = []
    for _ in range(80):
        seen, _ = grown(rng)
        expected = seen.left_out
        picks = expected.argmin(axis=1)
        rows = np.arange(len(picks))
        x = rng.uniform(0, 1)
        live = np.array([x, 0, 0, 0, 0])
        here = seen.expected_errors(live)
        best = int(here.argmin())
        error = rng.normal() * (0.02 + 0.2 * x, 0.22 - 0.2 * x)[best]
        half = seen.half_width(live, seen.errors[rows, picks], expected[rows, picks], float(here[best]), level)
        held.append(abs(error) <= half)
    assert np.mean(held) > level - 0.07


def test_beyond_the_range_is_named_with_its_number() -> None:
    seen, _ = grown(np.random.default_rng(3))
    assert seen.outside(np.array([0.5, 0, 0, 0, 0])) == []
    assert seen.outside(np.array([-0.9, 0, 0, 0, 0]))[0].startswith("confidence -0.90 (seen: 0.")
    assert seen.outside(np.array([0.5, 0, 0, 0, 3.0])) == ["distance 3.00 (seen: 0.00 to 0.00)"]
    assert seen.outside(np.array([0.5, 0, 0, 0, -3.0])) == []  # nearer than ever seen is no worry
