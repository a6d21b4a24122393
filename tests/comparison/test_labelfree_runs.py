"""Label-free runs side by side: intervals that hold whenever both do, and the bound that predictions set."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_runs import free, planted

import roadworthy as rw
from roadworthy.errors import InputError
from roadworthy.labelfree import LabelFree, Outputs, labelfree


@pytest.fixture(scope="module")
def base() -> LabelFree:
    rng = np.random.default_rng(0)

    def said(n: int, labelled: bool) -> Outputs:
        p = rng.uniform(size=n)
        return Outputs.of(p, labels=(rng.uniform(size=n) < p).astype(int) if labelled else None)

    return labelfree(data=said(100, False), source=said(200, True), corruptions=())


def test_the_difference_lies_between_the_extremes_that_both_allow(base: LabelFree) -> None:
    one = free(base, (0.70, 0.62, 0.78), ids=[f"a{i}" for i in range(100)], predicted=[0] * 100)
    other = free(base, (0.80, 0.75, 0.85), ids=[f"b{i}" for i in range(100)], predicted=[0] * 100, level=0.95)
    found = rw.compare({"one": one, "other": other})
    row = found.differences.iloc[0]
    assert row[["difference", "low", "high"]].tolist() == pytest.approx([0.10, 0.75 - 0.78, 0.85 - 0.62])
    assert row["level"] == pytest.approx(0.85)
    assert (row["paired"], row["n"], row["reason"]) == (False, 100, "")
    assert np.isnan(row["disagree"])
    assert found.table[["run", "accuracy", "low", "high"]].values.tolist() == [
        ["one", 0.70, 0.62, 0.78], ["other", 0.80, 0.75, 0.85],
    ]  # fmt: skip
    assert "cannot be told apart in accuracy: +10.0 points, with at least 85 % confidence -3.0 to +23.0" in " ".join(
        found.verdict
    )


def test_on_the_same_samples_it_is_no_larger_than_the_predictions_differ(base: LabelFree) -> None:
    predicted = np.zeros(100, dtype=int)
    other = predicted.copy()
    other[:5] = 1
    runs = {
        "one": free(base, (0.70, 0.62, 0.78), predicted=predicted),
        "other": free(base, (0.80, 0.75, 0.85), predicted=other),
    }
    row = rw.compare(runs).differences.iloc[0]
    assert row[["difference", "low", "high", "disagree"]].tolist() == pytest.approx([0.05, -0.03, 0.05, 0.05])
    assert row["paired"]


def test_a_run_against_itself_differs_by_exactly_nothing(base: LabelFree) -> None:
    found = rw.compare([base, base])
    assert found.differences.iloc[0][["difference", "low", "high", "disagree"]].tolist() == [0, 0, 0, 0]
    assert "equally accurate" in found.verdict[0]
    assert not len(found.settings)


def test_estimates_that_predictions_rule_out_have_no_interval(base: LabelFree) -> None:
    runs = [free(base, (0.5, 0.45, 0.55), predicted=[0] * 100), free(base, (0.9, 0.85, 0.95), predicted=[0] * 100)]
    row = rw.compare(runs).differences.iloc[0]
    assert np.isnan(row["low"])
    assert "farther apart than the predictions" in row["reason"]


def test_without_an_estimate_there_is_no_difference(base: LabelFree) -> None:
    found = rw.compare({"a": base, "b": free(base, None, ids=[f"b{i}" for i in range(100)], predicted=[0] * 100)})
    row = found.differences.iloc[0]
    assert np.isnan(row[["difference", "low", "high", "level"]].astype(float)).all()
    assert row["reason"] == "no estimate of b"
    assert found.verdict[0] == "What b and a differ by cannot be said: no estimate of b."
    assert found.table["reason"][1].startswith("no labelled samples")


def test_without_an_estimate_the_predictions_bound_the_difference_still(base: LabelFree) -> None:
    predicted = np.zeros(100, dtype=int)
    other = predicted.copy()
    other[:10] = 1
    runs = {"a": free(base, (0.7, 0.6, 0.8), predicted=predicted), "b": free(base, None, predicted=other)}
    found = rw.compare(runs)
    row = found.differences.iloc[0]
    assert np.isnan(row["difference"])
    assert row[["low", "high", "level"]].tolist() == [-0.1, 0.1, 1.0]
    assert found.verdict[0].startswith("b and a differ by at most 10.0 points in accuracy")
    same = rw.compare({"a": runs["a"], "b": free(base, None, predicted=predicted)}).differences.iloc[0]
    assert same[["difference", "low", "high"]].tolist() == [0, 0, 0]


def test_samples_without_names_are_taken_for_the_same_with_a_warning(base: LabelFree) -> None:
    places = [str(i) for i in range(100)]
    named, unnamed = (
        rw.compare([free(base, (0.7, 0.6, 0.8), ids=ids, predicted=[0] * 100) for _ in range(2)]).warnings
        for ids in ([f"s{i}" for i in range(100)], places)
    )
    assert not any("places alone" in warning for warning in named)
    assert any(warning.startswith("run 2 and run 1: samples are known by their places alone") for warning in unnamed)


def test_gates_and_settings_stand_side_by_side(base: LabelFree) -> None:
    gates = [dict(gate, status="refuse") for gate in base.record["gates"][:1]]
    record = base.record | {"gates": gates, "settings": base.record["settings"] | {"reliability": 0.8}}
    found = rw.compare({"a": base, "b": replace(base, record=record)})
    assert found.gates["b"].tolist()[0] == "refuse"
    assert found.gates["b"].tolist()[1] == ""
    assert found.settings.loc[found.settings["name"] == "reliability"].values.tolist() == [
        ["reliability", "0.9", "0.8"]
    ]
    assert any(warning.startswith("b: refused by") for warning in found.warnings)


def test_the_interval_of_the_difference_holds_as_often_as_it_says(base: LabelFree) -> None:
    """Two estimates of planted error, each in its interval 90 times of 100, the errors shared or not."""
    rng = np.random.default_rng(3)
    for shared in (True, False):
        inside = 0
        for _ in range(80):
            errors = rng.normal(0, 0.05, 2)
            errors[1] = errors[0] if shared else errors[1]
            half = 1.645 * 0.05
            estimates = np.array([0.6, 0.7]) + errors * [1, -1]
            runs = [
                free(
                    base,
                    (value, value - half, value + half),
                    ids=[f"{k}{i}" for i in range(100)],
                    predicted=[0] * 100,
                )
                for k, value in enumerate(estimates)
            ]
            row = rw.compare(runs).differences.iloc[0]
            inside += row["low"] <= 0.1 <= row["high"]
        assert inside / 80 >= row["level"] - 3 * np.sqrt(0.8 * 0.2 / 80)


def test_a_readout_has_no_effect_and_is_refused(base: LabelFree) -> None:
    with pytest.raises(InputError, match="label-free runs have none"):
        rw.compare([base, base], readout="top1")


def test_an_evaluation_with_a_label_free_run_is_refused(base: LabelFree) -> None:
    with pytest.raises(InputError, match=r"'b' rank methods with labels, 'a' judge a classifier without"):
        rw.compare({"a": base, "b": planted({"ig": np.ones(5)})})
