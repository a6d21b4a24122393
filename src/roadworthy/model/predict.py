"""What a model answers on a split, and how often it is right."""

from __future__ import annotations

from typing import NamedTuple

import torch

from roadworthy.errors import InputError
from roadworthy.forward import Classifier, untouched
from roadworthy.records import Split
from roadworthy.types import Progress


class Predictions(NamedTuple):
    """The answers of a model.

    Attributes:
        logits: float32 (N, K).
        labels: int64 (N,).
        ids: N sample ids.
    """

    logits: torch.Tensor
    labels: torch.Tensor
    ids: list[str]


def predict(classifier: Classifier, split: Split, *, progress: Progress | None = None) -> Predictions:
    """Run a model over a split, at most ``max_batch`` images at a time; images are not kept.

    Args:
        classifier: the model, as ``Classifier(model, normalize=..., output=...)``.
        split: the samples; broken ones are left out.
        progress: called with the number of samples just done.

    Returns:
        Logits, labels and ids of the samples that could be read, in the split's order.

    Raises:
        InputError: no sample could be read.
    """
    logits, labels, ids = [], [], []
    with untouched(classifier.model):
        for batch in split.batches(classifier.max_batch):
            logits.append(classifier.logits(batch.images))
            labels.append(batch.labels)
            ids += batch.ids
            if progress is not None:
                progress(len(batch.ids))
    if not logits:
        raise InputError(f"predict: {split.name} has no samples that can be read")
    return Predictions(torch.cat(logits), torch.cat(labels), ids)


def accuracy(model: torch.nn.Module, split: Split) -> float:
    """Return the share of samples in [0, 1] whose label a model in pixel units ranks first.

    For other shares (top-5, per class) take the logits of :func:`predict`.
    """
    answers = predict(Classifier(model), split)
    return float((answers.logits.argmax(1) == answers.labels).double().mean())
