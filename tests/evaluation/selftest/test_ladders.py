"""Ladders: what is exchanged, what stays, and that steps are nested."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.evaluation.selftest.ladders import LEVELS, ladder, permuted, swapped

IDS = [str(row) for row in range(12)]
MAPS = np.random.default_rng(0).normal(size=(12, 6, 5)).astype(np.float32)


@settings(max_examples=25, deadline=None)
@given(share=st.sampled_from(LEVELS), seed=st.integers(0, 1000))
def test_a_permuted_map_keeps_its_values_and_moves_at_most_the_share(share: float, seed: int) -> None:
    found = permuted(MAPS, share, seed=seed, ids=IDS)
    assert np.array_equal(np.sort(found.reshape(12, -1)), np.sort(MAPS.reshape(12, -1)))
    moved = (found != MAPS).reshape(12, -1).sum(axis=1)
    assert (moved <= round(share * 30)).all()
    # in a random permutation of k values, one stays in place on average
    assert moved.mean() >= round(share * 30) - 2.5 if share else moved.max() == 0


def test_the_units_that_move_are_nested_and_differ_between_images() -> None:
    half, more = (permuted(MAPS, share, seed=3, ids=IDS) != MAPS for share in (0.4, 0.8))
    # a unit that moved at 0.4 may meet its own value again at 0.8, but that is rare
    assert (half & ~more).sum() <= 0.15 * half.sum()
    assert not np.array_equal(half[0], half[1])
    again = permuted(MAPS[5:6], 0.4, seed=3, ids=IDS[5:6])
    assert np.array_equal(again[0] != MAPS[5], half[5])


@settings(max_examples=25, deadline=None)
@given(share=st.sampled_from(LEVELS), seed=st.integers(0, 1000))
def test_a_swapped_map_is_whole_and_never_its_own(share: float, seed: int) -> None:
    numbers = np.arange(12)[:, None] * np.ones((1, 4))
    found = swapped(numbers, share, seed=seed)
    assert (found == found[:, :1]).all()
    assert (found[:, 0] != numbers[:, 0]).sum() == round(share * 12)


def test_swapping_is_nested_and_partners_stay() -> None:
    numbers = np.arange(12.0)[:, None]
    steps = [swapped(numbers, share, seed=1)[:, 0] for share in LEVELS]
    for less, more in itertools.pairwise(steps):
        moved = less != numbers[:, 0]
        assert np.array_equal(less[moved], more[moved])


def test_a_ladder_starts_at_the_maps_and_has_names() -> None:
    found = ladder(MAPS, "swapped", seed=0, ids=IDS, name="ig ")
    assert list(found)[:2] == ["ig swapped 0", "ig swapped 0.2"]
    assert np.array_equal(found["ig swapped 0"], MAPS)


def test_what_cannot_be_swapped_or_named_is_refused() -> None:
    with pytest.raises(InputError, match="got 1 maps, expected at least 2"):
        swapped(MAPS[:1], 0.5, seed=0)
    with pytest.raises(InputError, match="got 'mixed', expected 'permuted' or 'swapped'"):
        ladder(MAPS, "mixed", seed=0, ids=IDS)
