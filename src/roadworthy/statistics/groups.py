"""Compact letter display: which methods cannot be told apart.

Two methods share a letter exactly if they are not told apart. That relation need not be transitive (a is like b and b
like c, while a and c differ), so letters overlap: each letter is a set of methods of which no two differ and to which
no further method can be added.
"""

from __future__ import annotations

import string
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.statistics._checks import to_array


def groups(different: Any) -> list[str]:
    """Give letters to methods in ranked order; methods that share none are told apart.

    Args:
        different: bool (M, M), symmetric, False on the diagonal: which pairs are told apart; best method first.

    Returns:
        M strings of letters, such as ``["a", "ab", "b"]``; "a" holds the best method. After "Z" come "a1", "b1", ...

    Raises:
        InputError: not a symmetric boolean matrix with False on the diagonal.

    Example:
        >>> groups([[False, False, True], [False, False, False], [True, False, False]])
        ['a', 'ab', 'b']
    """
    apart = to_array(different)
    if apart.ndim != 2 or apart.shape[0] != apart.shape[1] or (apart.size and apart.dtype != bool):
        raise InputError(f"different: {apart.dtype} of shape {apart.shape} came, expected a square matrix of bool")
    if apart.diagonal().any() or (apart != apart.T).any():
        raise InputError("different: expected a symmetric matrix with False on the diagonal")
    letters: list[str] = [""] * len(apart)
    for index, members in enumerate(_needed(_cover(~apart))):
        for member in members:
            letters[member] += _letter(index)
    return letters


def _cover(alike: np.ndarray) -> list[tuple[int, ...]]:
    """Return sets of mutually alike methods, none of which can grow, that hold every alike pair and every method.

    Growing a set from each pair not yet held takes polynomial time; listing all such sets could take exponential.
    """
    held = np.zeros_like(alike)
    sets = []
    for i in range(len(alike)):
        for j in range(i, len(alike)):
            if not alike[i, j] or held[i, j]:
                continue
            fits = alike[i] & alike[j]
            members = [i, j] if i != j else [i]
            fits[members] = False
            while fits.any():
                new = int(fits.argmax())
                members.append(new)
                fits &= alike[new]
                fits[new] = False
            held[np.ix_(members, members)] = True
            sets.append(tuple(sorted(members)))
    return sorted(sets)


def _needed(sets: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Drop sets whose every pair is held by others, the smallest first, so that few letters remain."""
    size = max((max(one) for one in sets), default=-1) + 1
    times = np.zeros((size, size), dtype=int)  # how many sets hold a pair
    for one in sets:
        times[np.ix_(one, one)] += 1
    spare = set()
    for one in sorted(sets, key=len):
        pairs = np.ix_(one, one)
        if (times[pairs] > 1).all():
            times[pairs] -= 1
            spare.add(one)
    return [one for one in sets if one not in spare]


def _letter(index: int) -> str:
    round_, position = divmod(index, len(string.ascii_letters))
    return string.ascii_letters[position] + (str(round_) if round_ else "")
