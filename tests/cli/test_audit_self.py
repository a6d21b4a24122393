"""``roadworthy audit self`` on a small set of one's own, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roadworthy.cli import main


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Run the command and return its exit code, output and messages."""
    with pytest.raises(SystemExit) as stop:
        main(["audit", "self", *arguments])
    captured = capsys.readouterr()
    return int(stop.value.code or 0), captured.out, captured.err


@pytest.mark.slow
def test_own_data_are_tested_by_what_needs_no_truth(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "out"
    own = ("--data", "planted:n=400,test=24", "--bases", "ig,gradcam")
    code, out, err = said(capsys, *own, "--strategies", "road,road lerf", "--out", str(folder), "--json")
    assert code == 0, err
    found = json.loads(out)
    ids = {trial["id"] for trial in found["trials"]}
    assert {"M3a gradcam", "M3b gradcam", "M4 gradcam", "M5 gradcam", "M6 gradcam", "M11 gradcam", "M7"} <= ids
    assert not ids & {"M1", "M8", "M14"}
    assert found["verdict"].startswith("Believe 'road")
    assert found["subject"] == "planted:n=400,test=24"
    table = (folder / "selftest.txt").read_text()
    assert found["verdict"] in table
    assert {"road", "road lerf"} == {trial["strategy"] for trial in found["trials"]}
    effects = [trial for trial in found["trials"] if trial["id"].startswith("M5")]
    assert all(trial["passed"] is None for trial in effects)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--strategies", "raod"), "Did you mean 'road'"),
        (("--strategies", "roar"), "trains a network for each explanation, which takes far longer"),
        (("--strategies", "road", "--seeds", "0", "--retraining", "--data", "planted:n=8"), "need planted data"),
        (("--seeds", "1,b"), "--seeds: got '1,b', expected whole numbers"),
        (("--effort", "huge"), "'huge' is not one of 'quick', 'full'"),
    ],
)
def test_what_cannot_be_done_is_said_before_anything_is_trained(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = said(capsys, *arguments)
    assert code == 2
    assert message in " ".join(err.split())


def test_a_file_is_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = said(capsys, "--out", str(tmp_path / "file"))
    assert code == 2
    assert "is a file, expected a folder" in err
