"""From what a user calls a model to a module that takes images in pixel units."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import InputError, ModelError, unknown_name
from roadworthy.forward import device_of
from roadworthy.model.base import Request, models
from roadworthy.model.normalized import Normalized
from roadworthy.records import Data
from roadworthy.rng import resolve_seed
from roadworthy.types import Normalize, Progress, Seed

_FACTORY = "package.module:factory"
_WEIGHT_FILES = (".pt", ".pth", ".safetensors")


def load_model(
    spec: str | Callable[..., Any],
    data: Data | None = None,
    *,
    weights: str | Path | None = None,
    classes: int | None = None,
    normalize: Normalize | str | None = "auto",
    seed: Seed = 0,
    device: str | torch.device | None = None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
) -> Any:
    """Return a model that takes images in pixel units, in evaluation mode.

    ``spec`` is one of ``models`` (``digits-cnn``, ``small-cnn``, ``resnet18-cifar``), ``torchvision:NAME``,
    ``timm:NAME``, ``transformers:FOLDER`` (written by ``save_pretrained``), or ``package.module:factory``, which is
    imported (from the current folder as well) and called.
    The package's own networks are trained on ``data.train`` at first use and read from the cache afterwards.
    A module or callable passes through as it is.

    Args:
        spec: the name of a model, a module, or a callable.
        data: gives the number of classes and channels, the normalisation, and the samples to train on.
        weights: a ``.safetensors`` or ``.pt`` file; for torchvision the name of a published set (``"DEFAULT"``), for
            timm ``"pretrained"``. For transformers the folder has them; ``"pretrained"`` may download by name.
        classes: number of classes; from the data, else from the architecture by default.
        normalize: built in as the first layer. ``"auto"``: the published statistics for torchvision and timm, what
            the folder's image processor does for transformers, those of the training data for own networks, nothing
            for a factory or a module. Or ``"imagenet"``, ``(mean, std)`` per channel, or None for nothing.
        seed: of the initial weights and the training.
        device: where the model is put (and trained); the CPU by default.
        cache: folder of trained weights; ``ROADWORTHY_CACHE``, else ``~/.cache/roadworthy`` by default.
        progress: called with the number of samples just trained on. If it has a method ``begin(total, what)``, that
            is called first.

    Returns:
        A ``torch.nn.Module`` with ``pixel_mean`` and ``pixel_std`` (tuples) if a normalisation is built in, and
        ``class_names`` (a tuple) where the model brings them;
        a callable passes through.

    Raises:
        InputError: an unknown name or setting.
        ModelError: a model or weights that cannot be loaded.
        MissingExtraError: timm or transformers is needed and not installed.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3, 2))
        >>> load_model(net) is net
        True
        >>> load_model(net, normalize=([0.5, 0.4, 0.3], [0.2, 0.2, 0.2])).pixel_mean
        (0.5, 0.4, 0.3)
        >>> load_model("digit-cnn")
        Traceback (most recent call last):
            ...
        roadworthy.errors.InputError: Unknown model 'digit-cnn'. Did you mean 'digits-cnn'? Known: digits-cnn, \
package.module:factory, resnet18-cifar, small-cnn, timm, torchvision, transformers.
    """
    request = request_for(
        spec,
        data,
        weights=weights,
        classes=classes,
        normalize=normalize,
        seed=seed,
        device=device,
        cache=cache,
        progress=progress,
    )
    return by_name(request, device) if isinstance(spec, str) else _pass_through(spec, request)


def request_for(
    spec: str | Callable[..., Any],
    data: Data | None,
    *,
    weights: str | Path | None = None,
    classes: int | None,
    normalize: Normalize | str | None,
    seed: Seed,
    device: str | torch.device | None,
    cache: str | Path | None = None,
    progress: Progress | None = None,
    fresh: bool = False,
) -> Request:
    """Check the arguments of :func:`load_model` and bring them to one record."""
    if classes is not None and (not isinstance(classes, int) or classes < 2):
        raise InputError(f"classes: got {classes!r}, expected an integer of at least 2")
    return Request(
        spec=spec if isinstance(spec, str) else type(spec).__name__,
        argument=spec.partition(":")[2] if isinstance(spec, str) else "",
        data=data,
        weights=weights,
        classes=classes,
        normalize=normalize,
        seed=resolve_seed(seed),
        device=device_of(len if isinstance(spec, str) else spec, device),
        cache=_cache_folder(cache),
        progress=progress,
        fresh=fresh,
    )


def by_name(request: Request, device: str | torch.device | None) -> Any:
    """Build the model that a specification names."""
    name = request.spec.partition(":")[0]
    if name not in models and ":" not in request.spec:
        if Path(name).suffix in _WEIGHT_FILES:
            raise InputError(
                f"model: {name!r} is a file of weights; name the network it belongs to and give the file as weights, "
                "as in --model torchvision:resnet18 --weights FILE, or load_model('torchvision:resnet18', data, "
                "weights=FILE)"
            )
        raise unknown_name("model", name, models, _elsewhere(name))
    family = models[name] if name in models else models[_FACTORY]
    network, auto = family(request)
    model = in_pixel_units(network, request, auto)
    if hasattr(network, "class_names"):
        model.class_names = network.class_names
    if isinstance(model, torch.nn.Module):
        model.eval()
        if device is not None:
            model.to(request.device)
    return model


def _elsewhere(name: str) -> str | None:
    """Return how a model is written that torchvision has, or a module of one's own; None for others."""
    import torchvision

    if name.lower() in torchvision.models.list_models(module=torchvision.models):
        return f"torchvision:{name.lower()}"
    module, _, factory = name.rpartition(".")
    if Path(f"{name.replace('.', '/')}.py").is_file():
        return f"{name}:FACTORY"
    return f"{module}:{factory}" if module and Path(f"{module.replace('.', '/')}.py").is_file() else None


def _cache_folder(cache: str | Path | None) -> Path:
    if cache is None:
        cache = os.environ.get("ROADWORTHY_CACHE") or Path.home() / ".cache" / "roadworthy"
    return Path(cache)


def _pass_through(model: Callable[..., Any], request: Request) -> Any:
    if isinstance(model, type):
        raise ModelError(f"model: got the class {model.__name__}; pass an instance of it")
    if not callable(model):
        raise ModelError(f"model: got {request.spec}, expected a name, a torch.nn.Module or a callable")
    for option in ("weights", "classes"):
        if getattr(request, option) is not None:
            raise ModelError(
                f"{option}= has no effect on a model that exists already ({request.spec}); "
                "roadworthy.model.load_weights(module, path) puts weights into it"
            )
    return in_pixel_units(model, request, None)


def in_pixel_units(model: Any, request: Request, auto: Normalize | None) -> Any:
    """Put the normalisation in front that was asked for, or else ``auto``."""
    stats = request.statistics(auto)
    if stats is None:
        return model
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"normalize: {request.spec!r} is no torch.nn.Module; pass normalize= where it is evaluated")
    wrapped = Normalized(model, stats)
    return wrapped.to(device_of(model))
