"""Splits: deterministic, by class, and stable when samples are added."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.data.splits import check_classes, hash_split, stratified_split
from roadworthy.errors import DataError


def ids(n: int) -> list[str]:
    return [f"class/{row}.png" for row in range(n)]


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 80), classes=st.integers(1, 5), share=st.floats(0.05, 0.95), seed=st.integers(0, 9))
def test_hash_split_is_a_partition_with_both_sides_in_each_class(
    n: int, classes: int, share: float, seed: int
) -> None:
    labels = np.arange(n) % classes
    train, test = hash_split(ids(n), labels, test_share=share, seed=seed)
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(n))
    for label in range(classes):
        if (labels == label).sum() > 1:
            assert (labels[train] == label).any()
            assert (labels[test] == label).any()


def test_hash_split_is_stable_when_files_are_added() -> None:
    labels = np.zeros(1000, dtype=int)
    _, few = hash_split(ids(1000)[::2], labels[::2], test_share=0.2, seed=0)
    _, all_of_them = hash_split(ids(1000), labels, test_share=0.2, seed=0)
    assert set(2 * few) == {row for row in all_of_them.tolist() if row % 2 == 0}


def test_hash_split_keeps_the_share_and_follows_the_seed() -> None:
    labels = np.arange(20_000) % 2
    _, test = hash_split(ids(20_000), labels, test_share=0.2, seed=0)
    for label in (0, 1):
        assert (labels[test] == label).sum() == pytest.approx(2000, abs=4 * np.sqrt(10_000 * 0.2 * 0.8))
    _, other = hash_split(ids(20_000), labels, test_share=0.2, seed=1)
    assert len(np.intersect1d(test, other)) == pytest.approx(800, abs=150)


def test_hash_split_is_the_same_on_every_machine() -> None:
    _, test = hash_split(ids(40), np.zeros(40, dtype=int), test_share=0.3, seed=7)
    assert test.tolist() == [9, 12, 13, 14, 21, 24, 32, 33]


@pytest.mark.parametrize("share", [0.01, 0.2, 0.5, 0.99])
def test_stratified_split_is_exact(share: float) -> None:
    labels = np.repeat([0, 1, 2], [100, 37, 2])
    train, test = stratified_split(labels, test_share=share, generator=np.random.default_rng(0))
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(139))
    for label, n in enumerate([100, 37, 2]):
        assert (labels[test] == label).sum() == min(max(round(share * n), 1), n - 1)


def test_classes_are_counted() -> None:
    check_classes(["a", "b"], "x")
    with pytest.raises(DataError, match=r"x: one class \('a'\) found, expected at least two"):
        check_classes(["a"], "x")
    with pytest.raises(DataError, match="x: no class found"):
        check_classes([], "x")
