"""``roadworthy eval``: also before there is a sweep."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from roadworthy.cli import main
from roadworthy.sweep.executors import SerialExecutor
from roadworthy.sweep.experiment import Experiment
from roadworthy.sweep.run import run_experiment

TINY = Experiment.of(
    data={"source": "digits", "train": 60, "test": 40},
    methods=["random"],
    fractions=[0.5],
    repeats=1,
    recipe={"base": "digits", "epochs": 1, "warmup_epochs": 0},
    snapshots=1,
    compare_road=False,
)


def test_watching_waits_for_the_sweep_and_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, looks = tmp_path / "later", []

    def begin(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            run_experiment(TINY, folder, executor=SerialExecutor())

    monkeypatch.setattr("roadworthy.cli.eval.time", SimpleNamespace(sleep=begin))
    with pytest.raises(SystemExit) as stop:
        main(["eval", str(folder), "--watch", "--device", "cpu", "--json"])
    text = capsys.readouterr()
    assert not stop.value.code
    assert len(looks) == 3
    assert text.err.count(f"No sweep lies in {folder} yet; waiting") == 1
    assert len(json.loads(text.out)) == 2


@pytest.mark.parametrize(
    ("make", "arguments", "message"),
    [
        (lambda place: None, [], "there is no such folder"),
        (lambda place: place.touch(), ["--watch"], "there is no such folder"),
        (lambda place: (place.mkdir(), (place / "result.json").touch()), ["--watch"], "no sweep lies here"),
    ],
    ids=["nothing", "a file", "another run"],
)
def test_what_is_no_sweep_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], make, arguments: list[str], message: str
) -> None:
    make(tmp_path / "there")
    with pytest.raises(SystemExit) as stop:
        main(["eval", str(tmp_path / "there"), "--device", "cpu", *arguments])
    assert stop.value.code == 2
    assert message in capsys.readouterr().err
