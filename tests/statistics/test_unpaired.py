"""Welch's t of two sets of units, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.statistics import unpaired_difference


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.5, 0.9, 0.99]))
@settings(max_examples=40, deadline=None)
def test_it_is_scipys_welch_test(n: int, k: int, seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    one, other = rng.normal(0, 1, (3, n)), rng.normal(0.5, 3, (3, k))
    found = unpaired_difference(one, other, level=level)
    test = scipy.stats.ttest_ind(one, other, axis=1, equal_var=False)
    ends = test.confidence_interval(level)
    np.testing.assert_allclose(found.difference, one.mean(axis=1) - other.mean(axis=1), atol=1e-12)
    np.testing.assert_allclose((found.low, found.high), (ends.low, ends.high), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(found.p, test.pvalue, rtol=1e-7)
    assert (found.n, found.level) == ((n, k), level)


def test_one_unit_tells_nothing() -> None:
    found = unpaired_difference([[1.0]], [[2.0, 3.0]])
    assert (found.difference[0], found.p[0]) == (-1.5, 1.0)
    assert np.isnan([found.low[0], found.high[0]]).all()


def test_where_nothing_varies_p_is_that_of_the_permutation_test() -> None:
    found = unpaired_difference([[1.0] * 3, [0.1] * 3], [[0.0] * 4, [0.1] * 4])
    assert found.difference.tolist() == [1.0, 0.0]
    assert found.p.tolist() == pytest.approx([1 / 35, 1.0])
    assert (found.low.tolist(), found.high.tolist()) == ([1.0, 0.0], [1.0, 0.0])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ([[1.0, 2.0]], [[1.0], [2.0]], "first has 1 methods and second 2"),
        ([[1.0, np.nan]], [[1.0, 2.0]], r"first: 1 of 2 values are NaN or infinite \(method 0; unit 1\)"),
        ([[1.0, 2.0]], [1.0, 2.0], "second: shape"),
    ],
)
def test_what_cannot_be_compared_is_named(first: list, second: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        unpaired_difference(first, second)


def test_a_level_beyond_1_is_refused() -> None:
    with pytest.raises(InputError, match="level"):
        unpaired_difference([[1.0, 2.0]], [[1.0, 2.0]], level=95)
