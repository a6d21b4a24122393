"""The package's own networks: built to fit the data, trained on its training split at first use, then cached."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import ModelError, RoadworthyWarning
from roadworthy.model.base import Request
from roadworthy.model.feed import split_hash
from roadworthy.model.fit import fit
from roadworthy.model.recipe import Recipe
from roadworthy.model.weights import load_weights, read_weights, write_weights
from roadworthy.rng import seeded_globals
from roadworthy.types import Normalize

_LONG = 60.0
"""Seconds of training from which a warning says how long it will take."""


@dataclass(frozen=True)
class OwnNetwork:
    """A network of this package.

    Attributes:
        name: its public name.
        build: returns it untrained, for a number of channels and of classes.
        recipe: how it is trained.
        samples: where the data are few, up to three times the epochs are run until it has seen this many.
        channels: channels without data or weights to tell.
        classes: number of classes, likewise.
    """

    name: str
    build: Callable[[int, int], torch.nn.Module]
    recipe: Recipe
    channels: int
    classes: int
    samples: int = 0

    def recipe_for(self, count: int) -> Recipe:
        """Return the recipe for this many training samples."""
        epochs = min(3 * self.recipe.epochs, math.ceil(self.samples / max(1, count)))
        return replace(self.recipe, epochs=max(self.recipe.epochs, epochs))


def load_own(request: Request, own: OwnNetwork) -> tuple[torch.nn.Module, Normalize | None]:
    """Build one of the package's networks and give it weights: from a file, the cache, or by training.

    Returns:
        The network, and the normalisation that fits it.
    """
    if request.argument:
        raise ModelError(f"{request.spec!r}: {own.name!r} takes nothing after the colon")
    about = {} if request.weights is None else read_weights(request.weights)[1]
    auto = _statistics_noted(about) or (None if request.data is None else request.data.normalize)
    stats = request.statistics(auto)
    with seeded_globals(request.seed, "init", own.name):
        network = own.build(_channels(request, own, stats), request.class_count(own.classes))
    if request.fresh:
        return network, auto
    if request.weights is not None:
        load_weights(network, request.weights)
    elif request.data is None:
        warnings.warn(
            f"{own.name}: neither data to train on nor weights were given; the network is untrained",
            RoadworthyWarning,
            stacklevel=5,
        )
    else:
        _train_or_read(network, request, own, stats)
    return network, auto


def _statistics_noted(about: dict[str, Any]) -> Normalize | None:
    if "pixel_mean" not in about or "pixel_std" not in about:
        return None
    return tuple(about["pixel_mean"]), tuple(about["pixel_std"])


def _channels(request: Request, own: OwnNetwork, stats: Normalize | None) -> int:
    if request.data is None:
        return own.channels if stats is None else len(stats[0])
    shape = request.data.train.shape
    if len(shape) != 3:
        raise ModelError(
            f"{own.name} takes images (C, H, W); the samples of {request.data.name!r} have shape {shape}"
        )
    return shape[0]


def _train_or_read(network: torch.nn.Module, request: Request, own: OwnNetwork, stats: Normalize | None) -> None:
    assert request.data is not None
    train = request.data.train
    recipe = own.recipe_for(len(train.indices))
    about = _description(network, recipe, request, stats)
    key = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=8).hexdigest()
    path = request.cache / "models" / f"{own.name}-{key}.safetensors"
    if _read_cached(network, path):
        return
    network.to(request.device)
    _announce(network, recipe, request, own.name, stats)
    kept = _writable(path.parent)
    checkpoint = path.with_suffix(".checkpoint.pt") if kept else None
    fit(
        network,
        train,
        recipe=recipe,
        seed=request.seed,
        normalize=stats,
        checkpoint=checkpoint,
        progress=request.progress,
    )
    if checkpoint is not None:
        write_weights(network, path, about)
        checkpoint.unlink(missing_ok=True)


def _description(
    network: torch.nn.Module, recipe: Recipe, request: Request, stats: Normalize | None
) -> dict[str, Any]:
    """Describe all that the trained weights follow from; its hash names the cached file."""
    data = request.data
    assert data is not None
    return {
        "network": repr(network),
        "recipe": recipe.described(),
        "seed": request.seed,
        "normalize": stats,
        "device": request.device.type,
        "data": {
            "name": data.name,
            "shape": data.train.shape,
            "mean": data.mean,
            "std": data.std,
            "samples": split_hash(data.train),
        },
    }


def _read_cached(network: torch.nn.Module, path: Path) -> bool:
    if not path.is_file():
        return False
    try:
        load_weights(network, path)
    except ModelError as error:
        warnings.warn(f"cached weights are damaged and made anew: {error}", RoadworthyWarning, stacklevel=7)
        return False
    return True


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError as error:
        warnings.warn(
            f"the trained weights cannot be kept in {str(folder)!r} ({error}); they are made anew next time. "
            "Set ROADWORTHY_CACHE, or pass cache=, to a folder that can be written",
            RoadworthyWarning,
            stacklevel=7,
        )
        return False


def _announce(network: torch.nn.Module, recipe: Recipe, request: Request, name: str, stats: Normalize | None) -> None:
    """Tell the progress bar how much there is to do, and the user when it will be long."""
    assert request.data is not None
    train = request.data.train
    total = recipe.epochs * len(train)
    begin = getattr(request.progress, "begin", None)
    if begin is not None:
        begin(total, f"training {name}")
    batch = next(train.batches(min(recipe.batch_size, 64)))
    trial = replace(recipe, epochs=2, warmup_epochs=0.0, batch_size=len(batch.labels))
    # the first of the two epochs, of one step each, warms up
    history = fit(copy.deepcopy(network), (batch.images, batch.labels), recipe=trial, normalize=stats)
    seconds = history.seconds[-1] / len(batch.labels) * total
    if seconds > _LONG:
        warnings.warn(
            f"{name}: training on {request.device} ({len(train)} images, {recipe.epochs} epochs) will take "
            f"about {_spoken(seconds)}. It is kept after every epoch: stop it and the same call goes on. "
            "For less, pass weights=, or device='cuda' where there is one",
            RoadworthyWarning,
            stacklevel=7,
        )


def _spoken(seconds: float) -> str:
    """Say a duration roughly.

    Example:
        >>> _spoken(100), _spoken(9000)
        ('2 min', '2.5 h')
    """
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
