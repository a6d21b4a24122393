"""How a network is trained: the numbers, and the learning rate they give at each step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from roadworthy.errors import InputError

Schedule = Literal["cosine", "one-cycle", "steps"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a training run; SGD with Nesterov momentum.

    Attributes:
        epochs: passes over the training samples.
        batch_size: samples in a step.
        learning_rate: the highest learning rate.
        momentum: of SGD.
        weight_decay: on weights; never on biases and the parameters of normalisation layers.
        label_smoothing: share of the target spread over all classes, in [0, 1).
        schedule: ``"cosine"`` down to 0; ``"one-cycle"``, straight down to 0; ``"steps"``, see ``steps``.
            Each begins with the warm-up.
        warmup_epochs: epochs over which the learning rate rises linearly from 0.
        steps: for ``"steps"``: (epoch, multiplier) pairs; a multiplier holds from its epoch on.
        flip: mirror each image left to right with probability 1/2.
        crop_padding: pad by this many black pixels on each side and crop at random to the old size.
        drop_last: leave out a last batch that is not full.
        bf16: compute in bfloat16 where that is safe (autocast); None does so on CUDA devices that have it.

    Raises:
        InputError: a value out of range.

    Example:
        >>> Recipe(epochs=2, learning_rate=0.1, schedule="one-cycle", warmup_epochs=1).rate(0.5)
        0.05
    """

    epochs: int
    learning_rate: float
    batch_size: int = 128
    momentum: float = 0.9
    weight_decay: float = 5e-4
    label_smoothing: float = 0.0
    schedule: Schedule = "cosine"
    warmup_epochs: float = 0.0
    steps: tuple[tuple[float, float], ...] = ()
    flip: bool = False
    crop_padding: int = 0
    drop_last: bool = False
    bf16: bool | None = None

    def __post_init__(self) -> None:
        for name, low in (("epochs", 1), ("batch_size", 1), ("crop_padding", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or value < low:
                raise InputError(f"recipe: {name} is {value!r}, expected an integer of at least {low}")
        for name, top in (("learning_rate", math.inf), ("momentum", 1), ("weight_decay", math.inf)):
            value = getattr(self, name)
            if not 0 <= value < top:
                raise InputError(f"recipe: {name} is {value!r}, expected at least 0 and below {top}")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"recipe: label_smoothing is {self.label_smoothing!r}, expected a share in [0, 1)")
        if not 0 <= self.warmup_epochs <= self.epochs:
            raise InputError(f"recipe: warmup_epochs is {self.warmup_epochs!r}, expected 0 to epochs={self.epochs}")
        if self.schedule not in ("cosine", "one-cycle", "steps"):
            raise InputError(f"recipe: schedule is {self.schedule!r}, expected 'cosine', 'one-cycle' or 'steps'")
        if (self.schedule == "steps") != bool(self.steps):
            raise InputError("recipe: schedule='steps' and steps=((epoch, multiplier), ...) go together")

    def rate(self, epoch: float) -> float:
        """Return the learning rate at a point in time.

        Args:
            epoch: epochs done, with the part of the current one: 1.5 is half-way through the second.
        """
        if epoch < self.warmup_epochs:
            return self.learning_rate * epoch / self.warmup_epochs
        if self.schedule == "steps":
            passed = [multiplier for start, multiplier in sorted(self.steps) if start <= epoch]
            return self.learning_rate * (passed[-1] if passed else 1.0)
        left = self.epochs - self.warmup_epochs
        done = min(1.0, (epoch - self.warmup_epochs) / left) if left > 0 else 1.0
        if self.schedule == "cosine":
            return self.learning_rate * 0.5 * (1 + math.cos(math.pi * done))
        return self.learning_rate * (1 - done)
