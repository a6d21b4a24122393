"""What a training run reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class History:
    """What a training run reports, an entry per epoch.

    Attributes:
        loss: mean training loss, label smoothing included.
        accuracy: share of the (augmented) training samples classified right while training.
        seconds: wall-clock time.
        resumed: epochs that came from a checkpoint.
        validation: share of the validation samples classified right after each epoch; empty without validation.
        chosen: epochs after which the weights are those of the model now: all of them, or where there is a
            validation split those up to its best epoch (the first of equals).
    """

    loss: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    resumed: int = 0
    validation: tuple[float, ...] = ()
    chosen: int = 0

    @classmethod
    def of(cls, kept: Mapping[str, Any]) -> History:
        """Return the history that ``dataclasses.asdict`` gave, also after a way through JSON."""
        values: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in kept.items()
        }
        return cls(**values)
