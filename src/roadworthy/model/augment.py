"""Random changes to training images, each image on its own, all drawn from one generator."""

from __future__ import annotations

import math

import torch

from roadworthy.errors import InputError
from roadworthy.model.recipe import Recipe

_TRIES = 10


def augment(
    images: torch.Tensor, recipe: Recipe, generator: torch.Generator, part: slice = slice(None)
) -> torch.Tensor:
    """Mirror, shift, or crop and resize images at random, each on its own.

    The box of ``random_resized_crop`` is drawn as torchvision's ``RandomResizedCrop`` draws it: area uniform, ratio
    of the sides uniform in the logarithm, ten tries to fit it into the image. Then the largest central box of an
    allowed ratio is taken: for a square image all of it. (The ROAR paper's code tries once, demands a tenth of the
    area, and then takes all of the image, too.) Bicubic resizing may leave [0, 1] a little, as it does there.

    Args:
        images: (N, C, H, W); only these can be augmented.
        recipe: ``flip``, ``crop_padding``, ``random_resized_crop``, ``aspect`` and ``interpolation``.
        generator: where the draws come from.
        part: the images of the batch that are wanted. The draws are made for all of them, so that processes that
            share a batch see what a single one would.

    Returns:
        Images (n, C, H, W) of the part; channels may lie last in memory.

    Raises:
        InputError: samples that are no images.
    """
    if not (recipe.flip or recipe.crop_padding or recipe.random_resized_crop):
        return images[part]
    if images.ndim != 4:
        raise InputError(
            f"recipe: flip, crop_padding and random_resized_crop need images (N, C, H, W), got {tuple(images.shape)}"
        )
    count, _, height, width = images.shape
    mirrored = shifts = boxes = None
    if recipe.flip:
        mirrored = (torch.rand(count, generator=generator) < 0.5)[part]
    if recipe.crop_padding:
        shifts = torch.randint(0, 2 * recipe.crop_padding + 1, (count, 2), generator=generator)[part]
    if recipe.random_resized_crop:
        boxes = _boxes(count, height, width, recipe, generator)[part]
    return _changed(images[part], recipe, mirrored, shifts, boxes)


def _changed(
    images: torch.Tensor,
    recipe: Recipe,
    mirrored: torch.Tensor | None,
    shifts: torch.Tensor | None,
    boxes: torch.Tensor | None,
) -> torch.Tensor:
    if boxes is not None:
        images = _resized(images, boxes, recipe)
    if mirrored is None and shifts is None:
        return images
    count, channels, height, width = images.shape
    rows = torch.arange(height).expand(count, height)
    columns = torch.arange(width).expand(count, width)
    if mirrored is not None:
        columns = torch.where(mirrored[:, None], columns.flip(1), columns)
    pad = recipe.crop_padding
    if shifts is not None:
        rows, columns = rows + shifts[:, :1], columns + shifts[:, 1:]
    # whole pixels are moved, which is several times faster than values
    pixels = torch.nn.functional.pad(images.movedim(1, -1), (0, 0, pad, pad, pad, pad))
    _, tall, wide, _ = pixels.shape
    chosen = (torch.arange(count)[:, None, None] * tall + rows[:, :, None]) * wide + columns[:, None, :]
    moved = pixels.reshape(-1, channels).index_select(0, chosen.flatten().to(images.device))
    return moved.view(count, height, width, channels).movedim(-1, 1)


def _boxes(count: int, height: int, width: int, recipe: Recipe, generator: torch.Generator) -> torch.Tensor:
    """Draw a box for each image: int64 (count, 4), top, left, height, width."""
    assert recipe.random_resized_crop is not None
    low, high = recipe.random_resized_crop
    narrow, wide = recipe.aspect
    draws = torch.rand(4, count, _TRIES, generator=generator, dtype=torch.float64)
    area = height * width * (low + (high - low) * draws[0])
    ratio = torch.exp(math.log(narrow) + (math.log(wide) - math.log(narrow)) * draws[1])
    tall, broad = (area / ratio).sqrt().round().long(), (area * ratio).sqrt().round().long()
    fits = (tall > 0) & (tall <= height) & (broad > 0) & (broad <= width)
    first = fits.int().argmax(1, keepdim=True)  # the first try that fits
    tall, broad, down, right = (part.gather(1, first)[:, 0] for part in (tall, broad, draws[2], draws[3]))
    top, left = ((height - tall + 1) * down).long(), ((width - broad + 1) * right).long()
    whole = torch.tensor(_central(height, width, narrow, wide))
    return torch.where(fits.any(1)[:, None], torch.stack([top, left, tall, broad], dim=1), whole)


def _central(height: int, width: int, narrow: float, wide: float) -> tuple[int, int, int, int]:
    """Return the largest central box (top, left, height, width) whose ratio of sides is allowed."""
    tall, broad = height, width
    if width / height < narrow:
        tall = max(1, round(width / narrow))
    elif width / height > wide:
        broad = max(1, round(height * wide))
    return (height - tall) // 2, (width - broad) // 2, tall, broad


def _resized(images: torch.Tensor, boxes: torch.Tensor, recipe: Recipe) -> torch.Tensor:
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2.functional import resized_crop

    mode, size = InterpolationMode(recipe.interpolation), list(images.shape[2:])
    parts = [
        resized_crop(image, *box, size, mode, antialias=True)
        for image, box in zip(images, boxes.tolist(), strict=True)
    ]
    return torch.stack(parts) if parts else images
