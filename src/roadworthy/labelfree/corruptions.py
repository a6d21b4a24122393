"""Graded corruptions of images, series, tables and texts: five steps each, from hardly visible to hard to read.

The idea of graded common corruptions is that of Hendrycks & Dietterich (2019); the functions and the steps are ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.registry import Registry
from roadworthy.rng import numpy_generator

Corrupt = Callable[[Any, float, np.random.Generator], Any]


@dataclass(frozen=True)
class Corruption:
    """One corruption.

    Attributes:
        modality: "image" (N, C, H, W) in [0, 1], "series" (N, C, T), "table" (N, F) or "text" (a list of N strings).
        steps: its knob at severity 1 to 5.
        change: takes values, the knob and a generator, and returns changed values.
    """

    modality: str
    steps: tuple[float, float, float, float, float]
    change: Corrupt


corruptions: Registry[Corruption] = Registry("corruption")


def corrupt(values: Any, name: str, *, severity: int = 3, seed: int = 0) -> Any:
    """Return a corrupted copy.

    Args:
        values: what the corruption's modality says; see :class:`Corruption`.
        name: a name of ``corruptions``.
        severity: 1 to 5.
        seed: for what is random in it.

    Returns:
        float32 array of the same shape, or a list of strings.

    Raises:
        InputError: a wrong name or severity, or an array of the wrong number of axes.

    Example:
        >>> grey = np.full((1, 1, 4, 4), 0.5)
        >>> bool(corrupt(grey, "brightness", severity=5).mean() > 0.6)
        True
        >>> len(corrupt(["one two three four five six"] * 9, "word-drop", severity=1))
        9
    """
    entry = corruptions[name]
    if severity not in (1, 2, 3, 4, 5):
        raise InputError(f"severity: got {severity!r}, expected a whole number from 1 to 5")
    knob, generator = entry.steps[int(severity) - 1], numpy_generator(seed, "corruption", name, int(severity))
    if entry.modality == "text":
        return entry.change(list(values), knob, generator)
    array = np.array(values, dtype=np.float32)
    axes = {"image": 4, "series": 3, "table": 2}[entry.modality]
    if array.ndim != axes:
        raise InputError(
            f"values: got shape {array.shape}; the corruption {name!r} takes {entry.modality} data with {axes} axes"
        )
    changed = entry.change(array, knob, generator)
    return np.asarray(np.clip(changed, 0, 1) if entry.modality == "image" else changed, dtype=np.float32)


def names_for(modality: str) -> list[str]:
    """Return the corruptions of a modality.

    Example:
        >>> names_for("table")
        ['feature-noise', 'missing']
    """
    return [name for name in corruptions if corruptions[name].modality == modality]


def _scale(images: np.ndarray) -> float:
    return float(np.sqrt(images.shape[-1] / 8))


def _noise(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    return images + knob * generator.standard_normal(images.shape)


def _blur(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import gaussian_filter

    width = knob * _scale(images)
    return np.asarray(gaussian_filter(images, (0, 0, width, width), mode="nearest"))


def _contrast(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    mean = images.mean(axis=(2, 3), keepdims=True)
    return np.asarray(mean + knob * (images - mean))


def _brightness(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    return images + knob


def _shift(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import shift

    angles = generator.uniform(0, 2 * np.pi, len(images))
    step = knob * images.shape[-1]
    moved = [
        shift(image, (0, step * np.sin(angle), step * np.cos(angle)), order=1, mode="nearest")
        for image, angle in zip(images, angles, strict=True)
    ]
    return np.array(moved).reshape(images.shape)


def _occlusion(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    changed, (height, width) = images.copy(), images.shape[2:]
    tall, wide = max(1, round(knob * height)), max(1, round(knob * width))
    tops = generator.integers(0, height - tall + 1, len(images))
    lefts = generator.integers(0, width - wide + 1, len(images))
    for image, top, left in zip(changed, tops, lefts, strict=True):
        image[:, top : top + tall, left : left + wide] = image.mean(axis=(1, 2), keepdims=True)
    return changed


def _rotation(images: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import rotate

    signs = generator.choice([-1.0, 1.0], len(images))
    turned = [
        rotate(image, sign * knob, axes=(1, 2), reshape=False, order=1, mode="nearest")
        for image, sign in zip(images, signs, strict=True)
    ]
    return np.array(turned).reshape(images.shape)


def _series_noise(series: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    return series + knob * series.std(axis=(0, 2), keepdims=True) * generator.standard_normal(series.shape)


def _smooth(series: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    from scipy.ndimage import gaussian_filter1d

    return np.asarray(gaussian_filter1d(series, knob * series.shape[-1], axis=-1, mode="nearest"))


def _delay(series: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    steps = np.arange(series.shape[-1])
    late = generator.choice([-1.0, 1.0], len(series)) * knob * series.shape[-1]
    return np.array(
        [[np.interp(steps - d, steps, row) for row in rows] for rows, d in zip(series, late, strict=True)]
    ).reshape(series.shape)


def _gap(series: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    changed, length = series.copy(), max(1, round(knob * series.shape[-1]))
    starts = generator.integers(0, series.shape[-1] - length + 1, len(series))
    for rows, start in zip(changed, starts, strict=True):
        rows[:, start : start + length] = rows[:, max(start - 1, 0), None]  # the sensor is stuck
    return changed


def _amplitude(series: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    mean = series.mean(axis=(0, 2), keepdims=True)
    return np.asarray(mean + knob * (series - mean))


def _feature_noise(table: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    return np.asarray(table + knob * table.std(axis=0) * generator.standard_normal(table.shape))


def _missing(table: np.ndarray, knob: float, generator: np.random.Generator) -> np.ndarray:
    return np.asarray(np.where(generator.random(table.shape) < knob, np.median(table, axis=0), table))


def _word_drop(texts: list[str], knob: float, generator: np.random.Generator) -> list[str]:
    return [
        " ".join(word for word, draw in zip(words, generator.random(len(words)), strict=True) if draw >= knob)
        for words in (text.split() for text in texts)
    ]


def _typos(texts: list[str], knob: float, generator: np.random.Generator) -> list[str]:
    """Swap two neighbouring letters inside a share of the words."""

    def wrong(word: str) -> str:
        if len(word) < 3 or generator.random() >= knob:
            return word
        place = int(generator.integers(0, len(word) - 1))
        return word[:place] + word[place + 1] + word[place] + word[place + 2 :]

    return [" ".join(wrong(word) for word in text.split()) for text in texts]


def _add(
    name: str, modality: str, steps: tuple[float, float, float, float, float], change: Corrupt, says: str
) -> None:
    corruptions.add(name, Corruption(modality, steps, change), f"{modality}: {says}")


_add("noise", "image", (0.05, 0.1, 0.2, 0.3, 0.45), _noise, "Gaussian noise, standard deviation of the range")
_add("blur", "image", (0.4, 0.6, 0.9, 1.2, 1.6), _blur, "Gaussian blur, width in pixels of an 8-pixel side")
_add("contrast", "image", (0.75, 0.55, 0.4, 0.25, 0.12), _contrast, "less contrast, share that is left")
_add("brightness", "image", (0.06, 0.12, 0.2, 0.3, 0.4), _brightness, "more light, of the range")
_add("shift", "image", (0.03, 0.06, 0.1, 0.14, 0.2), _shift, "moved in a random direction, share of the side")
_add(
    "occlusion", "image", (0.15, 0.25, 0.35, 0.45, 0.6), _occlusion, "a square in the mean colour, share of the side"
)
_add("rotation", "image", (6, 12, 20, 30, 45), _rotation, "turned left or right, degrees")
_add("series-noise", "series", (0.05, 0.15, 0.3, 0.6, 1.0), _series_noise, "noise, in standard deviations")
_add("smooth", "series", (0.01, 0.02, 0.04, 0.08, 0.15), _smooth, "Gaussian smoothing, width as share of the length")
_add("delay", "series", (0.02, 0.04, 0.08, 0.12, 0.2), _delay, "early or late, share of the length")
_add("gap", "series", (0.1, 0.2, 0.3, 0.45, 0.6), _gap, "a stretch where the value is stuck, share of the length")
_add("amplitude", "series", (0.9, 0.8, 0.65, 0.5, 0.3), _amplitude, "smaller swings, share that is left")
_add("feature-noise", "table", (0.1, 0.25, 0.5, 0.8, 1.2), _feature_noise, "noise, in standard deviations")
_add("missing", "table", (0.05, 0.1, 0.2, 0.35, 0.5), _missing, "values replaced by the median, share of them")
_add("word-drop", "text", (0.1, 0.2, 0.35, 0.5, 0.7), _word_drop, "words left out, share of them")
_add("typos", "text", (0.1, 0.2, 0.35, 0.5, 0.7), _typos, "two letters swapped, share of the words")
