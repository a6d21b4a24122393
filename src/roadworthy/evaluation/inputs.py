"""What a user may pass as images, brought to one stream of batches of known length."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence, Sized
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from roadworthy.errors import DataError, InputError
from roadworthy.labels import as_labels, check_ids_are_text
from roadworthy.records import Batch, Data, Split

UNLABELLED = -(2**62)  # stands for a label that was not given; no user's label is this
_WAY_OUT = "pass a tensor or array with labels, a Split, or a Dataset or DataLoader of (image, label)"


def block_size(shape: Sequence[int]) -> int:
    """Return how many samples are degraded together: set by the sample's size alone, never by ``max_batch``.

    Draws that a custom imputer makes for a block must not change with a setting that is about memory.
    """
    return max(1, min(64, 2**22 // max(1, int(np.prod(shape)))))


def as_tensor(what: str, values: Any) -> torch.Tensor:
    """Turn an array, image or tensor into a dense tensor on the CPU, whatever its strides and byte order.

    Raises:
        InputError: complex, sparse, or no numbers at all.
    """
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise InputError(f"{what}: got values of type {array.dtype}, expected real numbers")
        values = torch.from_numpy(np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("=")))
    if values.is_complex() or values.is_sparse:
        raise InputError(f"{what}: got a {values.dtype} tensor ({values.layout}), expected real numbers, dense")
    return values.detach().cpu()


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
        whole = hasattr(max_samples, "__index__") and not isinstance(max_samples, bool)
        if max_samples is not None and (not whole or max_samples < 1):
            raise InputError(f"max_samples: got {max_samples!r}, expected an integer of at least 1")
        if ids is not None and isinstance(images, Split):
            raise InputError("ids: a Split brings its own ids; leave ids= out")
        self.layout = layout
        self.images = images
        self.max_samples = None if max_samples is None else int(max_samples)
        self.in_memory = isinstance(images, (torch.Tensor, np.ndarray))
        self.labels: torch.Tensor | None = None
        self._places: dict[str, int] | None = None
        self._held: Iterator[Batch] | None = None
        self.known_ids: list[str] | None = None if ids is None else [str(sample) for sample in ids]
        if self.in_memory:
            self.images = as_tensor("images", images)
            if labels is not None and self.images.ndim == 3 and self.images.shape[0] in (1, 3) and _one_label(labels):
                raise InputError(
                    f"images: got one image of shape {tuple(self.images.shape)}; give it and its label a batch axis, "
                    "images[None] and [label]"
                )
            if self.images.ndim < 2:
                raise InputError(
                    f"images: got shape {tuple(self.images.shape)}, expected (N, C, H, W) or (N, features)"
                )
            self.labels = None if labels is None else as_labels(labels, len(self.images))
        else:
            _check_source(images, labels)
        self.length = self._length()
        if isinstance(images, Split) and self.known_ids is None:
            self.known_ids = images.ids
        if self.known_ids is not None:
            self._check_ids()
            if ids is not None and self.shuffled:
                raise InputError(
                    "ids: the DataLoader draws its own order, so ids cannot be matched; use shuffle=False"
                )

    def _length(self) -> int:
        total = _count(self.images)
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
        check_ids_are_text(self.known_ids)

    @property
    def shuffled(self) -> bool:
        """Whether samples come in another order than the data set's, so that nothing can be matched by position."""
        if not isinstance(self.images, DataLoader) or isinstance(self.images.dataset, IterableDataset):
            return False
        return not isinstance(_sampler(self.images), SequentialSampler)

    @property
    def restartable(self) -> bool:
        """Whether the samples can be read more than once; a stream may hand out one and the same iterator."""
        source = self.images.dataset if isinstance(self.images, DataLoader) else self.images
        return not (hasattr(source, "__next__") or isinstance(source, IterableDataset))

    def positions(self, ids: Sequence[str], start: int) -> np.ndarray:
        """Return where the samples of a block stand in the whole; samples that could not be read leave holes."""
        if self._places is None and self.known_ids is not None:
            self._places = {sample: row for row, sample in enumerate(self.known_ids)}
        if self._places is None:
            return np.arange(start, start + len(ids))
        return np.array([self._places[sample] for sample in ids])

    def first(self) -> Batch:
        """Return the first block; of samples that can be read only once, the pass that follows has it too.

        Raises:
            InputError: no sample could be read.
        """
        found = self.blocks()
        block = next(found, None)
        if block is None:
            raise InputError("images: no sample could be read")
        if not self.restartable:
            self._held = itertools.chain([block], found)
        return block

    def blocks(self) -> Iterator[Batch]:
        """Return blocks of samples, float32 (or the integers of token ids), channels first."""
        held, self._held = self._held, None
        return self._read() if held is None else held

    def _read(self) -> Iterator[Batch]:
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
                yield as_tensor("images", image)[None], [label]

    def _samples(self) -> Iterator[Any]:
        images: Any = self.images
        if isinstance(images, IterableDataset):
            yield from images
        elif hasattr(images, "__getitem__") and hasattr(images, "__len__"):
            for index in range(len(images)):
                yield images[index]
        else:
            yield from images

    def _as_images(self, images: Any) -> torch.Tensor:
        tensor = as_tensor("images", images)
        if tensor.numel() == 0:
            raise InputError(f"images: got shape {tuple(tensor.shape)}, which holds no pixels")
        if not tensor.is_floating_point() and tensor.ndim > 2:
            raise InputError(
                f"images: got {tensor.dtype} values up to {tensor.max().item()}, expected floats in [0, 1]; "
                "divide 8-bit images by 255"
            )
        if self.layout == "NHWC" and tensor.ndim > 2:
            tensor = tensor.movedim(-1, 1).contiguous()
        return tensor.float() if tensor.is_floating_point() else tensor.to(torch.int64)


def _one_label(labels: Any) -> bool:
    return np.asarray(labels).size == 1


def _check_source(images: Any, labels: Any) -> None:
    """Refuse what is neither an array nor a data set, saying how it becomes one.

    Raises:
        InputError: naming what came and the way out.
    """
    kind = type(images).__name__
    if isinstance(images, str | os.PathLike):
        spec = f"folder:{os.fspath(images)}"
        raise InputError(f"images: got the text {os.fspath(images)!r}; pictures are read by load_data({spec!r}).test")
    if isinstance(images, Data):
        raise InputError("images: got a Data; pass one of its splits, data.test or data.train")
    if isinstance(images, torch.nn.Module):
        raise InputError(f"images: got {kind}, a model; the order is evaluate(model, images, labels, attributions)")
    if hasattr(images, "to_numpy"):
        raise InputError(f"images: got a {kind}; pass its values, images.to_numpy()")
    first = images[0] if isinstance(images, list | tuple) and images else None
    if first is None or isinstance(first, list | tuple):
        if labels is not None:
            raise InputError("labels: a data set brings its own labels; pass labels=None, or images as a tensor")
    elif isinstance(first, torch.Tensor | np.ndarray):
        stack = "torch" if isinstance(first, torch.Tensor) else "numpy"
        raise InputError(
            f"images: got a {kind} of {len(images)} arrays, the first of shape {tuple(first.shape)}; make one of "
            f"them, {stack}.stack(images)"
        )
    elif isinstance(first, str | os.PathLike) or hasattr(first, "getpixel"):
        what = "paths" if isinstance(first, str | os.PathLike) else "pictures"
        raise InputError(
            f"images: got a {kind} of {len(images)} {what}; "
            "expected floats (N, C, H, W) in [0, 1]; load_data('folder:PATH') reads pictures in class folders"
        )


def _count(images: Any) -> int | None:
    """Return how many samples a pass yields, or None if that is unknown or without end."""
    if not isinstance(images, DataLoader):
        endless = isinstance(images, IterableDataset) and not hasattr(images, "__len__")
        return len(images) if isinstance(images, Sized) and not endless else None
    if isinstance(images.dataset, IterableDataset):
        return len(images.dataset) if hasattr(images.dataset, "__len__") else None
    sampler, batches = _sampler(images), images.batch_sampler
    counted: Any = sampler if isinstance(sampler, Sized) else images.dataset
    total = len(counted)
    if isinstance(batches, BatchSampler) and batches.drop_last:
        total -= total % batches.batch_size
    return total


def _sampler(loader: DataLoader[Any]) -> Any:
    """Return what decides the order of a loader's samples; None where that is the user's own batch sampler."""
    batches = loader.batch_sampler
    if batches is None:
        return loader.sampler
    return batches.sampler if type(batches) is BatchSampler else None


def _pair(sample: Any) -> tuple[Any, Any]:
    if isinstance(sample, (tuple, list)) and len(sample) == 2:
        return sample[0], sample[1]
    what = f"a {type(sample).__name__}" + (f" of {len(sample)}" if isinstance(sample, (tuple, list)) else "")
    if isinstance(sample, Mapping):
        what += f" with keys {', '.join(map(repr, sample))}"
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
