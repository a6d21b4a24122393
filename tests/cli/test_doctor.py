"""The doctor: what it finds, what it calls broken, and the way out it names."""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from roadworthy.cli import checkup, main
from roadworthy.cli.checkup import NEEDED, OPTIONAL, Finding, as_record

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf8"))["project"]


@pytest.fixture
def doctor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command: (exit code, what it printed)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "cache"))

    def run(*arguments: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(["doctor", *arguments])
        return int(stop.value.code or 0), capsys.readouterr().out

    return run


def test_the_packages_are_those_of_the_project() -> None:
    assert [f"{name}>={least}" for name, _, least in NEEDED] == PROJECT["dependencies"]
    extras = {
        name: wanted for name, wanted in PROJECT["optional-dependencies"].items() if name not in ("test", "dev")
    }
    assert set(OPTIONAL) == set(extras)
    for extra, (_, groups) in OPTIONAL.items():
        assert [names[0] for names in groups] == [re.split(r"[>=<\[]", wanted)[0] for wanted in extras[extra]]


def test_all_is_well_here(doctor: Callable[..., tuple[int, str]]) -> None:
    code, printed = doctor()
    assert code == 0
    assert "All that is needed works." in printed
    assert f"torch                   {torch.__version__.split('+')[0]}" in printed
    code, printed = doctor("--json")
    record = json.loads(printed)
    assert (code, record["ok"], record["broken"]) == (0, True, [])
    assert {"packages", "computing", "devices", "memory", "disk", "optional", "data"} <= set(record)
    assert record["devices"]["cpu"]["value"].endswith("computes")
    assert set(record["optional"]) == set(OPTIONAL)


def test_what_is_needed_and_missing_exits_with_1(
    doctor: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "captum", None)
    code, printed = doctor()
    assert code == 1
    assert re.search(r'! captum .*does not load.*->  pip install "captum>=0.7"', printed)
    assert "1 broken, marked ! above" in printed


def test_versions_that_are_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "1.9.5+cpu" if name == "numpy" else real(name))
    found = checkup._package("numpy", "numpy", "1.26")
    assert (found.status, found.value, found.way_out) == (
        "broken", "1.9.5+cpu, older than 1.26", 'pip install "numpy>=1.26"'
    )  # fmt: skip
    assert checkup._package("numpy", "numpy", "1.9").status == "ok"


def fake_torch(**cuda: object) -> SimpleNamespace:
    there = {"is_available": lambda: bool(cuda), "device_count": lambda: 1, **cuda}
    return SimpleNamespace(
        arange=lambda n, device: torch.arange(n) if device == "cpu" else _no_kernel(),
        cuda=SimpleNamespace(**there),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: False)),
        version=SimpleNamespace(cuda=None, hip=None),
    )


def _no_kernel() -> None:
    raise RuntimeError("no kernel image is available")


def test_a_gpu_that_cannot_compute_is_broken() -> None:
    name = {"get_device_name": lambda index: "Some GPU", "mem_get_info": lambda index: (5e9, 8e9)}
    cpu, gpu = checkup._devices(fake_torch(**name))
    assert cpu.status == "ok"
    assert gpu == Finding(
        "devices",
        "cuda:0",
        "Some GPU, 5.0 GB of 8.0 GB free; cannot compute (no kernel image is available)",
        "broken",
        "--device cpu, or a build of torch that fits the driver",
    )


def test_a_gpu_that_torch_does_not_see_is_a_note(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(checkup, "_GPU_FILES", (str(tmp_path),))
    _, gpu = checkup._devices(fake_torch())
    assert (gpu.status, gpu.value) == ("note", "there, but torch (built for no GPU) cannot use it")


def test_a_cache_that_cannot_be_written_is_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "file" / "cache"))
    here, cache = checkup._disk()
    assert here.status == "ok"
    assert (cache.status, cache.way_out) == ("broken", "set ROADWORTHY_CACHE to a folder that can be written")


def test_little_room_and_little_memory_are_notes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup.shutil, "disk_usage", lambda place: SimpleNamespace(free=1000))
    monkeypatch.setattr("roadworthy.evaluation.checks.free_memory", lambda: 2000)
    assert [found.status for found in (*checkup._disk(), *checkup._memory())] == ["note"] * 3
    monkeypatch.setattr("roadworthy.evaluation.checks.free_memory", lambda: None)
    assert checkup._memory()[0].value == "not told by this system"


def test_no_place_for_compiled_code_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    fill = SimpleNamespace(_cache=SimpleNamespace(cache_path=None))
    monkeypatch.setattr("roadworthy.imputation.kernels_multigrid.solve_batch", fill)
    found = checkup._cache_of_numba()
    assert found.status == "note"
    assert "NUMBA_CACHE_DIR" in found.way_out


def test_extras_that_are_missing_come_with_their_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_version", lambda name: "1.0" if name == "protobuf" else None)
    found = {entry.name: entry for entry in checkup._optional()}
    assert found["tfrecord"].value == "missing: TFRecord files"
    assert found["tfrecord"].way_out == 'pip install "roadworthy[tfrecord]"'
    assert all(entry.status == "note" for entry in found.values())


def test_a_broken_torch_does_not_stop_the_doctor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkup, "_imported", lambda name: None)
    parts = {found.part for found in checkup.checkup()}
    assert parts == {"packages", "memory", "disk", "optional", "data"}
    assert not as_record([Finding("packages", "torch", "gone", "broken", "x")])["ok"]
