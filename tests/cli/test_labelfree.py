"""``roadworthy labelfree``, and labels that check it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roadworthy.cli import main
from roadworthy.labelfree import Outputs, write_outputs


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    for name, n, labelled in (("source", 400, True), ("target", 300, False)):
        p = rng.beta(0.5, 0.5, size=n)
        labels = (rng.random(n) < p).astype(int)
        features = np.stack([p, rng.normal(size=n)], axis=1)
        held = Outputs.of(p, features=features, labels=labels if labelled else None)
        write_outputs(held, tmp_path / f"{name}.npz")
        np.save(tmp_path / f"{name}.npy", labels)
    return tmp_path


def test_saved_outputs(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = saved / "run"
    given = ("labelfree", "--target", saved / "target.npz", "--source", saved / "source.npz", "--out", folder)
    assert run(*given) == 0
    shown = capsys.readouterr().out
    assert "Accuracy on these 300 samples is about" in shown
    assert (folder / "labelfree.html").exists()
    assert run("report", folder, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    assert record["n"] == 300
    assert run("audit", "labels", folder) == 2
    assert "fill in its column 'label'" in capsys.readouterr().err.replace("\n", " ")
    frame = pd.read_csv(folder / "plan.csv", dtype={"id": str})
    frame["label"] = np.load(saved / "target.npy")[frame["id"].astype(int)]
    frame.to_csv(folder / "plan.csv", index=False)
    assert run("audit", "labels", folder, "--json") == 0
    audit = json.loads(capsys.readouterr().out)
    assert audit["verdict"] in ("confirmed", "cannot tell")
    assert run("report", folder) == 0
    assert "labels say that accuracy is" in capsys.readouterr().out


def test_a_mistyped_folder_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("audit", "labels", tmp_path / "typo") == 2
    assert "no label-free result lies here" in capsys.readouterr().err.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_digits_by_themselves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["labelfree", "--n", "60", "--passes", "5", "--corruptions", "noise", "--perturbation", "rotation"]
    assert run(*given, "--json", "--out", tmp_path / "run") == 0
    found = capsys.readouterr()
    record = json.loads(found.out)
    assert "half of the test split" in found.err
    assert record["n"] == 60
    assert record["consistency"]["perturbation"] == "rotation"
    assert record["source"]["n"] == 179
    assert (tmp_path / "run" / "pictures.npz").exists()


def test_a_folder_of_pictures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from PIL import Image

    from roadworthy.data import load_data

    for k, image in enumerate(load_data("digits").test.images[:40]):
        Image.fromarray((image[0].numpy() * 255).astype(np.uint8)).save(tmp_path / f"{k:02}.png")
    given = ("--corruptions", "none", "--perturbation", "none", "--json", "--out", tmp_path / "run")
    assert run("labelfree", "--target", f"images:{tmp_path}", *given) == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["n"], record["truth"], record["curve"]) == (40, None, None)
    assert not [note for note in record["notes"] if "no class" in note]


def test_options_that_saved_outputs_leave_without_effect(saved: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("labelfree", "--target", saved / "target.npz", "--out", saved / "run")
    for option in (("--passes", "5"), ("--perturbation", "rotation"), ("--discrepancy",)):
        assert run(*given, *option) == 2
        assert f"{option[0]}: no effect on saved outputs" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--target", "none.npz"], "no such file"),
        (["--source", "a.npz"], "--target does too"),
        (["--target", "images:"], "needs a path"),
        (["--level", "3"], "level: got 3"),
        (["--corruptions", "noises"], "noise"),
        (["--perturbation", "gausian"], "gaussian"),
    ],
)
def test_bad_options_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], message: str
) -> None:
    assert run("labelfree", *given, "--out", tmp_path / "run") == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
