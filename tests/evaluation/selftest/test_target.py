"""M14: the map of another class is no explanation of this one, and one of its own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from roadworthy.evaluation.selftest.contender import IDSDS, contender
from roadworthy.evaluation.selftest.target import _of_the_other, wrong_target

GAIN = contender("road")


@dataclass
class Scored:
    means: dict[str, float]
    n: int = 80
    seed: int = 0

    def scores(self, one: object, names: list[str] | None = None) -> np.ndarray:
        chosen = self.means if names is None else names
        draws = [np.random.default_rng(len(name)).normal(size=self.n) * 0.02 for name in chosen]
        return np.stack([self.means[name] + drawn - drawn.mean() for name, drawn in zip(chosen, draws, strict=True)])


def found(other: float, its: float) -> tuple[float, bool | None]:
    own = Scored({"own": 0.8, "other": other, "random": 0.0})
    trial = wrong_target([(own, Scored({"other": its, "random": -0.5}))], GAIN)
    assert trial.id == "M14"
    return trial.measured, trial.passed


@pytest.mark.parametrize(("other", "passed"), [(-0.1, True), (0.3, False), (0.8, False)])
def test_it_must_be_below_the_right_one_and_not_above_random(other: float, passed: bool) -> None:
    measured, verdict = found(other, its=-0.1)
    assert verdict is passed
    assert measured == pytest.approx(other / 0.8, abs=1e-6)


def test_for_its_own_class_it_must_be_above_random() -> None:
    assert found(-0.1, its=-0.1)[1] is True
    assert found(-0.1, its=-0.5)[1] is False
    assert found(-0.1, its=-0.9)[1] is False


def test_the_other_class_is_asked_most_relevant_first_by_what_is_read_out_of_it() -> None:
    turned = _of_the_other(GAIN)
    assert (turned.orders, turned.readout, turned.views) == (("morf",), "probability", GAIN.views)
    assert _of_the_other(contender("road lerf logit")).readout == "logit"
    assert _of_the_other(IDSDS) is IDSDS
