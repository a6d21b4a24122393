"""M11: maps that say nothing must score as a random one, and be counted."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from roadworthy.evaluation.selftest.contender import contender
from roadworthy.evaluation.selftest.empties import empty

GAIN = contender("road")
N = 200


@dataclass
class Bench:
    """A bench whose scores and counts are given; the map is empty in the second half of the images."""

    means: dict[str, float]
    noise: float = 0.05
    counts: dict[str, int] = field(default_factory=dict)
    n: int = N
    seed: int = 0

    @property
    def maps(self) -> dict[str, np.ndarray]:
        return {"half empty": (np.arange(N) < N // 2)[:, None] * np.ones((1, 4))}

    def undefined(self, one: object) -> dict[str, int]:
        return {"constant": N, "half empty": N // 2, "sparse": 0, "truth": 0} | self.counts

    def scores(self, one: object, names: list[str]) -> np.ndarray:
        rows = []
        for name in names:
            drawn = np.random.default_rng([self.seed, *name.encode()]).normal(size=N) * self.noise
            half = np.arange(N) < N // 2
            mean = (
                np.where(half, self.means["truth"], self.means["half"]) if name == "half empty" else self.means[name]
            )
            rows.append(mean + drawn - np.where(half, drawn[half].mean(), drawn[~half].mean()))
        return np.stack(rows)


def bench(noise: float = 0.05, counts: dict[str, int] | None = None, **changes: float) -> Bench:
    means = {"truth": 0.8, "half": 0.0, "constant": 0.0, "sparse": 0.0, "null white": 0.0, "inverse": -0.8}
    return Bench(means | {name.replace("_", " "): value for name, value in changes.items()}, noise, counts or {})


def test_as_a_random_map_and_counted_passes() -> None:
    found = empty([bench(), bench()], GAIN)
    assert (found.id, found.passed) == ("M11", True)
    assert found.measured == pytest.approx(0.0, abs=0.01)
    assert "undefined maps counted: 400 of constant, 200 of half empty, 0 of sparse, of 400 each" in found.note


@pytest.mark.parametrize("name", ["constant", "sparse", "half"])
@pytest.mark.parametrize("value", [0.3, -0.3])
def test_ahead_of_random_or_behind_it_fails(name: str, value: float) -> None:
    found = empty([bench(**{name: value})], GAIN)
    assert found.passed is False
    assert found.measured == pytest.approx(value / 1.6, abs=0.01)


def test_a_difference_that_is_small_but_certain_fails() -> None:
    assert empty([bench(noise=0.01, constant=0.02)], GAIN).passed is False


def test_noise_that_hides_any_difference_is_no_pass() -> None:
    assert empty([bench(noise=0.8)], GAIN).passed is None


def test_maps_that_are_not_counted_fail() -> None:
    for counts in ({"constant": 0}, {"half empty": 0}, {"sparse": 3}):
        assert empty([bench(counts=counts)], GAIN).passed is False


def test_half_empty_must_lie_between() -> None:
    found = empty([bench(truth=-0.1, inverse=-0.9)], GAIN)
    assert found.passed is False
    assert "not between" in found.note
