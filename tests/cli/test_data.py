"""``data convert`` and ``attribute --shards`` from outside."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roadworthy.attribution import open_maps
from roadworthy.cli import main
from roadworthy.cli.data import app
from roadworthy.data import load_data


def test_convert_and_convert_again(tmp_path: Path) -> None:
    target = f"hdf5:{tmp_path / 'digits.h5'}"
    done = CliRunner().invoke(app, ["convert", "digits", target, "--json"])
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert (record["counts"], record["written"], record["kept"]) == ({"train": 1438, "test": 359}, 3, 0)
    again = CliRunner().invoke(app, ["convert", "digits", target])
    assert "train 1438, test 359; 0 parts written, 3 were there" in " ".join(again.output.split())
    assert load_data(target).test.ids == load_data("digits").test.ids


def test_attribute_writes_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "cache"))
    Path("networks.py").write_text(
        "import torch\n"
        "def make():\n"
        "    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    CliRunner().invoke(app, ["convert", "planted:n=10,test=6", "tfrecord:data", "--per-part", "4"])
    command = ["attribute", "--data", "tfrecord:data", "--model", "networks:make", "--normalize", "none"]
    command += ["--methods", "grad,random", "--shards", "out", "--split", "both", "--json"]
    found = []
    for _ in range(2):
        with pytest.raises(SystemExit) as stop:
            main(command)
        assert not stop.value.code
        found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1]
    assert found[0]["n"] == 16
    assert len(found[0]["shards"]) == (3 + 2) * 2
    with open_maps("tfrecord:out/SH/train-*") as maps:
        assert maps["grad"].shape == (10, 1, 24, 24)
        assert maps.ids == load_data("tfrecord:data").train.ids
    for more, message in (
        (["--split", "all"], "--split: got 'all'"),
        (["--data", "digits"], "no files that could be"),
    ):
        with pytest.raises(SystemExit) as stop:
            main([*command, *more])
        assert stop.value.code == 2
        assert message in capsys.readouterr().err
