"""Sweeps from the command line: from a file and from options, planned, stopped, changed, failed and gone on with."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roadworthy.cli import main
from roadworthy.cli.run import refresh
from roadworthy.cli.sweep_options import Engine, methods, overrides
from roadworthy.cli.sweep_report import tell_failures
from roadworthy.errors import InputError
from roadworthy.sweep.experiment import Experiment, load_experiment
from roadworthy.sweep.store import Failure
from roadworthy.yaml_files import parse_yaml

TINY = """\
data: {source: digits, train: 80, test: 60}
methods: [grad, random]
fractions: [0.3, 0.7]
repeats: 1
recipe: {base: digits, epochs: 1, warmup_epochs: 0}
compare_road: false
audit: "off"
"""
SERIAL = ("--engine", "serial")


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command in a folder of its own: (exit code, output, errors)."""
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        text = capsys.readouterr()
        return int(stop.value.code or 0), text.out, text.err

    return run


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch):
    """Return a function from whose call on no job may be done."""
    return lambda: monkeypatch.setattr("roadworthy.sweep.trial.perform", lambda *_: pytest.fail("a job was done"))


def test_a_file_is_run_and_its_folder_says_everything(command, tmp_path: Path) -> None:
    code, out, err = command("run", "tiny.yaml", *SERIAL)
    assert code == 0, err
    folder = tmp_path / "runs" / "tiny"
    assert "area under the MoRF curve" in out
    assert "report: runs/tiny/report.html" in out
    table = pd.read_parquet(folder / "results.parquet")
    assert sorted(table.method.unique()) == ["grad", "random"]
    assert sorted(table.fraction.unique()) == [0, 0.3, 0.7]
    assert (table.n == 60).all()
    written = parse_yaml((folder / "experiment.yaml").read_text(), "written")
    assert list(written) == list(Experiment.model_fields), "every key is there"
    assert (folder / "report.html").is_file()


def test_options_win_over_the_file(command, tmp_path: Path) -> None:
    changes = ("--methods", "sobel,random", "--fractions", ".5", "--imputer", "mean,zero", "--seed", "3")
    line = ("run", "tiny.yaml", *SERIAL, "--out", "run", *changes, "--set", "recipe.learning_rate=1e-2", "--json")
    code, out, err = command(*line)
    assert code == 0, err
    record = json.loads(out)
    assert [result["imputer"] for result in record["results"]] == ["mean", "zero"]
    assert {row["method"] for row in record["results"][0]["ranking"]} == {"sobel", "random"}
    for result in record["results"]:
        assert Path(result["files"]["report.html"]) == Path("run") / result["imputer"] / "report.html"
    found = load_experiment(tmp_path / "run" / "experiment.yaml")
    assert (found.seed, found.fractions, found.data.train) == (3, (0.5,), 80)


def test_a_finished_run_is_told_again_without_any_work(command, no_training, tmp_path: Path) -> None:
    assert command("run", "tiny.yaml", *SERIAL)[0] == 0
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs/tiny").rglob("*.html")}
    no_training()
    code, out, err = command("run", "tiny.yaml", *SERIAL)
    assert code == 0
    assert "were finished before" in err
    assert "report: runs/tiny/report.html" in out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "runs/tiny").rglob("*.html")} == before
    code = (
        "import sys\nfrom roadworthy.cli import main\ntry:\n    main(['run', 'tiny.yaml'])\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        "sys.exit(f'torch was loaded' if 'torch' in sys.modules else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch):
    """Return a function from whose call on nothing can be written, as on a mount that is read-only."""

    def refuse(place: object, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(place))

    def guarded(path: str, flags: int, *more: int, **named: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            refuse(path)
        return opened(path, flags, *more, **named)

    def guarded_file(path: Path, mode: str = "r", *more: object, **named: object) -> object:
        if set(mode) & set("wax+"):
            refuse(path)
        return opened_file(path, mode, *more, **named)  # type: ignore[call-overload]

    opened, opened_file = os.open, Path.open

    def close() -> None:
        for name in ("unlink", "write_text", "write_bytes", "touch"):
            monkeypatch.setattr(Path, name, refuse)
        for name in ("unlink", "remove", "replace", "rename", "link"):
            monkeypatch.setattr(os, name, refuse)
        monkeypatch.setattr(os, "open", guarded)
        monkeypatch.setattr(Path, "open", guarded_file)

    return close


def test_a_finished_run_is_shown_from_a_read_only_folder_that_was_moved(
    command, no_training, read_only, tmp_path: Path
) -> None:
    _, first, _ = command("run", "tiny.yaml", *SERIAL)
    (tmp_path / "runs").rename(tmp_path / "mounted")
    no_training()
    read_only()
    code, out, err = command("run", "tiny.yaml", *SERIAL, "--out", "mounted/tiny")
    assert code == 0, err
    assert out == first.replace("runs/tiny", "mounted/tiny")
    code, out, err = command("report", "mounted/tiny", "--json")
    assert code == 0, err
    assert json.loads(out)["results"][0]["files"]["curves.png"] == "mounted/tiny/curves.png"


def test_failures_are_told_where_their_file_cannot_be_written(
    read_only, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"k": Failure("train", "one", "ModelError: the moon is full", "Traceback")}
    tell_failures(tmp_path, failed, 0)
    assert f"The tracebacks are in {tmp_path}/failures.txt" in "".join(capsys.readouterr().err.split("\n"))
    read_only()
    tell_failures(tmp_path, failed, 0)
    assert "The tracebacks are in" in capsys.readouterr().err, "it holds them already"
    tell_failures(tmp_path, {**failed, "l": failed["k"]}, 0)
    err = " ".join(capsys.readouterr().err.split())
    assert "the moon is full" in err
    assert "cannot be written" in err
    tell_failures(tmp_path, {}, 0)
    assert capsys.readouterr().err == ""


def test_a_change_is_named_and_runs_only_what_depends_on_it(command, tmp_path: Path) -> None:
    assert command("run", "tiny.yaml", *SERIAL)[0] == 0
    folder = tmp_path / "runs" / "tiny"
    before = {path.name for path in (folder / "trials").iterdir()}
    code, _, err = command("run", "tiny.yaml", *SERIAL, "--fractions", ".3,.5,.7", "--set", "snapshots=1")
    assert code == 0
    assert "changed: fractions, snapshots." in err
    assert "snapshots: holds for trainings that are still to do" in err
    after = {path.name for path in (folder / "trials").iterdir()}
    assert before < after
    assert len(after - before) == 2, "one share more, for the method and at random"
    assert load_experiment(folder / "experiment-1.yaml").fractions == (0.3, 0.7)
    assert load_experiment(folder / "experiment.yaml").fractions == (0.3, 0.5, 0.7)


def test_other_data_need_another_folder(command) -> None:
    assert command("run", "tiny.yaml", *SERIAL)[0] == 0
    code, _, err = command("run", "tiny.yaml", *SERIAL, "--set", "data.train=70")
    assert code == 2
    assert "holds a sweep of other data (data.train changed)" in err
    (Path("other")).mkdir()
    (Path("other") / "result.json").write_text("{}")
    code, _, err = command("run", "tiny.yaml", *SERIAL, "--out", "other")
    assert code == 2
    assert "something else than a sweep" in err


def test_a_plan_is_printed_and_nothing_written(command, tmp_path: Path) -> None:
    code, out, err = command("run", "tiny.yaml", "--plan")
    assert code == 0, err
    assert "7 jobs, 7 to do" in out, "one unmodified, two shares of each, maps of two splits"
    assert "An estimate, from a probe of" in out
    assert "of disk" in out
    assert not (tmp_path / "runs").exists()
    code, out, _ = command("run", "tiny.yaml", "--plan", "--json")
    record = json.loads(out)
    assert len(record["jobs"]) == 7
    assert {job["state"] for job in record["jobs"]} == {"to do"}
    assert record["estimate"]["seconds"] > 0
    assert record["estimate"]["bytes"] > 0
    assert record["experiment"]["repeats"] == 1
    assert sorted({(job["kind"], job["method"]) for job in record["jobs"]}) == [
        ("maps", "grad"), ("train", "grad"), ("train", "random"), ("train", "unmodified"),
    ]  # fmt: skip
    assert command("run", "tiny.yaml", *SERIAL)[0] == 0
    code, out, _ = command("run", "tiny.yaml", "--plan")
    assert "7 jobs, 0 to do" in out
    assert "Everything is finished." in out


def test_roar_alone_goes_the_whole_way(command, tmp_path: Path) -> None:
    code, out, err = command("roar", "--smoke", "--methods", "grad,ig-sg,random", *SERIAL)
    assert code == 0, err
    assert "its numbers mean nothing" in err
    assert "report: roadworthy-roar-smoke/report.html" in out
    assert not (tmp_path / "roadworthy-roar").exists()
    kept = load_experiment(tmp_path / "roadworthy-roar-smoke" / "experiment.yaml")
    assert (kept.data.source, kept.data.per_class, kept.repeats) == ("digits", 2, 1)
    again = command("run", "roadworthy-roar-smoke/experiment.yaml", "--out", "roadworthy-roar-smoke", *SERIAL)
    assert again[0] == 0
    assert "were finished before" in again[2]


NETS = """\
from pathlib import Path
import torch

class Net(torch.nn.Sequential):
    def forward(self, images):
        if Path("broken").exists():
            raise RuntimeError("the moon is full")
        return super().forward(images)

def net():
    return Net(torch.nn.Flatten(), torch.nn.Linear(64, 10))
"""


def test_failures_are_told_and_tried_again_when_asked(command, tmp_path: Path) -> None:
    (tmp_path / "moonstruck.py").write_text(NETS)
    (tmp_path / "broken").touch()
    line = ("run", "tiny.yaml", *SERIAL, "--model", "moonstruck:net")
    code, out, err = command(*line)
    assert code == 1
    assert "failed: unmodified, repeat 0: ModelError: " in err
    assert "the moon is full" in err
    assert "4 jobs that need one of these were not begun" in err
    assert "--retry-failed does these jobs again" in err
    assert "missing: " in err
    assert "nothing to rank" in out
    assert "Traceback" in (tmp_path / "runs/tiny/failures.txt").read_text()
    (tmp_path / "broken").unlink()
    assert command(*line)[0] == 1, "failed jobs stay failed"
    code, out, err = command(*line, "--retry-failed")
    assert code == 0, err
    assert "report: runs/tiny/report.html" in out
    assert not (tmp_path / "runs/tiny/failures.txt").exists()


def test_one_method_that_fails_does_not_stop_the_others(command, tmp_path: Path) -> None:
    for part, count in (("train", 80), ("test", 60)):
        values = np.ones((count, 8, 8), dtype=np.float32)
        values[3, 0, 0] = np.nan
        np.save(tmp_path / f"{part}.npy", values)
    line = ("run", "tiny.yaml", *SERIAL, "--methods", "grad,random,bad=train.npy:test.npy", "--json")
    code, out, err = command(*line)
    assert code == 1
    assert "NaN or infinite" in err
    assert "missing: 2 of 7 trainings failed" in err
    record = json.loads(out)
    assert (record["failed"], record["blocked"]) == (2, 0)
    assert {row["method"] for row in record["results"][0]["ranking"]} == {"grad", "random"}


def test_a_report_is_made_of_what_is_there(command, tmp_path: Path) -> None:
    assert command("run", "tiny.yaml", *SERIAL)[0] == 0
    folder = tmp_path / "runs" / "tiny"
    for name in ("report.html", "summary.json", "results.parquet"):
        (folder / name).unlink()
    assert refresh(folder) == {"mean": folder / "report.html"}
    assert (folder / "report.html").is_file()
    with pytest.raises(InputError, match="no sweep lies here"):
        refresh(tmp_path)


def test_test_curves_of_a_sweep(command, tmp_path: Path) -> None:
    assert command("run", "tiny.yaml", *SERIAL, "--set", "snapshots=1")[0] == 0
    code, out, err = command("eval", "runs/tiny", "--watch", "--device", "cpu")
    assert code == 0, err
    assert "unmodified, repeat 0, epoch 1: top-1" in err
    assert "last snapshot of each training" in out
    code, out, _ = command("eval", "runs/tiny", "--json")
    rows = json.loads(out)
    assert len(rows) == 5
    assert {row["epoch"] for row in rows} == {1}
    assert command("eval", "nowhere")[0] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "no.yaml"], "there is no such file"),
        (["run", "tiny.yaml", "--set", "repeets=2"], "Did you mean 'repeats'"),
        (["run", "tiny.yaml", "--set", "repeats"], "expected key=value"),
        (["run", "tiny.yaml", "--fractions", "10,30"], "percentages: divide by 100"),
        (["run", "tiny.yaml", "--methods", "gradcm"], "Did you mean 'gradcam'"),
        (["run", "tiny.yaml", "--methods", "m=a.npy"], "maps of both splits"),
        (["run", "tiny.yaml", "--methods", "m=a.npy:b.npy"], "a.npy does not exist"),
        (["run", "tiny.yaml", "--strategy", "road"], "roadworthy road --strategy road"),
        (["run", "tiny.yaml", "--engine", "rayy"], "auto, serial, processes, ray"),
        (["run", "tiny.yaml", "--engine", "serial", "--workers", "2"], "need --engine processes"),
        (["run", "tiny.yaml", "--recipe", "digitz"], "Did you mean 'digits'"),
        (["run", "tiny.yaml", "--out", "tiny.yaml"], "is a file, expected a folder"),
        (["roar", "--model", "torchvision:resnet18"], "recipe: missing"),
        (["roar", "--device", "cuda:99", "--plan"], "cannot be used here"),
    ],
)
def test_a_wrong_line_is_one_line_of_error_before_any_work(command, arguments: list[str], message: str) -> None:
    code, out, err = command(*arguments)
    assert code == 2
    assert message in err
    assert out == ""
    assert not Path("runs/tiny/trials").exists()


def test_methods_on_the_command_line() -> None:
    assert methods("ig,inverse:ig,mine=inverse:ig,m=a/b:c/d") == {
        "ig": "ig",
        "inverse:ig": "inverse:ig",
        "mine": "inverse:ig",
        "m": {"train": "a/b", "test": "c/d"},
    }
    for wrong in ("ig,ig", "=ig", "a="):
        with pytest.raises(InputError, match="--methods"):
            methods(wrong)


def test_every_flag_becomes_a_key_of_the_experiment() -> None:
    found = overrides(
        ["keep_weights=true"],
        data="digits",
        size="8x9",
        model="small-cnn",
        weights="w.pt",
        normalize=".5/.2",
        methods="ig",
        strategy="kar",
        recipe="digits",
        fractions=".5",
        order="both",
        imputer="mean",
        repeats=2,
        seed=1,
    )
    experiment = load_experiment(None, found)
    assert (experiment.data.size, experiment.model.normalize) == ((8, 9), ((0.5,), (0.2,)))
    assert experiment.model.weights == str(Path.cwd() / "w.pt")
    assert (experiment.strategy, experiment.order, experiment.keep_weights) == ("kar", "both", True)


def test_engines_and_how_many_jobs_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from roadworthy.sweep.executors import ProcessExecutor, RayExecutor, SerialExecutor

    monkeypatch.setattr("roadworthy.cli.sweep_options._cores", lambda: 8)
    assert isinstance(Engine().executor(0), SerialExecutor)
    assert isinstance(Engine().executor(1), SerialExecutor)
    found = Engine(threads=2, device="cpu").executor(100)
    assert isinstance(found, ProcessExecutor)
    assert (found.workers, found.threads) == (4, 2)
    assert Engine(device="cpu").width(3) == 3
    assert Engine("processes", workers=5, device="cpu").width(100) == 5
    assert isinstance(Engine("ray", address="local", cpus=0.5).executor(4), RayExecutor)
    with pytest.raises(InputError, match="--cpus and --gpus"):
        Engine("ray", workers=3)


@pytest.mark.slow
def test_a_run_killed_at_random_moments_ends_with_the_same_table(command, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "roadworthy", "run", "tiny.yaml", "--workers", "2", "--repeats", "2",
            "--set", "recipe.epochs=4"]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([*line, "--out", "whole"], check=True, env=environment, capture_output=True)
    draw, folders = random.Random(5), {name: tmp_path / name / "trials" for name in ("whole", "killed")}
    count = {name: lambda place=place: len(list(place.glob("*.npz"))) for name, place in folders.items()}
    for _ in range(3):
        wanted = count["killed"]() + draw.randint(1, 2)
        process = subprocess.Popen([*line, "--out", "killed"], env=environment, stderr=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL)  # fmt: skip
        while count["killed"]() < wanted and process.poll() is None:
            time.sleep(0.005)
        assert process.poll() is None, "it ended before it could be killed"
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert 3 <= count["killed"]() < count["whole"](), "some jobs were done, some not"
    subprocess.run([*line, "--out", "killed"], check=True, env=environment, capture_output=True)
    tables = [pd.read_parquet(tmp_path / name / "results.parquet") for name in ("whole", "killed")]
    pd.testing.assert_frame_equal(*tables)
