"""Test curves: each snapshot once, equal to what the training itself reports, whatever is killed when."""

from __future__ import annotations

import csv
import shutil
import threading
import time
from pathlib import Path

import pytest

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.sweep.executors import SerialExecutor
from roadworthy.sweep.experiment import Experiment
from roadworthy.sweep.job import Job
from roadworthy.sweep.plan import Plan
from roadworthy.sweep.run import prepare, run_experiment
from roadworthy.sweep.store import Record, Store
from roadworthy.sweep.watch import CURVES, Curves, Row, _is_over, evaluate_snapshots, snapshots


def row(epoch: int, key: str = "a" * 16) -> Row:
    return Row(key, 'grad morf 0.5, "repeat" 0', epoch, 10, 0.5, 0.9, 1.25)


def experiment(**changes: object) -> Experiment:
    return Experiment.of(
        **{
            "data": {"source": "digits", "train": 60, "test": 40},
            "methods": ["grad", "random"],
            "fractions": [0.5],
            "repeats": 1,
            "recipe": {"base": "digits", "epochs": 3, "warmup_epochs": 1},
            "snapshots": 2,
            "compare_road": False,
            **changes,
        }
    )


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sweep")
    run_experiment(experiment(), folder, executor=SerialExecutor())
    return folder


@pytest.fixture
def sweep(swept: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(swept, tmp_path / "sweep"))


def test_rows_come_back_and_are_appended(tmp_path: Path) -> None:
    curves = Curves(tmp_path / CURVES)
    assert curves.rows == []
    curves.append(row(1))
    first = (tmp_path / CURVES).read_bytes()
    curves.append(row(2))
    assert (tmp_path / CURVES).read_bytes().startswith(first)
    assert Curves(tmp_path / CURVES).rows == [row(1), row(2)] == curves.rows
    assert curves.done == {("a" * 16, 1), ("a" * 16, 2)}


def test_a_file_cut_at_any_byte_loses_at_most_its_last_row(tmp_path: Path) -> None:
    path = tmp_path / CURVES
    curves = Curves(path)
    for epoch in (1, 2):
        curves.append(row(epoch))
    whole = path.read_bytes()
    starts = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        found = Curves(path)
        assert found.rows == [row(1), row(2)][: max(0, sum(start <= cut for start in starts) - 1)]
        for epoch in range(len(found.rows) + 1, 3):
            found.append(row(epoch))
        assert path.read_bytes() == whole


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / CURVES).write_text("something,else\n")
    with pytest.raises(DataError, match=r"curves.csv, row 1: 'something,else' is no row"):
        Curves(tmp_path / CURVES)


def test_every_snapshot_is_scored_once_and_the_last_equals_the_record(sweep: Path) -> None:
    told: list[Row] = []
    rows = evaluate_snapshots(sweep, on_row=told.append)
    assert [(row.epoch) for row in rows] == [2, 3] * 3, "every second epoch, and the last"
    assert sorted(told, key=str) == sorted(rows, key=str)
    store = Store(sweep)
    for row in rows:
        head = store.read(row.key).head
        assert row.n == head["n"] == 40
        if row.epoch == 3:
            assert (row.top1, row.top5) == pytest.approx((head["top1"], head["top5"]), abs=1e-6)
            assert row.loss == pytest.approx(head["loss"], abs=1e-5)
    content = (sweep / CURVES).read_bytes()
    assert evaluate_snapshots(sweep, watch=True) == rows
    assert (sweep / CURVES).read_bytes() == content, "never twice"


def test_a_killed_evaluation_goes_on(sweep: Path) -> None:
    def stop(_: Row) -> None:
        raise KeyboardInterrupt

    for count in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            evaluate_snapshots(sweep, on_row=stop)
        assert len(Curves(sweep / CURVES).rows) == count
    rows = evaluate_snapshots(sweep)
    with open(sweep / CURVES, newline="") as handle:
        assert len(list(csv.reader(handle))) == 1 + len(rows) == 7


def test_only_one_at_a_time_writes_the_table(sweep: Path) -> None:
    refused = []

    def look(_: Row) -> None:
        with pytest.raises(InputError, match="snapshots are being scored already"):
            evaluate_snapshots(sweep)
        refused.append(1)

    rows = evaluate_snapshots(sweep, on_row=look)
    assert len(refused) == len(rows) == 6
    with open(sweep / CURVES, newline="") as handle:
        assert len(list(csv.reader(handle))) == 7
    assert evaluate_snapshots(sweep) == rows, "the lock went with its holder"


def test_a_damaged_snapshot_is_left_out_and_told(sweep: Path) -> None:
    key = next(path.name for path in (sweep / "snapshots").iterdir())
    snapshots(sweep, key)[2].write_bytes(b"no weights")
    with pytest.warns(RoadworthyWarning, match="this snapshot is left out"):
        rows = evaluate_snapshots(sweep)
    assert len(rows) == 5


def test_snapshots_of_an_earlier_experiment_are_not_scored(sweep: Path) -> None:
    evaluate_snapshots(sweep)
    prepare(experiment(fractions=[0.9]), sweep)
    rows = evaluate_snapshots(sweep)
    assert {row.training for row in rows} == {"unmodified, repeat 0"}


def test_watching_ends_after_the_last_snapshot_of_a_running_sweep(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    wanted = experiment(fractions=[0.3, 0.6])
    prepare(wanted, folder)
    seen: list[Row] = []
    watcher = threading.Thread(
        target=lambda: seen.extend(evaluate_snapshots(folder, watch=True, pause=0.05)), daemon=True
    )
    watcher.start()
    time.sleep(0.2)
    assert watcher.is_alive(), "nothing is there yet, so it waits"
    run_experiment(wanted, folder, executor=SerialExecutor())
    watcher.join(60)
    assert not watcher.is_alive()
    assert len(seen) == 2 * 5


def test_the_end_is_when_all_trainings_are_settled(tmp_path: Path) -> None:
    base = Job("train", {"n": 0})
    maps = Job("maps", {"n": 1}, needs=(base.key,))
    other = Job("train", {"n": 2}, needs=(maps.key,))
    plan, store = Plan([base, maps, other], {}, {}), Store(tmp_path)
    assert not _is_over(plan, store)
    store.write(base.key, Record({"n": 1}))
    assert not _is_over(plan, store)
    store.fail(maps.key, maps, "Error: odd")
    assert _is_over(plan, store), "the last training can never begin"


def test_sweeps_without_snapshots_and_other_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no sweep lies here"):
        evaluate_snapshots(tmp_path)
    prepare(experiment(snapshots=0), tmp_path / "sweep")
    with pytest.raises(InputError, match="keeps no snapshots; set 'snapshots'"):
        evaluate_snapshots(tmp_path / "sweep")
