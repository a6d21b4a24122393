"""Ladders over real methods: what counts is the mean over bases and seeds, and for permuted ones the lowest cell."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from roadworthy.evaluation.selftest.contender import contender
from roadworthy.evaluation.selftest.ladders import LEVELS
from roadworthy.evaluation.selftest.natural import ladders

GAIN = contender("road")


@dataclass
class Bench:
    """A bench on which steps of a ladder come out in an order that is given for each base."""

    orders: dict[str, list[int]]
    n: int = 30
    seed: int = 0

    def scores(self, one: object, names: list[str]) -> np.ndarray:
        order = self.orders[names[0]]
        assert names[1:] == [f"{names[0]} {names[1].split()[1]} {share:g}" for share in LEVELS[1:]]
        return -np.array(order, dtype=float)[:, None] + np.zeros((1, self.n))


# Spearman 1, .943 and .886
RIGHT, ONE, TWO = [0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5], [1, 0, 3, 2, 4, 5]


@pytest.mark.parametrize(
    ("orders", "permuted", "swapped"),
    [
        ([RIGHT] * 6, True, True),
        ([ONE, ONE, RIGHT, RIGHT, RIGHT, RIGHT], True, True),  # mean .981, lowest .943
        ([ONE, ONE, ONE, RIGHT, RIGHT, RIGHT], False, True),  # mean .971
        ([TWO, RIGHT, RIGHT, RIGHT, RIGHT, RIGHT], False, True),  # mean .981, but one cell of .886
        ([ONE, TWO, TWO, ONE, ONE, ONE], False, False),  # mean .924
        ([RIGHT[::-1], RIGHT, RIGHT, RIGHT, RIGHT, RIGHT], False, False),
    ],
)
def test_cells_count_together(orders: list[list[int]], permuted: bool, swapped: bool) -> None:
    benches = [Bench({"ig": orders[0], "gradcam": orders[1], "ig-sq": orders[2]})]
    benches += [Bench({"ig": orders[3], "gradcam": orders[4], "ig-sq": orders[5]}, seed=1)]
    for kind, mark, passed in (("permuted", "M3a", permuted), ("swapped", "M3b", swapped)):
        *alone, whole = ladders(benches, GAIN, ["ig", "gradcam", "ig-sq"], kind)
        assert [trial.id for trial in alone] == [f"{mark} {base}" for base in ("ig", "gradcam", "ig-sq")]
        assert all(trial.passed is None for trial in alone)
        assert (whole.id, whole.passed) == (mark, passed)
        assert whole.measured == pytest.approx(np.mean([trial.measured for trial in alone]))


def test_an_undefined_cell_does_not_pass_and_no_base_gives_no_trial() -> None:
    *_, whole = ladders([Bench({"ig": [0] * 6, "gradcam": RIGHT})], GAIN, ["ig", "gradcam"], "swapped")
    assert whole.passed is False
    assert np.isnan(whole.measured)
    assert ladders([Bench({})], GAIN, [], "permuted") == []
