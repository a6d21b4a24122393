"""Train a model: seeded, resumable to the bit on a CPU; the last epoch counts, or the best on a validation split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import InputError, ModelError
from roadworthy.forward import device_of
from roadworthy.model.checkpoint import Checkpoint, Damaged, fingerprint
from roadworthy.model.feed import Feed
from roadworthy.model.history import History
from roadworthy.model.recipe import Recipe
from roadworthy.model.team import Team
from roadworthy.model.training import Training
from roadworthy.rng import resolve_seed
from roadworthy.types import Normalize, Output, Progress, Seed

MEMORY = 2 * 1024**3


def fit(
    model: torch.nn.Module,
    train: Any,
    *,
    recipe: Recipe,
    seed: Seed = 0,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
    validation: Any = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 600.0,
    damaged: Damaged = "error",
    snapshots: str | Path | None = None,
    snapshot_every: int = 1,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> History:
    """Train a model in place and report the last epoch, or the best one on a validation split.

    Nothing is selected on test data, which this never sees. Shuffling, augmentation and dropout draw from the
    seed and the epoch alone: the same seed gives the same weights, bit for bit on a CPU, also when a run was
    interrupted (or killed, at any moment) and went on from its checkpoint. On CUDA, computation is channels-last
    and in bfloat16 where the device has it (see :class:`Recipe`).

    A checkpoint or snapshot that cannot be written, as on a full disk, is told by a warning; what was written
    before stays, and the training goes on.

    Args:
        model: the network; its weights are changed, its train flags are put back at the end. Parameters that do
            not require gradients stay as they are.
        train: a :class:`~roadworthy.records.Split` such as ``data.train``, a pair of tensors (images (N, ...) in
            pixel units, labels (N,)), or an object with ``batches(size)``, ``labels`` and a length. If it has
            ``for_epoch(epoch)``, that is asked for the split of each epoch, counted from 0, all of one length.
        recipe: the settings; see :func:`load_recipe`.
        seed: an integer or a generator.
        normalize: ``(mean, std)`` per channel, put in front of a model that does not normalise by itself.
        output: how to pick the class scores from what the model returns.
        device: where to train; the model is moved there and stays. Its own device by default.
        validation: samples as ``train`` takes them, none of which should be in ``train``. After each epoch the
            share classified right is noted, and the model gets the weights of the epoch with the highest in the end.
        checkpoint: a file that is written after each epoch and read at the start; a finished run is not repeated.
        checkpoint_seconds: the checkpoint is written inside an epoch as well, when the last one is so old. Data that
            are streamed have to be read again up to there.
        damaged: what to do with a checkpoint that cannot be read: ``"error"``, or ``"restart"`` with a warning.
        snapshots: a folder that gets the weights after each ``snapshot_every``-th epoch and after the last, as
            ``epoch-00003.safetensors``, each whole or not at all. :func:`read_weights` gives the notes ``epoch`` and
            ``last`` with them; another process can score them as they appear.
        snapshot_every: see ``snapshots``.
        memory: bytes of samples to hold in memory; larger data are read anew each epoch, through a shuffle buffer
            of a quarter of this.
        progress: called with the number of samples just trained on; ``recipe.timetable(len(train)).work`` in all.

    Returns:
        The history of the run.

    Raises:
        InputError: unusable training data, or labels that the model has no class for.
        ModelError: a checkpoint of another run, or one that cannot be read.
        SolverError: the loss is no longer finite.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 2))
        >>> images = torch.zeros(8, 1, 2, 2)
        >>> images[4:] = 1.0
        >>> recipe = Recipe(epochs=20, learning_rate=0.5, batch_size=4)
        >>> fit(net, (images, torch.arange(8) // 4), recipe=recipe).accuracy[-1]
        1.0
    """
    return train_as(
        Team(),
        model,
        train,
        recipe=recipe,
        seed=seed,
        normalize=normalize,
        output=output,
        device=device,
        validation=validation,
        checkpoint=checkpoint,
        checkpoint_seconds=checkpoint_seconds,
        damaged=damaged,
        snapshots=snapshots,
        snapshot_every=snapshot_every,
        memory=memory,
        progress=progress,
    )


def train_as(
    team: Team,
    model: torch.nn.Module,
    train: Any,
    *,
    recipe: Recipe,
    seed: Seed,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
    validation: Any = None,
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = 600.0,
    damaged: Damaged = "error",
    snapshots: str | Path | None = None,
    snapshot_every: int = 1,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> History:
    """Do what :func:`fit` does, as one of the processes of a team."""
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"fit: got {type(model).__name__}, expected a torch.nn.Module; only those can be trained")
    if not isinstance(snapshot_every, int) or snapshot_every < 1:
        raise InputError(f"fit: snapshot_every is {snapshot_every!r}, expected an integer of at least 1")
    if not checkpoint_seconds >= 0:
        raise InputError(f"fit: checkpoint_seconds is {checkpoint_seconds!r}, expected at least 0")
    if device is not None:
        model.to(device_of(len, device))
    seed = resolve_seed(seed)
    feed = Feed(train, memory).to(device_of(model))
    held_out = None if validation is None else Feed(validation, memory).to(device_of(model))
    run = {}
    if checkpoint is not None:
        run = fingerprint(model, feed, recipe=recipe, seed=seed, normalize=normalize, validation=held_out)
    return Training(
        model,
        feed,
        recipe=recipe,
        seed=seed,
        normalize=normalize,
        output=output,
        validation=held_out,
        checkpoint=Checkpoint(checkpoint, run, damaged),
        checkpoint_seconds=checkpoint_seconds,
        snapshots=None if snapshots is None else Path(snapshots),
        snapshot_every=snapshot_every,
        team=team,
        progress=progress,
    ).run()
