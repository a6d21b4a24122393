"""Training samples in a new order each epoch: from memory where they fit, else read through a shuffle buffer."""

from __future__ import annotations

import hashlib
import itertools
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
    """Batches of (images, labels) for training; ``most`` is the highest label.

    Args:
        train: a :class:`~roadworthy.records.Split`, a pair of tensors (images, labels), or an object with
            ``labels``, ``__len__`` and ``batches(size)``. If it has ``for_epoch(epoch)``, that is asked for the
            split of each epoch, all of one length.
        memory: samples are held in memory as one tensor up to this many bytes; a shuffle buffer takes a quarter.

    Raises:
        InputError: anything else, or labels that do not fit.
    """

    def __init__(self, train: Any, memory: int) -> None:
        self._train = self._source = train
        self.memory = memory
        self._device = torch.device("cpu")
        self._epoch = 0
        if isinstance(train, (tuple, list)) and len(train) == 2:
            self.held: Pair | None = (torch.as_tensor(train[0]), as_labels(train[1]))
            self.labels = self.held[1]
            self._check()
        else:
            self._take(train.for_epoch(0) if hasattr(train, "for_epoch") else train)
        # stays: samples of streamed data that turn out broken must not change the rates
        self._count = len(self.labels)

    def _take(self, source: Any) -> None:
        if not all(hasattr(source, name) for name in ("batches", "labels", "__len__")):
            raise InputError(
                f"fit: got {type(source).__name__}, expected a Split such as data.train, a pair (images, labels), or "
                "an object with batches(size), labels and a length"
            )
        self._source, self.held = source, None
        if isinstance(source, Split) and _bytes(source) <= self.memory:
            self.held = (source.images.to(self._device), source.labels.to(self._device))
        self.labels = as_labels(source.labels) if self.held is None else self.held[1]
        self._check()

    def __len__(self) -> int:
        return self._count

    def identity(self) -> str:
        """Hash which samples these are, for a checkpoint to tell; the same before and after broken ones are found."""
        split = self._train if isinstance(self._train, Split) else self._source
        if isinstance(split, Split):
            return split_hash(split)
        digest = hashlib.blake2b(digest_size=8)
        for part in (self.labels,) if self.held is None else self.held:
            digest.update(f"{tuple(part.shape)} {part.dtype}".encode())
            digest.update(part.cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        return digest.hexdigest()

    def to(self, device: torch.device) -> Feed:
        """Move samples in memory to the device; streamed ones follow batch by batch."""
        self._device = device
        if self.held is not None:
            self.held = (self.held[0].to(device), self.held[1].to(device))
        return self

    def in_order(self, size: int) -> Iterator[Pair]:
        """Yield the batches in the order of the data."""
        if self.held is not None:
            yield from zip(self.held[0].split(size), self.held[1].split(size), strict=True)
            return
        for images, labels, *_ in self._source.batches(size):
            yield images, as_labels(labels)

    def at(self, epoch: int) -> Feed:
        """Turn to the samples of an epoch, counted from 0: a source with ``for_epoch`` is asked for them anew."""
        if hasattr(self._train, "for_epoch") and epoch != self._epoch:
            self._take(self._train.for_epoch(epoch))
            self._epoch = epoch
        return self

    def epoch(self, recipe: Recipe, generator: torch.Generator, *, skip: int = 0) -> Iterator[Pair]:
        """Yield the batches of one epoch in an order drawn from ``generator``, without the first ``skip``.

        A last batch of a single sample is left out: batch normalisation has no variance of one.
        """
        size, limit = recipe.batch_size, recipe.timetable(len(self)).steps_in_pass
        if self.held is None:
            # what is streamed has to be read to be passed over
            batches: Iterator[Pair] = itertools.islice(self._stream(size, generator), skip, None)
        else:
            batches = self._from_memory(size, generator, skip)
        for step, batch in enumerate(batches, start=skip):
            if step == limit or (step and len(batch[1]) == 1):
                return
            yield batch

    def _from_memory(self, size: int, generator: torch.Generator, skip: int) -> Iterator[Pair]:
        assert self.held is not None
        images, labels = self.held
        order = torch.randperm(len(labels), generator=generator).to(labels.device)
        for chunk in order.split(size)[skip:]:
            yield images[chunk], labels[chunk]

    def _stream(self, size: int, generator: torch.Generator) -> Iterator[Pair]:
        source = _in_runs(self._source, generator) if isinstance(self._source, Split) else self._source
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
        if len(self.labels) == 0:
            raise InputError("fit: there are no training samples")
        if self.held is not None and len(self.held[0]) != len(self.held[1]):
            raise InputError(f"fit: {len(self.held[0])} images but {len(self.held[1])} labels")
        self.most = int(self.labels.max())
        if int(self.labels.min()) < 0:
            raise DataError(f"fit: labels go from {int(self.labels.min())}, expected 0 and up")


def _in_runs(split: Split, generator: torch.Generator) -> Split:
    """Shuffle a split in runs of neighbours; the order is the same before and after broken samples are found."""
    runs = torch.from_numpy(split.indices).split(max(_RUN, int(getattr(split.source, "run", 1))))
    drawn = torch.randperm(len(runs), generator=generator).tolist()
    return split.reordered(torch.cat([runs[run] for run in drawn]).numpy())


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
