"""``roadworthy compare``: folders of runs side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from planted_runs import planted

import roadworthy as rw
from roadworthy.cli import main
from roadworthy.evaluation import Result
from roadworthy.labelfree import Outputs, labelfree

HOSTILE = "[red]x[/red]\x1b[2J"


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


def result(shift: float = 0.0, methods: tuple[str, ...] = ("ig", "random"), **options: object) -> Result:
    values = np.random.default_rng(1).uniform(0.2, 0.6, 60)
    return planted(dict.fromkeys(methods, values + shift), **options)


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [result(by).save(tmp_path / name) for name, by in (("old", 0.0), ("new", 0.05))]


def test_verdict_tables_and_files(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cmp"
    assert run("compare", *folders, "--out", out) == 0
    shown = capsys.readouterr().out
    assert "new is better than old with ig by 0.050" in shown
    assert "difference from old" in shown
    assert "compare.html" in shown.splitlines()[-1]
    expected = rw.compare(folders).differences
    back = pd.read_csv(out / "differences.csv", keep_default_na=False)
    np.testing.assert_allclose(back["difference"], expected["difference"])
    assert {file.name for file in out.iterdir()} == {
        "compare.html", "comparison.json", "table.csv", "differences.csv", "intact.csv", "agreement.csv",
        "settings.csv",
    }  # fmt: skip


def test_json_is_all_there_is(folders: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "cmp"
    assert run("compare", *folders, "--names", "a,b", "--out", out, "--json", "--readout", "probability") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["runs"] == ["a", "b"]
    assert record["differences"][0]["against"] == "a"
    assert record["files"]["compare.html"] == str(out / "compare.html")


def test_names_are_printed_as_they_are_and_never_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [result(methods=(HOSTILE, "random")).save(tmp_path / name) for name in "ab"]
    assert run("compare", *folders, "--names", f"{HOSTILE},b", "--out", tmp_path / "cmp") == 0
    shown = capsys.readouterr().out
    assert "[red]x[/red]" in shown
    assert "\x1b[2J" not in shown


def test_label_free_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    p = rng.uniform(size=230)
    labels = (rng.uniform(size=230) < p).astype(int)
    found = labelfree(data=Outputs.of(p[:80]), source=Outputs.of(p[80:], labels=labels[80:]), corruptions=())
    folders = [found.save(tmp_path / name) for name in "ab"]
    assert run("compare", *folders, "--out", tmp_path / "cmp") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "b and a predict the same on every sample" in shown
    assert run("compare", folders[0], result().save(tmp_path / "c"), "--out", tmp_path / "cmp") == 2
    assert "compare runs of one kind" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([], "expected two or more"),
        (["new", "--names", "a"], "1 names came for 2 runs"),
        (["new", "--names", "a,a"], "a came twice"),
        (["none"], "there is no such folder"),
        (["old"], "came twice"),
        (["new", "--level", "95"], "level: got 95"),
        (["new", "--readout", "top-1"], "Did you mean 'top1'"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    folders: list[Path], capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    base = folders[0].parent
    more = [str(base / part) if part in ("old", "new", "none") else part for part in given]
    assert run("compare", folders[0], *more, "--out", base / "cmp") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (base / "cmp").exists()


def test_a_sweep_that_is_not_finished_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from roadworthy.sweep.experiment import load_experiment
    from roadworthy.sweep.run import prepare

    changes = {"data.train": 40, "data.test": 20, "methods": ["random"], "fractions": [0.5], "order": "morf"}
    prepare(load_experiment(None, changes), tmp_path / "sweep")
    assert run("compare", tmp_path / "sweep", result().save(tmp_path / "a"), "--out", tmp_path / "cmp") == 2
    assert "no method's curve is complete yet" in " ".join(capsys.readouterr().err.split())
