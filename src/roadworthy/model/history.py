"""What a training run reports."""

from __future__ import annotations

from dataclasses import dataclass


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
