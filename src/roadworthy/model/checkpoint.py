"""Where a training stands, on disk: all that is needed to go on as if nothing had happened."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import random
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, RoadworthyWarning
from roadworthy.files import replacing
from roadworthy.model.feed import Feed
from roadworthy.model.history import History
from roadworthy.model.recipe import Recipe
from roadworthy.types import Normalize

Damaged = Literal["error", "restart"]


@dataclass
class State:
    """Where a training stands.

    Attributes:
        history: of the epochs that are done.
        best: weights of the best epoch on the validation split.
        partial: of an epoch that is not done: how many steps were taken, sums, and states of the generators.
    """

    history: History = field(default_factory=History)
    best: dict[str, torch.Tensor] | None = None
    partial: dict[str, Any] | None = None


class Checkpoint:
    """A file that holds a state with the weights and the optimiser's memory.

    It appears whole or not at all, and is on the disk before it takes the place of the one before. Where it cannot
    be written (a full disk), a warning says so, the one before stays, and the training goes on.

    Args:
        path: the file; None for no file.
        run: all that the training follows from; another run's file is refused.
        damaged: what to do with a file that cannot be read: ``"error"``, or ``"restart"`` with a warning.
    """

    def __init__(self, path: str | Path | None, run: dict[str, Any], damaged: Damaged = "error") -> None:
        if damaged not in ("error", "restart"):
            raise InputError(f"damaged: got {damaged!r}, expected 'error' or 'restart'")
        self.path = None if path is None else Path(path)
        self.run = run
        self.damaged = damaged

    def save(self, state: State, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Write the state."""
        if self.path is None:
            return
        content = {
            "run": self.run,
            "history": asdict(state.history),
            "best": state.best,
            "partial": state.partial,
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
        }
        try:
            with replacing(self.path) as temporary, temporary.open("wb") as file:
                torch.save(content, file)
                file.flush()
                os.fsync(file.fileno())
        except (OSError, RuntimeError) as error:  # torch reports a failed write by either
            warn_unwritten(self.path, error)

    def load(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> State:
        """Read the state, if there is one, and put weights and memory back.

        Raises:
            ModelError: the file is of another run or, unless ``damaged="restart"``, cannot be read.
        """
        if self.path is None or not self.path.exists():
            return State()
        try:
            content = torch.load(self.path, map_location="cpu", weights_only=True)
            differ = sorted(key for key in self.run if content["run"].get(key) != self.run[key])
        except Exception as error:  # whatever a damaged or foreign file raises, the advice is the same
            text = f"fit: the checkpoint {str(self.path)!r} cannot be read ({type(error).__name__})"
            if self.damaged == "error":
                raise ModelError(f"{text}; delete it to start anew") from error
            warnings.warn(f"{text}; the training starts anew", RoadworthyWarning, stacklevel=3)
            return State()
        if differ:
            raise ModelError(
                f"fit: the checkpoint {str(self.path)!r} is of another run; these differ: {', '.join(differ)}. "
                "Delete it, or name another file"
            )
        model.load_state_dict(content["model"])
        optimizer.load_state_dict(content["optimizer"])
        history = dataclasses.replace(History.of(content["history"]), resumed=len(content["history"]["loss"]))
        return State(history, content["best"], content["partial"])


def warn_unwritten(path: Path, error: Exception) -> None:
    """Tell that a file was not written, although the training goes on."""
    warnings.warn(
        f"fit: {str(path)!r} could not be written ({' '.join(str(error).split())}); the training goes on without it",
        RoadworthyWarning,
        stacklevel=4,
    )


def fingerprint(
    model: torch.nn.Module,
    feed: Feed,
    *,
    recipe: Recipe,
    seed: int,
    normalize: Normalize | None,
    validation: Feed | None,
) -> dict[str, Any]:
    """Describe all that a training follows from, as JSON types."""
    shapes = [f"{name} {tuple(value.shape)} {value.dtype}" for name, value in model.state_dict().items()]
    run = {
        "recipe": asdict(recipe),
        "seed": seed,
        "normalize": None if normalize is None else [[float(value) for value in part] for part in normalize],
        "data": feed.identity(),
        "validation": None if validation is None else validation.identity(),
        "model": hashlib.blake2b("\n".join(shapes).encode(), digest_size=8).hexdigest(),
    }
    return json.loads(json.dumps(run))


def generator_states(device: torch.device) -> dict[str, Any]:
    """Return the states of the global generators, as types that a checkpoint holds without pickled objects."""
    state: Any = np.random.get_state()  # noqa: NPY002
    kind, keys, *rest = state
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        "numpy": (kind, torch.from_numpy(keys.astype(np.int64)), *rest),
        "python": random.getstate(),
    }


def set_generator_states(states: dict[str, Any], device: torch.device) -> None:
    """Put the global generators to what :func:`generator_states` returned."""
    torch.set_rng_state(states["torch"])
    if device.type == "cuda" and states["cuda"] is not None:
        torch.cuda.set_rng_state(states["cuda"], device)
    kind, keys, *rest = states["numpy"]
    np.random.set_state((kind, keys.numpy().astype(np.uint32), *rest))  # noqa: NPY002
    version, words, gauss = states["python"]
    random.setstate((version, tuple(words), gauss))
