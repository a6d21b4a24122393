"""The records that stages hand to one another."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import torch

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.rng import numpy_generator

UNKNOWN_LABEL = -1  # of a sample whose class nobody knows
STATISTICS_SAMPLE = 5000  # images that the mean and standard deviation of a larger training split are taken from
_STATISTICS_VALUES = 1 << 20  # values taken up at a time, so that large images need no more memory than small ones


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
    """Where the samples of a split are read from, one at a time; nothing is decoded before it is asked for.

    Two members are optional. ``read_many(indices: np.ndarray) -> Tensor`` returns a stack (n, C, H, W): a source
    whose samples lie in memory, are of one shape and cannot be broken saves a call a sample so. ``run: int`` is
    the number of consecutive samples that are read at about the cost of one; a source that reads in blocks states
    it, so that a sample for statistics is drawn in runs of this length.
    """

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


class BrokenSamples(dict[str, str]):
    """Ids of samples that could not be read, with the cause; shared by a split and its subsets."""

    reported = 0  # how many of them a warning has named already


class Split:
    """The samples of one split, read lazily; also a map-style dataset of ``(image, label)``.

    A sample that cannot be decoded is left out of batches; its id and cause are kept in :attr:`broken`, and
    one warning per pass names how many there are and the first of them. A subset shares :attr:`broken` with the
    split it came from.

    Args:
        source: where samples come from.
        name: ``"train"`` or ``"test"``, for messages.
        indices: positions in the source that belong to this split; all by default.
    """

    def __init__(self, source: Source, name: str = "data", indices: np.ndarray | None = None) -> None:
        self.source = source
        self.name = name
        self.indices = np.arange(len(source.labels)) if indices is None else np.asarray(indices, dtype=np.int64)
        self.broken = BrokenSamples()
        self._sound_cache: tuple[int, np.ndarray] = (0, self.indices)
        self._images: torch.Tensor | None = None
        self._shape: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self._sound())

    def __getitem__(self, position: int) -> tuple[torch.Tensor, int]:
        index = int(self._sound()[position])
        return self.source.read(index), int(self.source.labels[index])

    def __repr__(self) -> str:
        return f"Split({self.name!r}, n={len(self)}, broken={len(self.broken)})"

    def _sound(self) -> np.ndarray:
        known, sound = self._sound_cache
        if len(self.broken) != known:
            ids = self.source.ids
            sound = np.array([i for i in self.indices if ids[int(i)] not in self.broken], dtype=np.int64)
            self._sound_cache = (len(self.broken), sound)
        return sound

    @property
    def labels(self) -> torch.Tensor:
        """Labels, int64 (n,), without the samples known to be broken."""
        return torch.as_tensor(np.asarray(self.source.labels)[self._sound()], dtype=torch.int64)

    @property
    def ids(self) -> list[str]:
        """Sample ids, without the samples known to be broken."""
        ids = self.source.ids
        return [ids[int(i)] for i in self._sound()]

    @property
    def images(self) -> torch.Tensor:
        """All images at once, float32 (n, C, H, W); use :meth:`batches` for data larger than memory."""
        if self._images is None:
            parts = [batch.images for batch in self.batches(512)]
            if not parts:
                raise self._nothing_read()
            self._images = torch.cat(parts)
        return self._images

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape (C, H, W) of the first sample that can be read.

        Raises:
            DataError: no sample can be read.
        """
        if self._shape is None:
            images = (self._try_read(int(index)) for index in self._sound())
            first = next((image for image in images if image is not None), None)
            if first is None:
                raise self._nothing_read()
            self._shape = tuple(first.shape)
        return self._shape

    def batches(self, size: int = 256) -> Iterator[Batch]:
        """Read the split in order, ``size`` samples at a time; the last batch may be smaller.

        Args:
            size: samples in a batch, at least 1.

        Yields:
            Batches of the samples that can be read.

        Raises:
            InputError: ``size`` below 1.
            DataError: images of different shapes, naming two of them.
        """
        if size < 1:
            raise InputError(f"batches: size is {size}, expected at least 1")
        if self._images is not None:
            yield from self._in_memory(size)
        elif (read_many := getattr(self.source, "read_many", None)) is not None:
            yield from self._in_bulk(size, read_many)
        else:
            yield from self._one_by_one(size)

    def subset(self, positions: Sequence[int] | np.ndarray) -> Split:
        """Return the split restricted to these positions, in this order."""
        chosen = np.asarray(positions, dtype=np.int64)
        part = self._restricted(self._sound()[chosen])
        if self._images is not None:
            part._images = self._images[torch.as_tensor(chosen)]
        return part

    def reordered(self, indices: np.ndarray) -> Split:
        """Return the split of these positions in the source, in this order; known broken ones stay left out.

        A subclass that overrides ``_restricted`` keeps what it does to its samples.
        """
        part = self._restricted(indices)
        part._sound_cache = (0, part.indices)
        return part

    def take(self, n: int, seed: int = 0) -> Split:
        """Return ``n`` samples drawn without replacement, in the split's order; all if there are fewer.

        A sample that turns out broken is replaced by the next of the same draw, the others stay.
        """
        if n < 1:
            raise InputError(f"take: n is {n}, expected at least 1")
        sound = self._sound()
        if n >= len(sound):
            return self
        drawn = numpy_generator(seed, "take", self.name).permutation(len(self.indices))
        position = np.full(len(self.indices), -1)
        position[np.isin(self.indices, sound)] = np.arange(len(sound))
        found = position[drawn]
        return self.subset(np.sort(found[found >= 0][:n]))

    def statistics(self, seed: int = 0) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Compute the mean and standard deviation of each channel, streamed in float64.

        All images count when there are at most :data:`STATISTICS_SAMPLE`; of more, a seeded sample of that many.

        Args:
            seed: decides which images are drawn.

        Returns:
            Mean and standard deviation (of the population) per channel, in pixel units.

        Raises:
            DataError: no image can be read.
        """
        part, length = self, max(1, int(getattr(self.source, "run", 1)))
        if len(self.indices) > STATISTICS_SAMPLE:
            # the draw ignores what is known to be broken, so that it is the same before and after a full pass
            starts = np.arange(0, len(self.indices), length)
            drawn = numpy_generator(seed, "statistics", self.name).permutation(len(starts))
            rows = np.sort(starts[drawn[: STATISTICS_SAMPLE // length]])[:, None] + np.arange(length)
            chosen = self.indices[rows[rows < len(self.indices)]]
            part = self._restricted(chosen[np.isin(chosen, self._sound())])
        count, total, squares = 0, 0.0, 0.0
        for batch in part.batches(max(1, min(256, _STATISTICS_VALUES // max(1, math.prod(part.shape))))):
            values = batch.images.transpose(0, 1).flatten(1).double().numpy()
            count += values.shape[1]
            total = total + values.sum(axis=1)
            squares = squares + (values**2).sum(axis=1)
        mean = np.asarray(total) / count
        std = np.sqrt(np.maximum(np.asarray(squares) / count - mean**2, 0))
        return tuple(mean.tolist()), tuple(std.tolist())

    def _restricted(self, indices: np.ndarray) -> Split:
        part = Split(self.source, self.name, indices)
        part.broken = self.broken
        part._sound_cache = (len(self.broken), part.indices)
        return part

    def _nothing_read(self) -> DataError:
        first = f"; the first: {next(iter(self.broken.values()))}" if self.broken else ""
        return DataError(f"{self.name}: none of {len(self.indices)} samples could be read{first}")

    def _in_memory(self, size: int) -> Iterator[Batch]:
        assert self._images is not None
        labels, ids = self.labels, self.ids
        for start in range(0, len(ids), size):
            chunk = slice(start, start + size)
            yield Batch(self._images[chunk], labels[chunk], ids[chunk])

    def _in_bulk(self, size: int, read_many: Callable[[np.ndarray], torch.Tensor]) -> Iterator[Batch]:
        indices = self._sound()
        for start in range(0, len(indices), size):
            chunk = indices[start : start + size]
            yield self._batch(chunk, read_many(chunk))

    def _one_by_one(self, size: int) -> Iterator[Batch]:
        pending: list[int] = []
        images: list[torch.Tensor] = []
        first: tuple[tuple[int, ...], str] | None = None
        for index in self._sound():
            image = self._try_read(int(index))
            if image is None:
                continue
            if first is None:
                first = (tuple(image.shape), self.source.where(int(index)))
            elif tuple(image.shape) != first[0]:
                raise self._unequal(first, (tuple(image.shape), self.source.where(int(index))))
            pending.append(int(index))
            images.append(image)
            if len(images) == size:
                yield self._batch(pending, torch.stack(images))
                pending, images = [], []
        if images:
            yield self._batch(pending, torch.stack(images))
        self._warn_broken()

    def _unequal(self, first: tuple[tuple[int, ...], str], other: tuple[tuple[int, ...], str]) -> DataError:
        advice = []
        if first[0][0] != other[0][0]:
            advice.append("channels=1 or channels=3")
        if first[0][1:] != other[0][1:]:
            advice.append("size=(H, W) (--size HxW)")
        return DataError(
            f"{self.name}: images differ in shape: {first[0]} at {first[1]}, {other[0]} at {other[1]}; "
            f"pass {' and '.join(advice)} to bring them to one shape"
        )

    def _batch(self, indices: Sequence[int] | np.ndarray, images: torch.Tensor) -> Batch:
        labels = torch.as_tensor(np.asarray(self.source.labels)[indices], dtype=torch.int64)
        ids = self.source.ids
        return Batch(images, labels, [ids[int(i)] for i in indices])

    def _try_read(self, index: int) -> torch.Tensor | None:
        try:
            return self.source.read(index)
        except DataError as error:
            self.broken[self.source.ids[index]] = str(error)
            return None

    def _warn_broken(self) -> None:
        new = len(self.broken) - self.broken.reported
        if new > 0:
            first = list(self.broken.values())[self.broken.reported]
            self.broken.reported = len(self.broken)
            warnings.warn(
                f"{self.name}: {new} of {len(self.indices)} samples could not be read and are left out; "
                f"the first: {first}",
                RoadworthyWarning,
                stacklevel=4,
            )


class Data:
    """A data set in two splits.

    Args:
        name: the specification it was loaded from.
        train: training split.
        test: test split.
        classes: class names; a label is a position in this tuple.
        mean: per-channel mean in pixel units; by default that of the training images, see :attr:`mean`.
        std: per-channel standard deviation; by default that of the training images.
        relevant: for planted data, which positions carry the class, bool (n_test, H, W).
        seed: decides which training images the default of ``mean`` and ``std`` is taken from.
    """

    def __init__(
        self,
        name: str,
        train: Split,
        test: Split,
        classes: Sequence[str],
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        relevant: np.ndarray | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.name = name
        self.train = train
        self.test = test
        self.classes = tuple(classes)
        self.relevant = relevant
        self._given = (mean, std)
        self._seed = seed

    def __repr__(self) -> str:
        return (
            f"Data({self.name!r}, classes={len(self.classes)}, "
            f"train={len(self.train.indices)}, test={len(self.test.indices)})"
        )

    @cached_property
    def _statistics(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        return self.train.statistics(self._seed)

    @property
    def mean(self) -> tuple[float, ...]:
        """Per-channel mean of the training images, in pixel units.

        Computed on first use: exact for up to :data:`STATISTICS_SAMPLE` training images, else from a seeded
        sample of that many.
        """
        return self._statistics[0] if self._given[0] is None else self._given[0]

    @property
    def std(self) -> tuple[float, ...]:
        """Per-channel standard deviation of the training images; see :attr:`mean`."""
        return self._statistics[1] if self._given[1] is None else self._given[1]

    @property
    def normalize(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """``(mean, std)``, as ``normalize=`` takes it."""
        return self.mean, self.std
