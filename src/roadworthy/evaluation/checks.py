"""Is the intact model worth evaluating? Each check quotes the numbers it saw."""

from __future__ import annotations

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, listed
from roadworthy.records import Batch
from roadworthy.statistics import above_chance


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
    for shift, way_out in ((1, "add 1 to the labels"), (-1, "subtract 1 from the labels")):
        shifted = float(((labels + shift) % classes == predicted).mean())
        if shifted > max(0.5, 2 * accuracy) and n >= 4:
            found = f"intact accuracy is {accuracy:.2f} (n = {n}), but {shifted:.0%} of the answers equal"
            if classes == 2:
                return f"{found} the other label: the two labels look swapped", True
            sign = "+" if shift > 0 else "-"
            return f"{found} the label {sign} 1 (modulo {classes}): labels look shifted by one; {way_out}", True
    if not above_chance(correct, n, classes):
        stop = accuracy <= chance or n >= 30
        return (
            f"intact accuracy is {accuracy:.2f} (n = {n}), not clearly above chance {chance:.2f} for {classes} "
            "classes: removal can show nothing. Check labels, class order, normalisation and weights"
            + ("; intact_check='warn' (--intact-check warn) goes on all the same" if stop else "")
        ), stop
    if len(np.unique(predicted)) == 1 and len(np.unique(labels)) > 1:
        return (
            f"the model answers class {int(predicted[0])} for all {n} intact images; accuracy {accuracy:.2f}",
            False,
        )
    return "", False


def range_warning(images: torch.Tensor) -> str:
    """Return a warning when images do not look like pixel units in [0, 1], else an empty string."""
    low, high = float(images.min()), float(images.max())
    if low >= -0.05 and high <= 1.05:
        return ""
    way_out = (
        "divide by 255" if low >= 0 and high > 4 else "pass normalized=(mean, std) if they are normalised already"
    )
    found = f"images range from {low:.2f} to {high:.2f}, expected [0, 1]"
    return f"{found}; removal and noise work in pixel units: {way_out}"
