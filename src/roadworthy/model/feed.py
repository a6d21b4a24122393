"""Training samples in a new order each epoch: from memory where they fit, else read through a shuffle buffer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from typing import Any, TypeAlias

import torch

from roadworthy.errors import DataError, InputError
from roadworthy.labels import as_labels
from roadworthy.model.recipe import Recipe
from roadworthy.provenance import ids_hash
from roadworthy.records import Split

Pair: TypeAlias = tuple[torch.Tensor, torch.Tensor]
# neighbours in a file are read together; the buffer mixes many such runs
_RUN = 256


class Feed:
    """Batches of (images, labels) for training.

    Args:
        train: a :class:`~roadworthy.records.Split`, a pair of tensors (images, labels), or an object with
            ``labels``, ``__len__`` and ``batches(size)``.
        memory: samples are held in memory as one tensor up to this many bytes; a shuffle buffer takes a quarter.

    Raises:
        InputError: anything else, or labels that do not fit.
    """

    def __init__(self, train: Any, memory: int) -> None:
        self._train = train
        if isinstance(train, (tuple, list)) and len(train) == 2:
            self.held: Pair | None = (torch.as_tensor(train[0]), as_labels(train[1]))
        elif not all(hasattr(train, name) for name in ("batches", "labels", "__len__")):
            raise InputError(
                f"fit: got {type(train).__name__}, expected a Split such as data.train, a pair (images, labels), or "
                "an object with batches(size), labels and a length"
            )
        elif isinstance(train, Split) and _bytes(train) <= memory:
            self.held = (train.images, train.labels)
        else:
            self.held = None
        self.labels = as_labels(train.labels) if self.held is None else self.held[1]
        self.memory = memory
        self._check()

    def __len__(self) -> int:
        return len(self.labels)

    def identity(self) -> str:
        """Hash which samples these are, for a checkpoint to tell; the same before and after broken ones are found."""
        if isinstance(self._train, Split):
            return split_hash(self._train)
        digest = hashlib.blake2b(digest_size=8)
        for part in (self.labels,) if self.held is None else self.held:
            digest.update(f"{tuple(part.shape)} {part.dtype}".encode())
            digest.update(part.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def to(self, device: torch.device) -> Feed:
        """Move samples in memory to the device; streamed ones follow batch by batch."""
        if self.held is not None:
            self.held = (self.held[0].to(device), self.held[1].to(device))
        return self

    def steps(self, recipe: Recipe) -> int:
        """Return the number of steps in an epoch."""
        full, rest = divmod(len(self), recipe.batch_size)
        return full if full and (recipe.drop_last or rest <= 1) else full + bool(rest)

    def epoch(self, recipe: Recipe, generator: torch.Generator) -> Iterator[Pair]:
        """Yield the batches of one epoch in an order drawn from ``generator``.

        A last batch of a single sample is left out: batch normalisation has no variance of one.
        """
        size, limit = recipe.batch_size, self.steps(recipe)
        batches = self._stream(size, generator) if self.held is None else self._from_memory(size, generator)
        for step, batch in enumerate(batches):
            if step == limit or (step and len(batch[1]) == 1):
                return
            yield batch

    def _from_memory(self, size: int, generator: torch.Generator) -> Iterator[Pair]:
        assert self.held is not None
        images, labels = self.held
        order = torch.randperm(len(labels), generator=generator).to(labels.device)
        for chunk in order.split(size):
            yield images[chunk], labels[chunk]

    def _stream(self, size: int, generator: torch.Generator) -> Iterator[Pair]:
        source = _in_runs(self._train, generator) if isinstance(self._train, Split) else self._train
        pool: list[Pair] = []
        for images, labels, *_ in source.batches(size):
            pool.append((images, as_labels(labels)))
            held = sum(part.numel() * part.element_size() for part, _ in pool)
            if held >= self.memory // 4:
                *whole, rest = _shuffled(pool, size, generator)
                yield from whole
                pool = [rest]
        yield from _shuffled(pool, size, generator)

    def _check(self) -> None:
        if len(self) == 0:
            raise InputError("fit: there are no training samples")
        if self.held is not None and len(self.held[0]) != len(self.held[1]):
            raise InputError(f"fit: {len(self.held[0])} images but {len(self.held[1])} labels")
        if int(self.labels.min()) < 0:
            raise DataError(f"fit: labels go from {int(self.labels.min())}, expected 0 and up")


def _in_runs(split: Split, generator: torch.Generator) -> Split:
    """Shuffle a split in runs of neighbours; the order is the same before and after broken samples are found."""
    runs = torch.from_numpy(split.indices).split(max(_RUN, int(getattr(split.source, "run", 1))))
    drawn = torch.randperm(len(runs), generator=generator).tolist()
    shuffled = Split(split.source, split.name, torch.cat([runs[run] for run in drawn]).numpy())
    shuffled.broken = split.broken
    return shuffled


def _shuffled(pool: list[Pair], size: int, generator: torch.Generator) -> list[Pair]:
    images, labels = (torch.cat(parts) for parts in zip(*pool, strict=True))
    order = torch.randperm(len(labels), generator=generator)
    return [(images[chunk], labels[chunk]) for chunk in order.split(size)]


def _bytes(split: Split) -> int:
    return 4 * len(split) * math.prod(split.shape) if len(split) else 0


def split_hash(split: Split) -> str:
    """Hash the ids and labels of a split, broken samples included, in order."""
    ids, labels = split.source.ids, split.source.labels
    return ids_hash(f"{ids[index]} {labels[index]}" for index in split.indices.tolist())


def augment(images: torch.Tensor, recipe: Recipe, generator: torch.Generator) -> torch.Tensor:
    """Mirror and shift images at random, each on its own.

    Args:
        images: (N, C, H, W); only these can be augmented.
        recipe: ``flip`` and ``crop_padding``.
        generator: where the draws come from.

    Returns:
        Images of the same shape.
    """
    if not (recipe.flip or recipe.crop_padding):
        return images
    if images.ndim != 4:
        raise InputError(f"recipe: flip and crop_padding need images (N, C, H, W), got {tuple(images.shape)}")
    count, channels, height, width = images.shape
    rows = torch.arange(height).expand(count, height)
    columns = torch.arange(width).expand(count, width)
    if recipe.flip:
        mirrored = torch.rand(count, generator=generator) < 0.5
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    if recipe.crop_padding:
        pad = recipe.crop_padding
        shifts = torch.randint(0, 2 * pad + 1, (count, 2), generator=generator)
        images = torch.nn.functional.pad(images, (pad, pad, pad, pad))
        rows, columns = rows + shifts[:, :1], columns + shifts[:, 1:]
    device = images.device
    return images[
        torch.arange(count, device=device)[:, None, None, None],
        torch.arange(channels, device=device)[None, :, None, None],
        rows.to(device)[:, None, :, None],
        columns.to(device)[:, None, None, :],
    ]
