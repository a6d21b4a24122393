"""Test curves: every snapshot of every training, scored once on that training's own degraded test split.

For looking at only: nothing is chosen by a test curve. It runs beside a sweep or after it.
"""

from __future__ import annotations

import contextlib
import csv
import io
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from roadworthy.errors import DataError, InputError, ModelError, RoadworthyWarning
from roadworthy.sweep.collate import read_plan
from roadworthy.sweep.locks import held
from roadworthy.sweep.store import Store

if TYPE_CHECKING:
    from roadworthy.sweep.job import Job
    from roadworthy.sweep.plan import Plan

CURVES = "curves.csv"
_NAME = re.compile(r"epoch-(\d{5,})\.safetensors")


@dataclass(frozen=True)
class Row:
    """One snapshot's scores on the whole test split.

    Attributes:
        key: of the training.
        training: what it is, in words.
        epoch: epochs done.
        n: test samples.
        top1: share of samples whose label is the first answer.
        top5: share of samples whose label is among the first five.
        loss: mean cross-entropy, without label smoothing or weight decay.
    """

    key: str
    training: str
    epoch: int
    n: int
    top1: float
    top5: float
    loss: float


class Curves:
    """An append-only table: a row is there whole or not at all, whenever the process is killed.

    Args:
        path: a CSV file; made when missing. The end of one that was cut in mid-row is cut back to the last whole row.

    Example:
        >>> import tempfile
        >>> curves = Curves(Path(tempfile.mkdtemp()) / "curves.csv")
        >>> curves.append(Row("a", "unmodified, repeat 0", 1, 10, 0.5, 1.0, 1.25))
        >>> [row.epoch for row in Curves(curves.path).rows]
        [1]
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[Row] = []
        if not path.is_file():
            return
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(path, len(whole))
        for number, line in enumerate(csv.reader(io.StringIO(whole.decode("utf8"))), start=1):
            if line != _HEADER:
                self.rows.append(_row(line, f"{path}, row {number}"))

    @property
    def done(self) -> set[tuple[str, int]]:
        """Key and epoch of each row."""
        return {(row.key, row.epoch) for row in self.rows}

    def append(self, row: Row) -> None:
        """Add a row, and see to it that it is on the disk."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not self.path.exists() or self.path.stat().st_size == 0:
            writer.writerow(_HEADER)
        writer.writerow(astuple(row))
        with open(self.path, "ab", buffering=0) as handle:
            handle.write(text.getvalue().encode("utf8"))
            os.fsync(handle.fileno())
        self.rows.append(row)


_HEADER = [field.name for field in fields(Row)]


def _row(line: list[str], where: str) -> Row:
    try:
        key, training, epoch, n, *scores = line
        top1, top5, loss = map(float, scores)
        return Row(key, training, int(epoch), int(n), top1, top5, loss)
    except ValueError as error:
        raise DataError(
            f"{where}: {','.join(line)[:80]!r} is no row of test curves; move the file away and run again"
        ) from error


def evaluate_snapshots(
    folder: str | Path,
    *,
    watch: bool = False,
    device: str = "cpu",
    pause: float = 2.0,
    on_row: Callable[[Row], None] | None = None,
) -> list[Row]:
    """Score the snapshots of a sweep that have no row in its ``curves.csv`` yet.

    Args:
        folder: the sweep's folder; its experiment has ``snapshots`` above 0.
        watch: go on until every training is finished, failed or cannot begin, and all snapshots are scored.
        device: where to compute.
        pause: seconds between looks, with ``watch``.
        on_row: called with each new row.

    Returns:
        All rows of the sweep's trainings, old and new, by training and epoch.

    Raises:
        DataError: no sweep lies there.
        InputError: the sweep keeps no snapshots, or another process is scoring them.
    """
    place = Path(folder).expanduser()
    plan = read_plan(place)
    if not plan.runtime["snapshots"] and not (place / "snapshots").is_dir():
        raise InputError(
            f"{place}: this sweep keeps no snapshots; set 'snapshots' in its experiment to the number of epochs "
            "between two of them, for instance --set snapshots=1"
        )
    with _alone(place) as ours:
        if not ours:
            raise InputError(
                f"{place}: snapshots are being scored already, by another process or thread; wait for it to end, or "
                f"read {CURVES} as it grows"
            )
        return _evaluated(place, plan, watch=watch, device=device, pause=pause, on_row=on_row)


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[bool]:
    """Give whether this process is the only one at the table; nobody can be in a folder that cannot be written."""
    if not os.access(place, os.W_OK):
        yield True
        return
    with held(place / ".eval.lock", wait=False) as ours:
        yield ours


def _evaluated(
    place: Path, plan: Plan, *, watch: bool, device: str, pause: float, on_row: Callable[[Row], None] | None
) -> list[Row]:
    """Score what is new, by the only one who writes the table."""
    curves, broken = Curves(place / CURVES), set[Path]()
    while True:
        over = not watch or _is_over(plan, Store(place))  # asked first: what comes before the end is scored below
        new = 0
        for job in plan.of_kind("train"):
            for row in _new_rows(place, job, device, curves.done, broken):
                curves.append(row)
                new += 1
                if on_row is not None:
                    on_row(row)
        if over and not new:
            break
        if not over:
            time.sleep(0 if new else pause)
        plan = read_plan(place)  # an experiment that was changed meanwhile has other trainings
    known = {job.key: place for place, job in enumerate(plan.of_kind("train"))}
    return sorted((row for row in curves.rows if row.key in known), key=lambda row: (known[row.key], row.epoch))


def _is_over(plan: Plan, store: Store) -> bool:
    there, failed = store.finished(), set(store.failures())
    for job in plan.jobs:  # in an order in which they can be done
        if job.key not in there and any(need in failed for need in job.needs):
            failed.add(job.key)
    return all(job.key in there or job.key in failed for job in plan.of_kind("train"))


def snapshots(folder: Path, key: str) -> dict[int, Path]:
    """Return the snapshots of a training by the number of epochs done, ascending."""
    found: dict[int, Path] = {}
    with contextlib.suppress(FileNotFoundError):
        for path in sorted((folder / "snapshots" / key).iterdir()):
            name = _NAME.fullmatch(path.name)
            if name is not None:
                found[int(name[1])] = path
    return found


def _new_rows(folder: Path, job: Job, device: str, done: set[tuple[str, int]], broken: set[Path]) -> Iterator[Row]:
    todo = {
        epoch: path
        for epoch, path in snapshots(folder, job.key).items()
        if (job.key, epoch) not in done and path not in broken
    }
    if not todo:
        return
    from roadworthy.evaluation.retrain import score
    from roadworthy.model import Normalized, load_weights
    from roadworthy.sweep.subject import fresh_network
    from roadworthy.sweep.trial import Trial

    trial = Trial(folder, job, device)
    split, model = trial.test_split(), fresh_network(job.spec["model"], trial.data, 0).to(device)
    for epoch, path in todo.items():
        try:
            # kept without the layer that normalises
            load_weights(model.body if isinstance(model, Normalized) else model, path)
        except ModelError as error:
            if not path.exists():  # deleted by its owner since
                continue
            broken.add(path)
            warnings.warn(f"this snapshot is left out: {error}", RoadworthyWarning, stacklevel=2)
            continue
        yield _scored(job, epoch, score(model, split, max_batch=trial.runtime["max_batch"]))


def _scored(job: Job, epoch: int, found: dict[str, Any]) -> Row:
    top1, top5 = (round(float(found[name].mean()), 6) for name in ("top1", "top5"))
    return Row(job.key, job.label, epoch, len(found["ids"]), top1, top5, round(float(found["loss"]), 6))
