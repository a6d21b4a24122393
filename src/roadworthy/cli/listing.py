"""What lies in a folder: runs, sweeps, stores of maps and files of features, told by their heads alone."""

from __future__ import annotations

import csv
import itertools
import json
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote

DEPTH = 4
_ENTRIES = 10_000  # a folder with more is one of data, and is not looked through
_BYTES = 1 << 29  # of a head; a file that is larger is none
_MAPS = "roadworthy-maps"  # as roadworthy.attribution.saved has it, which loads torch
# folders that belong to what lies beside them
_INSIDE = {"trials", "failed", "scratch", "claims", "writing", "damaged", "models", "blocks", "maps", "maps.zarr"}
_FEATURES = (".h5", ".hdf5")


@dataclass(frozen=True)
class Listed:
    """A run, or what else a command wrote.

    Attributes:
        path: where it lies.
        kind: the strategy of an evaluation, ``"sweep"``, ``"label-free"``, ``"maps"``, ``"features"``,
            ``"rank-k"`` or ``"comparison"``.
        when: when it was written, in local time.
        n: samples; None where not known.
        methods: number of methods; None where there are none.
        best: the method ranked first, or the estimator.
        value: its score, or the estimate.
        state: ``"finished"``, ``"unfinished: ..."`` or ``"unreadable: ..."``, with what is missing or wrong.
    """

    path: Path
    kind: str
    when: str
    n: int | None = None
    methods: int | None = None
    best: str = ""
    value: float | None = None
    state: str = "finished"


def listed(folder: Path, *, depth: int = DEPTH) -> Iterator[Listed]:
    """Find what lies in a folder and below it; nothing that is found there makes it fail.

    Args:
        folder: where to look.
        depth: levels of folders to look through, the given one counted as 0.

    Yields:
        A row for everything known, by path.
    """
    seen: set[tuple[int, int]] = set()
    yield from _walk(folder, depth, seen)


def _walk(folder: Path, depth: int, seen: set[tuple[int, int]]) -> Iterator[Listed]:
    try:
        status = folder.stat()
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in itertools.islice(entries, _ENTRIES + 1))
    except OSError as error:
        yield Listed(folder, "folder", "", state=f"unreadable: {error.strerror or error}")
        return
    if (status.st_dev, status.st_ino) in seen or len(names) > _ENTRIES:  # a link that leads back, or data
        return
    seen.add((status.st_dev, status.st_ino))
    if "zarr.json" in names:
        yield from _guarded(folder, "maps", folder / "zarr.json", _maps)
        return
    head = next((name for name in _HEADS if name in names), None)
    if head is not None:
        kind, read = _HEADS[head]
        yield from _guarded(folder, kind, folder / head, read)
    elif "run.json" in _names(folder / "blocks"):
        yield from _guarded(folder, "evaluation", folder / "blocks" / "run.json", _begun)
    for name in names:
        path = folder / name
        if name.endswith(_FEATURES) and not name.startswith("."):
            yield from _guarded(path, "features", path, _features)
        elif name.startswith(".") and name.endswith(".partial"):
            yield from _guarded(folder / name[1:].removesuffix(".partial"), "features", path, _partial)
        elif depth > 0 and not name.startswith(".") and not (head is not None and name in _INSIDE) and path.is_dir():
            yield from _walk(path, depth - 1, seen)


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _guarded(path: Path, kind: str, head: Path, read: Callable[[Listed, Path], Listed | None]) -> Iterator[Listed]:
    """Yield the row that a head gives, or one that says why it gives none; None is nothing of ours."""
    row = Listed(path, kind, "")
    try:
        status = head.stat()
        row = replace(
            row, when=datetime.fromtimestamp(status.st_mtime, UTC).astimezone().isoformat(timespec="seconds")
        )
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):  # a pipe would never answer
            raise ValueError(f"{head.name} is no file")
        if not head.is_dir() and status.st_size > _BYTES:
            raise ValueError(f"{head.name} has {status.st_size:,} bytes")
        found = read(row, head)
    except Exception as error:  # whatever a strange file raises: the others are listed still
        found = replace(row, state=f"unreadable: {_line(error)}")
    if found is not None:
        yield found


def _line(error: Exception) -> str:
    if isinstance(error, (KeyError, json.JSONDecodeError, UnicodeDecodeError)):
        return f"damaged ({type(error).__name__}: {' '.join(str(error).split())[:120]})"
    return (" ".join(str(error).split()) or type(error).__name__)[:200]


def _object(path: Path) -> dict[str, Any]:
    found = json.loads(path.read_text(encoding="utf8"))
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} holds a {type(found).__name__}, expected an object")
    return found


def _evaluation(row: Listed, head: Path) -> Listed:
    found = _object(head)
    best, value = _first(head.parent / "ranking.csv")
    lacking = [str(line).partition(": ")[0] for line in found.get("missing", [])]
    state = f"unfinished: {'; '.join(lacking)}" if lacking else "finished"
    if not (head.parent / "per_sample.parquet").is_file():
        state = "unreadable: per_sample.parquet is missing"
    kind = str(found["settings"].get("strategy") or row.kind)
    count, methods = len(found["ids"]), len(found["methods"])
    return replace(row, kind=kind, n=count, methods=methods, best=best, value=value, state=state)


def _first(path: Path) -> tuple[str, float | None]:
    """Return the method ranked first and its score; what is withheld has neither rank nor score."""
    if not path.is_file():
        return "", None
    try:
        with open(path, encoding="utf8", newline="") as file:
            for line in csv.DictReader(file):
                if line["rank"] and float(line["rank"]) == 1 and line["score"]:
                    return line["method"], float(line["score"])
    except (OSError, ValueError, KeyError, TypeError, csv.Error):
        pass  # the run may be read without it
    return "", None


def _begun(row: Listed, head: Path) -> Listed:
    about = _object(head).get("key", {})
    blocks = sum(name.startswith("block-") for name in _names(head.parent))
    strategy = about.get("strategy") if isinstance(about, dict) else None
    kind = strategy.get("strategy") if isinstance(strategy, dict) else None
    state = f"unfinished: {blocks} blocks are done, result.json is missing; the same command goes on"
    return replace(row, kind=str(kind or row.kind), state=state)


def _sweep(row: Listed, head: Path) -> Listed:
    from roadworthy.sweep.collate import read_plan
    from roadworthy.sweep.store import Store

    plan = read_plan(head.parent)
    keys = {job.key for job in plan.jobs}
    store = Store(head.parent)
    done = len(keys & store.finished())
    failed = len(keys & set(store.failures()))
    state = "finished" if done == len(keys) else f"unfinished: {done} of {len(keys)} jobs are done"
    state += f", {failed} failed" if failed else ""
    row = replace(row, methods=len(plan.facts["methods"]), state=state)
    if (head.parent / "result.json").is_file():
        own = _evaluation(row, head.parent / "result.json")
        row = replace(row, n=own.n, best=own.best, value=own.value)
    return row


def _labelfree(row: Listed, head: Path) -> Listed:
    found = _object(head)
    live = found["estimate"] or {}
    state = "finished" if (head.parent / "samples.parquet").is_file() else "unreadable: samples.parquet is missing"
    value = live.get("accuracy")
    best = str(live["chosen"]) if value is not None else ""
    return replace(row, n=int(found["n"]), best=best, value=None if value is None else float(value), state=state)


def _comparison(row: Listed, head: Path) -> Listed:
    found = _object(head)
    return replace(row, best=", ".join(map(str, found["runs"])))


def _rank_k(row: Listed, head: Path) -> Listed:
    found = _object(head)
    return replace(row, n=int(found["n"]), best=f"rank-{found['k'][0]}", value=float(found["accuracy"][0]))


def _maps(row: Listed, head: Path) -> Listed | None:
    attributes = _object(head).get("attributes", {})
    if not isinstance(attributes, dict) or attributes.get("format") != _MAPS:
        return None
    methods = [unquote(name) for name in _names(head.parent / "maps") if name != "zarr.json"]
    count = _object(head.parent / "ids" / "zarr.json")["attributes"].get("finished", 0)
    state = "finished" if attributes.get("complete") else f"unfinished: maps of {count} samples are done"
    return replace(row, n=int(count), methods=len(methods), best=", ".join(sorted(methods)), state=state)


def _features(row: Listed, head: Path) -> Listed | None:
    import h5py

    with h5py.File(head, "r") as file:
        features = file.get("features")
        if not isinstance(features, h5py.Dataset) or features.ndim != 2 or "labels" not in file:
            return None
        count, dimension = features.shape
        return replace(row, n=int(count), best=f"{dimension} features")


def _partial(row: Listed, head: Path) -> Listed:
    parts = sum(name.startswith("part-") for name in _names(head))
    return replace(row, state=f"unfinished: {parts} parts are done; the same command goes on")


# in this order: a sweep of one fill holds a result as well
_HEADS: dict[str, tuple[str, Callable[[Listed, Path], Listed | None]]] = {
    "plan.json": ("sweep", _sweep),
    "result.json": ("evaluation", _evaluation),
    "labelfree.json": ("label-free", _labelfree),
    "comparison.json": ("comparison", _comparison),
    "rank-k.json": ("rank-k", _rank_k),
}
