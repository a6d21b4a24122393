"""The mean per channel that fills use: where it comes from, and what to say where it is second best."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.evaluation.inputs import Stream
from roadworthy.evaluation.intact import Notes
from roadworthy.evaluation.strategy import Strategy
from roadworthy.imputation import Imputer, Mean
from roadworthy.records import STATISTICS_SAMPLE, Split
from roadworthy.types import Normalize

EVALUATED = "the images evaluated"


def training_mean(
    mean: Any,
    stats: Normalize | None,
    model: Callable[..., Any],
    stream: Stream,
    train: Split | None = None,
    *,
    needed: bool = False,
) -> tuple[list[float] | None, str]:
    """Find the channel mean that fills use, in pixel units, and say where it came from.

    Images that are not in memory are read for it only where it is ``needed``.
    """
    if mean is not None:
        return _as_mean("mean", mean), "given"
    if stats is not None:
        return _as_mean("normalize", stats[0]), "normalize"
    known = getattr(model, "pixel_mean", None)
    if known is not None:
        return _as_mean("pixel_mean", known), "model"
    if train is not None:
        return list(train.statistics()[0]), "train"
    if stream.in_memory and stream.images.is_floating_point():
        axis = -1 if stream.layout == "NHWC" and stream.images.ndim > 2 else 1
        rest = [dim for dim in range(stream.images.ndim) if dim != axis % stream.images.ndim]
        return stream.images.double().mean(dim=rest).tolist(), EVALUATED
    if not needed or not stream.first().images.is_floating_point():
        return None, "unknown"
    if isinstance(stream.images, Split):
        return list(stream.images.statistics()[0]), EVALUATED
    return _mean_of_stream(stream)


def _mean_of_stream(stream: Stream) -> tuple[list[float], str]:
    total, count, seen = torch.zeros((), dtype=torch.float64), 0, 0
    for block in stream.blocks() if stream.restartable else [stream.first()]:
        values = block.images.transpose(0, 1).flatten(1).double()
        total, count, seen = total + values.sum(dim=1), count + values.shape[1], seen + len(block.ids)
        if seen >= STATISTICS_SAMPLE:
            break
    which = EVALUATED if seen >= stream.length else f"the first {seen} of {EVALUATED}"
    return (total / count).tolist(), which


def check_mean(filler: Imputer, chosen: Strategy, mean: list[float] | None, source: str, notes: Notes) -> None:
    """A mean fill needs a mean, and one of the very images it degrades is second best: say so before any work."""
    needed = isinstance(filler, Mean)
    if needed and mean is None:
        raise InputError("imputer 'mean': token ids have no mean; pass imputer=roadworthy.imputation.MaskToken(id)")
    if source.endswith(EVALUATED) and (needed or 1.0 in chosen.fractions):
        notes.add("mean", f"the training mean is not known: fills use the mean of {source}; pass mean=")


def _as_mean(what: str, values: Any) -> list[float]:
    try:
        found = torch.as_tensor(values, dtype=torch.float64).flatten()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"{what}: got {values!r}, expected one number per channel") from error
    if found.numel() == 0 or not bool(found.isfinite().all()):
        raise InputError(f"{what}: got {found.tolist()}, expected one finite number per channel")
    return found.tolist()
