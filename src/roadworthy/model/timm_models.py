"""The models of timm (an extra), with its pretrained weights or your own."""

from __future__ import annotations

import warnings
from typing import Any

from torch import nn

from roadworthy.errors import MissingExtraError, ModelError, RoadworthyWarning, unknown_name
from roadworthy.model.base import Request, is_file, models
from roadworthy.model.weights import load_weights, one_line
from roadworthy.rng import seeded_globals
from roadworthy.types import Normalize


@models.register(
    "timm", "timm:NAME, any model of timm (pip install 'roadworthy[timm]'); weights='pretrained' downloads"
)
def _load(request: Request) -> tuple[nn.Module, Normalize | None]:
    try:
        import timm
    except ImportError as error:
        raise MissingExtraError(f"{request.spec!r} needs timm: pip install 'roadworthy[timm]'") from error
    name = request.name("timm:resnet18")
    if not timm.is_model(name):
        raise unknown_name("timm model", name, timm.list_models())
    pretrained = request.weights is not None and not is_file(request.weights)
    if pretrained and request.weights not in ("pretrained", "DEFAULT"):
        raise ModelError(f"weights: got {str(request.weights)!r}, expected 'pretrained' or the path of a file")
    try:
        with seeded_globals(request.seed, "init", name):
            network: nn.Module = timm.create_model(name, pretrained=pretrained, **_sizes(request, pretrained))
    except Exception as error:  # timm and its hub raise many kinds
        raise ModelError(
            f"{request.spec}: the model cannot be {'downloaded' if pretrained else 'built'} ({one_line(error)})"
            + ("; pass weights= the path of a file" if pretrained else "")
        ) from error
    if pretrained:
        _check_classes(network, request)
    elif request.weights is None and not request.fresh:
        warnings.warn(
            f"{request.spec}: no weights were given, they are random; pass weights='pretrained' or a file",
            RoadworthyWarning,
            stacklevel=4,
        )
    elif request.weights is not None:
        load_weights(network, request.weights)
    settings = getattr(network, "pretrained_cfg", {})
    return network, (tuple(settings["mean"]), tuple(settings["std"])) if "mean" in settings else None


def _sizes(request: Request, pretrained: bool) -> dict[str, Any]:
    sizes: dict[str, Any] = {}
    if not pretrained and (request.classes is not None or request.data is not None):
        sizes["num_classes"] = request.class_count(0)
    if request.data is not None:
        sizes["in_chans"] = len(request.data.mean)
    return sizes


def _check_classes(network: nn.Module, request: Request) -> None:
    published = int(getattr(network, "num_classes", 0))
    if request.class_count(published) != published:
        raise ModelError(
            f"{request.spec}: the pretrained weights are for {published} classes, not {request.class_count(0)}; pass "
            f"classes={published} to keep them, or weights= a file trained on your classes"
        )
