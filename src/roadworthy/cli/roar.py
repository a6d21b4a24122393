"""``roadworthy roar``: a sweep of retrainings from options alone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from roadworthy.cli import sweep_options as given
from roadworthy.cli.options import JsonOption, out_option
from roadworthy.cli.run import launch
from roadworthy.cli.sweep_options import Engine, overrides


def roar(
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
    assignments: given.SetOption = None,
    folder: Annotated[Path, out_option("roadworthy-roar")] = Path("roadworthy-roar"),
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
    """Retrain without the most important pixels, and rank attribution methods by what is lost; digits by default.

    Stopped, the same command goes on. The folder keeps the experiment as a file for ``roadworthy run``.
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
    return launch(None, changes, folder, where, plan=plan, smoke=smoke, retry_failed=retry_failed, as_json=as_json)
