"""Streams per sample: those of a generator made for the sample alone."""

from __future__ import annotations

import numpy as np

from roadworthy.rng import derive, normal_fields, numpy_generator, permutations

IDS = ["a", "b", "", "long " * 50, "ü"]


def test_each_sample_draws_as_from_a_generator_of_its_own() -> None:
    fields = normal_fields(3, "noise", IDS, (5, 7))
    orders = permutations(3, "ties", IDS, 31)
    for row, sample in enumerate(IDS):
        fresh = np.random.Generator(np.random.Philox(key=derive(3, "noise", sample)))
        assert (fields[row] == fresh.standard_normal((5, 7), dtype=np.float32)).all()
        assert (orders[row] == numpy_generator(3, "ties", sample).permutation(31)).all()


def test_odd_counts_leave_nothing_for_the_next_sample() -> None:
    # a float32 normal takes half of a drawn word: what is left over must not reach the next sample
    for size in (1, 2, 3, 5):
        both = normal_fields(0, "noise", ["a", "b"], (size,))
        assert (both[1] == normal_fields(0, "noise", ["b"], (size,))[0]).all()
    assert normal_fields(0, "noise", [], (3,)).shape == (0, 3)


def test_the_global_state_stays() -> None:
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    normal_fields(0, "noise", IDS, (4,))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
