"""What a GAIN imputer may be made of: its file may be damaged, or made by someone who wishes ill."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from roadworthy.errors import InputError, listed

_FLOAT = float(torch.finfo(torch.float32).max)


def is_number(value: object) -> bool:
    """Whether this is a finite number, and no bool.

    Example:
        >>> [is_number(value) for value in (1, 0.5, True, "1", None, float("nan"), 10**400)]
        [True, True, False, False, False, False, False]
    """
    known = isinstance(value, (int, float)) and not isinstance(value, bool)
    return known and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def check_scale(scale: object) -> float:
    """Return the scale as a float.

    Raises:
        InputError: it is not a finite number above 0.
    """
    if not is_number(scale) or not 0 < scale <= _FLOAT:  # type: ignore[operator]
        raise InputError(f"gain: scale is {scale!r}, expected a finite number above 0")
    return float(scale)  # type: ignore[arg-type]


def check_mean_image(image: object) -> torch.Tensor:
    """Return the mean image on the CPU.

    Raises:
        InputError: it is not a float32 tensor (C, H, W) with finite values.
    """
    if not isinstance(image, torch.Tensor) or image.dtype != torch.float32 or image.ndim != 3 or not image.numel():
        got = f"{image.dtype} {tuple(image.shape)}" if isinstance(image, torch.Tensor) else type(image).__name__
        raise InputError(f"gain: mean_image is {got}, expected torch.float32 (C, H, W)")
    if not bool(image.isfinite().all()):
        raise InputError("gain: mean_image holds NaN or infinite values")
    return image.detach().cpu()


def check_training(training: object) -> dict[str, Any]:
    """Return what is known of the training, as a new mapping.

    Raises:
        InputError: it is no mapping of names, or ``n``, ``seed`` or ``history`` are not such as training gives.
    """
    if not isinstance(training, Mapping) or not all(isinstance(name, str) for name in training):
        raise InputError(f"gain: training is {type(training).__name__}, expected a mapping of names")
    for name, least in (("n", 1), ("seed", 0)):
        value = training.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
            raise InputError(f"gain: training has {name} {value!r}, expected an integer of at least {least}")
    history = training.get("history", [])
    if not isinstance(history, list) or not all(
        isinstance(row, Mapping) and all(value is None or is_number(value) for value in row.values())
        for row in history
    ):
        raise InputError("gain: training has a history that is no list of an epoch's figures")
    return dict(training)


def check_state(
    state: Mapping[str, torch.Tensor], network: Callable[[int], nn.Module], blocks: int
) -> dict[str, torch.Tensor]:
    """Return copies of the tensors on the CPU if they are what the network needs, before it is built.

    Args:
        state: tensors by name.
        network: builds one of the same kind with so many residual blocks, which are named ``blocks.0`` and so on.
        blocks: how many it is to have.

    Raises:
        InputError: tensors that are missing or too many, of other shapes or types, or not finite.
    """
    with torch.device("meta"):  # without memory, and nothing is drawn from the global generator
        rest, one = network(0).state_dict(), network(1).state_dict()
    block = {name.removeprefix("blocks.0."): value for name, value in one.items() if name not in rest}
    count = len(rest) + blocks * len(block)
    if len(state) != count:
        raise InputError(f"gain: got {len(state)} tensors, a network of {blocks} blocks has {count}")
    needed = rest | {f"blocks.{i}.{name}": value for i in range(blocks) for name, value in block.items()}
    if set(state) != set(needed):
        raise InputError(f"gain: there are no tensors {listed(sorted(set(needed) - set(state)), 3)}")
    for name, value in needed.items():
        got = state[name]
        if got.dtype != value.dtype or got.shape != value.shape:
            came, expected = (f"{one.dtype} {tuple(one.shape)}" for one in (got, value))
            raise InputError(f"gain: tensor {name!r} is {came}, expected {expected}")
        if not bool(got.isfinite().all()) or (name.endswith("running_var") and bool((got < 0).any())):
            raise InputError(f"gain: tensor {name!r} holds NaN, infinite values or a negative variance")
    return {name: state[name].detach().cpu().clone() for name in needed}
