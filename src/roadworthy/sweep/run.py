"""Run an experiment in a folder: plan it, or take the plan that is there, do what is not done, and collate."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import roadworthy
from roadworthy.errors import DataError
from roadworthy.files import replacing
from roadworthy.sweep.collate import Collected, collate, read_plan
from roadworthy.sweep.experiment import Experiment, SavedMaps, dump
from roadworthy.sweep.places import withdraw_lost
from roadworthy.sweep.plan import Plan, plan
from roadworthy.sweep.schedule import Outcome, run_jobs
from roadworthy.sweep.stamps import stamp_of_files, stamp_of_source
from roadworthy.sweep.store import Store

if TYPE_CHECKING:
    from roadworthy.sweep.executors import Executor

PERFORM = "roadworthy.sweep.trial:perform"  # by name: a finished sweep is resumed without torch


def run_experiment(
    experiment: Experiment,
    folder: str | Path,
    *,
    executor: Executor,
    retry_failed: bool = False,
    on_event: Any = None,
) -> Outcome:
    """Do what an experiment asks for and the folder does not hold yet.

    Stopped at any moment, the same call goes on: finished trainings are kept, an unfinished one resumes from its
    checkpoint. An experiment that was changed runs only what depends on the change.

    Args:
        experiment: see :func:`roadworthy.sweep.experiment.load_experiment`.
        folder: the sweep's folder, made when missing.
        executor: where jobs are done, see :mod:`roadworthy.sweep.executors`.
        retry_failed: do failed jobs again.
        on_event: see :func:`roadworthy.sweep.schedule.run_jobs`.

    Returns:
        What was finished, failed or blocked.

    Raises:
        InputError: names that nothing is known by, before anything is trained.
    """
    found, store = prepare(experiment, folder), Store(folder)
    withdraw_lost(found.jobs, store, thorough=retry_failed)
    return run_jobs(found.jobs, store, executor, work=PERFORM, on_event=on_event, retry_failed=retry_failed)


def prepare(experiment: Experiment, folder: str | Path) -> Plan:
    """Return the plan of an experiment, and write it with the experiment into the folder.

    If the same experiment was planned there before, with this version and data that have not changed since, the plan
    is taken from there without loading the data.

    Args:
        experiment: what to do.
        folder: the sweep's folder.
    """
    place = Path(folder).expanduser()
    made = {"experiment": _hash(dump(experiment)), "version": roadworthy.__version__, "files": stamp(experiment)}
    there = _planned(place)
    if there is not None and made["files"] is not None and there.runtime.get("made") == made:
        _write_runtime(place, there)
        return there
    from roadworthy.sweep.checks import completed

    found = plan_of(experiment)
    known = {} if there is None else there.runtime["files"]
    files = {**known, **found.runtime["files"]}  # jobs of an earlier experiment may still be running
    found = Plan(found.jobs, found.points, found.facts, {**found.runtime, "files": files, "made": made})
    _write_runtime(place, found)
    _keep_older(place / "experiment.yaml", dump(completed(experiment)))
    _write(place / "plan.json", found.to_json())
    return found


def plan_of(experiment: Experiment) -> Plan:
    """Check an experiment's names, open its data, and lay out its jobs; writes nothing."""
    from roadworthy.sweep.checks import check_names
    from roadworthy.sweep.subject import open_data

    check_names(experiment)
    return plan(experiment, open_data(experiment.data.model_dump(mode="json")))


def save_results(folder: str | Path) -> tuple[Collected, dict[str, Path]]:
    """Put together what a sweep's folder holds, and save each imputer's result.

    Args:
        folder: the sweep's folder; with one imputer its result lies there, else in a folder below for each. The
            comparison without retraining lies in ``road``.

    Returns:
        What there is, and the folder of each imputer's result.
    """
    place = Path(folder).expanduser()
    found = read_plan(place)
    collected = collate(found, Store(place))
    places = {name: place if len(found.points) == 1 else place / name for name in collected.results}
    for name, result in collected.results.items():
        result.save(places[name])
    if collected.road is not None:
        collected.road.save(place / "road")
    return collected, places


def stamp(experiment: Experiment) -> str | None:
    """Hash names, sizes and times of the files an experiment reads; None where they cannot be known."""
    if ":" in experiment.model.name and not experiment.model.name.startswith(("torchvision:", "timm:")):
        return None  # code of the user's own, which may have changed
    paths = [path for path in (experiment.model.weights,) if path is not None]
    for method in experiment.methods.values():
        if isinstance(method, SavedMaps):
            paths += [path.removeprefix("tfrecord:") for path in (method.train, method.test)]
    parts = (stamp_of_source(experiment.data.source), stamp_of_files(paths))
    return None if None in parts else _hash(" ".join(map(str, parts)))


def _planned(place: Path) -> Plan | None:
    """Return the plan that lies in a folder, if there is one that can be read."""
    try:
        return read_plan(place)
    except DataError:
        return None


def _write_runtime(place: Path, found: Plan) -> None:
    """Write what jobs read at their start, unless it is there as it should be."""
    path, text = place / "runtime.json", json.dumps(found.runtime, indent=1)
    try:
        there = path.read_text(encoding="utf8")
    except (OSError, ValueError):
        there = ""
    if there != text:
        _write(path, text)


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _write(path: Path, text: str) -> None:
    with replacing(path) as beside:
        beside.write_text(text, encoding="utf8")


def _keep_older(path: Path, text: str) -> None:
    """Write the experiment; one that was there and differs is kept under a number."""
    try:
        older = path.read_text(encoding="utf8")
    except FileNotFoundError:
        older = text
    except (OSError, ValueError) as error:
        raise DataError(f"{path} cannot be read ({error}); move it away and run again") from error
    if older != text:
        number = 1
        while (kept := path.with_name(f"experiment-{number}.yaml")).exists():
            number += 1
        _write(kept, older)
    _write(path, text)
