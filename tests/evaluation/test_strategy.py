"""Presets and the bounds of each field."""

from __future__ import annotations

import pytest

from roadworthy.errors import InputError
from roadworthy.evaluation.strategy import Strategy, presets


def test_presets_are_the_published_methods() -> None:
    known = {"road", "symmetric", "f-fidelity", "pixel-flipping", "deletion", "insertion", "roar", "kar", "roar-2019"}
    assert set(presets) == known
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
        ({"training": "never"}, "training: got 'never'"),
        ({"training": ("none", "retrain")}, "expected 'none', 'finetune' or 'retrain', or"),
        ({"training": ("none", "none")}, "training: got"),
        ({"training": ()}, "training: got"),
        ({"training": "retrain", "imputer": ("mean", "zero")}, "'retrain' takes one imputer"),
        ({"training": "retrain", "alpha": 0.5}, "alpha and beta of 1"),
        ({"imputer": ()}, "imputer: got none"),
        ({"alpha": 0}, "alpha: got 0"),
        ({"beta": 1.5}, "beta: got 1.5"),
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


def test_judges_and_fills_of_a_preset() -> None:
    symmetric, capped = presets["symmetric"], presets["f-fidelity"]
    assert symmetric.judges == ("untouched", "fine-tuned")
    assert symmetric.imputers == ("mean", "noisy-linear")
    assert (symmetric.settings()["imputer"], symmetric.settings()["training"]) == (
        "mean + noisy-linear", "none + finetune"
    )  # fmt: skip
    assert (capped.judges, capped.alpha, capped.beta, capped.repeats) == (("fine-tuned",), 0.5, 0.1, 50)
    assert len(capped.fractions) == 19
    assert presets["roar"].judges == ()


def test_f_fidelity_never_removes_more_than_its_cap() -> None:
    capped = presets["f-fidelity"]
    assert [capped.removal_probability(p) for p in (0.05, 0.2, 0.5, 0.95)] == [0.5, 0.5, 0.2, 0.1 / 0.95]
    assert all(capped.removal_probability(p) * p <= 0.1 + 1e-12 for p in capped.fractions)
    assert presets["road"].removal_probability(0.9) == 1
