"""What a tracker is told, held against the results' own tables."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import roadworthy as rw
from roadworthy.errors import DataError, InputError
from roadworthy.evaluation import Result
from roadworthy.labelfree import Outputs
from roadworthy.labelfree.result import LabelFree
from roadworthy.tracking.entries import entries_of, opened

LEGAL = {"ig": "ig", "mine: π (50 %)": "mine__π__50___", "random": "random"}


def test_numbers_are_those_of_the_ranking_and_of_the_table(result: Result) -> None:
    found = entries_of(result)
    wanted = {"n": 80.0, "intact_accuracy": result.intact_accuracy}
    for row in result.ranking().to_dict(orient="records"):
        name = LEGAL[row["method"]]
        wanted |= {f"score/{name}": row["score"], f"score_low/{name}": row["low"], f"score_high/{name}": row["high"]}
        wanted |= {f"{order}_area/{name}": row[f"{order}_area"] for order in ("morf", "lerf")}
    assert found.metrics == pytest.approx(wanted)
    assert found.steps == 1000
    table = result.table
    for (method, order), rows in table.groupby(["method", "order"]):
        curve = found.curves[f"curve_{order}/{LEGAL[method]}"]
        assert curve == pytest.approx(dict(zip((0, 50, 500, 900), rows["top1"], strict=True)))
    assert len(found.curves) == 6


def test_settings_are_text_and_notes_are_kept(result: Result) -> None:
    found = entries_of(result)
    assert found.params["settings.fill.noise"] == "0.01"
    assert found.params["settings.fill.how_long"] == "x" * 9000
    assert found.params["settings.normalize"] == "null"
    assert json.loads(found.params["settings.views"]) == result.settings["views"]
    assert found.params["versions.torch"] == "2.9"
    assert found.params["seed"] == "3"
    assert found.params["score.direction"] == "higher is better"
    assert found.tags["ids_hash"] == "abcd"
    assert found.tags["warnings"].splitlines()[0] == "few samples"
    assert json.loads(found.tags["names"]) == {"mine__π__50___": "mine: π (50 %)"}


def test_what_the_gate_withholds_goes_nowhere(gated: Result) -> None:
    found = entries_of(gated)
    named = {name for name in (*found.metrics, *found.curves) if name.endswith("/ig")}
    assert named == {"morf_area/ig", "curve_morf/ig"}
    assert list(json.loads(found.tags["withheld"])) == ["ig"]
    assert "score/random" in found.metrics


def test_without_labels_hits_are_no_accuracy(result: Result) -> None:
    result.settings["labels"] = "predicted"
    assert "intact_agreement" in entries_of(result).metrics
    assert "intact_accuracy" not in entries_of(result).metrics


def test_shares_closer_than_thousandths_have_steps_of_their_own(result: Result) -> None:
    result.fractions = [0.0, 0.0001, 0.00012, 0.9]
    found = entries_of(result)
    assert found.steps == 100_000
    assert list(found.curves["curve_morf/ig"]) == [0, 10, 12, 90_000]
    assert found.params["curve_steps"] == "share removed x 100000"


def test_a_labelfree_result(judged: LabelFree) -> None:
    found = entries_of(judged)
    value, low, high = judged.accuracy
    assert [found.metrics[f"accuracy{end}"] for end in ("", "_low", "_high")] == [value, low, high]
    assert found.metrics["n"] == 100
    assert found.metrics["true_accuracy"] == judged.record["truth"]
    estimates = judged.estimates.dropna(subset=["accuracy"])
    told = {name.removeprefix("estimate/"): v for name, v in found.metrics.items() if name.startswith("estimate/")}
    assert told == dict(zip(estimates["estimator"], estimates["accuracy"], strict=True))
    coverage = judged.record["threshold"]["accuracy"]
    assert found.metrics["coverage/accuracy"] == coverage["coverage"]
    assert found.metrics["coverage_low/accuracy"] == coverage["low"]
    for gate in judged.record["gates"]:
        assert found.tags[f"gate/{gate['name']}"].startswith(gate["status"])
        assert found.metrics.get(f"gate/{gate['name']}") == gate["value"]
    assert found.tags["verdict"].splitlines() == judged.verdict


def test_no_estimate_is_no_number() -> None:
    found = entries_of(rw.labelfree(data=Outputs.of([0.9] * 30)))
    assert not {name for name in found.metrics if name.startswith(("accuracy", "estimate"))}
    assert "cannot be estimated" in found.tags["verdict"]


def test_folders_are_read(result: Result, judged: LabelFree, tmp_path: Path) -> None:
    assert isinstance(opened(result.save(tmp_path / "a")), Result)
    assert isinstance(opened(str(judged.save(tmp_path / "b"))), LabelFree)
    with pytest.raises(DataError, match="no result lies here"):
        opened(tmp_path)
    with pytest.raises(InputError, match="got dict, expected what evaluate"):
        opened({})  # type: ignore[arg-type]


def test_importing_it_loads_no_tracker() -> None:
    code = "import sys, roadworthy.tracking; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "mlflow", "tensorboard"} & set(done.stdout.split()) == set()
