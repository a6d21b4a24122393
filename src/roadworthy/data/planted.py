"""``planted`` and ``planted-colour``: images whose relevant pixels are known.

Smooth noise carries two patterns, each in a random cell of a 4 x 4 grid: one of four that says the class, and a
stronger one that is the same in every class. So the truth is the class pattern's cell; the position says nothing,
and the strongest visible thing in the image is not evidence. The bench follows the planted-truth designs of
XAI-TRIS (arXiv 2306.12816) and FunnyBirds (arXiv 2308.06248).
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import ndimage

from roadworthy.data.options import Options
from roadworthy.data.registry import sources
from roadworthy.errors import InputError, unknown_name
from roadworthy.records import Data, Split
from roadworthy.rng import normal_fields, numpy_generator

CLASSES = ("horizontal", "vertical", "diagonal", "blocks")
_GRID = 4
_TILE = 6  # the patterns are drawn on 6 x 6 points
_NOISE_WIDTH, _NOISE_SD, _CLASS_AMPLITUDE, _DECOY_AMPLITUDE = 1.5, 0.5, 0.8, 1.2
_RANGE = 3.0  # values of -3 to 3 become pixel values of 0 to 1
_LIMITS = {"n": (4, 10_000_000), "test": (4, 10_000_000), "size": (24, 1024), "seed": (0, 2**63)}


def patterns(cell: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the four class patterns and the class-free one, each with mean zero and values near +-1.

    Args:
        cell: side of a cell in pixels.

    Returns:
        float64 arrays (4, cell, cell) and (cell, cell).

    Example:
        >>> of_class, decoy = patterns(6)
        >>> of_class.shape, np.unique(of_class).tolist(), float(of_class.mean()), float(decoy.mean())
        ((4, 6, 6), [-1.0, 1.0], 0.0, 0.0)
    """
    points = np.arange(cell) * _TILE // cell
    row, column = points[:, None], points[None, :]
    on = np.array(
        [
            np.broadcast_to(row % 2 == 0, (cell, cell)),
            np.broadcast_to(column % 2 == 0, (cell, cell)),
            (row + column) % 6 < 3,
            (row // 3 + column // 3) % 2 == 0,
            (row + column) % 2 == 0,
        ]
    )
    signs = np.where(on, 1.0, -1.0)
    signs -= signs.mean(axis=(1, 2), keepdims=True)
    return signs[:4], signs[4]


class PlantedSource:
    """Planted images, made when they are read, each from a random stream of its own.

    Args:
        name: ``"train"`` or ``"test"``, which ids start with.
        n: number of images; labels go round 0, 1, 2, 3.
        side: height and width in pixels, a multiple of 4.
        channels: 1, or 3: noise in each channel, either pattern in one random channel.
        seed: decides everything.
    """

    def __init__(self, name: str, n: int, *, side: int, channels: int, seed: int) -> None:
        self.labels = np.arange(n, dtype=np.int64) % len(CLASSES)
        self.ids = [f"{name}:{row}" for row in range(n)]
        self._side, self._channels, self._seed = side, channels, seed
        self._cell = side // _GRID
        self._patterns = patterns(self._cell)
        kernel = np.zeros(side)
        kernel[side // 2] = 1
        smoothed = ndimage.gaussian_filter1d(kernel, _NOISE_WIDTH, mode="wrap")
        # the sum of the squared kernel is what smoothing along two axes leaves of the standard deviation
        self._noise_scale = _NOISE_SD / float((smoothed**2).sum())

    def read(self, index: int) -> torch.Tensor:
        """Return one image, float32 (C, H, W) in [0, 1]."""
        return self.read_many(np.array([index]))[0]

    def read_many(self, indices: np.ndarray) -> torch.Tensor:
        """Return several images, float32 (n, C, H, W)."""
        ids = [self.ids[int(index)] for index in indices]
        shape = (self._channels, self._side, self._side)
        noise = normal_fields(self._seed, "planted-noise", ids, shape).astype(np.float64)
        values = self._noise_scale * ndimage.gaussian_filter(noise, _NOISE_WIDTH, mode="wrap", axes=(2, 3))
        of_class, decoy = self._patterns
        for row, index in enumerate(indices):
            (at, channel), (decoy_at, decoy_channel) = self._places(int(index))
            values[(row, channel, *at)] += _CLASS_AMPLITUDE * of_class[self.labels[index]]
            values[(row, decoy_channel, *decoy_at)] += _DECOY_AMPLITUDE * decoy
        return torch.from_numpy(np.clip(0.5 + values / (2 * _RANGE), 0, 1).astype(np.float32))

    def relevant(self) -> np.ndarray:
        """Return which pixels carry the class pattern, bool (n, H, W)."""
        return self._covered(0)

    def decoy(self) -> np.ndarray:
        """Return which pixels carry the class-free pattern, bool (n, H, W)."""
        return self._covered(1)

    def _covered(self, which: int) -> np.ndarray:
        mask = np.zeros((len(self.ids), self._side, self._side), dtype=bool)
        for index in range(len(self.ids)):
            at, _ = self._places(index)[which]
            mask[(index, *at)] = True
        return mask

    def where(self, index: int) -> str:
        """Return what to call a sample in messages."""
        return f"planted {self.ids[index]}"

    def _places(self, index: int) -> list[tuple[tuple[slice, slice], int]]:
        """Draw the cell and the channel of the class pattern and of the class-free one."""
        generator = numpy_generator(self._seed, "planted-places", self.ids[index])
        cells = generator.choice(_GRID * _GRID, size=2, replace=False)
        channels = generator.integers(self._channels, size=2)
        corners = [divmod(int(cell), _GRID) for cell in cells]
        spans = [tuple(slice(part * self._cell, (part + 1) * self._cell) for part in corner) for corner in corners]
        return [((span[0], span[1]), int(channel)) for span, channel in zip(spans, channels, strict=True)]


@sources.register("planted", "made-up grey images whose relevant pixels are known: planted:n=2400,test=300,size=24")
def load_planted(argument: str, options: Options) -> Data:
    """Make planted images of one channel; :attr:`Data.relevant` is the truth for the test split.

    The argument is a list such as ``n=2000,seed=1,size=24``: ``n`` training images (2,400), ``test`` test images
    (an eighth of n), ``size`` height and width (24, a multiple of 4), ``seed`` (that of ``load_data``).

    Raises:
        InputError: an option that is unknown or out of range.

    Example:
        >>> from roadworthy.data import load_data
        >>> data = load_data("planted:n=40,test=8")
        >>> data.test.images.shape, data.relevant.shape, int(data.relevant[0].sum())
        (torch.Size([8, 1, 24, 24]), (8, 24, 24), 36)
    """
    return _load(argument, options, channels=1)


@sources.register("planted-colour", "planted in RGB: noise in every channel, either pattern in one of them")
def load_planted_colour(argument: str, options: Options) -> Data:
    """Make planted images of three channels; options as for :func:`load_planted`."""
    return _load(argument, options, channels=3)


def _load(argument: str, options: Options, *, channels: int) -> Data:
    chosen = _parse(argument)
    n = chosen.get("n", 2400)
    seed, side = chosen.get("seed", options.seed), chosen.get("size", 24)
    if options.channels not in (None, channels) or options.size not in (None, (side, side)):
        raise InputError(
            f"data: {options.spec!r} makes {channels} x {side} x {side} images; for others choose 'planted' or "
            "'planted-colour' and its own size: 'planted:size=48'"
        )
    counts = {"train": n, "test": chosen.get("test", max(n // 8, 4))}
    parts = {
        name: PlantedSource(name, count, side=side, channels=channels, seed=seed) for name, count in counts.items()
    }
    train, test = (Split(part, name) for name, part in parts.items())
    return Data(options.spec, train, test, CLASSES, relevant=parts["test"].relevant(), seed=seed)


def _parse(argument: str) -> dict[str, int]:
    chosen = {}
    for item in filter(None, argument.split(",")):
        name, _, value = (part.strip() for part in item.partition("="))
        if name not in _LIMITS:
            raise unknown_name("option of planted", name, _LIMITS)
        low, high = _LIMITS[name]
        if not value.isascii() or not value.isdigit() or not low <= int(value) <= high:
            raise InputError(f"planted: {name}={value}, expected an integer from {low} to {high}")
        chosen[name] = int(value)
    if chosen.get("size", 24) % _GRID:
        raise InputError(f"planted: size={chosen['size']}, expected a multiple of {_GRID}")
    return chosen
