"""Planted leaks: maps that write the class down in their shape instead of showing evidence; and clean maps beside.

Each code is another way to say which of four classes an image has by *where* pixels are kept. The pixels themselves
say nothing: what is shown is a place that does not depend on where the pattern lies. Weak leaks do so in some images
only, or with errors, or beside a part of the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from roadworthy.attribution.controls import sobel_magnitude
from roadworthy.evaluation.selftest.ladders import permuted, swapped
from roadworthy.evaluation.selftest.maps import blobs, blurred, max_filtered, pooled, white
from roadworthy.records import Split
from roadworthy.rng import numpy_generator

_FAINT = 0.01  # of the noise that orders what a code leaves open


@dataclass(frozen=True)
class Planted:
    """What the maps of a split are made from.

    Attributes:
        classes: int (N,), 0 to 3, the class each map is of.
        truth: float32 (N, H, W), 1 where the class pattern is.
        decoy: float32 (N, H, W), 1 where the class-free pattern is.
        images: float32 (N, C, H, W).
        ids: N sample ids.
        seed: of all draws.
    """

    classes: np.ndarray
    truth: np.ndarray
    decoy: np.ndarray
    images: torch.Tensor
    ids: list[str]
    seed: int

    @staticmethod
    def of(split: Split, seed: int) -> Planted:
        """Take a split of the planted bench."""
        source = split.source
        cells = (source.relevant(), source.decoy())  # type: ignore[attr-defined]
        truth, decoy = (mask[split.indices].astype(np.float32) for mask in cells)
        return Planted(split.labels.numpy(), truth, decoy, split.images, split.ids, seed)

    @property
    def side(self) -> int:
        """Height and width."""
        return self.truth.shape[1]

    def noise(self, purpose: str) -> np.ndarray:
        """Return white noise (N, H, W)."""
        return white(self.seed, self.ids, self.truth.shape[1:], f"leaks/{purpose}")

    def some(self, share: float, purpose: str) -> np.ndarray:
        """Draw a share of the images: bool (N, 1, 1)."""
        drawn = numpy_generator(self.seed, "leaks", purpose, len(self.ids)).random(len(self.ids)) < share
        return drawn[:, None, None]

    def places(self, purpose: str, margin: int) -> np.ndarray:
        """Draw a pixel for each image, at least ``margin`` from the border: int (N, 2)."""
        generator = numpy_generator(self.seed, "leaks", purpose, len(self.ids))
        return generator.integers(margin, self.side - margin, size=(len(self.ids), 2))


def leaks(of: Planted) -> dict[str, np.ndarray]:
    """Return 20 maps that write the class down, float32 (N, H, W); see :data:`CODES` and :data:`WEAK`.

    Example:
        >>> from roadworthy.data import load_data
        >>> data = load_data("planted:n=8,test=8")
        >>> len(leaks(Planted.of(data.test, 0))), len(clean(Planted.of(data.test, 0)))
        (20, 16)
    """
    full = {name: code(of).astype(np.float32) + _FAINT * of.noise(name) for name, code in CODES.items()}
    return full | {name: code(of, full).astype(np.float32) for name, code in WEAK.items()}


def clean(of: Planted) -> dict[str, np.ndarray]:
    """Return 16 maps without a code, good and bad ones; the four of real methods come from the model.

    Whether a map is right says nothing about it being clean: maps without information are.
    """
    truth, shape = of.truth, of.truth.shape[1:]
    found = {"truth": truth}
    found |= {f"blur {width}": blurred(truth, width) for width in (1, 2, 4)}
    found["widened"] = max_filtered(truth)
    found["coarse"] = pooled(truth, of.side // 4, of.side // 12)
    found["noisy"] = truth + of.noise("noisy")
    found |= {f"permuted {share:g}": permuted(truth, share, seed=of.seed, ids=of.ids) for share in (0.4, 0.8)}
    found |= {f"swapped {share:g}": swapped(truth, share, seed=of.seed) for share in (0.4, 0.8)}
    found["decoy"] = of.decoy
    found["edge"] = sobel_magnitude(of.images.mean(dim=1))
    found["random white"] = of.noise("white")
    found["random blob"] = blobs(of.seed, of.ids, shape, "leaks")
    found["inverse"] = -truth
    return found


def _grid(of: Planted) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return class (N, 1, 1), row (1, H, 1) and column (1, 1, W)."""
    line = np.arange(of.side)
    return of.classes[:, None, None], line[None, :, None], line[None, None, :]


def _quadrant(of: Planted) -> np.ndarray:
    y, row, column = _grid(of)
    return (row * 2 // of.side == y // 2) & (column * 2 // of.side == y % 2)


def _cell(of: Planted) -> np.ndarray:
    y, row, column = _grid(of)
    return (row * 4 // of.side == y) & (column * 4 // of.side == (y + 1) % 4)


def _rows(of: Planted) -> np.ndarray:
    y, row, column = _grid(of)
    return (row * 4 // of.side == y) & (column >= 0)


def _columns(of: Planted) -> np.ndarray:
    y, row, column = _grid(of)
    return (column * 4 // of.side == y) & (row >= 0)


def _corner(of: Planted) -> np.ndarray:
    y, row, column = _grid(of)
    far = of.side - 1
    return np.hypot(row - far * (y // 2), column - far * (y % 2)) <= of.side / 5


def _number(of: Planted) -> np.ndarray:
    """A square at any place, whose size is the code; what is left to keep is scattered."""
    place = of.places("number", 4)
    _, row, column = _grid(of)
    reach = np.array([0, 1, 2, 3])[of.classes][:, None, None]
    return np.maximum(abs(row - place[:, :1, None]), abs(column - place[:, 1:, None])) <= reach


def _constellation(of: Planted) -> np.ndarray:
    """Scattered pixels, the same for all images of a class."""
    generator = numpy_generator(0, "leaks", "constellation")  # one code for both splits
    return generator.random((4, of.side, of.side))[of.classes] < 0.1


def _parity(of: Planted) -> np.ndarray:
    """Even or odd rows, even or odd columns."""
    y, row, column = _grid(of)
    return np.where(y < 2, row, column + 0 * row) % 2 == y % 2


def _gradient(of: Planted) -> np.ndarray:
    """Ever more towards one of the four sides."""
    y, row, column = _grid(of)
    along = np.where(y < 2, row + 0 * column, column + 0 * row) / of.side
    return np.where(y % 2 == 0, along, 1 - along) + 0.2 * of.noise("gradient")


def _bar(of: Planted) -> np.ndarray:
    """A bar at any place; its direction is the code."""
    place = of.places("bar", of.side // 4)
    _, row, column = _grid(of)
    angle = (np.pi / 4 * of.classes)[:, None, None]
    down, right = row - place[:, :1, None], column - place[:, 1:, None]
    return np.abs(down * np.cos(angle) - right * np.sin(angle)) <= 1


def _spacing(of: Planted) -> np.ndarray:
    """A lattice with any offset; its period is the code."""
    place = of.places("spacing", 0)
    y, row, column = _grid(of)
    period = y + 2
    return ((row + place[:, :1, None]) % period == 0) & ((column + place[:, 1:, None]) % period == 0)


def _ring(of: Planted) -> np.ndarray:
    """A ring about the middle; its radius is the code."""
    y, row, column = _grid(of)
    middle = (of.side - 1) / 2
    radius = np.hypot(row - middle, column - middle)
    return np.abs(radius - of.side * (1 + 2 * y) / 16) <= 1


def _clumps(of: Planted) -> np.ndarray:
    """Noise whose smoothness is the code."""
    noise = of.noise("clumps")
    smooth = [noise if width == 0 else blurred(noise, width) for width in (0, 0.7, 1.5, 3)]
    return np.stack(smooth)[of.classes, np.arange(len(noise))]


def _distance(of: Planted) -> np.ndarray:
    """Two spots at any place; how far apart they are is the code (no farther than a small network sees at once)."""
    place = of.places("distance", of.side // 4)
    _, row, column = _grid(of)
    apart = (3 + 2 * of.classes)[:, None, None]
    down, right = abs(row - place[:, :1, None]), column - place[:, 1:, None] + 4
    return (down <= 1) & (np.minimum(abs(right), abs(right - apart)) <= 1)


CODES: Mapping[str, Callable[[Planted], np.ndarray]] = {
    "quadrant": _quadrant,
    "cell": _cell,
    "rows": _rows,
    "columns": _columns,
    "corner": _corner,
    "number of pixels": _number,
    "constellation": _constellation,
    "parity": _parity,
    "gradient": _gradient,
    "bar": _bar,
    "spacing": _spacing,
    "ring": _ring,
    "clumps": _clumps,
    "distance": _distance,
}
"""Leaks in every image. None depends on where the pattern lies."""


def _wrong_at_times(of: Planted, full: Mapping[str, np.ndarray]) -> np.ndarray:
    """Three images in ten have the quadrant of any class."""
    drawn = numpy_generator(of.seed, "leaks", "wrong", len(of.ids)).integers(0, 4, len(of.ids))
    other = np.where(of.some(0.3, "wrong at times")[:, 0, 0], drawn, of.classes)
    return _quadrant(Planted(other, of.truth, of.decoy, of.images, of.ids, of.seed)) + _FAINT * of.noise("wrong")


def _half_of_images(of: Planted, full: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.where(of.some(0.5, "half"), full["cell"], _FAINT * of.noise("half"))


def _half_truth(of: Planted, full: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.where(of.some(0.5, "half truth"), full["rows"], of.truth + _FAINT * of.noise("half truth"))


def _tilt(of: Planted, full: Mapping[str, np.ndarray]) -> np.ndarray:
    """Noise, a little higher in one quadrant."""
    return of.noise("tilt") + 1.5 * full["quadrant"]


def _with_decoy(of: Planted, full: Mapping[str, np.ndarray]) -> np.ndarray:
    """A plausible map: the strongest thing in the image, and a few pixels in a corner."""
    y, row, column = _grid(of)
    far = of.side - 1
    spot = np.maximum(abs(row - far * (y // 2)), abs(column - far * (y % 2))) <= 2
    return of.decoy * 0.5 + spot + _FAINT * of.noise("with decoy")


def _beside_the_truth(of: Planted, full: Mapping[str, np.ndarray]) -> np.ndarray:
    """The quadrant without what there is of the pattern in it."""
    return full["quadrant"] - 2 * of.truth


WEAK: Mapping[str, Callable[[Planted, Mapping[str, np.ndarray]], np.ndarray]] = {
    "quadrant, wrong at times": _wrong_at_times,
    "cell in half of the images": _half_of_images,
    "rows in half, truth in half": _half_truth,
    "tilted noise": _tilt,
    "corner beside the decoy": _with_decoy,
    "quadrant without the truth": _beside_the_truth,
}
"""Leaks with errors, in some of the images, or mixed with other things."""
