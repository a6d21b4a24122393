"""Is the intact model worth evaluating? Each check quotes the numbers it saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, listed
from roadworthy.evaluation.class_order import class_order
from roadworthy.hints import bytes_in_words
from roadworthy.records import Batch
from roadworthy.statistics import above_chance
from roadworthy.types import Normalize

FEW = "so few samples show nothing; take more"
SWAPPED = "pass 1 - labels, or bring the class folders into the model's order (classes.json)"


def check_images(batch: Batch) -> None:
    """Refuse images with NaN or infinity, naming the samples: one such pixel would spread through fills and means.

    Raises:
        InputError: some images are not finite.
    """
    if not batch.images.is_floating_point():
        return
    bad = ~torch.isfinite(batch.images).flatten(1).all(dim=1)
    if bool(bad.any()):
        named = [sample for sample, is_bad in zip(batch.ids, bad.tolist(), strict=True) if is_bad]
        raise InputError(f"images: NaN or infinite pixels in samples {listed(named)}; mend them or leave them out")


def check_logits(logits: torch.Tensor, ids: list[str], what: str) -> None:
    """Refuse NaN or infinite logits, naming the samples.

    Raises:
        ModelError: some logits are not finite.
    """
    bad = ~torch.isfinite(logits).all(dim=1)
    if bool(bad.any()):
        named = [sample for sample, is_bad in zip(ids, bad.tolist(), strict=True) if is_bad]
        raise ModelError(
            f"The model returned NaN or infinite logits for {len(named)} of {len(ids)} {what}: {listed(named)}. "
            "Check the weights, the normalisation and the precision."
        )


def check_labels(labels: torch.Tensor, classes: int, what: str = "labels") -> None:
    """Refuse labels that the model has no class for.

    Raises:
        InputError: quoting the range found and the range expected.
    """
    low, high = int(labels.min()), int(labels.max())
    if low >= 0 and high < classes:
        return
    hint = " They look numbered from 1: subtract 1." if low >= 1 and high == classes else ""
    if low < 0:
        hint = " Negative labels often mark missing ones: leave those samples out."
    raise InputError(
        f"{what}: range from {low} to {high}, but the model has {classes} classes (0 to {classes - 1}).{hint}"
    )


def intact_verdict(labels: np.ndarray, predicted: np.ndarray, classes: int) -> tuple[str, bool]:
    """Judge the accuracy with nothing removed.

    Args:
        labels: int (n,).
        predicted: int (n,).
        classes: number of classes K; chance is 1/K.

    Returns:
        A message, empty when all is well, and whether it is reason to stop.
    """
    n, correct = len(labels), int((labels == predicted).sum())
    accuracy, chance = correct / n, 1 / classes
    found = f"intact accuracy is {accuracy:.2f} (n = {n})"
    for shift, way_out in ((1, "add 1 to the labels"), (-1, "subtract 1 from the labels")):
        shifted = float(((labels + shift) % classes == predicted).mean())
        if shifted > max(0.5, 2 * accuracy) and n >= 4:
            if classes == 2:
                other = f"{found}, but {shifted:.0%} of the answers equal the other label"
                return f"{other}: the two labels look swapped; {SWAPPED}", True
            sign = "+" if shift > 0 else "-"
            return (
                f"{found}, but {shifted:.0%} of the answers equal the label {sign} 1 (modulo {classes}): labels look "
                f"shifted by one; {way_out}, or for a folder list the names in the model's order in classes.json"
            ), True
    renamed = class_order(labels, predicted)
    if renamed is not None and renamed.accuracy > max(0.5, 2 * accuracy):
        return f"{found}, but {renamed.accuracy:.0%} {renamed}", True
    if not above_chance(correct, n, classes):
        stop = accuracy <= chance or n >= 30
        if not stop:
            return f"{found}, not clearly above chance {chance:.2f} for {classes} classes: {FEW}", False
        return (
            f"{found}, not clearly above chance {chance:.2f} for {classes} classes: removal can show nothing. Check "
            "labels, class order, normalisation and weights; intact_check='warn' (--intact-check warn) goes on all "
            "the same"
        ), True
    if renamed is not None:
        return f"{found}; {renamed.accuracy:.0%} {renamed}", False
    if len(np.unique(predicted)) == 1 and len(np.unique(labels)) > 1:
        return (
            f"the model answers class {int(predicted[0])} for all {n} intact images; accuracy {accuracy:.2f}",
            False,
        )
    return "", False


def range_warning(images: torch.Tensor, normalize: Normalize | None = None) -> str:
    """Return a warning when images do not look like pixel units in [0, 1], else an empty string.

    Args:
        images: (N, C, ...).
        normalize: what the caller has applied before the model.
    """
    low, high = float(images.min()), float(images.max())
    if low >= -0.05 and high <= 1.05:
        return ""
    if low >= 0 and high > 4:
        way_out = "divide by 255"
    elif normalize is not None and low < 0:
        way_out = "they look normalised already, and normalize= does it again; pass normalized= in its place"
    else:
        way_out = "pass normalized=(mean, std) if they are normalised already"
    found = f"images range from {low:.2f} to {high:.2f}, expected [0, 1]"
    return f"{found}; removal and noise work in pixel units: {way_out}"


def check_units(images: torch.Tensor, normalize: Normalize | None) -> None:
    """Refuse a normalisation for 8-bit values where the pictures are in [0, 1].

    Raises:
        InputError: quoting both.
    """
    if normalize is None or images.ndim != 4 or not images.is_floating_point():
        return
    mean = torch.as_tensor(normalize[0]).flatten().tolist()
    if max(mean) > 1.5 and float(images.max()) <= 1.05 and float(images.min()) >= -0.05:
        raise InputError(
            f"normalize: mean is {mean}, which is of pixels from 0 to 255, but the images range from "
            f"{float(images.min()):.2f} to {float(images.max()):.2f}; divide mean and std by 255"
        )


def scores_warning(logits: torch.Tensor, model: Any) -> str:
    """Return a warning when the class scores are probabilities, else an empty string.

    Each row of a softmax adds up to one; a network whose last layer is a Sigmoid says so itself.
    """
    if float(logits.min()) < 0 or float(logits.max()) > 1:
        return ""
    layers = [part for part in model.modules() if not any(True for _ in part.children())] if _is_module(model) else []
    sigmoid = bool(layers) and isinstance(layers[-1], torch.nn.Sigmoid)
    adds_up = bool(((logits.sum(dim=1) - 1).abs() < 1e-3).all()) and bool((logits != logits[:1]).any())
    if not sigmoid and not adds_up:
        return ""
    undone = "torch.logit(p, 1e-6)" if sigmoid else "p.clamp_min(1e-12).log()"
    what = "all lie in [0, 1] and come from a Sigmoid" if sigmoid else "every row lies in [0, 1] and adds up to 1"
    return (
        f"the model's class scores look like probabilities ({what}), and a softmax is taken of them again: the "
        "recorded probabilities are too even, and gradients are those of the probability. Leave that layer off, or "
        f"pass output=lambda p: {undone}; top-1 and top-5 are right either way"
    )


def _is_module(model: Any) -> bool:
    return isinstance(model, torch.nn.Module)


def check_memory(shape: Sequence[int], together: int) -> None:
    """Refuse degraded copies that cannot be in memory together; the copies and the batch made of them both must be.

    Args:
        shape: of one image, without the batch.
        together: the largest number of copies in one pass through the model.

    Raises:
        InputError: quoting sizes and the max_batch that fits.
    """
    free = free_memory()
    each = 4 * int(np.prod(shape))
    if free is None or 2 * each * together <= free:
        return
    fitting = max(1, free // (8 * each))
    raise InputError(
        f"images: {together} copies of shape {tuple(shape)} in one pass take {bytes_in_words(2 * each * together)} "
        f"before the model's own needs, and {bytes_in_words(free)} are free; pass max_batch={fitting} "
        f"(--max-batch {fitting}), or smaller images (--size)"
    )


def free_memory() -> int | None:
    """Return the bytes of memory that are free for new work, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, StopIteration):
        return None
