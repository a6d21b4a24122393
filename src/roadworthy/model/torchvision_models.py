"""The classifiers of torchvision, with its pretrained weights or your own."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from roadworthy.errors import ModelError, RoadworthyWarning, unknown_name
from roadworthy.model.base import Request, is_file, models
from roadworthy.model.normalized import IMAGENET
from roadworthy.model.weights import load_weights, one_line
from roadworthy.rng import seeded_globals
from roadworthy.types import Normalize

_CHANNELS = 3


@models.register("torchvision", "torchvision:NAME, any classifier of torchvision; weights='DEFAULT' downloads")
def _load(request: Request) -> tuple[nn.Module, Normalize | None]:
    import torchvision

    name = request.name("torchvision:resnet50")
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        raise unknown_name("torchvision model", name, known)
    if request.data is not None and len(request.data.mean) != _CHANNELS:
        raise ModelError(
            f"{request.spec} takes {_CHANNELS} channels, {request.data.name!r} has {len(request.data.mean)}; "
            "load the data with channels=3 (--channels 3)"
        )
    choices = torchvision.models.get_model_weights(name)
    if request.weights is None or is_file(request.weights):
        return _with_own_weights(request, name), _statistics(next(iter(choices), None))
    chosen = _choose(choices, str(request.weights))
    published = len(chosen.meta["categories"])
    if request.class_count(published) != published:
        raise ModelError(
            f"{request.spec}: the weights {chosen.name} are for {published} classes, not {request.class_count(0)}; "
            f"pass classes={published} to keep them, or weights= a file trained on your classes"
        )
    try:
        with seeded_globals(request.seed, "init", name):
            network = torchvision.models.get_model(name, weights=chosen)
    except (OSError, RuntimeError) as error:
        raise ModelError(
            f"{request.spec}: the weights {chosen.name} cannot be downloaded ({one_line(error)}); "
            "pass weights= the path of a file"
        ) from error
    return network, _statistics(chosen)


def _with_own_weights(request: Request, name: str) -> nn.Module:
    import torchvision

    with seeded_globals(request.seed, "init", name), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # torchvision's, on the cost of random weights
        network: nn.Module = torchvision.models.get_model(name, weights=None, num_classes=request.class_count(1000))
    if request.weights is None and not request.fresh:
        warnings.warn(
            f"{request.spec}: no weights were given, they are random; pass weights='DEFAULT' (--weights) or a file",
            RoadworthyWarning,
            stacklevel=5,
        )
    elif request.weights is not None:
        load_weights(network, request.weights)
    return network


def _choose(choices: Any, name: str) -> Any:
    if name == "DEFAULT":
        return choices.DEFAULT
    known = [choice.name for choice in choices]
    if name not in known:
        raise unknown_name("set of weights", name, ["DEFAULT", *known])
    return choices[name]


def _statistics(choice: Any) -> Normalize:
    """Return what the weights' own transforms normalise with."""
    transforms: Any = None if choice is None else choice.transforms()
    if not hasattr(transforms, "mean"):
        return IMAGENET
    return tuple(transforms.mean), tuple(transforms.std)
