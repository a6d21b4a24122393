"""``roadworthy runs``: every kind, in every state, and files that are nothing of ours."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "comparison"))

from planted_runs import planted

import roadworthy as rw
from roadworthy.attribution import saved
from roadworthy.cli import listing, main

HOSTILE = "[red]a[/red]\x1b[2J"


def run(*arguments: str | Path) -> int:
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    return int(stopped.value.code or 0)


def rows(folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, dict[str, Any]]:
    assert run("runs", folder, "--json", *more) == 0
    found = json.loads(capsys.readouterr().out)
    return {str(Path(row["path"]).relative_to(folder)): row for row in found}


def result(**options: Any) -> rw.evaluation.Result:
    return planted({"ig": np.full(8, 0.75), "random": np.full(8, 0.25)}, **options)


def test_evaluations_finished_and_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result().save(tmp_path / "a" / "deep")
    part = result()
    part.missing += ["2 of 15 trainings failed: ig; random", "1 of 15 trainings not done yet: ig"]
    part.save(tmp_path / "part")
    (result().save(tmp_path / "gone") / "per_sample.parquet").unlink()
    found = rows(tmp_path, capsys)
    row = found["a/deep"]
    assert (row["kind"], row["n"], row["methods"], row["best"], row["value"]) == ("planted", 8, 2, "ig", 0.75)
    assert row["state"] == "finished"
    assert row["when"][:4].isdigit()
    assert found["part"]["state"] == "unfinished: 2 of 15 trainings failed; 1 of 15 trainings not done yet"
    assert found["gone"]["state"] == "unreadable: per_sample.parquet is missing"


def test_one_that_was_stopped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blocks = tmp_path / "road" / "blocks"
    blocks.mkdir(parents=True)
    (blocks / "run.json").write_text(json.dumps({"key": {"strategy": {"strategy": "road"}}}))
    (blocks / "block-000000-aa.npz").write_bytes(b"")
    row = rows(tmp_path, capsys)["road"]
    assert (row["kind"], row["state"].partition(",")[0]) == ("road", "unfinished: 1 blocks are done")


def test_a_sweep_and_what_is_done_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from roadworthy.sweep.collate import read_plan
    from roadworthy.sweep.experiment import load_experiment
    from roadworthy.sweep.record import Record
    from roadworthy.sweep.run import prepare
    from roadworthy.sweep.store import Store

    changes = {"data.train": 40, "data.test": 20, "methods": ["random"], "fractions": [0.5], "order": "morf"}
    prepare(load_experiment(None, changes), tmp_path / "sweep")
    jobs = read_plan(tmp_path / "sweep").jobs
    Store(tmp_path / "sweep").write(jobs[0].key, Record({}))
    row = rows(tmp_path, capsys)["sweep"]
    assert (row["kind"], row["methods"]) == ("sweep", 1)
    assert row["state"] == f"unfinished: 1 of {len(jobs)} jobs are done"
    (tmp_path / "sweep" / "plan.json").write_text("{}")
    assert rows(tmp_path, capsys)["sweep"]["state"].startswith("unreadable: plan: cannot be read")


def test_a_label_free_run_and_a_comparison(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lf").mkdir()
    record = {"n": 300, "estimate": {"accuracy": 0.8, "chosen": "atc", "low": 0.7, "high": 0.9}}
    (tmp_path / "lf" / "labelfree.json").write_text(json.dumps(record))
    assert rows(tmp_path, capsys)["lf"]["state"] == "unreadable: samples.parquet is missing"
    (tmp_path / "lf" / "samples.parquet").write_bytes(b"")
    rw.compare([result(), result()]).save(tmp_path / "cmp")
    found = rows(tmp_path, capsys)
    own = [found["lf"][key] for key in ("kind", "n", "best", "value", "state")]
    assert own == ["label-free", 300, "atc", 0.8, "finished"]
    assert (found["cmp"]["kind"], found["cmp"]["best"]) == ("comparison", "run 1, run 2")


def test_maps_and_features(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2)).eval()
    rw.attribution.attribute_to_store(model, torch.rand(6, 1, 4, 4), ["grad", "random"], tmp_path / "maps.zarr")
    with h5py.File(tmp_path / "f.h5", "w") as file:
        file["features"], file["labels"] = np.zeros((5, 3)), np.zeros(5, np.int64)
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["images"] = np.zeros((5, 3))
    (tmp_path / ".g.h5.partial").mkdir()
    (tmp_path / ".g.h5.partial" / "part-000000.npz").write_bytes(b"")
    found = rows(tmp_path, capsys)
    assert found.keys() == {"maps.zarr", "f.h5", "g.h5"}
    assert [found["maps.zarr"][key] for key in ("kind", "n", "best", "state")] == [
        "maps", 6, "grad, random", "finished",
    ]  # fmt: skip
    assert [found["f.h5"][key] for key in ("kind", "n", "best")] == ["features", 5, "3 features"]
    assert found["g.h5"]["state"].startswith("unfinished: 1 parts are done")
    head = tmp_path / "maps.zarr" / "zarr.json"
    about = json.loads(head.read_text())
    about["attributes"]["complete"] = False
    head.write_text(json.dumps(about))
    assert rows(tmp_path, capsys)["maps.zarr"]["state"] == "unfinished: maps of 6 samples are done"


def test_the_format_of_maps_is_that_of_the_store() -> None:
    assert listing._MAPS == saved.FORMAT


STRANGE = {
    "result.json": b"\xff\xfe",
    "plan.json": b"[" * 100_000,
    "labelfree.json": b"{}",
    "comparison.json": b'"text"',
    "rank-k.json": b'{"n": "many"}',
    "zarr.json": b"{",
    "x.h5": b"no such format",
}


@pytest.mark.parametrize("name", list(STRANGE))
def test_a_strange_file_is_named_and_the_others_are_listed_still(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / name).write_bytes(STRANGE[name])
    result().save(tmp_path / "b")
    found = rows(tmp_path, capsys)
    assert found["b"]["state"] == "finished"
    (row,) = (row for path, row in found.items() if path != "b")
    assert row["state"].startswith("unreadable: ")
    assert len(row["state"]) < 300


@pytest.mark.parametrize("key", ["ids", "methods", "settings", "missing"])
@pytest.mark.parametrize("value", [None, 3, [[]], {"strategy": {}}])
def test_no_entry_of_a_head_makes_it_fail(
    key: str, value: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = result().save(tmp_path / "a") / "result.json"
    head.write_text(json.dumps(json.loads(head.read_text()) | {key: value}))
    assert "a" in rows(tmp_path, capsys)


def test_names_are_printed_as_they_are_and_never_act(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result(strategy=HOSTILE).save(tmp_path / HOSTILE)
    assert run("runs", tmp_path) == 0
    shown = capsys.readouterr().out
    assert "[red]a" in shown.replace("\n", "")
    assert "\x1b[2J" not in shown


def test_links_that_lead_back_and_depth(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result().save(tmp_path / "a" / "b" / "c")
    os.symlink(tmp_path, tmp_path / "a" / "back")
    os.symlink(tmp_path / "nowhere", tmp_path / "dangling")
    assert rows(tmp_path, capsys).keys() == {"a/b/c"}
    assert rows(tmp_path, capsys, "--depth", "2") == {}


def test_what_lies_inside_a_run_is_no_run_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = result().save(tmp_path / "a")
    result().save(folder / "models" / "x")
    result().save(folder / "zero")
    assert rows(tmp_path, capsys).keys() == {"a", "a/zero"}


def test_nothing_there_and_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("runs", tmp_path) == 0
    assert "No run lies in" in capsys.readouterr().out
    assert run("runs", tmp_path / "none") == 2
    assert "there is no such folder" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "file").write_text("")
    assert run("runs", tmp_path / "file") == 2
    assert "not a folder" in " ".join(capsys.readouterr().err.split())


def test_hundreds_are_told_by_their_heads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = result().save(tmp_path / "r0")
    text, order = (folder / "result.json").read_text(), (folder / "ranking.csv").read_text()
    for place in range(1, 300):
        own = tmp_path / f"r{place}"
        own.mkdir()
        (own / "result.json").write_text(text)
        (own / "ranking.csv").write_text(order)
        (own / "per_sample.parquet").write_bytes(b"not read")
    monkeypatch.setattr("pandas.read_parquet", lambda *_, **__: pytest.fail("read more than a head"))
    found = list(listing.listed(tmp_path))
    assert len(found) == 300
    assert {row.state for row in found} == {"finished"}


def test_what_the_gate_withholds_is_not_the_best(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = {
        "method": "ig", "keep": 0.5, "imputer": "mean", "judge": 0.4, "kar": 0.9, "gap": 0.5, "control": 0.0,
        "beyond": 0.5, "beyond_low": 0.45, "beyond_high": 0.55,
    }  # fmt: skip
    result(training="retrain", audit={"gate": [gate]}).save(tmp_path / "kar")
    assert rows(tmp_path, capsys)["kar"]["best"] == "random"


def test_devices_and_pipes_are_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for head in ("result.json", "comparison.json"):
        (tmp_path / head).mkdir()
        (tmp_path / head / head).symlink_to(os.devnull)  # of a pipe the answer would never come
    found = rows(tmp_path, capsys)
    assert found["comparison.json"]["state"] == "unreadable: comparison.json is no file"
    assert found["result.json"]["state"] == "unreadable: result.json is no file"


def test_names_in_errors_do_not_act_on_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("runs", tmp_path / HOSTILE) == 2
    said = capsys.readouterr().err
    assert "[red]a[/red]" in said
    assert "\x1b" not in said


def test_a_name_that_the_locale_cannot_show_is_written_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result().save(tmp_path / "für")
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    assert run("runs", tmp_path) == 0
    assert rb"f\xfcr" in written.getvalue()
