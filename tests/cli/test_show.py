"""What ``roadworthy report`` says of a retrained evaluation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roadworthy.cli import main
from roadworthy.evaluation import Result, Scores, load_result
from roadworthy.evaluation.result import COST
from roadworthy.sweep.executors import SerialExecutor
from roadworthy.sweep.experiment import load_experiment
from roadworthy.sweep.run import prepare, run_experiment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A retrained result of 3 trainings and 40 samples; ig takes all away, random half."""
    accuracy = np.array([[1.0, 0.1, 0.1], [1.0, 0.5, 0.5]])[:, None, :, None] - np.array([0.0, 0.05, 0.025])
    top1 = ((np.arange(40) + 0.5) / 40 < accuracy[..., None]).astype(np.uint8)
    values, labels = top1.astype(np.float32), np.arange(40) % 10
    rows = [("retrain", "", "", 0.0, 0, 2.0, 100), ("retrain", "ig", "morf", 0.5, 0, 2.5, 100)]
    result = Result(
        methods=["ig", "random"],
        orders=["morf"],
        fractions=[0.0, 0.3, 0.6],
        removed=[0, 3, 6],
        repeats=3,
        ids=[str(i) for i in range(40)],
        scores=Scores(top1, top1, values, values, labels, labels, labels),
        settings={"strategy": "roar", "training": "retrain"},
        cost=pd.DataFrame(rows, columns=list(COST)),
        missing=["2 of 15 trainings failed: ig; random", "1 of 15 trainings not done yet: ig"],
    )
    return result.save(tmp_path / "run")


def test_trainings_and_samples_are_both_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["report", str(folder)])
    assert not stop.value.code
    out = capsys.readouterr().out
    assert "area under the MoRF curve (top1), n = 3 trainings of each point, 40 samples" in " ".join(out.split())
    assert "these trainings do not tell the 2 methods apart" in out
    assert "Intact accuracy, with nothing removed: 97.5 % (chance 10 %)." in out.replace("\xa0", " ")
    assert "missing: 1 of 15 trainings not done yet, see the report\n" in out
    failed = (
        "missing: 2 of 15 trainings failed, see the report; --retry-failed does them again, the tracebacks are in"
    )
    assert f"{failed} failures.txt\n" in out
    assert (folder / "report.html").exists()


def test_json_says_what_the_unit_is_and_what_it_cost(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", str(folder), "--json"])
    record = json.loads(capsys.readouterr().out)
    assert (record["unit"], record["trainings"], record["n"]) == ("trainings", 3, 40)
    assert record["missing"] == ["2 of 15 trainings failed: ig; random", "1 of 15 trainings not done yet: ig"]
    assert record["failed"] == record["missing"][:1]
    assert record["cost"] == {"retrain": {"seconds": 4.5, "images": 200}}
    assert [(row["method"], row["n"]) for row in record["ranking"]] == [("ig", 3), ("random", 3)]
    assert record["ranking"][0]["aoc"] > record["ranking"][1]["aoc"]


def test_an_interval_that_is_not_known_is_a_dash_and_no_interval_reaches_beyond_what_is_possible(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = load_result(folder)
    top1 = result.scores.top1.copy()
    top1[:, :, 0] = 1
    top1[0] = top1[0, :, :, :1]  # ig: all trainings alike
    top1[1, :, 1:] = np.array([0, 0, 1])[:, None]  # random: all or nothing
    result = replace(result, scores=replace(result.scores, top1=top1))
    ranking = result.ranking().set_index("method")
    assert ranking.loc["random", "low"] < 0
    assert np.isnan(ranking.loc["ig", "low"])
    result.save(folder)
    with pytest.raises(SystemExit):
        main(["report", str(folder)])
    rows = {line.split()[1]: line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("│")}
    assert rows["ig"][5:9:2] == ["–", "–"]
    assert rows["random"][5] == "0.000"
    with pytest.raises(SystemExit):
        main(["report", str(folder), "--json"])
    text = capsys.readouterr().out
    assert "NaN" not in text
    shown = {row["method"]: row["low"] for row in json.loads(text)["ranking"]}
    assert (shown["ig"], shown["random"]) == (None, pytest.approx(ranking.loc["random", "low"]))


def test_a_sweep_is_reported_from_what_is_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "sweep"
    experiment = load_experiment(
        None,
        {
            "data.train": 60,
            "data.test": 30,
            "methods": ["sobel", "random"],
            "fractions": [0.5],
            "order": "morf",
            "repeats": 2,
            "recipe": {"base": "digits", "epochs": 1, "warmup_epochs": 0},
        },
    )
    prepare(experiment, folder)
    with pytest.raises(SystemExit) as stop:
        main(["report", str(folder)])
    assert not stop.value.code
    text = capsys.readouterr()
    assert "No method's curve is complete yet" in text.out
    assert "trainings not done yet" in text.err
    run_experiment(experiment, folder, executor=SerialExecutor())
    with pytest.raises(SystemExit):
        main(["report", str(folder)])
    text = capsys.readouterr()
    assert "n = 2 trainings of each point, 30 samples" in " ".join(text.out.split())
    assert "missing" not in text.err
    assert (folder / "report.html").exists()
    with pytest.raises(SystemExit):
        main(["report", str(folder), "--json"])
    (record,) = json.loads(capsys.readouterr().out)["results"]
    assert (record["trainings"], record["missing"]) == (2, [])
    assert record["cost"]["retrain"]["images"] == 60 * 6
