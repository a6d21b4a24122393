"""``roadworthy features`` and ``roadworthy rank-k``: from samples to ranks, and every other way in."""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

from roadworthy.cli import main
from roadworthy.probe import Scores, load_classifier, write_scores

FACTORY = """
import torch

def net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)
    ).eval()
"""


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_net_of_rank_k.py").write_text(FACTORY)
    return tmp_path


MODEL = ("--model", "own_net_of_rank_k:net", "--device", "cpu")


def test_from_samples_to_ranks(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("features", *MODEL, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["n"], told["dimension"], told["layer"], told["split"]) == (1797, 32, "penultimate", "both")
    assert run("features", *MODEL) == 0  # it is there already
    assert "1797 samples x 32 features of 10 classes in features.h5" in capsys.readouterr().out
    assert run("rank-k", "features.h5", "--json", "--out", "fitted") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n"] == 450
    assert found["k"] == [1, 5]
    assert found["accuracy"][0] > 0.85  # of random features; by chance .1
    assert found["fitted"]["order"] == "file"
    assert json.loads(Path("fitted/rank-k.json").read_text()) == {
        name: value for name, value in found.items() if name != "folder"
    }
    table = pd.read_csv("fitted/per-class.csv")
    assert len(table) == 20
    assert table[table["rank"] == 1]["n"].sum() == 450
    assert load_classifier("fitted/classifier.safetensors").label_names == tuple(map(str, range(10)))
    assert run("rank-k", "fitted/scores.npz", "--json", "--out", "again") == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] == found["accuracy"]
    assert run("rank-k", "features.h5", "--classifier", "fitted/classifier.safetensors", "--out", "all") == 0
    said = capsys.readouterr()
    assert "warning: 1347 of 1797 rows are among those" in said.err
    assert "rank-1" in said.out
    assert "1347 of 1797" in json.loads(Path("all/rank-k.json").read_text())["notes"][0]


def test_settings_reach_the_fit(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("features", *MODEL, "--split", "test", "--layer", "1", "--out", "deep/f.h5") == 0
    with h5py.File("deep/f.h5") as file:
        assert file["features"].shape == (359, 32)
        assert (file["features"][...] < 0).any()  # before the ReLU
    capsys.readouterr()
    arguments = ("--order", "stratified", "--train-share", ".5", "--raw", "--c", ".1", "--k", "2,3", "--level", ".9")
    assert run("rank-k", "deep/f.h5", *arguments, "--seed", "3", "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["k"], found["level"]) == ([2, 3], 0.9)
    fitted = found["fitted"]
    assert (fitted["order"], fitted["train_share"], fitted["standardised"]) == ("stratified", 0.5, False)
    assert (fitted["c"], fitted["seed"]) == (0.1, 3)
    assert run("features", *MODEL, "--n", "40", "--out", "few.h5") == 0
    assert "80 samples x 32 features" in capsys.readouterr().out
    assert run("rank-k", "deep/f.h5", "--c", "cv", "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["fitted"]["accuracy_by_c"]) == 7


def test_a_model_without_features(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rank-k", *MODEL, "--n", "50", "--json") == 0
    assert json.loads(capsys.readouterr().out)["n"] == 50


def test_ranks_over_epochs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [f"{epoch},.4,{0.5 + epoch / 50}" for epoch in range(1, 11)]
    Path("curve.csv").write_text("\n".join(["epoch,rank1,rank5", *lines]))
    assert run("rank-k", "--epochs", "curve.csv", "--out", "drawn") == 0
    assert "Rank-5 rises while rank-1 stands still" in capsys.readouterr().out
    assert {path.name for path in Path("drawn").iterdir()} == {
        "rank-epochs.svg", "rank-epochs.png", "rank-epochs.json"
    }  # fmt: skip
    assert run("rank-k", "--epochs", "curve.csv", "--json") == 0
    assert json.loads(capsys.readouterr().out)["trends"][1]["word"] == "rises"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("rank-k", "none.h5"), "none.h5: no such file"),
        (("rank-k", "none.txt"), "ends in .npz or .csv"),
        (("rank-k", "scores.npz", "--k", "9"), "k: 9 came for scores of 3 classes"),
        (("rank-k", "scores.npz", "--k", "one"), "--k: got 'one'"),
        (("rank-k", "scores.npz", "--classifier", "c.safetensors"), "--classifier scores features"),
        (("rank-k", "scores.npz", "--out", "scores.npz"), "--out: scores.npz is a file"),
        (("rank-k", "f.h5", "--c", "much"), "--c: got 'much'"),
        (("rank-k", "f.h5", "--order", "files"), "Did you mean 'file'"),
        (("rank-k", "--epochs", "none.csv"), "no such file or folder"),
        (("features", "--split", "all"), "--split: got 'all'"),
        (("features", *MODEL, "--out", "scores.npz"), "ends in .h5"),
        (("features", *MODEL, "--layer", "none"), "no layer 'none'"),
    ],
)
def test_errors_are_one_line(
    here: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    write_scores(Scores.of(np.eye(3), np.arange(3)), here / "scores.npz")
    with h5py.File(here / "f.h5", "w") as file:
        file["features"], file["labels"] = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    assert run(*arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1
