"""Your own model by its address: ``package.module:factory`` is imported and called without arguments."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from torch import nn

from roadworthy.errors import ModelError, did_you_mean
from roadworthy.model.base import Request, models
from roadworthy.model.weights import load_weights, one_line
from roadworthy.rng import seeded_globals
from roadworthy.types import Normalize


@models.register("package.module:factory", "a function of yours that returns the model; imported and called")
def _load(request: Request) -> tuple[nn.Module | Callable[..., object], Normalize | None]:
    if request.classes is not None:
        raise ModelError(
            f"classes={request.classes} has no effect on {request.spec!r}: the factory is called without it"
        )
    address = request.spec.partition(":")[0]
    _check_address(address, request.spec)
    with _current_folder():
        # importing may draw as well: the weights of a model that the module builds there and then
        with seeded_globals(request.seed, "import", request.spec):
            module = _import(address, request.spec)
        factory = _find(module, request.name("package.module:factory"), request.spec)
        model = factory if isinstance(factory, nn.Module) else _call(factory, request)
    if isinstance(model, type):
        raise ModelError(f"{request.spec!r} returned the class {model.__name__}; let it return {model.__name__}()")
    if not callable(model):
        raise ModelError(
            f"{request.spec!r} returned {type(model).__name__}, expected a torch.nn.Module or a callable on images"
        )
    if request.weights is not None:
        if not isinstance(model, nn.Module):
            raise ModelError(
                f"weights: {request.spec!r} returned {type(model).__name__}; only a module takes weights"
            )
        load_weights(model, request.weights)
    return model, None


def _check_address(address: str, spec: str) -> None:
    """Refuse a file's path where a module's name belongs, and say how it is written."""
    if not address.endswith(".py") and not set("/\\") & set(address):
        return
    parts = [part for part in address.removesuffix(".py").replace("\\", "/").split("/") if part not in ("", ".")]
    wanted = ".".join(parts)
    place = (
        "" if os.path.isabs(address) or ".." in parts or "~" in parts else f", here {wanted + spec[len(address) :]!r}"
    )
    raise ModelError(
        f"{spec!r} is the path of a file; name the module from the current folder or an installed package, with dots "
        f"and without .py{place}"
    )


@contextlib.contextmanager
def _current_folder() -> Iterator[None]:
    """Let modules in the current folder be imported, after all others."""
    folder = os.getcwd()
    if folder in sys.path or "" in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _import(address: str, spec: str) -> ModuleType:
    importlib.invalidate_caches()
    try:
        return importlib.import_module(address)
    except ModuleNotFoundError as error:
        if error.name and (address == error.name or address.startswith(f"{error.name}.")):
            raise ModelError(
                f"{spec!r}: there is no module {error.name!r}, neither installed nor in {os.getcwd()!r}."
                + did_you_mean(address, models)
            ) from error
        raise ModelError(f"{spec!r}: importing {address} failed: it needs the module {error.name!r}") from error
    except Exception as error:
        raise ModelError(f"{spec!r}: importing {address} failed: {one_line(error)}") from error


def _find(module: ModuleType, name: str, spec: str) -> Callable[[], Any]:
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            hint = did_you_mean(part, [other for other in dir(found) if not other.startswith("_")])
            raise ModelError(f"{spec!r}: {module.__name__} has no {name!r}.{hint}")
        found = getattr(found, part)
    if not callable(found):
        raise ModelError(f"{spec!r} is {type(found).__name__}, expected a function that returns the model")
    return found


def _call(factory: Callable[[], Any], request: Request) -> Any:
    try:
        with seeded_globals(request.seed, "init", request.spec):
            return factory()
    except Exception as error:
        needs = isinstance(error, TypeError) and "argument" in str(error)
        raise ModelError(
            f"{request.spec!r}: calling it without arguments failed: {one_line(error)}"
            + ("; name a function that takes none and passes them on" if needs else "")
        ) from error
