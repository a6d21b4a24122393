"""What a family of models gets and gives, and the table that families register in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import torch

from roadworthy.errors import InputError, ModelError
from roadworthy.model.normalized import IMAGENET, per_channel
from roadworthy.records import Data
from roadworthy.registry import Registry
from roadworthy.types import Normalize, Progress


@dataclass(frozen=True)
class Request:
    """The arguments of ``load_model``, checked, with the specification split at its first colon."""

    spec: str
    argument: str
    data: Data | None
    weights: str | Path | None
    classes: int | None
    normalize: Normalize | str | None
    seed: int
    device: torch.device
    cache: Path
    progress: Progress | None
    fresh: bool = False  # random weights are what is wanted: nothing is trained, read or warned about

    def name(self, example: str) -> str:
        """Return what stands behind the colon.

        Raises:
            ModelError: nothing does.
        """
        if not self.argument:
            raise ModelError(f"{self.spec!r} names no model; write it as '{example}'")
        return self.argument

    def class_count(self, default: int) -> int:
        """Return the number of classes: as asked, else that of the data, else the default."""
        if self.classes is not None:
            return self.classes
        return default if self.data is None else len(self.data.classes)

    def statistics(self, auto: Normalize | None) -> Normalize | None:
        """Return the normalisation to build in, where ``auto`` is the one that fits the model."""
        if self.normalize == "auto":
            return auto
        if isinstance(self.normalize, str):
            if self.normalize != "imagenet":
                raise InputError(
                    f"normalize: got {self.normalize!r}, expected 'auto', 'imagenet', None or (mean, std)"
                )
            return IMAGENET
        return None if self.normalize is None else per_channel(self.normalize)


Family: TypeAlias = Callable[[Request], tuple[torch.nn.Module | Callable[..., object], Normalize | None]]
"""Builds a network for a request; returns it with the normalisation that its input needs."""

models: Registry[Family] = Registry("model")


def is_file(weights: str | Path) -> bool:
    """Tell the path of a file from the name of a published set of weights.

    Example:
        >>> is_file("IMAGENET1K_V1"), is_file("runs/last.pt")
        (False, True)
    """
    return isinstance(weights, Path) or Path(weights).suffix != "" or Path(weights).exists()
