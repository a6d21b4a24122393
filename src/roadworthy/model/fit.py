"""The one training loop: SGD with Nesterov momentum, seeded, resumable to the bit on a CPU; the last epoch counts."""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from roadworthy.errors import InputError, ModelError, SolverError
from roadworthy.files import replacing
from roadworthy.forward import Classifier, device_of
from roadworthy.model.feed import Feed, augment
from roadworthy.model.recipe import Recipe
from roadworthy.rng import resolve_seed, seeded_globals, torch_generator
from roadworthy.types import Normalize, Output, Progress, Seed

MEMORY = 2 * 1024**3
_NORMS = (
    torch.nn.modules.batchnorm._BatchNorm,
    torch.nn.GroupNorm,
    torch.nn.LayerNorm,
    torch.nn.LocalResponseNorm,
)


@dataclass(frozen=True)
class History:
    """What a training run reports, an entry per epoch.

    Attributes:
        loss: mean training loss, label smoothing included.
        accuracy: share of the (augmented) training samples classified right while training.
        seconds: wall-clock time.
        resumed: epochs that came from a checkpoint.
    """

    loss: tuple[float, ...] = ()
    accuracy: tuple[float, ...] = ()
    seconds: tuple[float, ...] = ()
    resumed: int = 0


def fit(
    model: torch.nn.Module,
    train: Any,
    *,
    recipe: Recipe,
    seed: Seed = 0,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
    checkpoint: str | Path | None = None,
    memory: int = MEMORY,
    progress: Progress | None = None,
) -> History:
    """Train a model in place and report the last epoch.

    Nothing is selected on test data, which this never sees. Shuffling, augmentation and dropout draw from the
    seed and the epoch alone: the same seed gives the same weights, bit for bit on a CPU, also when a run was
    interrupted and went on from its checkpoint. On CUDA, computation is channels-last and in bfloat16 where
    the device has it (see :class:`Recipe`).

    Args:
        model: the network; its weights are changed, its train flags are put back at the end. Parameters that do
            not require gradients stay as they are.
        train: a :class:`~roadworthy.records.Split` such as ``data.train``, a pair of tensors (images (N, ...) in
            pixel units, labels (N,)), or an object with ``batches(size)``, ``labels`` and a length.
        recipe: the settings.
        seed: an integer or a generator.
        normalize: ``(mean, std)`` per channel, put in front of a model that does not normalise by itself.
        output: how to pick the class scores from what the model returns.
        device: where to train; the model is moved there and stays. Its own device by default.
        checkpoint: a file that is written after each epoch and read at the start; a finished run is not repeated.
        memory: bytes of samples to hold in memory; larger data are read anew each epoch, through a shuffle buffer
            of a quarter of this.
        progress: called with the number of samples just trained on; ``epochs * len(train)`` in all.

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
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"fit: got {type(model).__name__}, expected a torch.nn.Module; only those can be trained")
    if device is not None:
        model.to(device_of(len, device))
    seed = resolve_seed(seed)
    feed = Feed(train, memory).to(device_of(model))
    classifier = Classifier(model, normalize=normalize, output=output)
    optimizer = _optimizer(model, recipe)
    path = None if checkpoint is None else Path(checkpoint)
    run = {} if path is None else _fingerprint(model, feed, recipe, seed, normalize)
    history = History() if path is None else _resume(path, run, model, optimizer)
    _report(progress, len(feed) * history.resumed)
    with _training(model, classifier.device):
        for epoch in range(len(history.loss), recipe.epochs):
            # dropout reads the global generators: it gets its own stream, and theirs are put back
            with seeded_globals(seed, "fit-epoch", epoch):
                loss, accuracy, seconds = _epoch(classifier, feed, optimizer, recipe, seed, epoch, progress)
            history = History(
                (*history.loss, loss), (*history.accuracy, accuracy), (*history.seconds, seconds), history.resumed
            )
            if path is not None:
                _save(path, run, model, optimizer, history)
    return history


def _optimizer(model: torch.nn.Module, recipe: Recipe) -> torch.optim.SGD:
    norms = {id(p) for part in model.modules() if isinstance(part, _NORMS) for p in part.parameters(recurse=False)}
    trained = [p for p in model.parameters() if p.requires_grad]
    if not trained:
        raise ModelError(f"fit: {type(model).__name__} has no parameters that require gradients")
    decayed = [p for p in trained if p.ndim > 1 and id(p) not in norms]
    plain = [p for p in trained if p.ndim <= 1 or id(p) in norms]
    groups = [{"params": decayed, "weight_decay": recipe.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.SGD(
        [group for group in groups if group["params"]],
        lr=recipe.learning_rate,
        momentum=recipe.momentum,
        nesterov=recipe.momentum > 0,
    )


def _epoch(
    classifier: Classifier,
    feed: Feed,
    optimizer: torch.optim.SGD,
    recipe: Recipe,
    seed: int,
    epoch: int,
    progress: Progress | None,
) -> tuple[float, float, float]:
    began, device, steps, seen = time.perf_counter(), classifier.device, feed.steps(recipe), 0
    order = torch_generator(seed, "fit-order", epoch)
    changes = torch_generator(seed, "fit-augmentation", epoch)
    bf16 = _has_bf16(device) if recipe.bf16 is None else recipe.bf16
    losses, right = torch.zeros((), device=device), torch.zeros((), dtype=torch.int64, device=device)
    for step, (images, labels) in enumerate(feed.epoch(recipe, order)):
        for group in optimizer.param_groups:
            group["lr"] = recipe.rate(epoch + step / steps)
        images = augment(images, recipe, changes).to(device)
        labels = labels.to(device)
        if device.type == "cuda" and images.ndim == 4:
            images = images.contiguous(memory_format=torch.channels_last)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            logits = classifier.forward(images)
        if step == 0 and int(feed.labels.max()) >= logits.shape[1]:
            raise InputError(f"fit: labels go to {int(feed.labels.max())}, the model has {logits.shape[1]} classes")
        loss = torch.nn.functional.cross_entropy(logits.float(), labels, label_smoothing=recipe.label_smoothing)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        losses += loss.detach() * len(labels)
        right += (logits.argmax(1) == labels).sum()
        seen += len(labels)
        _report(progress, len(labels))
    _report(progress, len(feed) - seen)
    if seen == 0 or not bool(losses.isfinite()):
        raise SolverError(
            f"fit: the loss is {float(losses)} in epoch {epoch + 1} after {seen} samples (learning rate "
            f"{recipe.learning_rate}); lower the learning rate, or warm up for longer"
        )
    return float(losses) / seen, int(right) / seen, time.perf_counter() - began


def _report(progress: Progress | None, done: int) -> None:
    if progress is not None and done > 0:
        progress(done)


def _has_bf16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported()


@contextlib.contextmanager
def _training(model: torch.nn.Module, device: torch.device) -> Iterator[None]:
    flags = [(part, part.training) for part in model.modules()]
    if device.type == "cuda":
        model.to(memory_format=torch.channels_last)
    try:
        model.train()
        with torch.enable_grad():
            yield
    finally:
        for part, training in flags:
            part.training = training
        for parameter in model.parameters():
            parameter.grad = None
        if device.type == "cuda":
            model.to(memory_format=torch.contiguous_format)


def _fingerprint(
    model: torch.nn.Module, feed: Feed, recipe: Recipe, seed: int, normalize: Normalize | None
) -> dict[str, Any]:
    shapes = [f"{name} {tuple(value.shape)} {value.dtype}" for name, value in model.state_dict().items()]
    stats = None if normalize is None else [[float(value) for value in part] for part in normalize]
    run = {
        "recipe": asdict(recipe),
        "seed": seed,
        "normalize": stats,
        "data": feed.identity(),
        "model": hashlib.blake2b("\n".join(shapes).encode(), digest_size=8).hexdigest(),
    }
    return json.loads(json.dumps(run))


def _save(
    path: Path, run: dict[str, Any], model: torch.nn.Module, optimizer: torch.optim.SGD, history: History
) -> None:
    content = {
        "run": run,
        "history": asdict(history),
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
    }
    with replacing(path) as temporary:
        torch.save(content, temporary)


def _resume(path: Path, run: dict[str, Any], model: torch.nn.Module, optimizer: torch.optim.SGD) -> History:
    if not path.exists():
        return History()
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
        differ = sorted(key for key in run if content["run"].get(key) != run[key])
    except Exception as error:  # whatever a damaged or foreign file raises, the advice is the same
        raise ModelError(
            f"fit: the checkpoint {str(path)!r} cannot be read ({type(error).__name__}); delete it to start anew"
        ) from error
    if differ:
        raise ModelError(
            f"fit: the checkpoint {str(path)!r} is of another run; these differ: {', '.join(differ)}. "
            "Delete it, or name another file"
        )
    model.load_state_dict(content["model"])
    optimizer.load_state_dict(content["optimizer"])
    kept = content["history"]
    return History(tuple(kept["loss"]), tuple(kept["accuracy"]), tuple(kept["seconds"]), resumed=len(kept["loss"]))
