"""``roadworthy sources``: what can be named on the command line."""

from __future__ import annotations

from typing import Any

from roadworthy.cli.console import out, print_json
from roadworthy.cli.options import JsonOption
from roadworthy.registry import Registry


def sources(as_json: JsonOption = False) -> None:
    """List by name what can be chosen: data sets, models, methods, fills, strategies, perturbations and more."""
    from rich.text import Text

    from roadworthy.attribution import methods
    from roadworthy.data import sources as data_sets
    from roadworthy.evaluation import presets
    from roadworthy.imputation import imputers
    from roadworthy.labelfree.corruptions import corruptions
    from roadworthy.labelfree.estimators import estimators
    from roadworthy.labelfree.perturbation import perturbations
    from roadworthy.model import models, recipes

    registries: dict[str, Registry[Any]] = {
        "data sets (--data)": data_sets,
        "models (--model)": models,
        "methods (--methods)": methods,
        "imputers (--imputer)": imputers,
        "strategies (--strategy)": presets,
        "recipes (--recipe)": recipes,
        "perturbations (--perturbation)": perturbations,
        "corruptions (--corruptions)": corruptions,
        "estimators of accuracy": estimators,
    }
    if as_json:
        print_json(
            {
                title.split(" (")[0]: {name: registry.describe(name) for name in registry}
                for title, registry in registries.items()
            }
        )
        return
    for title, registry in registries.items():
        out.print(Text(title, style="bold"))
        width = max(len(name) for name in registry)
        for name in registry:
            out.print(Text(f"  {name:<{width}}  {registry.describe(name)}"), soft_wrap=True)
