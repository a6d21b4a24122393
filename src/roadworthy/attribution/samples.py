"""The samples to explain, as blocks, from whatever the caller has them in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeAlias

import numpy as np
import torch

from roadworthy.errors import InputError, listed
from roadworthy.labels import as_labels
from roadworthy.records import Batch, Split
from roadworthy.types import Ids, Layout

Images: TypeAlias = torch.Tensor | np.ndarray | Split | Batch | Iterable[Batch]


@dataclass(frozen=True)
class Samples:
    """A block of samples to explain.

    Args:
        images: (n, C, H, W), (n, C, T) or (n, F) floats in pixel units, or (n, T) token ids; channels first. A copy
            is taken, as float32 or int64.
        ids: n sample ids, each once; they key the random draws.
        target: ``"predicted"``, ``"label"``, or one class per sample in any form that
            :func:`roadworthy.labels.as_labels` takes.
        labels: one class per sample, for ``"label"``.
        logits: the model's scores of the images, (n, K), if they are known: they are not computed again then.

    Raises:
        InputError: a wrong shape, type or length, or values that are not finite, naming the samples.

    Example:
        >>> Samples(torch.rand(2, 3, 4, 4), ["a", "b"], [1, 0]).target
        tensor([1, 0])
    """

    images: torch.Tensor
    ids: Sequence[str]
    target: Any = "predicted"
    labels: Any = None
    logits: torch.Tensor | None = None

    def __post_init__(self) -> None:
        n = len(self.images)
        if len(self.ids) != n:
            raise InputError(f"ids: {len(self.ids)} ids for {n} samples; give one id per sample")
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "ids", [str(sample) for sample in self.ids])
        put(self, "images", checked(self.images, self.ids))
        if not isinstance(self.target, str):
            put(self, "target", as_labels(self.target, n, "target"))
        if self.labels is not None:
            put(self, "labels", as_labels(self.labels, n))
        if self.logits is not None and (self.logits.ndim != 2 or len(self.logits) != n):
            raise InputError(f"logits: got shape {tuple(self.logits.shape)}, expected ({n}, classes)")


def blocks(
    images: Images,
    size: int,
    *,
    labels: Any = None,
    target: Any = "predicted",
    ids: Ids | None = None,
    layout: Layout = "NCHW",
) -> Iterator[Samples]:
    """Cut samples into blocks of ``size``.

    Args:
        images: an array or tensor in ``layout``, or a Split, a Batch or batches (channels first, with their ids).
        size: samples in a block; the last may have fewer.
        labels: one class per sample, in any integer form; only beside arrays.
        target: ``"predicted"``, ``"label"``, or one class per sample.
        ids: sample ids; only beside arrays. Positions by default.
        layout: layout of arrays.

    Raises:
        InputError: wrong shapes, types or lengths, repeated ids, or values that are not finite.
    """
    given = None if isinstance(target, str) else as_labels(target, what="target")
    start, seen = 0, set[str]()
    for part in _batches(images, size, labels, ids, layout):
        names = part.ids
        repeated = seen.intersection(names) or (set(names) if len(set(names)) < len(names) else set())
        if repeated:
            raise InputError(f"ids: {min(repeated)!r} is there more than once; random draws are keyed by the id")
        seen.update(names)
        own = None if given is None else given[start : start + len(names)]
        if own is not None and len(own) < len(names):
            raise InputError(
                f"target: {0 if given is None else len(given)} classes for more samples; give one class per sample"
            )
        yield Samples(part.images, names, target if own is None else own, part.labels)
        start += len(names)
    if start == 0:
        raise InputError("images: there are no samples")
    if given is not None and len(given) != start:
        raise InputError(f"target: {len(given)} classes for {start} samples; give one class per sample")


@dataclass(frozen=True)
class _Part:
    images: torch.Tensor
    labels: torch.Tensor | None
    ids: list[str]


def _batches(images: Images, size: int, labels: Any, ids: Ids | None, layout: Layout) -> Iterator[_Part]:
    if isinstance(images, (torch.Tensor, np.ndarray)):
        yield from _cut(images, size, labels, ids, layout)
        return
    if labels is not None or ids is not None:
        raise InputError(f"labels, ids: a {type(images).__name__} brings its own; pass them beside arrays only")
    if isinstance(images, Split):
        source: Iterable[Batch] = images.batches(size)
    else:
        source = [images] if isinstance(images, Batch) else images
    for batch in source:
        if not isinstance(batch, Batch):
            raise InputError(
                f"images: got {type(batch).__name__} among the batches; expected a tensor or array, a Split, or "
                "roadworthy.records.Batch objects"
            )
        for begin in range(0, len(batch.ids), size):
            part = slice(begin, begin + size)
            yield _Part(batch.images[part], as_labels(batch.labels[part]), list(batch.ids[part]))


def _cut(
    images: torch.Tensor | np.ndarray, size: int, labels: Any, ids: Ids | None, layout: Layout
) -> Iterator[_Part]:
    n = len(images)
    known = None if labels is None else as_labels(labels, n)
    names = [str(row) for row in range(n)] if ids is None else [str(sample) for sample in ids]
    if len(names) != n:
        raise InputError(f"ids: {len(names)} ids for {n} samples; give one id per sample")
    for begin in range(0, n, size):
        part = slice(begin, begin + size)
        tensor = torch.as_tensor(images[part]).detach()
        if layout == "NHWC" and tensor.ndim > 2:
            tensor = tensor.movedim(-1, 1)
        yield _Part(tensor, None if known is None else known[part], names[part])


def checked(images: torch.Tensor, ids: Sequence[str]) -> torch.Tensor:
    """Return images as float32 (or int64 token ids) of their own, refusing what has no meaning.

    Raises:
        InputError: a wrong shape or type, or values that are not finite, naming the samples.
    """
    if images.ndim not in (2, 3, 4):
        raise InputError(
            f"images: got shape {tuple(images.shape)}, expected (N,C,H,W) images, (N,C,T) series, (N,F) tables or "
            "(N,T) token ids"
        )
    if images.is_complex() or images.dtype == torch.bool:
        raise InputError(f"images: got {images.dtype}, expected real numbers")
    if not images.is_floating_point():
        if images.ndim > 2:
            raise InputError(f"images: got {images.dtype}, expected floats in [0, 1]; divide 8-bit images by 255")
        return images.to(torch.int64, copy=True)
    bad = ~torch.isfinite(images).flatten(1).all(dim=1)
    if bool(bad.any()):
        raise InputError(f"images: NaN or infinite values in samples {listed(compress(ids, bad.tolist()))}")
    return images.detach().to(torch.float32, copy=True).contiguous()
