"""What the gate withholds is in no file that is handed on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roadworthy.evaluation import Result, Scores
from roadworthy.evaluation.result_files import handed_on
from roadworthy.evaluation.withheld import pairs_without_withheld, withheld_by_gate, without_withheld

ROW = {"keep": 0.06, "kar": 0.9, "judge": 0.4, "gap": 0.5, "control": 0.05}
LEAK = ROW | {"beyond": 0.45, "beyond_low": 0.4, "beyond_high": 0.5}
CLEAN = ROW | {"beyond": 0.01, "beyond_low": -0.03, "beyond_high": 0.05}


@pytest.fixture
def result() -> Result:
    """Four methods over three trainings; the second and best by far is withheld."""
    draw = np.random.default_rng(0)
    top1 = np.ones((4, 2, 3, 3, 60), dtype=np.uint8)
    for place, share in enumerate((0.5, 0.1, 0.6, 0.7)):
        top1[place, 0, 1:] = draw.random((2, 3, 60)) < share
    scores = Scores(top1, top1, top1.astype(np.float32), top1.astype(np.float32), *np.zeros((3, 60), dtype=np.int64))
    names, ids = ["a", "leak", "c", "d"], [str(i) for i in range(60)]
    gate = [{"method": name, **(LEAK if name == "leak" else CLEAN)} for name in names]
    settings = {"training": "retrain", "imputer": "mean"}
    return Result(
        names, ["morf", "lerf"], [0.0, 0.3, 0.6], [0, 3, 6], 3, ids, scores, settings=settings, audit={"gate": gate}
    )


def test_a_method_that_the_gate_stops_has_empty_cells_and_a_reason(result: Result, tmp_path: Path) -> None:
    reasons = withheld_by_gate(result)
    assert list(reasons) == ["leak"]
    assert reasons["leak"].endswith("the mask itself adds 0.45 (0.40 to 0.50)")
    whole = result.ranking()
    assert whole["method"].iloc[0] == "leak"
    read = pd.read_csv(result.save(tmp_path / "run") / "ranking.csv").set_index("method")
    held = read.loc["leak"]
    for name in ("rank", "score", "low", "high", "group", "lerf_area", "sd"):
        assert pd.isna(held[name]), name
    assert held["withheld"] == reasons["leak"]
    assert held["morf_area"] == pytest.approx(whole.set_index("method")["morf_area"]["leak"])
    assert held["aoc"] == pytest.approx(whole.set_index("method")["aoc"]["leak"])
    others = read.drop("leak")
    assert others["withheld"].isna().all()
    assert others["rank"].tolist() == [1, 2, 3]
    assert others["score"].tolist() == pytest.approx(whole["score"].iloc[1:].tolist())
    assert whole["score"].notna().all(), "the ranking itself is left as it is"


def test_the_area_over_kar_alone_is_withheld_too(result: Result) -> None:
    cut = {name: result.scores[name][:, 1:] for name in ("top1", "top5", "probability", "logit")}
    alone = replace(result, orders=["lerf"], scores=replace(result.scores, **cut))
    assert pd.isna(without_withheld(alone.ranking(), {"leak": "why"}).set_index("method")["aoc"]["leak"])


def test_pairs_with_it_are_empty(result: Result) -> None:
    pairs = result.pairwise()
    shown = pairs_without_withheld(pairs, {"leak": "why"})
    with_it = (pairs[["method", "other"]] == "leak").any(axis=1)
    assert with_it.sum() == 3
    numbers = [name for name in pairs.columns if name not in ("method", "other")]
    assert shown.loc[with_it, numbers].isna().all(axis=None)
    assert set(shown.loc[with_it, "withheld"]) == {"leak: why"}
    assert (shown.loc[~with_it, numbers].to_numpy() == pairs.loc[~with_it, numbers].to_numpy()).all()
    assert set(shown.loc[~with_it, "withheld"]) == {""}
    assert pairs_without_withheld(pairs, {}) is pairs


@pytest.mark.parametrize(
    "change",
    [
        {"settings": {"training": "none"}},
        {"audit": {}},
        {"audit": {"gate": [{"method": "leak", **CLEAN}]}},
        {"audit": {"gate": [{"method": "leak", **LEAK, "beyond": None}]}},
        {"audit": {"gate": [{"method": "other", **LEAK}]}},
    ],
    ids=["nothing retrained", "no gate", "passes", "cannot tell", "a method that is not there"],
)
def test_nothing_else_is_withheld(change: dict, result: Result) -> None:
    other = replace(result, **change)
    assert withheld_by_gate(other) == {}
    assert "withheld" not in handed_on(other, other.ranking())
