"""How a network is trained: the numbers, and the learning rate they give at each step."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from roadworthy.errors import InputError

Schedule = Literal["cosine", "one-cycle", "steps"]
Interpolation = Literal["nearest", "bilinear", "bicubic"]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """The settings of a training run by SGD.

    Attributes:
        epochs: passes over the training samples; 0 where ``total_steps`` gives the length.
        total_steps: the length in steps instead, whatever the number of samples. Every step then has a full batch
            (what is left of a pass is not used), and the schedule counts the samples seen, as multiples of their
            number; the last pass ends where the steps do.
        batch_size: samples in a step.
        learning_rate: the highest learning rate; see ``rate_per``.
        rate_per: ``learning_rate`` is meant for this many samples in a step: the highest rate is
            ``learning_rate * batch_size / rate_per``. 0: for any.
        momentum: of SGD.
        nesterov: momentum as by Nesterov.
        weight_decay: on weights; never on the parameters of normalisation layers.
        decay_biases: biases decay as well (those of normalisation layers never do).
        label_smoothing: share of the target spread over all classes, in [0, 1).
        schedule: ``"cosine"`` down to 0; ``"one-cycle"``, straight down to 0; ``"steps"``, see ``steps``.
            Each begins with the warm-up.
        warmup_epochs: epochs over which the learning rate rises linearly from 0, step by step.
        steps: for ``"steps"``: (epoch, multiplier) pairs; a multiplier holds from its epoch on.
        flip: mirror each image left to right with probability 1/2.
        crop_padding: pad by this many black pixels on each side and crop at random to the old size.
        random_resized_crop: (smallest, largest) share of the area of a box drawn at random, which is resized to the
            size of the image.
        aspect: (smallest, largest) ratio of width to height of that box.
        interpolation: how the box is resized, with antialiasing.
        drop_last: leave out a last batch that is not full.
        bf16: compute in bfloat16 where that is safe (autocast); None does so on CUDA devices that have it.
        channels_last: keep images in memory with their channels last, which is faster where convolutions dominate
            and gives other bits; None does so on CUDA devices.

    Raises:
        InputError: a value out of range.

    Example:
        >>> Recipe(epochs=2, learning_rate=0.1, schedule="one-cycle", warmup_epochs=1).rate(0.5)
        0.05
        >>> Recipe(total_steps=100, learning_rate=0.1, rate_per=256, batch_size=1024).peak_rate
        0.4
    """

    epochs: int = 0
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
    total_steps: int = 0
    rate_per: int = 0
    nesterov: bool = True
    decay_biases: bool = False
    random_resized_crop: tuple[float, float] | None = None
    aspect: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: Interpolation = "bilinear"
    channels_last: bool | None = None

    def __post_init__(self) -> None:
        self._check_types()
        self._check_length()
        for name, top in (("learning_rate", math.inf), ("momentum", 1), ("weight_decay", math.inf)):
            value = getattr(self, name)
            if not 0 <= value < top:
                raise InputError(f"recipe: {name} is {value!r}, expected at least 0 and below {top}")
        if not 0 <= self.label_smoothing < 1:
            raise InputError(f"recipe: label_smoothing is {self.label_smoothing!r}, expected a share in [0, 1)")
        if self.schedule not in ("cosine", "one-cycle", "steps"):
            raise InputError(f"recipe: schedule is {self.schedule!r}, expected 'cosine', 'one-cycle' or 'steps'")
        if (self.schedule == "steps") != bool(self.steps):
            raise InputError("recipe: schedule='steps' and steps=((epoch, multiplier), ...) go together")
        self._check_crop()

    def _check_types(self) -> None:
        for name in ("learning_rate", "momentum", "weight_decay", "label_smoothing", "warmup_epochs"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool):
                raise InputError(f"recipe: {name} is {value!r}, expected a number")
        for name in ("flip", "drop_last", "nesterov", "decay_biases"):
            if not isinstance(getattr(self, name), bool):
                raise InputError(f"recipe: {name} is {getattr(self, name)!r}, expected true or false")
        for name in ("bf16", "channels_last"):
            if getattr(self, name) not in (True, False, None):
                raise InputError(f"recipe: {name} is {getattr(self, name)!r}, expected true, false or null")
        for name in ("random_resized_crop", "aspect", "steps"):
            value = getattr(self, name)
            wanted = [value] if name != "steps" else value
            if value is not None and not (isinstance(value, tuple) and all(map(_is_pair, wanted))):
                what = "pairs (epoch, multiplier)" if name == "steps" else "a pair (smallest, largest)"
                raise InputError(f"recipe: {name} is {value!r}, expected {what} of numbers")

    def _check_length(self) -> None:
        lows = {"batch_size": 1, "crop_padding": 0, "total_steps": 0, "rate_per": 0}
        for name, low in ({"epochs": int(self.total_steps == 0)} | lows).items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < low:
                raise InputError(f"recipe: {name} is {value!r}, expected an integer of at least {low}")
        if self.epochs and self.total_steps:
            raise InputError(
                f"recipe: both epochs={self.epochs} and total_steps={self.total_steps} are given; the length is one "
                "of them, and the other is 0"
            )
        if not 0 <= self.warmup_epochs <= (self.epochs or math.inf):
            raise InputError(f"recipe: warmup_epochs is {self.warmup_epochs!r}, expected 0 to epochs={self.epochs}")

    def _check_crop(self) -> None:
        for name, top in (("random_resized_crop", 1.0), ("aspect", math.inf)):
            pair = getattr(self, name)
            if pair is not None and not 0 < pair[0] <= pair[1] <= top:
                raise InputError(f"recipe: {name} is {pair!r}, expected (smallest, largest) above 0 and up to {top}")
        if self.interpolation not in ("nearest", "bilinear", "bicubic"):
            raise InputError(
                f"recipe: interpolation is {self.interpolation!r}, expected 'nearest', 'bilinear' or 'bicubic'"
            )

    @property
    def peak_rate(self) -> float:
        """The highest learning rate, for this batch size."""
        return self.learning_rate * (self.batch_size / self.rate_per if self.rate_per else 1.0)

    def rate(self, epoch: float, *, length: float | None = None) -> float:
        """Return the learning rate at a point in time.

        Args:
            epoch: epochs done, with the part of the current one: 1.5 is half-way through the second.
            length: epochs in all, where the recipe counts in steps; see :meth:`timetable`.
        """
        if epoch < self.warmup_epochs:
            return self.peak_rate * epoch / self.warmup_epochs
        if self.schedule == "steps":
            passed = [multiplier for start, multiplier in sorted(self.steps) if start <= epoch]
            return self.peak_rate * (passed[-1] if passed else 1.0)
        if self.total_steps and length is None:
            raise InputError("recipe: total_steps= with this schedule needs length=, the epochs in all")
        left = (length or self.epochs) - self.warmup_epochs
        done = min(1.0, (epoch - self.warmup_epochs) / left) if left > 0 else 1.0
        if self.schedule == "cosine":
            return self.peak_rate * 0.5 * (1 + math.cos(math.pi * done))
        return self.peak_rate * (1 - done)

    def timetable(self, samples: int) -> Timetable:
        """Work out the steps of a training on this many samples.

        Raises:
            InputError: fewer than one sample.

        Example:
            >>> Recipe(epochs=10, learning_rate=0.1, batch_size=32).timetable(100).steps
            40
        """
        if samples < 1:
            raise InputError(f"recipe: {samples} samples, expected at least 1")
        if self.total_steps:
            batch = min(self.batch_size, samples)
            in_pass, per_epoch, steps = samples // batch, samples / batch, self.total_steps
            work = steps * batch
        else:
            full, rest = divmod(samples, self.batch_size)
            # a last batch of one sample is left out: batch normalisation has no variance of one
            in_pass = full if full and (self.drop_last or rest <= 1) else full + bool(rest)
            per_epoch, steps, work = float(in_pass), in_pass * self.epochs, samples * self.epochs
        at = [(multiplier, round(start * per_epoch)) for start, multiplier in sorted(self.steps)]
        return Timetable(
            steps=steps,
            steps_in_pass=in_pass,
            passes=math.ceil(steps / in_pass),
            steps_per_epoch=per_epoch,
            epochs=steps / per_epoch,
            peak_rate=self.peak_rate,
            warmup_end=round(self.warmup_epochs * per_epoch),
            changes=tuple((multiplier, step if step < steps else None) for multiplier, step in at),
            work=work,
        )

    def described(self) -> dict[str, Any]:
        """Return the settings that matter as JSON types, to name results by.

        Settings that came later are left out where they have their default: what was named before keeps its name.
        """
        names = [field.name for field in fields(self)]
        later = set(names[names.index("total_steps") :])
        defaults = {field.name: field.default for field in fields(self)}
        return {name: value for name, value in asdict(self).items() if name not in later or value != defaults[name]}


@dataclass(frozen=True)
class Timetable:
    """The steps of a training run, for one number of samples.

    Attributes:
        steps: in all.
        steps_in_pass: in one pass over the samples.
        passes: begun; the last may be cut short by the end of the steps.
        steps_per_epoch: that the schedule counts by: samples over batch size, a fraction, where the recipe counts in
            steps; else those of a pass.
        epochs: in all, by that count.
        peak_rate: the highest learning rate.
        warmup_end: the step at which the warm-up ends, to the nearest.
        changes: (multiplier, step at which it begins, to the nearest; None if the training ends before).
        work: samples that a progress report counts up to.
    """

    steps: int
    steps_in_pass: int
    passes: int
    steps_per_epoch: float
    epochs: float
    peak_rate: float
    warmup_end: int
    changes: tuple[tuple[float, int | None], ...]
    work: int


def _is_pair(value: object) -> bool:
    return (
        isinstance(value, tuple)
        and len(value) == 2
        and all(isinstance(part, (int, float)) and not isinstance(part, bool) for part in value)
    )
