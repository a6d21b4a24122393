from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.statistics import holm

P = st.one_of(st.sampled_from([0.0, 0.01, 0.02, 0.05, 1.0]), st.floats(0, 1))


def closed_test(p: np.ndarray) -> list[float]:
    """Reject a hypothesis if Bonferroni rejects every set of hypotheses that it belongs to."""
    members = range(len(p))
    sets = [s for size in range(1, len(p) + 1) for s in itertools.combinations(members, size)]
    return [max(min(1.0, len(s) * p[list(s)].min()) for s in sets if i in s) for i in members]


@settings(max_examples=100, deadline=None)
@given(st.lists(P, min_size=1, max_size=6))
def test_holm_is_the_closed_bonferroni_test(values: list[float]) -> None:
    p = np.array(values)
    assert holm(p) == pytest.approx(closed_test(p), abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.lists(P, max_size=30), st.randoms())
def test_order_and_ties_are_kept(values: list[float], random: object) -> None:
    p = np.array(values)
    adjusted = holm(p)
    assert ((adjusted >= p) & (adjusted <= 1)).all()
    order = np.argsort(p)
    assert (np.diff(adjusted[order]) >= 0).all()
    assert all(len(set(adjusted[p == value])) == 1 for value in set(values))
    shuffled = np.random.default_rng(41).permutation(len(p))
    assert (holm(p[shuffled]) == adjusted[shuffled]).all()


def test_a_worked_example() -> None:
    # R: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm"), and one where the running maximum acts
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert holm([0.04, 0.001, 0.015, 0.9]) == pytest.approx([0.08, 0.004, 0.045, 0.9])
    assert holm([0.3]).tolist() == [0.3]
    assert holm([]).shape == (0,)


@pytest.mark.parametrize(
    ("p", "message"),
    [([0.1, -0.2], "-0.2 at 1 came"), ([1.1], "1.1 at 0"), ([np.nan, 0.1], "nan at 0"), ([[0.1]], r"shape \(1, 1\)")],
)
def test_what_is_no_probability_is_refused(p: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        holm(p)
