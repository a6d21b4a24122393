"""Presets and the bounds of each field."""

from __future__ import annotations

import pytest

from roadworthy.errors import InputError
from roadworthy.evaluation.strategy import Strategy, presets


def test_presets_are_the_published_methods() -> None:
    assert set(presets) == {"road", "pixel-flipping", "deletion", "insertion", "roar", "kar", "roar-2019"}
    road = presets["road"]
    assert (road.training, road.order, road.imputer, road.readout) == ("none", "both", "noisy-linear", "top1")
    assert road.fractions == (0.1, 0.3, 0.5, 0.7, 0.9)
    assert (presets["pixel-flipping"].imputer, presets["pixel-flipping"].orders) == ("zero", ("morf",))
    assert (presets["deletion"].imputer, presets["deletion"].readout) == ("mean", "probability")
    assert (presets["insertion"].imputer, presets["insertion"].orders) == ("blur", ("lerf",))


def test_presets_that_retrain_are_those_of_the_benchmark() -> None:
    roar, kar, published = presets["roar"], presets["kar"], presets["roar-2019"]
    assert (roar.training, roar.orders, roar.imputer, roar.unit, roar.sign) == (
        "retrain", ("morf",), "mean", "pixel", "signed"
    )  # fmt: skip
    assert (kar.training, kar.orders, kar.imputer) == ("retrain", ("lerf",), "mean")
    assert (published.unit, published.sign, published.mean) == ("channel", "squared", (0.485, 0.456, 0.406))
    assert (published.ties, published.random_masks) == ("first", "bernoulli")
    assert published.fractions == (0.1, 0.3, 0.5, 0.7, 0.9)


def test_changes_that_are_none_leave_the_preset() -> None:
    assert Strategy.of("deletion", order=None, sign="abs") == Strategy.of(presets["deletion"], sign="abs")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"order": "most"}, "order: got 'most', expected one of 'morf', 'lerf', 'both'"),
        ({"sign": "neg"}, "sign: got 'neg'"),
        ({"unit": "patch"}, "unit: got 'patch'"),
        ({"reduction": "median"}, "reduction: got 'median'"),
        ({"fractions": (10, 30)}, r"\[10\.0, 30\.0\].*percentages: divide by 100"),
        ({"fractions": (0.1, -0.2)}, r"\[-0\.2\]"),
        ({"fractions": (0.1, float("nan"))}, r"\[nan\]"),
        ({"fractions": ()}, "got none"),
        ({"fractions": (0,)}, "only 0"),
        ({"fractions": "half"}, "'half'"),
    ],
)
def test_values_outside_are_refused(changes: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Strategy.of("road", **changes)


def test_fractions_are_sorted_once_and_without_zero() -> None:
    strategy = Strategy.of("road", fractions=(0.5, 0, 0.1, 0.5))
    assert strategy.fractions == (0.1, 0.5)
    assert strategy.all_fractions == (0.0, 0.1, 0.5)


def test_the_strategy_must_be_a_name_or_a_strategy() -> None:
    with pytest.raises(InputError, match="strategy: got int"):
        Strategy.of(3)  # type: ignore[arg-type]
