"""What a user may pass as images, brought to one stream of batches of known length."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, RandomSampler

from roadworthy.errors import DataError, InputError
from roadworthy.records import Batch, Split

UNLABELLED = -(2**62)  # stands for a label that was not given; no user's label is this
_WAY_OUT = "pass a tensor or array with labels, a Split, or a Dataset or DataLoader of (image, label)"


def block_size(shape: Sequence[int]) -> int:
    """Return how many samples are degraded together: set by the sample's size alone, never by ``max_batch``.

    Draws that a custom imputer makes for a block must not change with a setting that is about memory.
    """
    return max(1, min(64, 2**22 // max(1, int(np.prod(shape)))))


def as_labels(labels: Any, n: int | None = None) -> torch.Tensor:
    """Bring labels to int64 (N,): lists, arrays and tensors of any integer type, (N,) or (N, 1).

    Raises:
        InputError: values that are not whole numbers, another shape, or another length than ``n``.
    """
    values = labels.detach().cpu() if isinstance(labels, torch.Tensor) else torch.as_tensor(np.asarray(labels))
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1:
        hint = " One-hot labels: take their argmax." if values.ndim == 2 else ""
        raise InputError(f"labels: got shape {tuple(values.shape)}, expected (N,) or (N, 1).{hint}")
    if values.is_floating_point() and not bool((values == values.round()).all()):
        raise InputError(f"labels: got {values[values != values.round()][:3].tolist()}, expected whole numbers")
    if n is not None and len(values) != n:
        raise InputError(f"labels: {len(values)} labels for {n} images")
    return values.to(torch.int64)


class Stream:
    """A single pass over samples, in blocks; ids default to positions.

    Args:
        images: tensor or array (N, ...), a Split, a Dataset, or a DataLoader of (image, label).
        labels: labels for a tensor or array; None otherwise.
        ids: sample ids; one each.
        max_samples: stop after so many; needed for a stream without end.
        layout: ``"NHWC"`` moves the last axis to the front of each image.
    """

    def __init__(
        self,
        images: Any,
        labels: Any,
        *,
        ids: Sequence[str] | None,
        max_samples: int | None,
        layout: str,
    ) -> None:
        if max_samples is not None and max_samples < 1:
            raise InputError(f"max_samples: got {max_samples}, expected at least 1")
        self.layout = layout
        self.images = images
        self.max_samples = max_samples
        self.in_memory = isinstance(images, (torch.Tensor, np.ndarray))
        self.labels: torch.Tensor | None = None
        self._places: dict[str, int] | None = None
        self.known_ids: list[str] | None = None if ids is None else [str(sample) for sample in ids]
        if self.in_memory:
            self.images = torch.as_tensor(images).detach()
            if self.images.ndim < 2:
                raise InputError(
                    f"images: got shape {tuple(self.images.shape)}, expected (N, C, H, W) or (N, features)"
                )
            self.labels = None if labels is None else as_labels(labels, len(self.images))
        elif labels is not None:
            raise InputError("labels: a data set brings its own labels; pass labels=None, or images as a tensor")
        self.length = self._length()
        if isinstance(images, Split) and self.known_ids is None:
            self.known_ids = images.ids
        if self.known_ids is not None:
            self._check_ids()

    def _length(self) -> int:
        source = self.images.dataset if isinstance(self.images, DataLoader) else self.images
        endless = isinstance(source, IterableDataset) and not hasattr(source, "__len__")
        total = None
        if not endless and isinstance(source, Sized):
            total = len(source)
            if total == 0:
                raise InputError("images: there are no samples")
        if total is None and self.max_samples is None:
            raise InputError(
                f"images: a {type(self.images).__name__} has no known length and may never end; "
                f"pass max_samples=, or {_WAY_OUT}"
            )
        if total is None or (self.max_samples is not None and self.max_samples < total):
            assert self.max_samples is not None
            return self.max_samples
        return total

    def _check_ids(self) -> None:
        assert self.known_ids is not None
        if len(self.known_ids) < self.length:
            raise InputError(f"ids: {len(self.known_ids)} ids for {self.length} samples")
        if len(set(self.known_ids)) != len(self.known_ids):
            twice = next(sample for sample in self.known_ids if self.known_ids.count(sample) > 1)
            raise InputError(f"ids: {twice!r} occurs more than once; ids must be unique")

    @property
    def shuffled(self) -> bool:
        """Whether the order differs from pass to pass, so that saved maps cannot be matched by position."""
        return isinstance(self.images, DataLoader) and isinstance(self.images.sampler, RandomSampler)

    def positions(self, ids: Sequence[str], start: int) -> np.ndarray:
        """Return where the samples of a block stand in the whole; samples that could not be read leave holes."""
        if self._places is None and self.known_ids is not None:
            self._places = {sample: row for row, sample in enumerate(self.known_ids)}
        if self._places is None:
            return np.arange(start, start + len(ids))
        return np.array([self._places[sample] for sample in ids])

    def blocks(self) -> Iterator[Batch]:
        """Yield blocks of samples, float32 (or the integers of token ids), channels first."""
        size: int | None = None
        pending: list[Batch] = []
        held = seen = 0
        for batch in self._batches():
            size = size or block_size(batch.images.shape[1:])
            room = self.length - seen
            if room <= 0:
                break
            batch = _rows(batch, slice(0, room))
            seen += len(batch.ids)
            pending.append(batch)
            held += len(batch.ids)
            while held >= size:
                whole = _joined(pending)
                yield _rows(whole, slice(0, size))
                pending, held = [_rows(whole, slice(size, None))], held - size
        if held:
            yield _joined(pending)

    def _batches(self) -> Iterator[Batch]:
        if isinstance(self.images, Split):
            yield from self.images.batches(256)
            return
        position = 0
        for images, labels in self._pairs():
            images = self._as_images(images)
            ids = self.known_ids[position : position + len(images)] if self.known_ids else None
            ids = ids or [str(position + row) for row in range(len(images))]
            marked = torch.full((len(images),), UNLABELLED) if labels is None else as_labels(labels, len(images))
            yield Batch(images, marked, ids)
            position += len(images)

    def _pairs(self) -> Iterator[tuple[Any, Any]]:
        if isinstance(self.images, torch.Tensor):
            for start in range(0, len(self.images), 256):
                chunk = slice(start, start + 256)
                yield self.images[chunk], None if self.labels is None else self.labels[chunk]
        elif isinstance(self.images, DataLoader):
            for batch in self.images:
                yield _pair(batch)
        else:
            for sample in self._samples():
                image, label = _pair(sample)
                yield (
                    torch.as_tensor(np.asarray(image) if not isinstance(image, torch.Tensor) else image)[None],
                    [label],
                )

    def _samples(self) -> Iterator[Any]:
        images: Any = self.images
        if hasattr(images, "__getitem__") and hasattr(images, "__len__"):
            for index in range(len(images)):
                yield images[index]
        else:
            yield from images

    def _as_images(self, images: Any) -> torch.Tensor:
        tensor = torch.as_tensor(images).detach()
        if not tensor.is_floating_point() and tensor.ndim > 2:
            raise InputError(
                f"images: got {tensor.dtype} values up to {tensor.max().item()}, expected floats in [0, 1]; "
                "divide 8-bit images by 255"
            )
        if tensor.is_complex():
            raise InputError("images: got complex values, expected floats in [0, 1]")
        if self.layout == "NHWC" and tensor.ndim > 2:
            tensor = tensor.movedim(-1, 1).contiguous()
        return tensor.float() if tensor.is_floating_point() else tensor.to(torch.int64)


def _pair(sample: Any) -> tuple[Any, Any]:
    if isinstance(sample, (tuple, list)) and len(sample) == 2:
        return sample[0], sample[1]
    what = f"a {type(sample).__name__}" + (f" of {len(sample)}" if isinstance(sample, (tuple, list)) else "")
    raise DataError(f"images: the data set yields {what}, expected pairs (image, label)")


def _rows(batch: Batch, rows: slice) -> Batch:
    return Batch(batch.images[rows], batch.labels[rows], batch.ids[rows])


def _joined(batches: list[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    shapes = {tuple(batch.images.shape[1:]) for batch in batches}
    if len(shapes) > 1:
        raise DataError(f"images differ in shape: {', '.join(map(str, sorted(shapes)))}; bring them to one size")
    ids = [sample for batch in batches for sample in batch.ids]
    return Batch(torch.cat([b.images for b in batches]), torch.cat([b.labels for b in batches]), ids)
