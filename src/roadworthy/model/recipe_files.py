"""The recipes that come with the package, one file each, and recipes of your own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from roadworthy.errors import InputError, unknown_name
from roadworthy.model.recipe import Recipe
from roadworthy.registry import Registry
from roadworthy.yaml_files import read_yaml

_FOLDER = Path(__file__).with_name("recipes")
_FIELDS = tuple(field.name for field in fields(Recipe))
_NUMBERS = tuple(field.name for field in fields(Recipe) if field.type == "float")
# of these only one is meant: what is given puts the other one away
_EITHER: dict[str, dict[str, Any]] = {
    "epochs": {"total_steps": 0},
    "total_steps": {"epochs": 0},
    "schedule": {"steps": ()},
    "steps": {"schedule": "steps"},
}

recipes: Registry[Recipe] = Registry("recipe")


def load_recipe(spec: str | Path | Mapping[str, Any] | Recipe, **changes: Any) -> Recipe:
    """Return a recipe by its name, from a file or a mapping, with changes.

    A mapping, and a YAML file, which holds one, has the settings of :class:`Recipe`, a line of ``description`` if
    you like, and ``base``, the name of a recipe (or the path of a file) that gives all other settings. A length in
    ``epochs`` replaces one in ``total_steps`` and the other way round, and so do ``schedule`` and ``steps``.

    Args:
        spec: one of ``recipes``; a path that ends in ``.yaml`` or ``.yml``; a mapping; or a recipe.
        **changes: settings that replace those of ``spec``.

    Returns:
        The recipe.

    Raises:
        InputError: an unknown name or setting (with the one that was likely meant), a file that is not there or
            holds something else, or values out of range.

    Example:
        >>> load_recipe("imagenet").peak_rate
        1.6
        >>> load_recipe({"base": "imagenet", "batch_size": 512}, epochs=1, warmup_epochs=0).peak_rate
        0.2
        >>> load_recipe("digits", learning_rat=1)
        Traceback (most recent call last):
            ...
        roadworthy.errors.InputError: Unknown recipe setting 'learning_rat'. Did you mean 'learning_rate'? Known: \
aspect, batch_size, bf16, channels_last, crop_padding, decay_biases, drop_last, epochs, flip, interpolation, \
label_smoothing, learning_rate, momentum, nesterov, random_resized_crop, rate_per, schedule, steps, total_steps, \
warmup_epochs, weight_decay.
    """
    return _made(_changed(_settings(spec, ()), changes), spec)


def _settings(spec: object, seen: tuple[str, ...]) -> dict[str, Any]:
    if isinstance(spec, Recipe):
        return asdict(spec)
    if isinstance(spec, Mapping):
        given = dict(spec)
        given.pop("description", None)
        base = given.pop("base", None)
        return _changed({} if base is None else _settings(base, seen), given)
    if isinstance(spec, (str, Path)) and Path(spec).suffix in (".yaml", ".yml"):
        path = str(Path(spec).resolve())
        if path in seen:
            raise InputError(f"recipe: {str(spec)!r} is its own base")
        return _settings(read_yaml(Path(spec)), (*seen, path))
    if isinstance(spec, str):
        return asdict(recipes[spec])
    raise InputError(
        f"recipe: got {type(spec).__name__}, expected a name, the path of a .yaml file, a mapping or a Recipe"
    )


def _changed(settings: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    for name in changes:
        if name not in _FIELDS:
            raise unknown_name("recipe setting", name, _FIELDS)
    out = dict(settings)
    for name in changes:
        out.update({other: value for other, value in _EITHER.get(name, {}).items() if other not in changes})
    return out | dict(changes)


def _made(settings: Mapping[str, Any], spec: object) -> Recipe:
    if "learning_rate" not in settings:
        raise InputError(f"recipe: {spec!r} has no learning_rate; give one, or base= the name of a recipe")
    return Recipe(**{name: _value(name, value) for name, value in settings.items()})


def _value(name: str, value: Any) -> Any:
    """Bring what YAML and JSON give to the types of a recipe: tuples, and numbers such as 1e-4."""
    if isinstance(value, list):
        return tuple(_value(name, part) for part in value)
    if isinstance(value, str) and name in _NUMBERS:
        try:
            return float(value)
        except ValueError:
            return value  # the recipe says what is wrong
    return value


def _register() -> None:
    for path in sorted(_FOLDER.glob("*.yaml")):
        content = read_yaml(path)
        recipes.add(path.stem, load_recipe(content), content["description"])


_register()
