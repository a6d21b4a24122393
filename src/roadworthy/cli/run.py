"""``roadworthy run``: a sweep of retrainings from an experiment file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli import sweep_options as given
from roadworthy.cli.console import print_json, say
from roadworthy.cli.options import JsonOption
from roadworthy.cli.plan import plan_record, show_plan
from roadworthy.cli.sweep_options import Engine, overrides
from roadworthy.cli.sweep_report import refresh, refreshed, show_records, tell_failures
from roadworthy.cli.trials import Trials
from roadworthy.errors import InputError

if TYPE_CHECKING:
    from roadworthy.sweep.experiment import Experiment

__all__ = ["launch", "refresh", "run"]

FAILED = 1
_LATE = ("keep_weights", "snapshots")  # what leaves files behind and no result depends on


def run(
    file: Annotated[Path, typer.Argument(metavar="EXPERIMENT.yaml", help="The experiment; paths in it start there.")],
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder for everything that is written; runs/NAME by default.")
    ] = None,
    assignments: given.SetOption = None,
    data: given.DataOption = None,
    size: given.SizeOption = None,
    model: given.ModelOption = None,
    weights: given.WeightsOption = None,
    normalize: given.NormalizeOption = None,
    methods: given.MethodsOption = None,
    strategy: given.StrategyOption = None,
    recipe: given.RecipeOption = None,
    fractions: given.FractionsOption = None,
    order: given.OrderOption = None,
    imputer: given.ImputerOption = None,
    repeats: given.RepeatsOption = None,
    seed: given.SeedOption = None,
    plan: given.PlanOption = False,
    smoke: given.SmokeOption = False,
    retry_failed: given.RetryOption = False,
    engine: given.EngineOption = "auto",
    workers: given.WorkersOption = None,
    threads: given.ThreadsOption = 1,
    address: given.AddressOption = "auto",
    cpus: given.CpusOption = 1.0,
    gpus: given.GpusOption = 0.0,
    device: given.DeviceOption = None,
    as_json: JsonOption = False,
) -> int:
    """Retrain on degraded data as an experiment file says, rank the methods and write the report.

    Stopped, the same command goes on; options win over the file.
    """
    changes = overrides(
        assignments,
        data=data,
        size=size,
        model=model,
        weights=weights,
        normalize=normalize,
        methods=methods,
        strategy=strategy,
        recipe=recipe,
        fractions=fractions,
        order=order,
        imputer=imputer,
        repeats=repeats,
        seed=seed,
    )
    where = Engine(engine, workers, threads, address, cpus, gpus, device)
    place = folder or Path("runs") / file.stem
    return launch(file, changes, place, where, plan=plan, smoke=smoke, retry_failed=retry_failed, as_json=as_json)


def launch(
    file: Path | None,
    changes: dict[str, Any],
    folder: Path,
    engine: Engine,
    *,
    plan: bool,
    smoke: bool,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Read the experiment, plan it or run it in its folder, and print what came out.

    Returns:
        The exit status: 0, or 1 if jobs failed.
    """
    from roadworthy.sweep import experiment as experiments

    wanted = experiments.load_experiment(file, changes)
    if smoke:
        wanted, folder = experiments.smoke(wanted), Path(f"{folder}-smoke")
        say(f"A trial of the whole way, in {folder}; its numbers mean nothing.")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} is a file, expected a folder")
    _compare_with_earlier(wanted, folder)
    if plan:
        _print_plan(wanted, folder, engine, as_json)
        return 0
    return _run(wanted, folder, engine, retry_failed=retry_failed, as_json=as_json)


def _compare_with_earlier(wanted: Experiment, folder: Path) -> None:
    """Say what is not as in the run that lies in the folder; refuse one of other data."""
    from roadworthy.sweep.experiment import changed_keys, fingerprint, load_experiment

    path = folder / "experiment.yaml"
    if not path.is_file():
        if (folder / "result.json").exists():
            raise InputError(f"--out: {folder} holds the result of something else than a sweep; name another folder")
        return
    if _noted(folder) == fingerprint(wanted):
        return
    from roadworthy.sweep.checks import check_names, completed

    check_names(wanted)
    changed = changed_keys(completed(load_experiment(path)), completed(wanted))
    if any(key.split(".")[0] == "data" for key in changed):
        raise InputError(
            f"--out: {folder} holds a sweep of other data ({', '.join(changed)} changed); name another folder"
        )
    if changed:
        say(f"{folder} holds an earlier run with other settings; changed: {', '.join(changed)}.")
        say("What does not depend on them is kept, and only the rest is run.")
    late = [key for key in changed if key in _LATE]
    if late:
        say(f"{' and '.join(late)}: holds for trainings that are still to do, not for finished ones.")


def _noted(folder: Path) -> str | None:
    """Return the fingerprint of the experiment that was planned in a folder."""
    try:
        return str(json.loads((folder / "runtime.json").read_text(encoding="utf8"))["made"]["experiment"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _print_plan(wanted: Experiment, folder: Path, engine: Engine, as_json: bool) -> None:
    from roadworthy.sweep.estimate import estimate
    from roadworthy.sweep.run import plan_of
    from roadworthy.sweep.store import Store
    from roadworthy.sweep.subject import open_data

    found = plan_of(wanted)
    store = Store(folder)
    finished = store.finished() & {job.key for job in found.jobs}
    left = len(found.jobs) - len(finished)
    data = open_data(wanted.data.model_dump(mode="json"))
    device = "cpu" if engine.name == "ray" else engine.devices()[0]
    say("Measuring a few steps of the real work ...")
    workers = engine.width(left, wanted.processes_per_trial)
    guess = estimate(wanted, found, data, finished=finished, workers=workers, threads=engine.threads, device=device)
    failed = set(store.failures()) & {job.key for job in found.jobs}
    if as_json:
        print_json(plan_record(wanted, found, finished, failed, guess))
    else:
        show_plan(found, finished, failed, guess)


def _run(wanted: Experiment, folder: Path, engine: Engine, *, retry_failed: bool, as_json: bool) -> int:
    from roadworthy.sweep.run import prepare, run_experiment
    from roadworthy.sweep.store import Store

    found = prepare(wanted, folder)
    keys = {job.key for job in found.jobs}
    executor = engine.executor(len(keys - Store(folder).finished()), wanted.processes_per_trial)
    with Trials(found.jobs, executor) as trials:
        outcome = run_experiment(wanted, folder, executor=executor, retry_failed=retry_failed, on_event=trials)
    tell_failures(folder, outcome.failed, len(outcome.blocked))
    records = refreshed(folder)
    if as_json:
        print_json({"results": records, "failed": len(outcome.failed), "blocked": len(outcome.blocked)})
    else:
        show_records(records)
    return FAILED if outcome.failed else 0
