"""The records that stages hand to one another."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
import torch

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.rng import numpy_generator


class Batch(NamedTuple):
    """Samples that travel together.

    Attributes:
        images: float32 (N, C, H, W) in pixel units, [0, 1] for images.
        labels: int64 (N,).
        ids: N sample ids.
    """

    images: torch.Tensor
    labels: torch.Tensor
    ids: list[str]


class Source(Protocol):
    """Where the samples of a split are read from, one at a time; nothing is decoded before it is asked for."""

    @property
    def labels(self) -> np.ndarray:
        """Labels of all samples, int64 (n,)."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """Stable, unique ids of all samples: the same file or row has the same id in every run."""
        ...

    def read(self, index: int) -> torch.Tensor:
        """Decode one image: float32 (C, H, W) in [0, 1].

        Raises:
            DataError: the sample is broken; the message names its path and the cause.
        """
        ...

    def where(self, index: int) -> str:
        """Return the path (and row) of a sample, for messages."""
        ...


class Split:
    """The samples of one split, read lazily; also a map-style dataset of ``(image, label)``.

    A sample that cannot be decoded is left out of batches; its id and cause are kept in :attr:`broken`, and
    one warning per pass names how many there are and the first of them.

    Args:
        source: where samples come from.
        name: ``"train"`` or ``"test"``, for messages.
        indices: positions in the source that belong to this split; all by default.
    """

    def __init__(self, source: Source, name: str = "data", indices: np.ndarray | None = None) -> None:
        self.source = source
        self.name = name
        self.indices = np.arange(len(source.labels)) if indices is None else np.asarray(indices, dtype=np.int64)
        self.broken: dict[str, str] = {}
        self._images: torch.Tensor | None = None

    def __len__(self) -> int:
        return len(self._sound())

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        index = int(self._sound()[position])
        return self.source.read(index), int(self.source.labels[index])

    def _sound(self) -> np.ndarray:
        if not self.broken:
            return self.indices
        return np.array([i for i in self.indices if self.source.ids[int(i)] not in self.broken], dtype=np.int64)

    @property
    def labels(self) -> torch.Tensor:
        """Labels, int64 (n,), without the samples known to be broken."""
        return torch.as_tensor(np.asarray(self.source.labels)[self._sound()], dtype=torch.int64)

    @property
    def ids(self) -> list[str]:
        """Sample ids, without the samples known to be broken."""
        return [self.source.ids[int(i)] for i in self._sound()]

    @property
    def images(self) -> torch.Tensor:
        """All images at once, float32 (n, C, H, W); use :meth:`batches` for data larger than memory."""
        if self._images is None:
            parts = [batch.images for batch in self.batches(512)]
            if not parts:
                raise DataError(f"{self.name}: no sample could be read ({len(self.broken)} broken)")
            self._images = torch.cat(parts)
        return self._images

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (C, H, W) of the first sample that can be read."""
        return tuple(next(self.batches(1)).images.shape[1:])

    def batches(self, size: int = 256) -> Iterator[Batch]:
        """Read the split in order, ``size`` samples at a time; the last batch may be smaller.

        Raises:
            DataError: images of different shapes, naming two of them.
        """
        if size < 1:
            raise InputError(f"batches: size is {size}, expected at least 1")
        before = len(self.broken)
        if self._images is not None:
            yield from self._in_memory(size)
            return
        pending: list[int] = []
        images: list[torch.Tensor] = []
        for index in self._sound():
            image = self._try_read(int(index))
            if image is None:
                continue
            if images and image.shape != images[0].shape:
                raise DataError(
                    f"{self.name}: images differ in shape: {tuple(images[0].shape)} at "
                    f"{self.source.where(pending[0])}, {tuple(image.shape)} at {self.source.where(int(index))}; "
                    "pass size=(H, W) to bring them to one size"
                )
            pending.append(int(index))
            images.append(image)
            if len(images) == size:
                yield self._batch(pending, images)
                pending, images = [], []
        if images:
            yield self._batch(pending, images)
        self._warn_broken(before)

    def subset(self, positions: Sequence[int] | np.ndarray) -> Split:
        """Return the split restricted to these positions, in this order."""
        chosen = Split(self.source, self.name, self._sound()[np.asarray(positions, dtype=np.int64)])
        if self._images is not None:
            chosen._images = self._images[torch.as_tensor(np.asarray(positions, dtype=np.int64))]
        return chosen

    def take(self, n: int, seed: int = 0) -> Split:
        """Return ``n`` samples drawn without replacement, in the split's order; all if there are fewer."""
        if n < 1:
            raise InputError(f"take: n is {n}, expected at least 1")
        if n >= len(self):
            return self
        drawn = numpy_generator(seed, "take", self.name).choice(len(self), size=n, replace=False)
        return self.subset(np.sort(drawn))

    def _in_memory(self, size: int) -> Iterator[Batch]:
        assert self._images is not None
        labels, ids = self.labels, self.ids
        for start in range(0, len(ids), size):
            chunk = slice(start, start + size)
            yield Batch(self._images[chunk], labels[chunk], ids[chunk])

    def _batch(self, indices: list[int], images: list[torch.Tensor]) -> Batch:
        labels = torch.as_tensor(np.asarray(self.source.labels)[indices], dtype=torch.int64)
        return Batch(torch.stack(images), labels, [self.source.ids[i] for i in indices])

    def _try_read(self, index: int) -> torch.Tensor | None:
        try:
            return self.source.read(index)
        except DataError as error:
            self.broken[self.source.ids[index]] = str(error)
            return None

    def _warn_broken(self, before: int) -> None:
        new = len(self.broken) - before
        if new > 0:
            first = list(self.broken.values())[before]
            warnings.warn(
                f"{self.name}: {new} of {len(self.indices)} samples could not be read and are left out; "
                f"the first: {first}",
                RoadworthyWarning,
                stacklevel=3,
            )


@dataclass(frozen=True)
class Data:
    """A data set in two splits.

    Attributes:
        name: the specification it was loaded from.
        train: training split.
        test: test split.
        classes: class names; a label is a position in this tuple.
        mean: per-channel mean of the training images, in pixel units.
        std: per-channel standard deviation of the training images.
        relevant: for planted data, which positions carry the class, bool (n_test, H, W).
    """

    name: str
    train: Split
    test: Split
    classes: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    relevant: np.ndarray | None = field(default=None, repr=False)

    @property
    def normalize(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """``(mean, std)``, as ``normalize=`` takes it."""
        return self.mean, self.std
