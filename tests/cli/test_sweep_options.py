"""What the command line of a sweep means: engines and their width, methods and the files they stand for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roadworthy.attribution import open_maps
from roadworthy.cli import main
from roadworthy.cli.sweep_options import Engine, methods
from roadworthy.errors import InputError
from roadworthy.sweep.executors import ProcessExecutor, SerialExecutor
from roadworthy.sweep.experiment import load_experiment

BOTH = {"train": "tfrecord:IG/*", "test": "tfrecord:IG/*"}


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Return a function that runs the command in a folder of its own: (exit code, output, errors)."""
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        text = capsys.readouterr()
        return int(stop.value.code or 0), text.out, text.err

    return run


@pytest.mark.parametrize(
    ("workers", "threads", "processes", "width"),
    [(None, 1, 1, 8), (None, 1, 3, 2), (None, 2, 4, 1), (None, 1, 99, 1), (6, 1, 2, 3), (1, 1, 2, 1)],
)
def test_processes_of_a_training_take_the_place_of_workers(
    monkeypatch: pytest.MonkeyPatch, workers: int | None, threads: int, processes: int, width: int
) -> None:
    monkeypatch.setattr("roadworthy.cli.sweep_options._cores", lambda: 8)
    engine = Engine("processes", workers=workers, threads=threads, device="cpu")
    assert engine.width(100, processes) == width
    executor = engine.executor(100, processes)
    assert isinstance(executor, ProcessExecutor)
    assert executor.workers == width
    assert engine.width(1, processes) == 1


def test_trainings_on_several_gpus_are_not_given_to_workers_that_see_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "devices", lambda self: [f"cuda:{number}" for number in range(4)])
    executor = Engine().executor(100, processes=4)
    assert isinstance(executor, SerialExecutor)
    assert Engine().width(100, 4) == Engine("serial").width(100, 4) == 1
    assert Engine("processes").width(100) == 4
    with pytest.raises(InputError, match=r"a worker sees one GPU, and processes_per_trial is 2; use --engine serial"):
        Engine("processes").executor(100, processes=2)


def test_a_plan_reckons_with_the_width_of_the_run(command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.cli.sweep_options._cores", lambda: 6)
    line = ["roar", "--methods", "grad", "--smoke", "--plan", "--json", "--device", "cpu"]
    found = []
    for count in (1, 3):
        code, out, err = command(*line, "--set", f"processes_per_trial={count}")
        assert code == 0, err
        found.append(json.loads(out)["estimate"]["workers"])
    assert found == [6, 2]


def test_a_wrong_name_is_told_before_what_changed(command) -> None:
    line = ["roar", "--smoke", "--engine", "serial", "--device", "cpu", "--methods"]
    assert command(*line, "random", "--out", "there")[0] == 0
    code, _, err = command(*line, "random,gradd", "--out", "there")
    assert (code, "Did you mean 'grad'" in err, "changed" in err) == (2, True, False)
    assert "changed: methods.grad" in command(*line, "random,grad", "--out", "there", "--plan")[2]


def test_a_report_of_nothing_names_both_and_what_lies_below(command, tmp_path: Path) -> None:
    (tmp_path / "runs" / "tiny").mkdir(parents=True)
    code, _, err = command("report", "runs")
    assert (code, "neither a result nor a sweep lies here (no result.json and no plan.json)" in err) == (2, True)
    assert "below" not in err
    (tmp_path / "runs" / "tiny" / "plan.json").touch()
    assert "below it are runs/tiny" in " ".join(command("report", "runs")[2].split())
    assert "there is no such folder" in command("report", "nowhere")[2]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("tfrecord:a/train*:tfrecord:a/test*", {"train": "tfrecord:a/train*", "test": "tfrecord:a/test*"}),
        ("tfrecord:a/train*:b.npy", {"train": "tfrecord:a/train*", "test": "b.npy"}),
        ("b.npy:tfrecord:a/*", {"train": "b.npy", "test": "tfrecord:a/*"}),
        ("tfrecord:IG/*", "tfrecord:IG/*"),
        ("inverse:ig", "inverse:ig"),
    ],
)
def test_files_of_records_among_the_methods(source: str, expected: object) -> None:
    assert methods(f"ig,m={source}") == {"ig": "ig", "m": expected}


def test_one_file_is_refused_with_both_ways_out() -> None:
    with pytest.raises(InputError, match="m=TRAIN:TEST, or m=tfrecord:PATTERN"):
        methods("m=maps/IG")


def test_one_pattern_stands_for_both_splits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    anchored = dict.fromkeys(BOTH, f"tfrecord:{tmp_path}/IG/*")
    for given in (methods("m=tfrecord:IG/*"), {"m": "tfrecord:IG/*"}, {"m": BOTH}):
        assert load_experiment(None, {"methods": given}).methods["m"].model_dump() == anchored


def test_maps_in_record_files_go_through_a_sweep(command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As two files or as one pattern of both splits, the maps are the same ones, and so are the trainings."""
    assert command("data", "convert", "planted:n=24,test=12", "tfrecord:data", "--per-part", "8")[0] == 0
    (tmp_path / "shard_nets.py").write_text(
        "import torch\ndef make():\n    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    made = ["--data", "tfrecord:data", "--model", "shard_nets:make", "--normalize", "none"]
    code, _, err = command("attribute", *made, "--methods", "grad,ixg", "--shards", "maps", "--split", "both")
    assert code == 0, err
    with open_maps("maps/SH") as maps:
        assert (list(maps), maps["grad"].shape[0]) == (["grad"], 36)
    line = [
        "roar",
        *made,
        "--recipe",
        "digits",
        "--fractions",
        ".5",
        "--repeats",
        "1",
        "--engine",
        "serial",
        "--json",
    ]
    line += ["--set", "recipe.epochs=1", "--set", "recipe.warmup_epochs=0", "--set", "compare_road=false"]
    found = "one=tfrecord:maps/SH/*,two=tfrecord:maps/SH/train*:tfrecord:maps/SH/test*,other=tfrecord:maps/ixg/*"
    code, out, err = command(*line, "--methods", found)
    assert code == 0, err
    record = json.loads(out)
    assert (record["failed"], record["blocked"]) == (0, 0)
    assert {row["method"] for row in record["results"][0]["ranking"]} == {"one", "two", "other", "random"}
