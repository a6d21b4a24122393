"""The intact samples: pixel units, labels, targets, the model's answers, and whether they are worth evaluating."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.evaluation.checks import (
    check_images,
    check_labels,
    check_logits,
    check_memory,
    check_units,
    intact_verdict,
    range_warning,
    scores_warning,
)
from roadworthy.evaluation.inputs import UNLABELLED, Stream
from roadworthy.forward import Classifier, as_stats, built_in, target_classes, untouched
from roadworthy.hints import looks_channels_last
from roadworthy.labels import as_labels
from roadworthy.records import Batch
from roadworthy.types import Layout, Normalize, Output

EARLY = 256  # samples that are judged before anything costly begins


class Notes(dict[str, str]):
    """What the user should know, each matter once: the first message about it warns and is kept."""

    def add(self, about: str, message: str) -> None:
        """Warn, unless something was said about this already or there is nothing to say."""
        if message and about not in self:
            self[about] = message
            warnings.warn(message, RoadworthyWarning, stacklevel=2)


def denormalised(batch: Batch, stats: Normalize) -> Batch:
    """Bring images that were normalised by ``stats`` back to pixel units."""
    shape = (1, -1, *[1] * (batch.images.ndim - 2))
    mean, std = (part.view(shape) for part in as_stats(stats, batch.images.shape[1]))
    return batch._replace(images=batch.images * std + mean)


@dataclass
class Seen:
    """A block of intact samples as the model sees it.

    Attributes:
        batch: the samples in pixel units, labelled (with the model's answers where no labels were given).
        logits: float32 (N, K).
        predicted: int64 (N,).
        targets: int64 (N,), the class that is explained, and whose probability is recorded.
    """

    batch: Batch
    logits: torch.Tensor
    predicted: torch.Tensor
    targets: torch.Tensor

    def rows(self, keep: np.ndarray) -> Seen:
        """Return the rows where ``keep`` is True."""
        chosen = torch.from_numpy(keep)
        ids = [sample for sample, kept in zip(self.batch.ids, keep, strict=True) if kept]
        batch = Batch(self.batch.images[chosen], self.batch.labels[chosen], ids)
        return Seen(batch, self.logits[chosen], self.predicted[chosen], self.targets[chosen])


@dataclass
class Examiner:
    """Looks at intact samples with the model.

    Args:
        classifier: the model.
        stream: the samples.
        target: ``"predicted"``, ``"label"`` or a class per sample.
        normalized: statistics by which the images were normalised already, or None.
        stop_at_chance: whether an intact accuracy at chance is an error.
        notes: takes warnings.
        classes: number of classes, once known.
        labelled: whether labels were given, once known.
    """

    classifier: Classifier
    stream: Stream
    target: str | Sequence[int] | torch.Tensor
    normalized: Normalize | None = None
    stop_at_chance: bool = True
    notes: Notes = field(default_factory=Notes)
    classes: int = 0
    labelled: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.target, str):
            self.target = as_labels(self.target, what="target")
            more = len(self.target) > self.stream.length and self.stream.max_samples is None
            if len(self.target) < self.stream.length or more:
                raise InputError(
                    f"target: {len(self.target)} classes for {self.stream.length} samples; give one per sample"
                )
            if self.stream.shuffled:
                raise InputError("target: the DataLoader draws its own order; use shuffle=False to give classes")

    def digest(self, batch: Batch, start: int) -> str:
        """Hash what a block's scores follow from: pixels, labels and given targets."""
        digest = hashlib.blake2b(digest_size=8)
        parts = [batch.images, batch.labels]
        if isinstance(self.target, torch.Tensor):
            parts.append(self.target[torch.from_numpy(self.stream.positions(batch.ids, start))])
        for part in parts:
            digest.update(np.ascontiguousarray(part.numpy()).tobytes())
        return digest.hexdigest()

    def look(self, batch: Batch, start: int) -> Seen:
        """Ask the model about a block, and resolve labels and targets.

        Raises:
            InputError: labels or targets that the model has no class for.
            ModelError: scores that are not finite.
        """
        check_images(batch)
        batch = self._in_pixel_units(batch)
        logits = self.classifier.logits(batch.images)
        check_logits(logits, batch.ids, "intact samples")
        self.notes.add("scores", scores_warning(logits, self.classifier.model))
        predicted = logits.argmax(dim=1)
        self.classes = logits.shape[1]
        labels: torch.Tensor | None = batch.labels
        if bool((batch.labels == UNLABELLED).any()):
            message = "no labels were given: top-1 and top-5 are agreement with the model's own intact answers"
            self.notes.add("labels", message)
            self.labelled, labels, batch = False, None, batch._replace(labels=predicted)
        else:
            check_labels(batch.labels, self.classes)
        target = self.target
        if isinstance(target, torch.Tensor):
            target = target[torch.from_numpy(self.stream.positions(batch.ids, start))]
        targets = target_classes(target, predicted=predicted, labels=labels)
        check_labels(targets, self.classes, "target")
        return Seen(batch, logits, predicted, targets)

    def preflight(self) -> None:
        """Judge the first samples, where they can be read again, before any map is made.

        Raises:
            InputError: accuracy at chance or labels that look shifted, unless told to go on.
        """
        if not self.stream.restartable:
            return
        answers: list[tuple[torch.Tensor, torch.Tensor]] = []
        start = 0
        for batch in self.stream.blocks():
            if not answers:
                check_memory(batch.images.shape[1:], min(self.classifier.max_batch, self.stream.length))
            seen = self.look(batch, start)
            answers.append((seen.batch.labels, seen.predicted))
            start += len(batch.ids)
            if start >= EARLY:
                break
        if answers:
            labels, predicted = (torch.cat(parts).numpy() for parts in zip(*answers, strict=True))
            self.judge(labels, predicted, final=start >= self.stream.length)

    def judge(self, labels: np.ndarray, predicted: np.ndarray, *, final: bool = True) -> None:
        """Note, or refuse, an intact accuracy that shows nothing.

        Args:
            labels: int64 (n,).
            predicted: int64 (n,).
            final: whether these are all samples; a mere doubt about a part of them is not worth a warning.
        """
        message, stop = intact_verdict(labels, predicted, self.classes)
        if stop and self.stop_at_chance:
            raise InputError(message)
        if stop or final:
            self.notes.add("intact", message)

    def _in_pixel_units(self, batch: Batch) -> Batch:
        images = batch.images
        if not images.is_floating_point():
            return batch
        if self.normalized is not None:
            return denormalised(batch, self.normalized)
        stats = self.classifier.normalize or built_in(self.classifier.model)
        check_units(images, stats)
        if looks_channels_last(images.shape):
            self.notes.add(
                "layout",
                f"images of shape {tuple(images.shape[1:])} are taken for {images.shape[1]} channels; if they are "
                "channels last, pass layout='NHWC'",
            )
        if images.ndim > 2:
            self.notes.add("range", range_warning(images, stats))
        return batch


def preflight(
    model: Callable[..., Any],
    images: Any,
    labels: Any = None,
    *,
    target: str | Sequence[int] | torch.Tensor = "predicted",
    normalize: Normalize | None = None,
    normalized: Normalize | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    max_batch: int = 256,
    max_samples: int | None = None,
    intact_check: Literal["raise", "warn"] = "raise",
) -> list[str]:
    """Check a model and its samples before anything costly: scores, labels, and the accuracy on the first 256.

    Arguments are those of :func:`roadworthy.evaluate`, which does the same before it makes maps.

    Returns:
        Warnings.

    Raises:
        InputError: labels out of range or shifted, accuracy at chance.
        ModelError: the model returns no class scores, or values that are not finite.

    Example:
        >>> def model(x):
        ...     return torch.stack([x[:, 0, 0], -x[:, 0, 0]], dim=1)
        >>> images = torch.linspace(0.1, 1, 10).view(10, 1, 1)
        >>> preflight(model, images, torch.zeros(10))
        []
    """
    stream = Stream(images, labels, ids=None, max_samples=max_samples, layout=layout)
    stats = normalized if normalize is None else normalize
    classifier = Classifier(model, normalize=stats, output=output, layout=layout, device=device, max_batch=max_batch)
    examiner = Examiner(classifier, stream, target, normalized, stop_at_chance=intact_check == "raise")
    with untouched(model):
        examiner.preflight()
    return list(examiner.notes.values())
