"""Paths in an experiment, made absolute: an experiment means the same wherever it is read."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_WITH_PATH = ("folder", "parquet", "tfrecord", "hdf5", "fashion-mnist")  # sources whose argument is a path
RECORDS = "tfrecord:"  # in front of a pattern of record files that hold maps
_WEIGHTS = (".safetensors", ".pt", ".pth")


def anchored(path: Any, base: Path | None = None) -> Any:
    """Return a path made absolute: from ``base``, the current folder by default; ``~`` is the user's home.

    Environment variables are not expanded. What is no text comes back as it is, for the check that follows.

    Example:
        >>> anchored("maps.zarr", Path("/runs/a")), anchored("../maps.zarr", Path("/runs/a"))
        ('/runs/a/maps.zarr', '/runs/maps.zarr')
    """
    if not isinstance(path, str) or not path:
        return path
    return os.path.abspath(os.path.join(base or Path.cwd(), os.path.expanduser(path)))


def absolute_source(spec: Any, base: Path | None = None) -> Any:
    """Return a data source with the path in it, if there is one, made absolute.

    Example:
        >>> absolute_source("parquet:cifar", Path("/data")), absolute_source("digits", Path("/data"))
        ('parquet:/data/cifar', 'digits')
    """
    if not isinstance(spec, str):
        return spec
    name, colon, argument = spec.partition(":")
    return f"{name}:{anchored(argument, base)}" if name in _WITH_PATH and colon and argument else spec


def absolute_weights(weights: Any, base: Path | None = None) -> Any:
    """Return weights made absolute where they are a file; the name of a published set stays.

    Example:
        >>> absolute_weights("last.pt", Path("/runs")), absolute_weights("IMAGENET1K_V1", Path("/runs"))
        ('/runs/last.pt', 'IMAGENET1K_V1')
    """
    is_file = isinstance(weights, str) and (os.sep in weights or weights.endswith(_WEIGHTS))
    return anchored(weights, base) if is_file else weights


def absolute_maps(path: Any, base: Path | None = None) -> Any:
    """Return a file of maps, or a pattern of record files behind its prefix, made absolute.

    Example:
        >>> absolute_maps("tfrecord:IG/train*", Path("/maps")), absolute_maps("ig.npy", Path("/maps"))
        ('tfrecord:/maps/IG/train*', '/maps/ig.npy')
    """
    if not is_record_pattern(path):
        return anchored(path, base)
    return f"{RECORDS}{anchored(path.removeprefix(RECORDS), base)}"


def is_record_pattern(source: Any) -> bool:
    """Tell whether a method's source is a pattern of record files, by its prefix."""
    return isinstance(source, str) and source.startswith(RECORDS)


def absolute_imputers(imputers: Any, base: Path | None = None) -> Any:
    """Return imputers with the file behind a colon, if there is one, made absolute; plain names stay.

    Example:
        >>> absolute_imputers(["mean", "gain:fill.safetensors"], Path("/runs"))
        ['mean', 'gain:/runs/fill.safetensors']
    """
    if isinstance(imputers, (list, tuple)):
        return [absolute_imputers(imputer, base) for imputer in imputers]
    if not isinstance(imputers, str) or ":" not in imputers:
        return imputers
    name, _, path = imputers.partition(":")
    return f"{name}:{anchored(path, base)}"


def absolute_recipe(recipe: Any, base: Path | None = None) -> Any:
    """Return a recipe with the file that it is, or begins with, made absolute; names stay.

    Example:
        >>> absolute_recipe({"base": "mine.yaml", "epochs": 3}, Path("/runs")), absolute_recipe("digits")
        ({'base': '/runs/mine.yaml', 'epochs': 3}, 'digits')
    """
    if isinstance(recipe, Mapping):
        return _with(recipe, "base", absolute_recipe, base)
    is_file = isinstance(recipe, str) and recipe.endswith((".yaml", ".yml"))
    return anchored(recipe, base) if is_file else recipe


def absolute_paths(content: Mapping[str, Any], base: Path) -> dict[str, Any]:
    """Return the content of an experiment file with all its paths made absolute from ``base``."""
    found = dict(content)
    if isinstance(found.get("data"), Mapping):
        found["data"] = _with(found["data"], "source", absolute_source, base)
    elif "data" in found:
        found["data"] = absolute_source(found["data"], base)
    if isinstance(found.get("model"), Mapping):
        found["model"] = _with(found["model"], "weights", absolute_weights, base)
    if found.get("recipe"):
        found["recipe"] = absolute_recipe(found["recipe"], base)
    if "imputers" in found:
        found["imputers"] = absolute_imputers(found["imputers"], base)
    if isinstance(found.get("methods"), Mapping):
        found["methods"] = {name: _absolute_method(source, base) for name, source in found["methods"].items()}
    return found


def _absolute_method(source: Any, base: Path) -> Any:
    if isinstance(source, Mapping):
        return _with(_with(source, "train", absolute_maps, base), "test", absolute_maps, base)
    return absolute_maps(source, base) if is_record_pattern(source) else source


def _with(content: Mapping[str, Any], key: str, change: Any, base: Path | None) -> dict[str, Any]:
    return {**content, key: change(content[key], base)} if key in content else dict(content)
