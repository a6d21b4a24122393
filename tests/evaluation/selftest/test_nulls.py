"""M6 and M7 on strategies that must pass them and on such that must not; scores are set by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from roadworthy.evaluation.selftest import nulls
from roadworthy.evaluation.selftest.contender import contender
from roadworthy.evaluation.selftest.record import within
from roadworthy.statistics import rank_methods

GAIN = contender("road")


@dataclass
class Nulls:
    """Panels of null maps, the smooth ones ``gap`` above the white ones; each map has an offset of its own."""

    gap: float = 0.0
    offset: float = 0.01
    panels: int = 5
    n: int = 40
    seed: int = 0

    @property
    def maps(self) -> dict[str, None]:
        return {
            f"{kind} {panel}.{number}": None
            for panel in range(self.panels)
            for kind in ("white", "blob")
            for number in range(5)
        }

    def scores(self, one: object, names: list[str]) -> np.ndarray:
        draw = np.random.default_rng(self.seed)
        offsets = dict(zip(self.maps, draw.normal(size=len(self.maps)) * self.offset, strict=True))
        noise = dict(zip(self.maps, draw.normal(size=(len(self.maps), self.n)), strict=True))
        noise = {name: 0.2 * (values - values.mean()) for name, values in noise.items()}
        return np.stack([offsets[name] + noise[name] + self.gap * name.startswith("blob") for name in names])

    def ranking(self, one: object, names: list[str]) -> pd.DataFrame:
        return rank_methods(self.scores(one, names), names, draws=2000)


@dataclass
class Ends:
    """The two maps that span the range."""

    top: float = 1.0
    bottom: float = -1.0
    seed: int = 0

    def scores(self, one: object, names: list[str]) -> np.ndarray:
        return np.array([[self.top] * 10, [self.bottom] * 10])


def gap(*drawn: Nulls) -> tuple[float, bool | None]:
    found = nulls.null_gap([Ends()] * len(drawn), drawn, GAIN)
    assert found.id == "M6"
    return found.measured, found.passed


def test_no_preference_passes_and_a_preference_fails() -> None:
    assert gap(Nulls(), Nulls(seed=1))[1] is True
    measured, passed = gap(Nulls(0.3), Nulls(0.1, seed=1))
    assert measured == pytest.approx(0.1, abs=0.01)  # of a range of 2
    assert passed is False


def test_a_small_preference_that_is_certain_fails_too() -> None:
    measured, passed = gap(Nulls(0.04, offset=0.001))
    assert 0 < measured < nulls.GAP
    assert passed is False


def test_a_wide_error_is_no_pass() -> None:
    """One gap of a sound strategy, so uncertain that nothing can be said."""
    assert gap(Nulls(offset=0.3))[1] is None
    assert gap(Nulls(2.0, offset=0.3))[1] is False  # far beyond, however wide


def test_a_strategy_that_scores_all_alike_has_no_range_and_does_not_pass() -> None:
    found = nulls.null_gap([Ends(0.5, 0.5)], [Nulls()], GAIN)
    assert np.isnan(found.measured)
    assert found.passed is None


def test_gaps_of_opposite_sign_do_not_cancel() -> None:
    measured, passed = gap(Nulls(0.4), Nulls(-0.4, seed=1))
    assert measured == pytest.approx(0.0, abs=0.01)
    assert passed is False


@pytest.mark.parametrize(
    ("value", "half", "passed"),
    [
        (0.0, 0.0, True),
        (0.03, 0.03, True),
        (-0.02, 0.025, True),
        (0.02, 0.019, False),
        (0.031, 0.03, False),
        (0.0, 0.031, None),
        (-0.5, 0.1, False),
        (0.0, float("nan"), None),
        (float("nan"), 0.01, False),
    ],
)
def test_a_difference_that_should_be_none(value: float, half: float, passed: bool | None) -> None:
    assert within(value, half, 0.03) is passed


def test_panels_without_information_are_silent_and_others_are_not() -> None:
    found = nulls.null_panels([Nulls(offset=0.0), Nulls(offset=0.0, seed=1)], GAIN)
    assert (found.measured, found.passed, found.seeds) == (1.0, True, (0, 1))
    assert "10 of 10 panels of 10 maps, from 2 benches" in found.note
    found = nulls.null_panels([Nulls(offset=0.0), Nulls(0.4, seed=1)], GAIN)
    assert (found.measured, found.passed) == (0.5, False)


def test_a_single_panel_of_few_that_is_ranked_gives_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of five sound panels is ranked once in 20 times, one of five in a fifth of the self-tests."""

    def verdict(silent: int, panels: int) -> bool | None:
        bench = Nulls(panels=panels)
        said = iter(["a"] * silent + ["b"] * (panels - silent))
        monkeypatch.setattr(Nulls, "ranking", lambda self, one, names: pd.DataFrame({"group": ["a", next(said)]}))
        return nulls.null_panels([bench], GAIN).passed

    assert [verdict(silent, 5) for silent in (5, 4, 3)] == [True, None, False]
    assert [verdict(silent, 20) for silent in (20, 19, 18)] == [True, True, False]
