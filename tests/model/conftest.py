"""Small data sets in memory, as the data stage hands them over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
import torch

from roadworthy.errors import DataError
from roadworthy.records import Data, Split


class ArraySource:
    """Samples in memory; those whose position is in ``broken`` cannot be read."""

    def __init__(
        self, images: torch.Tensor, labels: torch.Tensor, broken: Sequence[int] = (), prefix: str = ""
    ) -> None:
        self._images, self._labels, self._broken = images, labels.numpy(), set(broken)
        self.ids: Sequence[str] = [f"{prefix}{number}" for number in range(len(labels))]
        self.reads = 0

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    def read(self, index: int) -> torch.Tensor:
        self.reads += 1
        if index in self._broken:
            raise DataError(f"{self.where(index)}: broken")
        return self._images[index]

    def where(self, index: int) -> str:
        return f"memory/{self.ids[index]}"


def stripes(n: int, channels: int = 1, size: int = 8, classes: int = 2, seed: int = 5) -> tuple[torch.Tensor, ...]:
    """Draw images whose bright row (of ``classes`` bands) is the label; easy to learn."""
    rng = np.random.default_rng(seed)
    images = torch.from_numpy(0.3 * rng.random((n, channels, size, size), dtype=np.float32))
    labels = torch.arange(n) % classes
    for row, label in enumerate(labels.tolist()):
        images[row, :, label * (size // classes)] += 0.6
    return images, labels


@pytest.fixture
def make_split() -> Callable[..., Split]:
    def make(n: int = 40, broken: Sequence[int] = (), **shape: int) -> Split:
        images, labels = stripes(n, **shape)
        return Split(ArraySource(images, labels, broken), "train")

    return make


@pytest.fixture
def make_data() -> Callable[..., Data]:
    def make(n: int = 40, name: str = "stripes", prefix: str = "", **shape: int) -> Data:
        classes = shape.get("classes", 2)
        train, test = (
            Split(ArraySource(*stripes(n, seed=seed, **shape), prefix=prefix), part)  # type: ignore[arg-type]
            for part, seed in (("train", 5), ("test", 6))
        )
        return Data(name, train, test, tuple(f"class {number}" for number in range(classes)))

    return make


@pytest.fixture(scope="session")
def array_source() -> type[ArraySource]:
    return ArraySource
