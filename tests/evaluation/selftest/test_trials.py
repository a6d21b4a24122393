"""Each meta-test on a strategy that must pass it and on one that must not; scores are set by hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from roadworthy.evaluation.selftest import trials
from roadworthy.evaluation.selftest.contender import contender
from roadworthy.evaluation.selftest.ladders import LEVELS
from roadworthy.evaluation.selftest.power import images_needed, power, refused

GAIN, MORF = contender("road"), contender("road morf")
LADDERS = {f"{kind} {share:g}": 1 - share for kind in ("permuted", "swapped") for share in LEVELS[1:]}
QUALITY = {
    "truth": 1.0,
    **{name: 0.1 + 0.9 * worth for name, worth in LADDERS.items()},
    "blur 1": 1.0,
    "blur 2": 0.99,
    "blur 4": 0.96,
    "half empty": 0.53,
    "edge": 0.3,
    "null white": 0.08,
    "null blob": 0.07,
    "constant": 0.08,
    "decoy": 0.05,
    "inverse": 0.03,
}


@dataclass
class Scored:
    """A bench whose scores are given: the mean for each map, with a little noise over samples."""

    means: dict[str, float]
    qualities: dict[str, float] = field(default_factory=dict)
    noise: float = 0.02
    n: int = 80
    seed: int = 0

    @property
    def maps(self) -> dict[str, float]:
        return self.means

    def quality(self) -> np.ndarray:
        return np.array(list(self.qualities.values()))[:, None] + np.zeros((1, self.n))

    def scores(self, one: object, names: list[str] | None = None) -> np.ndarray:
        draw = np.random.default_rng(self.seed)
        drawn = draw.normal(size=self.n) * self.noise  # shared by all maps, so that "inverse" is exactly "truth"
        sign = {name: -1 if name == "inverse" else 1 for name in self.means}
        rows = {name: mean + sign[name] * drawn for name, mean in self.means.items()}
        own = {name: np.random.default_rng(i).normal(size=self.n) for i, name in enumerate(self.means)}
        for name in rows:
            if name not in ("truth", "inverse"):
                rows[name] = rows[name] + self.noise * (own[name] - own[name].mean())
        return np.stack([rows[name] for name in (self.means if names is None else names)])


@dataclass
class Given:
    """A bench whose scores are given for each sample."""

    rows: dict[str, np.ndarray]
    seed: int = 0

    @property
    def n(self) -> int:
        return len(next(iter(self.rows.values())))

    def scores(self, one: object, names: list[str]) -> np.ndarray:
        return np.stack([self.rows[name] for name in names])


def sound(**changes: float) -> Scored:
    """Return a bench on which everything is as it should be, but for the changes."""
    means = {name: quality - 0.08 for name, quality in QUALITY.items()}
    means |= {"blur 1": 0.92, "null white": 0.0, "null blob": 0.0, "constant": 0.0, "inverse": -0.92}
    renamed = {name.replace("_", " "): value for name, value in changes.items()}
    return Scored(means | renamed, QUALITY)


def test_suite_passes_on_the_order_of_quality_and_fails_on_another() -> None:
    rho, pairs = trials.suite([sound(), sound()], GAIN)
    assert (rho.id, rho.passed, pairs.id, pairs.passed) == ("M1", True, "M1 pairs", True)
    assert rho.measured > 0.98
    assert pairs.measured == 1.0
    means = sound().means
    spoilt = dict(zip(means, np.random.default_rng(0).permutation(list(means.values())), strict=True))
    rho, pairs = trials.suite([sound(), Scored(spoilt, QUALITY)], GAIN)
    assert not rho.passed
    assert not pairs.passed
    assert "lowest" in rho.note


def test_suite_leaves_constant_real_and_panel_maps_out() -> None:
    more = {"constant": 5.0, "sparse": 6.0, "ig": -9.0, "white 0.0": 7.0, "blob 0.0": 7.0}
    bench = sound()
    bench = Scored(bench.means | more, QUALITY | dict.fromkeys(("sparse", "ig", "white 0.0", "blob 0.0"), 0.9))
    assert trials.suite([bench], GAIN)[0].measured == trials.suite([sound()], GAIN)[0].measured


def test_a_ladder_passes_in_order_and_not_reversed() -> None:
    found = trials.ladder_order([sound()], GAIN, "permuted")
    assert (found.id, found.measured, found.passed) == ("M3a", 1.0, True)
    upside_down = Scored({name: -value for name, value in sound().means.items()}, QUALITY)
    found = trials.ladder_order([sound(), upside_down], GAIN, "swapped", expected=0.0)
    assert (found.id, found.measured, found.passed) == ("M3b", 0.0, False)  # one seed is negative


def test_a_ladder_of_a_real_method_is_named_by_it() -> None:
    means = {"ig": 1.0, **{f"ig {kind}": value for kind, value in LADDERS.items()}}
    assert trials.ladder_order([Scored(means)], GAIN, "permuted", base="ig").id == "M3a ig"


def test_the_inverse_must_be_last() -> None:
    assert trials.inverse([sound()], GAIN).passed
    found = trials.inverse([sound(), sound(decoy=-2.0)], GAIN)
    assert (found.measured, found.passed) == (2.0, False)


def test_with_both_orders_the_inverse_must_be_exactly_as_bad_as_the_truth_is_good() -> None:
    off = sound(inverse=-0.95)
    assert not trials.inverse([off], GAIN).passed
    assert trials.inverse([off], MORF).passed  # one order promises nothing of the kind


def test_a_blur_above_the_truth_is_caught_and_one_below_is_not() -> None:
    assert trials.smoothing([sound()], GAIN).passed
    found = trials.smoothing([sound(blur_4=1.1)], GAIN)
    assert not found.passed
    assert found.measured == pytest.approx(0.18 / 1.84, abs=0.005)
    assert "blur 4" in found.note
    assert trials.smoothing([sound(blur_1=0.925)], GAIN).passed  # within a hundredth of the range


def test_the_decoy_must_not_beat_random_nor_edges_a_good_map() -> None:
    assert trials.decoy([sound()], GAIN).passed
    assert not trials.decoy([sound(decoy=0.2)], GAIN).passed
    found = trials.decoy([sound(edge=0.85)], GAIN)
    assert not found.passed
    assert "half empty" in found.note


def test_images_needed_halves_until_the_order_is_lost() -> None:
    draw = np.random.default_rng(0)
    quality = np.arange(6.0)
    clear = quality[:, None] + draw.normal(size=(6, 160)) * 0.5
    hard = quality[:, None] + draw.normal(size=(6, 160)) * 2.5
    lost = draw.normal(size=(6, 160))
    few, many, never = (images_needed(scores, quality, seed=0) for scores in (clear, hard, lost))
    assert few <= 10
    assert 20 < many <= 160
    assert np.isnan(never)


def test_too_few_images_for_a_ladder_is_no_pass() -> None:
    assert power([sound()], GAIN).passed
    found = power([sound(), replace(sound(), noise=60.0)], GAIN)
    assert np.isnan(found.measured)
    assert found.passed is False
    assert "too few" in found.note


def test_below_the_images_needed_the_product_must_refuse_to_rank() -> None:
    assert "no ranking in 100% of draws of 2 images" in power([sound()], GAIN).note
    # enough for the order at 160 images and not at 80, where the ends of the ladder are told apart all the same
    draw = np.random.default_rng(0)
    scores = np.array([1, 0.8, 0.6, 0.4, 0.2, 0.0])[:, None] + draw.normal(size=(6, 160)) * 0.9
    assert refused(scores, 4, seed=0) == 1.0
    assert refused(scores, 80, seed=0) < 0.95
    assert refused(np.zeros((6, 160)), 160, seed=0) == 1.0
    names = ["truth", *(f"permuted {share:g}" for share in LEVELS[1:])]
    bench = Given(dict(zip(names, scores, strict=True)))
    found = power([bench], GAIN)
    assert found.measured > 40
    assert found.passed is False
