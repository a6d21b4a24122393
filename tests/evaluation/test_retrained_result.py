"""A result whose repeats are trainings: ranked over them, and kept with its costs and what is missing."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from roadworthy.errors import DataError, InputError
from roadworthy.evaluation import Result, Scores, load_result
from roadworthy.evaluation.result import COST
from roadworthy.statistics import holm

METHODS = ["ig", "grad", "random"]
FRACTIONS = [0.0, 0.1, 0.5, 0.9]
LOSS = {"morf": (0.9, 0.6, 0.4), "lerf": (0.1, 0.25, 0.4)}  # accuracy lost at the last share, by method


def trained(repeats: int = 5, orders: tuple[str, ...] = ("morf", "lerf"), n: int = 200, **changes: Any) -> Result:
    """Accuracies that fall in a line, a shift for each repeat that all methods share, and noise of each training."""
    rng = np.random.default_rng(31)
    loss = np.array([[LOSS[order][m] for order in orders] for m in range(3)])
    accuracy = 0.95 - loss[..., None] * np.array(FRACTIONS) / 0.9
    accuracy = accuracy[..., None] + rng.normal(0, 0.03, repeats) + rng.normal(0, 0.004, (*accuracy.shape, repeats))
    accuracy[:, :, 0] = accuracy[:1, :1, 0]
    rank = (rng.permutation(n) + 0.5) / n
    top1 = (rank < accuracy[..., None]).astype(np.uint8)
    probability = np.clip(accuracy[..., None] - 0.05 + 0.0 * rank, 0, 1).astype(np.float32)
    rows = [("retrain", "", "", 0.0, r, 2.5, 1000) for r in range(repeats)]
    rows += [("maps", "ig, grad", "", math.nan, None, 4.0, 300), ("road", "", "", math.nan, None, 1.5, 2400)]
    labels = np.arange(n) % 4
    options: dict[str, Any] = {
        "settings": {"strategy": "roar", "training": "retrain", "imputer": "mean", "labels": "given"},
        "cost": pd.DataFrame(rows, columns=list(COST)),
        "missing": ["2 of 40 trainings not done yet: ig, ROAR, 90 %"],
    }
    return Result(
        methods=METHODS,
        orders=list(orders),
        fractions=FRACTIONS,
        removed=[0, 6, 32, 57],
        repeats=repeats,
        ids=[f"s{i}" for i in range(n)],
        scores=Scores(top1, top1, probability, probability, labels, labels, labels),
        **options | changes,
    )


def accuracies(result: Result) -> np.ndarray:
    return result.scores.top1.mean(axis=-1)


def areas(result: Result, order: str) -> np.ndarray:
    curve = accuracies(result)[:, result.orders.index(order)]
    return np.trapezoid(curve, FRACTIONS, axis=1) / 0.9


@pytest.mark.parametrize("repeats", [2, 5])
def test_the_ranking_is_over_trainings(repeats: int) -> None:
    result = trained(repeats)
    table = result.ranking()
    assert (result.retrained, result.unit) == (True, "trainings")
    gains = areas(result, "lerf") - areas(result, "morf")
    assert table["method"].tolist() == METHODS
    columns = ["method", "score", "low", "high", "rank", "group", "sd", "n", "morf_area", "lerf_area", "aoc"]
    assert list(table.columns) == columns
    for m, row in enumerate(table.itertuples()):
        assert row.score == pytest.approx(gains[m].mean(), abs=1e-12)
        assert row.sd == pytest.approx(gains[m].std(ddof=1), abs=1e-12)
        interval = scipy.stats.t.interval(0.95, repeats - 1, gains[m].mean(), scipy.stats.sem(gains[m]))
        assert (row.low, row.high) == pytest.approx(interval, abs=1e-9)
        assert row.n == repeats
        assert (row.morf_area, row.lerf_area) == pytest.approx(
            (areas(result, "morf")[m].mean(), areas(result, "lerf")[m].mean()), abs=1e-12
        )
        loss = accuracies(result)[m, 0, :1] - accuracies(result)[m, 0]
        assert row.aoc == pytest.approx((np.trapezoid(loss, FRACTIONS, axis=0) / 0.9).mean(), abs=1e-12)
    said = {key: table.attrs[key] for key in ("score", "direction", "readout", "unit", "n", "samples", "aoc")}
    assert said == {
        "score": "symmetric gain", "direction": "higher is better", "readout": "top1", "unit": "trainings",
        "n": repeats, "samples": 200, "aoc": "MoRF, higher is better",
    }  # fmt: skip
    pairs = result.pairwise()
    raw = [scipy.stats.ttest_rel(gains[i], gains[j]).pvalue for i, j in ((0, 1), (0, 2), (1, 2))]
    assert pairs["p"].tolist() == pytest.approx(raw, rel=1e-6)
    assert pairs["p_holm"].tolist() == pytest.approx(holm(raw).tolist(), rel=1e-6)


@pytest.mark.parametrize(("order", "direction"), [("morf", "lower is better"), ("lerf", "higher is better")])
def test_roar_and_kar_alone_rank_in_their_own_direction(order: str, direction: str) -> None:
    table = trained(orders=(order,)).ranking()
    assert table["method"].tolist() == METHODS
    assert table.attrs["direction"] == direction
    assert table["aoc"].is_monotonic_decreasing == (order == "morf")
    assert table.attrs["aoc"] == ("MoRF, higher is better" if order == "morf" else "LeRF, lower is better")


def test_one_training_falls_back_to_the_samples() -> None:
    result = trained(1)
    table, plain = result.ranking(), replace(result, settings={}).ranking()
    assert (result.unit, table.attrs["unit"], table.attrs["n"]) == ("samples", "samples", 200)
    pd.testing.assert_frame_equal(table.drop(columns="aoc"), plain)
    points = result.over_repeats()
    assert points[["sd", "low", "high"]].isna().all(axis=None)
    assert points["n"].unique().tolist() == [1]


@pytest.mark.parametrize("readout", [None, "probability"])
def test_every_point_has_its_mean_and_spread(readout: str | None) -> None:
    result = trained()
    table = result.over_repeats(readout, level=0.9)
    assert list(table.columns) == ["method", "order", "fraction", "mean", "sd", "n", "low", "high"]
    values = result.scores[readout or "top1"].mean(axis=-1, dtype=np.float64).reshape(-1, 5)
    np.testing.assert_allclose(table["mean"], values.mean(axis=1), rtol=1e-12)
    np.testing.assert_allclose(table["sd"], values.std(axis=1, ddof=1), rtol=1e-9)
    low, high = scipy.stats.t.interval(0.9, 4, values.mean(axis=1), scipy.stats.sem(values, axis=1))
    np.testing.assert_allclose(table[["low", "high"]], np.stack([low, high], axis=1), rtol=1e-9)
    curves = result.curves(readout, level=0.9)
    pd.testing.assert_frame_equal(
        curves, table.rename(columns={"mean": "value"})[["method", "order", "fraction", "value", "low", "high"]]
    )
    intact = table[table.fraction == 0][["mean", "sd"]].drop_duplicates()
    assert len(intact) == 1, "the unmodified training is one and the same for all"


def test_the_intact_accuracy_is_that_of_all_unmodified_trainings() -> None:
    result = trained()
    assert result.intact_accuracy == pytest.approx(accuracies(result)[0, 0, 0].mean(), abs=1e-15)


@pytest.mark.parametrize("repeats", [1, 2, 5])
def test_a_folder_gives_back_the_costs_and_what_is_missing(repeats: int, tmp_path) -> None:
    beside = {"road": {"score": {"ig": 0.5, "grad": 0.3, "random": 0.0}, "seconds": 1.5, "images": 2400}}
    result = trained(repeats)
    result.settings["beside"] = beside
    back = load_result(result.save(tmp_path))
    assert (back.missing, back.settings["beside"], back.retrained) == (result.missing, beside, True)
    pd.testing.assert_frame_equal(back.cost, result.cost)
    pd.testing.assert_frame_equal(back.ranking(), result.ranking())
    written = pd.read_csv(tmp_path / "ranking.csv")
    assert written["n"].unique().tolist() == [repeats if repeats > 1 else 200]
    assert written["unit"].unique().tolist() == [result.unit]


def test_folders_of_before_have_no_costs_and_miss_nothing(tmp_path) -> None:
    folder = replace(trained(), cost=pd.DataFrame(columns=list(COST)), missing=[]).save(tmp_path)
    head = json.loads((folder / "result.json").read_text())
    for key in ("cost", "missing"):
        del head[key]
    (folder / "result.json").write_text(json.dumps(head))
    back = load_result(folder)
    assert (back.missing, back.cost.empty, list(back.cost.columns)) == ([], True, list(COST))


WRONG = [
    ("cost", {"work": ["train"]}, "'cost.work' has 'train' at position 0, expected one of retrain, maps, road"),
    ("cost", {"seconds": [-1.0]}, "'cost.seconds' has -1.0 at position 0, expected a number, 0 or above"),
    ("cost", {"seconds": [math.nan]}, "'cost.seconds' has nan at position 0"),
    ("cost", {"images": [0.5]}, "'cost.images' has 0.5 at position 0, expected a number of images"),
    ("cost", {"order": ["roar"]}, "'cost.order' has 'roar' at position 0, expected 'morf', 'lerf' or ''"),
    ("cost", {"fraction": [90]}, "'cost.fraction' has 90 at position 0, expected a share between 0 and 1, or null"),
    ("cost", {"repeat": ["0"]}, "'cost.repeat' has '0' at position 0, expected a repeat, or null"),
    ("cost", {"method": [None]}, "'cost.method' has None at position 0, expected a text"),
    ("cost", {"method": []}, "'cost.method' has 0 entries for 1 in 'cost.work', expected one for each"),
    ("cost", {"hours": [1]}, "'cost' is no object of the columns work, method"),
    ("cost", None, "'cost' is no object of the columns work, method"),
    ("missing", "ig", "'missing' is a str, expected a list"),
    ("missing", [3], "'missing' has 3 at position 0, expected a text"),
    ("settings", {"beside": 1}, "'settings.beside' holds no object 'road' with an object 'score'"),
    ("settings", {"beside": {"road": {"score": [1]}}}, "'settings.beside' holds no object 'road'"),
    ("settings", {"beside": {"road": {"score": {"ig": "x"}}}}, "'settings.beside.road.score' has 'x' at position 0"),
    ("settings", {"beside": {"road": {"score": {"ig": 1}}}}, "'settings.beside.road.seconds' has None at position 0"),
]


@pytest.mark.parametrize(("key", "value", "message"), WRONG)
def test_damaged_costs_are_named(key: str, value: Any, message: str, tmp_path) -> None:
    folder = trained(2).save(tmp_path)
    head = json.loads((folder / "result.json").read_text())
    row = {"work": ["retrain"], "method": ["ig"], "order": ["morf"], "fraction": [0.5], "repeat": [0]}
    whole = row | {"seconds": [1.0], "images": [10]}
    head[key] = whole | value if key == "cost" and isinstance(value, dict) else value
    (folder / "result.json").write_text(json.dumps(head))
    with pytest.raises(DataError) as caught:
        load_result(folder)
    assert message in str(caught.value)


@pytest.mark.parametrize("beside", [None, {}, {"road": None}, {"other": 3}])
def test_nothing_beside_is_no_fault(beside: Any, tmp_path) -> None:
    result = trained(2)
    result.settings["beside"] = beside
    assert load_result(result.save(tmp_path)).settings["beside"] == beside


def test_what_could_not_be_read_again_is_not_written(tmp_path) -> None:
    result = trained(2)
    result.cost.loc[0, "work"] = "train"
    with pytest.raises(InputError, match=r"save: 'cost\.work' has 'train'"):
        result.save(tmp_path)
    with pytest.raises(InputError, match="the costs lack the columns seconds"):
        replace(result, cost=result.cost.drop(columns="seconds")).save(tmp_path)
    assert not (tmp_path / "result.json").exists()
