"""``roadworthy audit imputers`` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from roadworthy.cli import main

QUICK = ("--n", "40", "--fractions", ".4", "--out", "out")
GAIN = ("--gain-images", "40", "--gain-size", "2", "--gain-epochs", "2")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the verb in a folder of its own: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(["audit", "imputers", *arguments])
        text = capsys.readouterr()
        return int(stop.value.code or 0), text.out, text.err

    return run


def test_the_table_and_a_line_for_each(command) -> None:
    code, out, err = command("--imputers", "noisy-linear,mean", *QUICK)
    assert code == 0, err
    assert "random masks, n = 40" in out
    assert "mean: reveals what was removed" in out
    table = pd.read_csv("out/imputers.csv")
    assert table.imputer.tolist() == ["noisy-linear", "mean"]
    record = json.loads(Path("out/imputers.json").read_text())
    assert record["settings"]["noisy-linear"]["noise"] == 0.01
    page = Path("out/imputers.html").read_text(encoding="utf8")
    assert f"<td>{table.rmse[1]:.3f}</td>" in page
    assert "mean: reveals what was removed" in page
    assert "report: out/imputers.html" in out


def test_gain_is_trained_saved_and_read_again(command) -> None:
    code, out, err = command("--imputers", "gain,mean", *QUICK, *GAIN, "--json")
    assert code == 0, err
    assert "gain: saved as out/gain.safetensors; off by" in err
    first = json.loads(out)
    assert first["settings"]["gain"]["size"] == 2
    code, out, err = command("--imputers", "gain:out/gain.safetensors", *QUICK[:-1], "again", "--json")
    assert code == 0, err
    again = json.loads(out)
    assert next(iter(again["settings"].values())) == first["settings"]["gain"]
    assert again["table"][0]["rmse"] == first["table"][0]["rmse"]
    before = Path("out/gain.checkpoint.pt").stat().st_mtime_ns
    assert command("--imputers", "gain", *QUICK, *GAIN)[0] == 0, "the same command goes on from the last epoch"
    assert Path("out/gain.checkpoint.pt").stat().st_mtime_ns == before


def test_a_model_is_asked(command, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\n\ndef blind():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    code, out, err = command("--imputers", "zero", "--model", "nets:blind", *QUICK, "--json")
    assert code == 0, err
    row = json.loads(out)["table"][0]
    assert 0 <= row["agreement"] <= 1
    assert 0 <= row["accuracy"] <= 1


def test_options_are_checked_before_anything_is_trained(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.imputation.train_gain", lambda *_, **__: pytest.fail("trained"))
    for wrong, message in (
        (("--imputers", "gain,zeros"), "Did you mean 'zero'"),
        (("--imputers", "gain,gain"), "'gain' is named twice"),
        (("--imputers", "gain:no.safetensors"), "there is no file"),
        (("--imputers", "gain", "--masks", "stripes"), "--masks: got 'stripes'"),
        (("--imputers", "gain", "--fractions", "30"), "fractions: got [30.0]"),
        (("--imputers", "gain", "--gain-size", "0"), "gain-size"),
    ):
        code, out, err = command(*wrong)
        assert code == 2
        assert message in err
        assert out == ""
