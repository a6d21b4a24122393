"""Coverage at a wanted reliability: by hand, and by how often its interval holds the planted one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.labelfree.selective import ranked
from roadworthy.labelfree.thresholds import coverage_at_accuracy, coverage_of


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 50), st.integers(1, 12), st.floats(0.3, 1))
def test_the_largest_part_is_found(seed: int, n: int, levels: int, target: float) -> None:
    rng = np.random.default_rng(seed)
    scores, values = rng.integers(levels, size=n) / levels, rng.random(n)
    found = coverage_at_accuracy(values, target, scores=scores, draws=0)
    reached = [scores >= t for t in set(scores) if values[scores >= t].mean() >= target]
    assert found.coverage == pytest.approx(max((part.mean() for part in reached), default=0))
    if reached:
        assert (scores >= found.threshold).mean() == pytest.approx(found.coverage)
        assert values[scores >= found.threshold].mean() == pytest.approx(found.reliability)
    else:
        assert "no part reaches" in found.reason


def test_nothing_reaches_the_target_and_the_reason_is_given() -> None:
    found = coverage_of(ranked(np.array([3.0, 2.0, 1.0]), np.array([0.5, 0.7, 0.3])), 0.9, measure="x", draws=100)
    assert (found.coverage, found.low, found.high) == (0.0, 0.0, 0.0)
    assert np.isnan([found.threshold, found.reliability]).all()
    assert found.best == pytest.approx((0.6, 2 / 3))
    assert found.reason == "no part reaches 0.9: the best, 67 % of the samples, has 0.6"
    assert found.as_dict()["threshold"] is None


def test_everything_reaches_it() -> None:
    found = coverage_at_accuracy(np.ones(20), 1.0)
    assert (found.coverage, found.low, found.high, found.reason) == (1.0, 1.0, 1.0, "")
    assert coverage_at_accuracy([0.9] * 10, 0.9, draws=0).coverage == 1  # a target that is met to the last digit


def test_the_order_of_rows_changes_nothing() -> None:
    rng = np.random.default_rng(0)
    scores, values = rng.integers(9, size=80), rng.random(80)
    rows = rng.permutation(80)
    one = coverage_at_accuracy(values, 0.5, scores=scores, draws=50)
    assert one == coverage_at_accuracy(values[rows], 0.5, scores=scores[rows], draws=50)


def interval_coverage(runs: int, n: int) -> float:
    """Correct with probability equal to the score, uniform: the upper share c has accuracy 1 - c / 2."""
    rng = np.random.default_rng(3)
    held = 0
    for run in range(runs):
        scores = rng.random(n)
        found = coverage_at_accuracy(rng.random(n) < scores, 0.7, scores=scores, draws=200, seed=run)
        held += found.low <= 0.6 <= found.high
    return held / runs


def test_intervals_hold_what_they_say() -> None:
    assert 0.84 <= interval_coverage(runs=120, n=100) <= 0.97


@pytest.mark.parametrize(("target", "level"), [(0.0, 0.9), (1.1, 0.9), (0.9, 90)])
def test_what_makes_no_sense_is_refused(target: float, level: float) -> None:
    with pytest.raises(InputError, match=f"target {target} and level {level} came"):
        coverage_at_accuracy([0.5], target, level=level)
    with pytest.raises(InputError, match="outside"):
        coverage_at_accuracy([1.5])
