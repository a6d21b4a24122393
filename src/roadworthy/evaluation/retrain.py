"""Train a new model on degraded images, and score it on test images degraded by the same rule."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roadworthy.data.splits import stratified_split
from roadworthy.errors import InputError
from roadworthy.evaluation.checks import check_labels, check_logits
from roadworthy.evaluation.readout import read_out
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.forward import Classifier, untouched
from roadworthy.model import History, Recipe, fit, fit_distributed
from roadworthy.records import Split
from roadworthy.rng import derive, numpy_generator
from roadworthy.types import Normalize, Output, Progress

MEMORY = 2 * 1024**3


@dataclass(frozen=True)
class Trained:
    """What one training gave: the scores of its last (or validated) epoch on the whole test split.

    Attributes:
        ids: test sample ids.
        labels: int64 (n,).
        top1: uint8 (n,), 1 where the label is the model's first answer.
        top5: uint8 (n,), 1 where it is among the first five.
        probability: float32 (n,), softmax probability of the label.
        logit: float32 (n,), its logit.
        predicted: int64 (n,), the model's answers.
        loss: mean cross-entropy on the test split, without label smoothing or weight decay.
        history: of the training.
        seconds: wall-clock time of training, and of everything including preparation and test.
        images: images trained on, repetitions counted.
    """

    ids: list[str]
    labels: np.ndarray
    top1: np.ndarray
    top5: np.ndarray
    probability: np.ndarray
    logit: np.ndarray
    predicted: np.ndarray
    loss: float
    history: History
    seconds: tuple[float, float]
    images: int


@dataclass(frozen=True)
class Retrainer:
    """What all trainings of an evaluation share.

    Attributes:
        build: returns a fresh network for a seed; it takes images in pixel units, or ``normalize`` is set.
        train: training samples.
        test: test samples.
        recipe: how each network is trained.
        seed: the seed of the run; that of a repeat's training is derived from it and the same for all treatments.
        validation_share: share of each class of the training samples that is held out, to choose the epoch by; with
            0 the last epoch counts.
        normalize: ``(mean, std)`` put in front of a network that does not normalise by itself.
        output: how to pick the class scores from what the network returns.
        device: where to train; None leaves networks where they are built.
        memory: bytes of training samples to hold in memory.
        max_batch: images in one pass when scoring.
        processes: processes that share one training; ``build`` must then be a function at the top of a module, or a
            ``functools.partial`` of one.
    """

    build: Callable[[int], torch.nn.Module]
    train: Split
    test: Split
    recipe: Recipe
    seed: int = 0
    validation_share: float = 0.0
    normalize: Normalize | None = None
    output: Output = None
    device: str | torch.device | None = None
    memory: int = MEMORY
    max_batch: int = 256
    processes: int = 1

    def run(
        self,
        treatment: Treatment,
        degrader: Degrader,
        *,
        train_maps: MapRows | None = None,
        test_maps: MapRows | None = None,
        checkpoint: Path | None = None,
        snapshots: Path | None = None,
        snapshot_every: int = 1,
        progress: Progress | None = None,
    ) -> tuple[Trained, torch.nn.Module]:
        """Train one network from scratch and score it; the last epoch counts, or the one chosen on held-out samples.

        Args:
            treatment: what is done to training, held-out and test images alike.
            degrader: does it; its repeat decides the seeds.
            train_maps: the method's maps of the training samples.
            test_maps: its maps of the test samples.
            checkpoint: a file that an interrupted training goes on from.
            snapshots: a folder that keeps the weights after every ``snapshot_every`` epochs.
            snapshot_every: see there.
            progress: called with the number of samples just trained on.

        Returns:
            The scores, and the network.
        """
        began = time.perf_counter()
        train, held_out = self._parts(degrader, treatment, train_maps)
        seed = training_seed(self.seed, degrader.repeat)
        options = {
            "normalize": self.normalize,
            "output": self.output,
            "checkpoint": checkpoint,
            "damaged": "restart",
            "memory": self.memory,
            "validation": held_out,
            "snapshots": snapshots,
            "snapshot_every": snapshot_every,
            "progress": progress,
        }
        model, history = self._fitted(train, seed, options)
        trained = score(
            model,
            degrader.split(self.test, treatment, test_maps),
            normalize=self.normalize,
            output=self.output,
            max_batch=self.max_batch,
        )
        images = self.recipe.timetable(len(train)).work
        seconds = (float(sum(history.seconds)), time.perf_counter() - began)
        return Trained(**trained, history=history, seconds=seconds, images=images), model

    def _fitted(self, train: Split, seed: int, options: dict[str, Any]) -> tuple[torch.nn.Module, History]:
        if self.processes > 1:
            place = str(self.device or "cpu").partition(":")[0]
            return fit_distributed(
                functools.partial(self.build, seed),
                train,
                processes=self.processes,
                recipe=self.recipe,
                seed=seed,
                device=place,
                **options,
            )
        model = self.build(seed)
        return model, fit(model, train, recipe=self.recipe, seed=seed, device=self.device, **options)

    def _parts(self, degrader: Degrader, treatment: Treatment, maps: MapRows | None) -> tuple[Split, Split | None]:
        """Return the training samples and those held out, both degraded."""
        if self.validation_share == 0:
            return degrader.split(self.train, treatment, maps), None
        generator = numpy_generator(self.seed, "validation")
        labels = self.train.labels.numpy()
        kept, held = stratified_split(labels, test_share=self.validation_share, generator=generator)
        parts = (self.train.subset(positions) for positions in (kept, held))
        train, validation = (degrader.split(part, treatment, maps) for part in parts)
        return train, validation


def training_seed(seed: int, repeat: int) -> int:
    """Return the seed of a repeat's trainings: initial weights, order of the samples, augmentation.

    Example:
        >>> training_seed(0, 0) == training_seed(0, 0) != training_seed(0, 1)
        True
    """
    return derive(seed, "retrain", repeat) % 2**63


def score(
    model: torch.nn.Module,
    split: Split,
    *,
    normalize: Normalize | None = None,
    output: Output = None,
    max_batch: int = 256,
) -> dict[str, Any]:
    """Score a model on every sample of a split that can be read.

    Returns:
        ``ids``, ``labels``, ``predicted``, ``loss`` (mean cross-entropy) and the readouts of the label, as
        :class:`Trained` has them.

    Raises:
        InputError: no sample could be read, or labels that the model has no class for.
        ModelError: scores that are not finite.
    """
    classifier = Classifier(model, normalize=normalize, output=output, max_batch=max_batch)
    parts: list[dict[str, np.ndarray]] = []
    ids: list[str] = []
    total = 0.0
    with untouched(model):
        for batch in split.batches(max_batch):
            logits = classifier.logits(batch.images)
            check_logits(logits, batch.ids, "test samples")
            check_labels(batch.labels, logits.shape[1])
            labels = batch.labels.numpy()
            found = read_out(logits, labels, labels)
            parts.append(found | {"labels": labels, "predicted": logits.argmax(dim=1).numpy()})
            total += float(torch.nn.functional.cross_entropy(logits.double(), batch.labels, reduction="sum"))
            ids += batch.ids
    if not ids:
        raise InputError(f"retrain: {split.name} has no samples that can be read")
    gathered: dict[str, Any] = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return gathered | {"ids": ids, "loss": total / len(ids)}
