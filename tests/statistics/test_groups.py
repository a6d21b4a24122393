from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.statistics import groups


def matrix(size: int, pairs: list[tuple[int, int]]) -> np.ndarray:
    different = np.zeros((size, size), dtype=bool)
    for i, j in pairs:
        different[i, j] = different[j, i] = True
    return different


def letters(group: str) -> set[str]:
    return set(re.findall(r"[a-zA-Z]\d*", group))


@st.composite
def patterns(draw: st.DrawFn) -> np.ndarray:
    size = draw(st.integers(1, 9))
    upper = draw(st.lists(st.booleans(), min_size=size * size, max_size=size * size))
    different = np.triu(np.array(upper).reshape(size, size), 1)
    return different | different.T


@settings(max_examples=300, deadline=None)
@given(patterns())
def test_methods_share_no_letter_exactly_if_they_are_told_apart(different: np.ndarray) -> None:
    found = [letters(group) for group in groups(different)]
    size = len(different)
    assert all(found)
    assert [[not (found[i] & found[j]) for j in range(size)] for i in range(size)] == different.tolist()
    used = set().union(*found)
    assert "a" in found[0]
    for letter in used:
        members = [i for i in range(size) if letter in found[i]]
        others = [i for i in range(size) if i not in members]
        assert all(different[i, members].any() for i in others), "a letter takes in every method that fits"
        rest = [group - {letter} for group in found]
        needed = any(not (rest[i] & rest[j]) for i in members for j in members)
        assert needed, "no letter is spare"


@pytest.mark.parametrize(
    ("size", "pairs", "expected"),
    [
        (0, [], []),
        (1, [], ["a"]),
        (3, [], ["a", "a", "a"]),
        (3, [(0, 1), (0, 2), (1, 2)], ["a", "b", "c"]),
        (3, [(0, 2)], ["a", "ab", "b"]),
        (4, [(0, 2), (0, 3), (1, 3)], ["a", "ab", "bc", "c"]),
        (3, [(0, 1)], ["a", "b", "ab"]),  # neighbours differ although the ends do not: not transitive in rank
        (4, [(0, 3), (1, 2)], ["ab", "ac", "bd", "cd"]),
    ],
)
def test_known_patterns(size: int, pairs: list[tuple[int, int]], expected: list[str]) -> None:
    assert groups(matrix(size, pairs)) == expected


def test_many_groups_keep_distinct_letters_and_take_no_time() -> None:
    size = 60
    found = groups(~np.eye(size, dtype=bool))
    assert found[:2] + found[51:54] == ["a", "b", "Z", "a1", "b1"]
    # 3 ** 20 maximal sets of alike methods: listing them all would never end
    different = np.kron(np.eye(20, dtype=bool), np.ones((3, 3), dtype=bool)) & ~np.eye(size, dtype=bool)
    shared = [letters(group) for group in groups(different)]
    assert [[not (a & b) for b in shared] for a in shared] == different.tolist()


def test_what_is_no_relation_is_refused() -> None:
    with pytest.raises(InputError, match=r"float64 of shape \(2, 2\)"):
        groups(np.zeros((2, 2)))
    with pytest.raises(InputError, match=r"bool of shape \(1, 2\)"):
        groups(np.zeros((1, 2), dtype=bool))
    with pytest.raises(InputError, match="symmetric"):
        groups(np.array([[False, True], [False, False]]))
    with pytest.raises(InputError, match="diagonal"):
        groups(np.array([[True]]))
