"""Models with fresh random weights, for trainings from scratch."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from roadworthy.errors import ModelError, RoadworthyWarning, listed
from roadworthy.model.load import by_name, in_pixel_units, request_for
from roadworthy.records import Data
from roadworthy.rng import derive, resolve_seed, seeded_globals
from roadworthy.types import Normalize, Seed


def untrained(
    spec: str | Callable[..., Any],
    data: Data | None = None,
    *,
    classes: int | None = None,
    seed: Seed = 0,
    normalize: Normalize | str | None = "auto",
    device: str | torch.device | None = None,
) -> nn.Module:
    """Return what :func:`load_model` gives for a specification, but with fresh random weights, never trained.

    The weights follow from the seed alone. Nothing is read from a cache or written to one.

    Args:
        spec: a name as ``load_model`` takes it (``digits-cnn``, ``torchvision:NAME``, ``timm:NAME``,
            ``package.module:factory``); a function or class that is called without arguments; or a module, of which
            a copy with fresh weights is made by :func:`reset`.
        data: gives the number of classes and channels, and the normalisation.
        classes: number of classes; from the data, else from the architecture by default.
        seed: of the weights.
        normalize: as for ``load_model``: ``"auto"``, ``"imagenet"``, ``(mean, std)``, or None for nothing.
        device: where the model is put; the CPU by default.

    Returns:
        A module that takes images in pixel units, in evaluation mode.

    Raises:
        InputError: an unknown name or setting.
        ModelError: a model that cannot be built, is no ``torch.nn.Module``, or whose weights cannot be drawn anew.

    Example:
        >>> one, again, other = (untrained("digits-cnn", seed=seed) for seed in (1, 1, 2))
        >>> weights = [net.features.conv1.weight for net in (one, again, other)]
        >>> torch.equal(weights[0], weights[1]), torch.equal(weights[0], weights[2])
        (True, False)
    """
    seed = resolve_seed(seed)

    def built(key: int) -> Any:
        request = request_for(spec, data, classes=classes, normalize=normalize, seed=key, device=device, fresh=True)
        if isinstance(spec, str):
            return by_name(request, device)
        with seeded_globals(key, "init"):
            return in_pixel_units(_module(spec(), request.spec), request, None)

    if isinstance(spec, nn.Module):
        request = request_for(spec, data, classes=None, normalize=normalize, seed=seed, device=device, fresh=True)
        model = in_pixel_units(reset(spec, seed), request, None)
    else:
        model = _module(built(seed), spec if isinstance(spec, str) else getattr(spec, "__name__", "the function"))
        other = derive(seed, "another") % 2**63
        # a family of the package draws from the seed; what a user's function does has to be seen
        if (not isinstance(spec, str) or _is_address(spec)) and _same_weights(model, built(other)):
            warnings.warn(
                f"{spec!r} returns the same weights whatever the seed, so it loads or seeds them itself; they are "
                "drawn anew by reset_parameters()",
                RoadworthyWarning,
                stacklevel=2,
            )
            model = reset(model, seed)
    model.eval()
    return model if device is None else model.to(device)


def _is_address(spec: str) -> bool:
    from roadworthy.model.base import models

    return spec.partition(":")[0] not in models


def _module(model: Any, name: str) -> nn.Module:
    if not isinstance(model, nn.Module):
        raise ModelError(f"{name!r} returned {type(model).__name__}; only a torch.nn.Module can be trained")
    return model


def _same_weights(one: nn.Module, other: nn.Module) -> bool:
    pairs = list(zip(one.parameters(), other.parameters(), strict=False))
    return bool(pairs) and all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def reset(model: nn.Module, seed: Seed = 0) -> nn.Module:
    """Return a copy of a model whose weights are drawn anew, by the ``reset_parameters`` of its parts.

    That is the initialisation torch gives each layer; one that a network gave itself afterwards is not repeated. All
    parameters of the copy require gradients: those of a model that is only asked are often frozen.

    Args:
        model: the model; it stays as it is.
        seed: of the new weights.

    Raises:
        ModelError: parts that hold parameters and have no ``reset_parameters``; names them.

    Example:
        >>> net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        >>> fresh = reset(net, seed=1)
        >>> torch.equal(fresh[0].weight, reset(net, seed=1)[0].weight), torch.equal(fresh[0].weight, net[0].weight)
        (True, False)
    """
    fresh = copy.deepcopy(model)
    parts = list(fresh.named_modules())
    unable = [
        name or type(part).__name__
        for name, part in parts
        if next(part.parameters(recurse=False), None) is not None and _drawer(part) is None
    ]
    if unable:
        raise ModelError(
            f"reset: these parts of {type(model).__name__} hold parameters and have no reset_parameters(): "
            f"{listed(unable)}. Give them one, or pass build=, a function that returns the model with fresh weights"
        )
    with seeded_globals(resolve_seed(seed), "reset"), torch.no_grad():
        for _, part in reversed(parts):  # the inner parts first: what an outer one does to them stands
            draw = _drawer(part)
            if draw is not None:
                draw()
    for parameter in fresh.parameters():
        parameter.grad = None
        if parameter.is_floating_point():
            parameter.requires_grad_(True)
    return fresh


def _drawer(part: nn.Module) -> Callable[[], object] | None:
    # attention has it under a private name
    for name in ("reset_parameters", "_reset_parameters"):
        draw = getattr(part, name, None)
        if callable(draw):
            return draw
    return None
