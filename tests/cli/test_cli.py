"""The command from outside: exit codes, one line for an error, JSON alone, going on after a stop."""

from __future__ import annotations

import functools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import roadworthy as rw
from roadworthy.cli import main


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def command(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command in a folder of its own: (exit code, output, errors)."""
    monkeypatch.setenv("ROADWORTHY_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        text = capsys.readouterr()
        return int(stop.value.code or 0), text.out, text.err

    return run


SMALL = ("--methods", "grad,random,sobel", "--n", "40", "--fractions", ".3,.7")


def test_road_writes_all_its_files_and_prints_the_table(command, tmp_path: Path) -> None:
    code, out, _ = command("road", *SMALL, "--out", "run")
    assert code == 0
    assert "symmetric gain (probability), asked of the model as it is" in " ".join(out.split())
    assert "report: run/report.html" in out
    assert "asked of the model as it is" in (tmp_path / "run" / "report.html").read_text(encoding="utf8")
    found = {path.name for path in (tmp_path / "run").iterdir()}
    wanted = {"results.parquet", "per_sample.parquet", "ranking.csv", "result.json", "report.html", "maps.zarr"}
    assert wanted | {"curves.svg", "curves.png", "sheet.svg", "sheet.png"} <= found
    table = pd.read_parquet(tmp_path / "run" / "results.parquet")
    assert sorted(table.method.unique()) == ["grad", "random", "sobel"]
    assert sorted(table.order.unique()) == ["lerf", "morf"]
    assert (table.n == 40).all()
    assert table[table.fraction == 0].top1.min() > 0.9


def test_json_stands_alone_on_standard_output(command) -> None:
    code, out, _ = command("road", *SMALL, "--out", "run", "--json")
    assert code == 0
    record = json.loads(out)
    assert record["n"] == 40
    assert {row["method"] for row in record["ranking"]} == {"grad", "random", "sobel"}
    assert record["direction"]
    assert record["views"] == [{"judge": "untouched", "imputer": fill} for fill in ("mean", "noisy-linear")]
    settings = rw.load_result("run").settings
    assert (settings["strategy"], settings["training"]) == ("symmetric", "none")
    assert not Path("run/judge.safetensors").exists()
    assert Path(record["files"]["report.html"]).exists()


def test_a_copy_is_trained_where_symmetric_is_named_and_kept_for_the_next_call(command, monkeypatch) -> None:
    line = ("road", "--methods", "grad,random", "--n", "40", "--fractions", ".5", "--out", "run", "--json")
    for _ in range(2):
        code, out, _ = command(*line, "--strategy", "symmetric")
        assert code == 0
        assert [view["judge"] for view in json.loads(out)["views"]] == ["untouched"] * 2 + ["fine-tuned"] * 2
        assert Path("run/judge.safetensors").exists()
        monkeypatch.setattr("roadworthy.evaluation.finetune.tuned_for", lambda *_, **__: pytest.fail("trained"))


def test_road_by_name_is_road(command) -> None:
    line = (
        "road",
        "--methods",
        "grad,random",
        "--n",
        "40",
        "--strategy",
        "road",
        "--fractions",
        ".5",
        "--out",
        "run",
    )
    code, out, _ = command(*line, "--json")
    assert code == 0
    assert json.loads(out)["views"] == [{"judge": "untouched", "imputer": "noisy-linear"}]
    assert json.loads(out)["readout"] == "top1"


@pytest.mark.slow
def test_the_same_seed_gives_the_same_table_and_another_does_not(command, tmp_path: Path) -> None:
    for name, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        assert command("road", *SMALL, "--out", name, "--seed", seed)[0] == 0
    tables = [pd.read_parquet(tmp_path / name / "results.parquet") for name in "abc"]
    pd.testing.assert_frame_equal(tables[0], tables[1])
    assert not tables[0].equals(tables[2])


def test_attribute_then_road_with_saved_maps(command, tmp_path: Path) -> None:
    code, out, _ = command("attribute", "--methods", "grad,random", "--n", "30", "--out", "maps.zarr", "--json")
    assert code == 0
    assert json.loads(out) == {"maps": "maps.zarr", "n": 30, "methods": ["grad", "random"]}
    mine = np.random.default_rng(0).random((30, 8, 8))
    np.save(tmp_path / "mine.npy", mine)
    methods = "grad=maps.zarr,mine=mine.npy,sobel"
    code, out, err = command("road", "--methods", methods, "--n", "30", "--out", "run", "--fractions", ".5", "--json")
    assert code == 0, err
    assert {row["method"] for row in json.loads(out)["ranking"]} == {"grad", "mine", "sobel"}


def test_report_is_made_anew_from_the_folder(command, tmp_path: Path) -> None:
    command("road", *SMALL, "--out", "run")
    (tmp_path / "run" / "report.html").unlink()
    kept = (tmp_path / "run" / "result.json").stat().st_mtime_ns
    code, out, _ = command("report", "run")
    assert code == 0
    assert (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run" / "result.json").stat().st_mtime_ns == kept, "the result itself is not touched"
    assert "report: run/report.html" in out
    code, out, _ = command("report", "run", "--json")
    assert json.loads(out)["verdict"]


def test_maps_of_other_samples_are_refused(command) -> None:
    assert command("attribute", "--methods", "ig", "--n", "20", "--seed", "1", "--out", "s1.zarr")[0] == 0
    code, out, err = command("road", "--methods", "ig=s1.zarr,random", "--n", "20", "--fractions", ".5")
    assert code == 2
    assert "no map for" in err or "maps are of other samples" in err
    assert out == ""


def test_maps_of_another_model_are_told(command) -> None:
    assert command("attribute", "--methods", "ig", "--n", "20", "--out", "m.zarr")[0] == 0
    line = ("road", "--methods", "ig=m.zarr", "--n", "20", "--fractions", ".5", "--out", "run")
    assert "another model" not in command(*line)[2]
    assert "another model" in command(*line[:-1], "run2", "--normalize", ".5/.5")[2]


def test_options_are_checked_before_anything_is_trained(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.model.own.fit", lambda *_, **__: pytest.fail("trained"))
    monkeypatch.setenv("ROADWORTHY_CACHE", "empty")
    (Path.cwd() / "file").write_text("x")
    for wrong in (
        ("--fractions", "10,30"),
        ("--methods", "nope"),
        ("--imputer", "nope"),
        ("--methods", "a=no.npy"),
        ("--settings", "rood"),
        ("--target", "lable"),
        ("--intact-check", "maybe"),
        ("--out", "file"),
    ):
        assert command("road", *wrong)[0] == 2


@pytest.mark.slow
def test_a_model_at_chance_can_be_run_on_purpose(command, tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text(
        "import torch\n\ndef blind():\n    torch.manual_seed(0)\n"
        "    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 10))\n"
    )
    line = ("road", "--model", "nets:blind", "--methods", "grad,random", "--n", "60", "--fractions", ".5")
    code, _, err = command(*line)
    assert code == 2
    assert "--intact-check warn" in err
    on_purpose = [sys.executable, "-m", "roadworthy", *line, "--intact-check", "warn", "--out", "run"]
    done = subprocess.run(on_purpose, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "warning: intact accuracy is" in done.stderr


def test_another_process_in_the_folder_is_refused(command, tmp_path: Path) -> None:
    from roadworthy.cli.claim import claimed

    with claimed(tmp_path / "run"):
        holder = subprocess.run(
            [sys.executable, "-m", "roadworthy", "road", *SMALL, "--out", "run"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
    assert holder.returncode == 2
    assert "another process is working in run" in holder.stderr
    assert command("road", *SMALL, "--out", "run")[0] == 0


def test_a_claim_that_fails_leaves_no_lock(tmp_path: Path) -> None:
    from roadworthy.cli.claim import claimed

    with pytest.raises(ValueError, match="broken"), claimed(tmp_path):
        raise ValueError("broken")
    assert list(tmp_path.iterdir()) == []


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    for verb, first in (("sources", "data sets"), ("sources --json", "{")):
        line = f"set -o pipefail; PYTHONUNBUFFERED=1 {sys.executable} -m roadworthy {verb} | head -1"
        done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(first)


def test_a_narrow_terminal_still_shows_the_numbers(cache: Path, tmp_path: Path) -> None:
    environment = os.environ | {"ROADWORTHY_CACHE": str(cache), "COLUMNS": "20"}
    line = [sys.executable, "-m", "roadworthy", "road", *SMALL, "--out", "run"]
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert "sobel" in done.stdout
    assert "symmetric gain" in done.stdout
    assert any("random" in row and "0." in row for row in done.stdout.splitlines()), done.stdout


def test_sources_lists_everything(command) -> None:
    code, out, _ = command("sources", "--json")
    assert code == 0
    found = json.loads(out)
    explained = {"data sets", "models", "methods", "imputers", "strategies", "recipes"}
    assert set(found) == explained | {"perturbations", "corruptions", "estimators of accuracy"}
    assert {"digits", "folder", "parquet", "planted"} <= set(found["data sets"])
    assert {"ig", "ig-sg", "gb-var", "lrp", "random", "sobel"} <= set(found["methods"])
    assert {"noisy-linear", "mean", "zero", "blur"} <= set(found["imputers"])
    assert all(text for names in found.values() for text in names.values())
    assert command("sources")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["road", "--data", "digitz"], "Did you mean 'digits'"),
        (["road", "--data", "folder:nowhere"], "nowhere"),
        (["road", "--model", "digits-cn"], "Did you mean 'digits-cnn'"),
        (["road", "--methods", "ig,gradcm", "--n", "5"], "Did you mean 'gradcam'"),
        (["road", "--methods", "ig,,random"], "names separated by commas"),
        (["road", "--methods", "m=none.npy", "--n", "5"], "none.npy does not exist"),
        (["road", "--fractions", "10,30"], "percentages: divide by 100"),
        (["road", "--fractions", "a"], "numbers separated by commas"),
        (["road", "--imputer", "meen", "--n", "5", "--methods", "random"], "Did you mean 'mean'"),
        (["road", "--strategy", "raod"], "Did you mean 'road'"),
        (["road", "--device", "tpu9"], "--device: 'tpu9' cannot be used here"),
        (["road", "--max-batch", "0"], "--max-batch"),
        (["road", "--size", "axb"], "HEIGHTxWIDTH"),
        (["raod"], "Did you mean 'road'"),
        (["report", "nowhere"], "there is no such folder; give the folder of a run or of a sweep"),
        (["attribute", "--methods", "x=y.npy"], "names a file"),
    ],
)
def test_a_users_error_is_one_line_and_exit_2(command, arguments: list[str], message: str) -> None:
    code, out, err = command(*arguments)
    assert code == 2
    assert message in err
    last = [line for line in err.splitlines() if line.strip()]
    assert len([line for line in last if line.startswith("error")]) == 1
    assert "Traceback" not in err
    assert out == ""


def test_debug_shows_the_traceback(cache: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "roadworthy", "report", "nowhere", "--debug"],
        capture_output=True, text=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_markup_in_names_is_printed_as_it_is(command, tmp_path: Path) -> None:
    np.save(tmp_path / "m.npy", np.random.default_rng(0).random((20, 8, 8)))
    code, out, _ = command(
        "road", "--methods", "[red]x[/]=m.npy,random", "--n", "20", "--fractions", ".5", "--out", "run"
    )
    assert code == 0
    assert "[red]x[/]" in out


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_run_is_completed_by_the_same_command(cache: Path, tmp_path: Path, sent: signal.Signals) -> None:
    environment = os.environ | {"ROADWORTHY_CACHE": str(cache), "OMP_NUM_THREADS": "1"}
    line = [sys.executable, "-m", "roadworthy", "road", "--methods", "ig-sg,occlusion,random", "--fractions", ".3,.7"]
    subprocess.run(
        [*line, "--out", "whole", "--n", "100"], cwd=tmp_path, env=environment, check=True, capture_output=True
    )
    started = subprocess.Popen(
        [*line, "--out", "run", "--n", "100"],
        cwd=tmp_path,
        env=environment,
        stderr=subprocess.PIPE,
        # shells start what runs in the background deaf to interruptions
        preexec_fn=functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    marker = tmp_path / "run" / "maps.zarr" / "zarr.json"
    deadline = time.monotonic() + 120
    while not marker.exists() and started.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    time.sleep(0.5)
    started.send_signal(sent)
    _, err = started.communicate(timeout=60)
    assert started.returncode == (130 if sent == signal.SIGINT else -signal.SIGKILL), err
    if sent == signal.SIGINT:
        assert b"The same command goes on" in err
    done = subprocess.run(
        [*line, "--out", "run", "--n", "100"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    whole, again = (pd.read_parquet(tmp_path / name / "per_sample.parquet") for name in ("whole", "run"))
    pd.testing.assert_frame_equal(whole, again)
