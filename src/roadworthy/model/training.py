"""The one training loop: epochs of seeded steps, alone or as one of several processes."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import InputError, SolverError
from roadworthy.forward import Classifier, device_of, untouched
from roadworthy.model.augment import augment
from roadworthy.model.checkpoint import (
    Checkpoint,
    State,
    generator_states,
    set_generator_states,
    warn_unwritten,
)
from roadworthy.model.feed import Feed
from roadworthy.model.history import History
from roadworthy.model.optimizer import sgd
from roadworthy.model.recipe import Recipe
from roadworthy.model.team import Team
from roadworthy.model.weights import save_weights
from roadworthy.rng import seeded_globals, torch_generator
from roadworthy.types import Normalize, Output, Progress


class Training:
    """A training from its first step to its last, or from where a checkpoint stands.

    Args:
        model: the network, on its device.
        feed: the training samples.
        recipe: the settings.
        seed: all draws follow from it, the epoch and the step.
        normalize: see :func:`~roadworthy.model.fit`.
        output: see :func:`~roadworthy.model.fit`.
        validation: samples to score each epoch on, and to choose the epoch by.
        checkpoint: where the state is kept.
        checkpoint_seconds: the state is kept inside an epoch as well when the last time is this long ago.
        snapshots: folder for the weights of each ``snapshot_every``-th epoch and of the last.
        snapshot_every: see ``snapshots``.
        team: the processes that share the training.
        progress: called with the number of samples just done.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        feed: Feed,
        *,
        recipe: Recipe,
        seed: int,
        normalize: Normalize | None,
        output: Output,
        validation: Feed | None,
        checkpoint: Checkpoint,
        checkpoint_seconds: float,
        snapshots: Path | None,
        snapshot_every: int,
        team: Team,
        progress: Progress | None,
    ) -> None:
        self.model, self.feed, self.recipe, self.seed = model, feed, recipe, seed
        self.normalize, self.output, self.validation = normalize, output, validation
        self.checkpoint, self.checkpoint_seconds = checkpoint, checkpoint_seconds
        self.snapshots, self.snapshot_every = snapshots, snapshot_every
        self.team, self.progress = team, progress if team.leads else None
        self.device = device_of(model)
        self.table = recipe.timetable(len(feed))
        self.optimizer = sgd(model, recipe)
        self.classifier = Classifier(model, normalize=normalize, output=output)

    def run(self) -> History:
        """Train to the end, put the chosen weights into the model, and return the history."""
        state = self.checkpoint.load(self.model, self.optimizer)
        self._report_resumed(state)
        with self._prepared():
            self._kept_at = time.monotonic()
            for epoch in range(len(state.history.loss), self.table.passes):
                # dropout reads the global generators: it gets its own stream, and theirs are put back
                own = (self.team.rank,) if self.team.rank else ()
                with seeded_globals(self.seed, "fit-epoch", epoch, *own):
                    figures = self._epoch(epoch, state)
                self._close(epoch, state, *figures)
        if state.best is not None:
            self.model.load_state_dict(state.best)
        return state.history

    @contextlib.contextmanager
    def _prepared(self) -> Iterator[None]:
        """Put the model in training mode, its memory in the wanted layout, and undo both at the end."""
        flags = [(part, part.training) for part in self.model.modules()]
        wanted = self.recipe.channels_last
        self._channels_last = self.device.type == "cuda" if wanted is None else wanted
        if self._channels_last:
            self.model.to(memory_format=torch.channels_last)
        try:
            self.model.train()
            self.classifier = Classifier(self.team.wrap(self.model), normalize=self.normalize, output=self.output)
            with torch.enable_grad():
                yield
        finally:
            for part, training in flags:
                part.training = training
            for parameter in self.model.parameters():
                parameter.grad = None
            if self._channels_last:
                self.model.to(memory_format=torch.contiguous_format)

    def _epoch(self, epoch: int, state: State) -> tuple[float, float, float]:
        """Train one epoch, or what is left of it; return mean loss, accuracy and seconds."""
        began, team = time.perf_counter(), self.team
        losses = torch.zeros((), device=self.device)
        right = torch.zeros((), dtype=torch.int64, device=self.device)
        changes = torch_generator(self.seed, "fit-augmentation", epoch)
        done, seen, counted = 0, 0, 0
        if state.partial is not None:
            done, seen, counted, before = self._take_up(state.partial, changes, losses, right)
            began -= before
        batches = self.feed.at(epoch).epoch(self.recipe, torch_generator(self.seed, "fit-order", epoch), skip=done)
        limit = min(self.table.steps_in_pass, self.table.steps - epoch * self.table.steps_in_pass)
        for step, (images, labels) in zip(range(done, limit), batches, strict=False):
            loss, hits, count = self._step(images, labels, changes, rate=self._rate(epoch, step))
            losses += loss * count
            right += hits
            seen += len(labels)
            counted += count
            self._report(len(labels))
            if self._is_due() and step + 1 < limit:
                state.partial = {
                    "step": step + 1,
                    "figures": (losses.cpu(), right.cpu(), seen, counted, time.perf_counter() - began),
                    "augmentation": changes.get_state(),
                    "globals": generator_states(self.device),
                }
                self._keep(state)
        state.partial = None
        if not self.recipe.total_steps:
            self._report(len(self.feed) - seen)
        total, hit, among = team.total(losses, right, counted, device=self.device)
        if among == 0 or not math.isfinite(total):
            raise SolverError(
                f"fit: the loss is {total} in epoch {epoch + 1} after {seen} samples (learning rate "
                f"{self.recipe.peak_rate}); lower the learning rate, or warm up for longer"
            )
        return total / among, hit / among, time.perf_counter() - began

    def _take_up(
        self, partial: dict[str, Any], changes: torch.Generator, losses: torch.Tensor, right: torch.Tensor
    ) -> tuple[int, int, int, float]:
        """Go on inside an epoch. The sums are those of the first process: the others begin theirs anew."""
        changes.set_state(partial["augmentation"])
        loss, hits, seen, counted, seconds = partial["figures"]
        if not self.team.leads:
            return partial["step"], seen, 0, seconds
        set_generator_states(partial["globals"], self.device)
        losses += loss.to(self.device)
        right += hits.to(self.device)
        return partial["step"], seen, counted, seconds

    def _rate(self, epoch: int, step: int) -> float:
        table = self.table
        if self.recipe.total_steps:
            at = (epoch * table.steps_in_pass + step) / table.steps_per_epoch
        else:
            at = epoch + step / table.steps_in_pass
        return self.recipe.rate(at, length=table.epochs)

    def _step(
        self, images: torch.Tensor, labels: torch.Tensor, changes: torch.Generator, *, rate: float
    ) -> tuple[torch.Tensor, torch.Tensor, int]:
        """Take one step on this process's part of a batch; return mean loss, hits and samples of that part."""
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        whole, part = len(labels), self.team.part(len(labels))
        count = part.stop - part.start
        if count == 0:  # all processes take the step; this one adds nothing to it
            part = slice(0, 1)
        images = augment(images, self.recipe, changes, part).to(self.device)
        labels = labels[part].to(self.device)
        last = self._channels_last and images.ndim == 4
        images = images.contiguous(memory_format=torch.channels_last if last else torch.contiguous_format)
        bf16 = _has_bf16(self.device) if self.recipe.bf16 is None else self.recipe.bf16
        with torch.autocast(self.device.type, torch.bfloat16, enabled=bf16):
            logits = self.classifier.forward(images)
        if self.feed.most >= logits.shape[1]:
            raise InputError(f"fit: labels go to {self.feed.most}, the model has {logits.shape[1]} classes")
        loss = torch.nn.functional.cross_entropy(logits.float(), labels, label_smoothing=self.recipe.label_smoothing)
        self.optimizer.zero_grad(set_to_none=True)
        # gradients are averaged over the processes; this makes the average that over all samples of the batch
        (loss if self.team.size == 1 else loss * (self.team.size * count / whole)).backward()
        self.optimizer.step()
        hits = (logits.argmax(1) == labels).sum()
        return loss.detach(), hits if count else torch.zeros_like(hits), count

    def _close(self, epoch: int, state: State, loss: float, accuracy: float, seconds: float) -> None:
        """Add an epoch to the history, score it, and keep what is to be kept."""
        self.team.agree(self.model)
        past, scores = state.history, state.history.validation
        if self.validation is not None:
            scores = (*scores, self._score(epoch, self.validation))
            if max(scores[:-1], default=-1.0) < scores[-1]:
                state.best = {name: value.cpu().clone() for name, value in self.model.state_dict().items()}
        state.history = History(
            loss=(*past.loss, loss),
            accuracy=(*past.accuracy, accuracy),
            seconds=(*past.seconds, seconds),
            resumed=past.resumed,
            validation=scores,
            chosen=1 + scores.index(max(scores)) if scores else epoch + 1,
        )
        # before the checkpoint: a run that goes on from there must not lack the file
        self._snapshot(epoch + 1)
        self._keep(state)

    def _score(self, epoch: int, validation: Feed) -> float:
        """Return the share of validation samples classified right; each process takes every n-th batch."""
        # a new one each time: it asks a network in the same way each time, also after an interruption
        classifier = Classifier(self.model, normalize=self.normalize, output=self.output)
        self.optimizer.zero_grad(set_to_none=True)
        hits, count = 0, 0
        with seeded_globals(self.seed, "fit-validation", epoch), untouched(self.model):
            for number, (images, labels) in enumerate(validation.in_order(classifier.max_batch)):
                if number % self.team.size == self.team.rank:
                    hits += int((classifier.logits(images).argmax(1) == labels.cpu()).sum())
                    count += len(labels)
        right, among = self.team.total(hits, count, device=self.device)
        return right / max(1.0, among)

    def _snapshot(self, done: int) -> None:
        last = done == self.table.passes
        if self.snapshots is None or not self.team.leads or not (last or done % self.snapshot_every == 0):
            return
        path = self.snapshots / f"epoch-{done:05d}.safetensors"
        try:
            save_weights(self.model, path, normalize=self.normalize, notes={"epoch": done, "last": last})
        except OSError as error:
            warn_unwritten(path, error)

    def _keep(self, state: State) -> None:
        if self.team.leads:
            self.checkpoint.save(state, self.model, self.optimizer)
        self._kept_at = time.monotonic()

    def _is_due(self) -> bool:
        return self.checkpoint.path is not None and time.monotonic() - self._kept_at >= self.checkpoint_seconds

    def _report_resumed(self, state: State) -> None:
        done, samples = len(state.history.loss), len(self.feed)
        if self.recipe.total_steps:
            steps = min(done * self.table.steps_in_pass, self.table.steps)
            samples, done = self.table.work // self.table.steps, steps
        self._report(done * samples + (0 if state.partial is None else state.partial["figures"][2]))

    def _report(self, done: int) -> None:
        if self.progress is not None and done > 0:
            self.progress(done)


def _has_bf16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported()
