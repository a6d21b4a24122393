"""Bounds on mutual information, held against channels whose information and best accuracy are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from roadworthy.errors import InputError
from roadworthy.statistics import information_bounds

COUNTS = st.integers(0, 9)


def mutual_information(joint: np.ndarray) -> float:
    product = joint.sum(1, keepdims=True) * joint.sum(0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log2(joint[seen] / product[seen])).sum())


@given(st.tuples(st.integers(2, 5), st.integers(1, 6)).flatmap(lambda shape: arrays(int, shape, elements=COUNTS)))
@settings(max_examples=200, deadline=None)
def test_any_channel_lies_within_the_bounds_of_its_best_accuracy(counts: np.ndarray) -> None:
    if counts.sum() == 0:
        return
    joint = counts / counts.sum()
    low, high = information_bounds(float(joint.max(0).sum()), joint.sum(1))
    assert low - 1e-9 <= mutual_information(joint) <= high + 1e-9


@pytest.mark.parametrize("accuracy", [0.5, 0.6, 0.75, 0.9, 1.0])
def test_two_equal_classes_give_the_papers_bounds(accuracy: float) -> None:
    # (1 + I) / 2 <= Acc <= h^-1(1 - I), solved for I
    flip = np.array([accuracy, 1 - accuracy])
    h = -sum(p * np.log2(p) for p in flip if p > 0)
    assert information_bounds(accuracy, [7, 7]) == pytest.approx((1 - h, 2 * accuracy - 1))


def test_a_symmetric_channel_meets_the_lower_bound_and_an_erasing_one_the_upper() -> None:
    # K = 4: right with .7, else one of the three others: Fano is met; Hellman-Raviv is met by two classes, erased
    joint = (np.full((4, 4), 0.1) + 0.6 * np.eye(4)) / 4
    assert information_bounds(0.7, np.ones(4))[0] == pytest.approx(mutual_information(joint))
    erased = np.array([[0.35, 0.0, 0.15], [0.0, 0.35, 0.15]])
    assert information_bounds(0.85, [1, 1])[1] == pytest.approx(mutual_information(erased))


def test_guessing_says_nothing_and_worse_than_guessing_counts_as_guessing() -> None:
    assert information_bounds(0.25, [1, 1, 1, 1]) == (0.0, pytest.approx(0.5))
    assert information_bounds(0.0, [1, 1, 1, 1]) == information_bounds(0.25, [1, 1, 1, 1])
    assert information_bounds(0.8, [8, 2])[0] == 0.0


def test_one_class_has_no_information() -> None:
    assert information_bounds(1.0, [5]) == (0.0, 0.0)
    assert information_bounds(1.0, [5, 0, 0]) == (0.0, 0.0)


def test_counts_and_shares_are_the_same() -> None:
    assert information_bounds(0.8, [30, 10, 60]) == pytest.approx(information_bounds(0.8, [0.3, 0.1, 0.6]))


@pytest.mark.parametrize(
    ("accuracy", "shares", "match"),
    [
        (1.1, [1, 1], "accuracy: 1.1 came"),
        (float("nan"), [1, 1], "accuracy: nan came"),
        (0.5, [1, -1], "shares: 1.0, -1.0 came"),
        (0.5, [0, 0], "not all 0"),
        (0.5, [], "none of them empty"),
        (0.5, [1, float("nan")], "shares"),
    ],
)
def test_what_cannot_be_is_refused(accuracy: float, shares: list[float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        information_bounds(accuracy, shares)
