"""Names in an experiment, held against what there is; the part of validation that loads torch."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from roadworthy.errors import InputError, unknown_name

if TYPE_CHECKING:
    from roadworthy.attribution import Settings
    from roadworthy.sweep.experiment import Experiment


def check_names(experiment: Experiment) -> None:
    """Refuse names that nothing is known by, and files that are not there, before anything is trained.

    Args:
        experiment: what :func:`load_experiment` returned.

    Raises:
        InputError: an unknown strategy, method, imputer, recipe, model, data source or setting (with a suggestion), a
            strategy that does not retrain, or saved maps that are not there.
    """
    _check_strategy(experiment)
    _check_methods(experiment)
    _check_sources(experiment)


def _check_strategy(experiment: Experiment) -> None:
    from roadworthy.evaluation import Strategy
    from roadworthy.imputation import resolve_imputer
    from roadworthy.model import load_recipe

    strategy = Strategy.of(experiment.strategy)
    if strategy.training != "retrain":
        raise InputError(
            f"strategy: {experiment.strategy!r} trains nothing, expected one that retrains such as 'roar'; "
            f"for this one use: roadworthy road --strategy {experiment.strategy}"
        )
    for imputer in experiment.imputers or ():
        resolve_imputer(imputer)
    load_recipe(experiment.recipe)


def _check_methods(experiment: Experiment) -> None:
    from roadworthy.attribution import open_maps
    from roadworthy.attribution.requests import parse

    made = {name: source for name, source in experiment.methods.items() if isinstance(source, str)}
    if made:
        parse(made)
    for saved in experiment.methods.values():
        if not isinstance(saved, str):
            for path in (saved.train, saved.test):
                open_maps(path).close()
    map_settings(experiment)


def _check_sources(experiment: Experiment) -> None:
    from roadworthy.data import sources
    from roadworthy.model import models

    sources[experiment.data.source.partition(":")[0]]
    name = experiment.model.name.partition(":")[0]
    if ":" not in experiment.model.name:
        models[name]


def map_settings(experiment: Experiment) -> Settings:
    """Return the parameters of the attribution methods.

    Raises:
        InputError: an unknown set, an unknown parameter, or a value that it cannot have.
    """
    from roadworthy.attribution.settings import Settings, named

    given = experiment.maps.settings
    if isinstance(given, str):
        return named(given)
    changes: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    base = named(changes.pop("base", "road"))
    known = [field.name for field in dataclasses.fields(Settings)]
    for key in changes:
        if key not in known:
            raise unknown_name("setting in maps.settings", key, known)
    try:
        return dataclasses.replace(base, **changes)
    except TypeError as error:
        raise InputError(f"maps.settings: {error}") from error


def completed(experiment: Experiment) -> Experiment:
    """Return the experiment with the strategy's own values, the recipe and the parameters of maps written out.

    The jobs of both are the same; this one says all that they follow from.

    Raises:
        InputError: a name that nothing is known by.
    """
    from roadworthy.evaluation import Strategy
    from roadworthy.model import load_recipe

    names = ("order", "fractions", "noise", "unit", "sign", "reduction", "random_masks")
    strategy = Strategy.of(experiment.strategy, **{name: getattr(experiment, name) for name in names})
    found: dict[str, Any] = {name: getattr(strategy, name) for name in names}
    found["imputers"] = experiment.imputers or (strategy.imputer,)
    found["recipe"] = _listed(dataclasses.asdict(load_recipe(experiment.recipe)))
    settings = _listed(dataclasses.asdict(map_settings(experiment)))
    found["maps"] = experiment.maps.model_copy(update={"settings": settings})
    return experiment.model_copy(update=found)


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(entry) for key, entry in value.items()}
    return [_listed(entry) for entry in value] if isinstance(value, tuple) else value
