from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner
from typer.testing import Result as Outcome

from roadworthy.cli.audit_agreement import agreement
from roadworthy.errors import DataError
from roadworthy.evaluation import Result, Scores
from roadworthy.evaluation.concordance import concordance_of
from roadworthy.sweep.collate import Collected

METHODS = ["ig", "grad", "sobel", "random"]


def saved(folder: Path, seed: int, methods: list[str] = METHODS, constant: bool = False) -> Result:
    rng = np.random.default_rng(seed)
    hits = (rng.random((len(methods), 2, 4, 1, 25)) < 0.5).astype(np.uint8)
    if constant:
        hits[:] = 1
    zeros, values = np.zeros(25, dtype=np.int64), hits.astype(np.float32)
    result = Result(
        methods=methods,
        orders=["morf", "lerf"],
        fractions=[0.0, 0.1, 0.5, 0.9],
        removed=[0, 1, 5, 9],
        repeats=1,
        ids=[str(i) for i in range(25)],
        scores=Scores(hits, hits, values, values, zeros, zeros, zeros),
        settings={"strategy": "road", "imputer": "mean"},
    )
    result.save(folder)
    return result


def run(*arguments: object) -> Outcome:
    app = typer.Typer()
    app.command()(agreement)
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_the_matrix_and_what_it_comes_to_are_printed(tmp_path: Path) -> None:
    one, two = saved(tmp_path / "one", 1), saved(tmp_path / "two", 2)
    done = run(tmp_path / "one", tmp_path / "two")
    assert done.exit_code == 0
    found = concordance_of({"one": one, "two": two})
    assert "1 one / MoRF" in done.output
    assert f"{found.spearman.value[0, 1]:.2f}".replace("-", "−") in done.output
    assert "Mean of all pairs" in done.output
    assert "Kendall's W of the areas, 4 sources and 4 methods" in done.output


def test_many_sources_are_numbered_and_named_below(tmp_path: Path) -> None:
    names = [f"a-long-name-of-a-run-{i}" for i in range(5)]
    runs = {name: saved(tmp_path / name, seed) for seed, name in enumerate(names)}
    done = run(*(tmp_path / name for name in names))
    assert done.exit_code == 0
    found = concordance_of(runs)
    lines = done.output.splitlines()
    assert [line for line in lines if line.startswith(("1 a", "10 a"))] == [
        f"1 {names[0]} / MoRF",
        f"10 {names[4]} / LeRF",
    ]
    assert "and the other columns" in done.output
    assert "…" not in done.output
    shown = "".join(line for line in lines if "│" in line or "┃" in line)
    assert names[0] not in shown
    assert f"{found.spearman.value[0, 9]:.2f}".replace("-", "−") in done.output


def test_sources_that_rank_nothing_or_are_the_same_are_told(tmp_path: Path) -> None:
    saved(tmp_path / "one", 1)
    saved(tmp_path / "again", 1)
    saved(tmp_path / "flat", 2, constant=True)
    output = run(tmp_path / "one", tmp_path / "again", tmp_path / "flat").output
    assert "same score everywhere: flat / MoRF and flat / LeRF." in output
    assert "agreement says nothing: one / MoRF and again / MoRF." in output
    assert "5 flat" not in output
    assert "4 sources (2 left out) and 4 methods" in output


def test_json_holds_everything_and_none_for_undefined(tmp_path: Path) -> None:
    one, flat = saved(tmp_path / "one", 1), saved(tmp_path / "flat", 2, constant=True)
    done = run(tmp_path / "one", tmp_path / "flat", "--json", "--pairing", "kept", "--seed", 3)
    record = json.loads(done.output, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    found = concordance_of({"one": one, "flat": flat}, pairing="kept", seed=3)
    assert record["sources"] == list(found.sources)
    assert record["pairing"] == "kept"
    assert record["seed"] == 3
    assert record["spearman"]["value"][0][1] == found.spearman.value[0, 1]
    assert record["spearman"]["value"][0][2] is None
    assert record["pairs"][0]["spearman_se"] == found.spearman.se[0, 1]
    assert record["used"] == found.used.tolist()
    assert record["file"] is None


def test_the_gain_can_be_compared_and_a_file_written(tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 2)):
        saved(tmp_path / name, seed)
    done = run(tmp_path / "one", tmp_path / "two", "--by", "gain", "--out", tmp_path / "map.svg", "--json")
    record = json.loads(done.output)
    assert record["sources"] == ["one", "two"]
    assert Path(record["file"]).read_text(encoding="utf8").startswith("<?xml")
    assert "heat map" in run(tmp_path / "one", "--out", tmp_path / "map.html").output


def test_folders_of_one_name_are_called_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, seed in (("a/run", 1), ("b/run", 2)):
        saved(tmp_path / name, seed)
    assert json.loads(run("a/run", "b/run", "--json").output)["sources"][2] == "b/run / MoRF"
    with pytest.raises(DataError, match="a/run: named twice"):
        agreement([Path("a/run"), Path("a/run")])


def test_folders_without_results_are_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nowhere: neither a result nor a sweep lies here"):
        agreement([tmp_path / "nowhere"])


def test_a_sweep_gives_each_fill_and_the_comparison_without_retraining(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"mean": saved(tmp_path / "kept" / "mean", 1), "blur": saved(tmp_path / "kept" / "blur", 2)}
    road = saved(tmp_path / "kept" / "road", 3)
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "plan.json").write_text("{}")
    monkeypatch.setattr("roadworthy.sweep.collate.read_plan", lambda folder: folder)
    monkeypatch.setattr("roadworthy.sweep.store.Store", lambda folder: folder)
    collected = Collected(found, road, [], 4, 4)
    monkeypatch.setattr("roadworthy.sweep.collate.collate", lambda plan, store: collected)
    done = run(tmp_path / "sweep", "--json", "--by", "gain")
    assert json.loads(done.output)["sources"] == ["sweep / mean", "sweep / blur", "sweep / road"]
    collected.road = None
    collected.results = {"mean": found["mean"]}
    assert json.loads(run(tmp_path / "sweep", tmp_path / "kept" / "blur", "--json").output)["sources"] == [
        "sweep / MoRF", "sweep / LeRF", "blur / MoRF", "blur / LeRF"
    ]  # fmt: skip
    collected.results = {}
    with pytest.raises(DataError, match="no method's curve is complete yet"):
        agreement([tmp_path / "sweep"])
