"""Augmentation against plain loops and torchvision, and the distribution of what it draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms.v2 import InterpolationMode, RandomResizedCrop
from torchvision.transforms.v2.functional import resized_crop

from roadworthy.errors import InputError
from roadworthy.model import Recipe, load_recipe
from roadworthy.model.augment import _boxes, augment
from roadworthy.rng import torch_generator

RECIPE = Recipe(epochs=1, learning_rate=0.1, batch_size=8)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 5),
    channels=st.integers(1, 4),
    height=st.integers(1, 7),
    width=st.integers(1, 7),
    pad=st.integers(0, 3),
    flip=st.booleans(),
    seed=st.integers(0, 999),
)
def test_augmentation_against_a_loop(
    n: int, channels: int, height: int, width: int, pad: int, flip: bool, seed: int
) -> None:
    images = torch.from_numpy(np.random.default_rng(seed).random((n, channels, height, width), dtype=np.float32))
    kept = images.clone()
    recipe = Recipe(epochs=1, learning_rate=0.1, flip=flip, crop_padding=pad)
    found = augment(images, recipe, torch_generator(seed, "a"))
    draws = torch_generator(seed, "a")
    mirrored = torch.rand(n, generator=draws) < 0.5 if flip else torch.zeros(n, dtype=torch.bool)
    shifts = torch.randint(0, 2 * pad + 1, (n, 2), generator=draws) if pad else torch.zeros(n, 2, dtype=torch.int64)
    for row in range(n):
        padded = np.pad(images[row].numpy(), ((0, 0), (pad, pad), (pad, pad)))
        top, left = shifts[row].tolist()
        cropped = padded[:, top : top + height, left : left + width]
        expected = cropped[:, :, ::-1] if mirrored[row] else cropped
        assert np.array_equal(found[row].numpy(), expected)
    assert torch.equal(images, kept)


def test_augmentation_moves_and_mirrors() -> None:
    images = torch.rand(64, 1, 6, 6, generator=torch.Generator().manual_seed(1))
    flipped = augment(images, Recipe(epochs=1, learning_rate=0.1, flip=True), torch_generator(0, "a"))
    same = (flipped == images).flatten(1).all(1)
    assert 16 < int(same.sum()) < 48
    assert torch.equal(flipped[~same], images[~same].flip(-1))
    shifted = augment(images, Recipe(epochs=1, learning_rate=0.1, crop_padding=2), torch_generator(0, "a"))
    assert int((shifted == images).flatten(1).all(1).sum()) < 16


def test_tables_cannot_be_mirrored() -> None:
    with pytest.raises(InputError, match=r"need images \(N, C, H, W\), got \(4, 3\)"):
        augment(torch.zeros(4, 3), Recipe(epochs=1, learning_rate=0.1, flip=True), torch_generator(0, "a"))
    assert augment(torch.zeros(4, 3), RECIPE, torch_generator(0, "a")).shape == (4, 3)


class TestRandomResizedCrop:
    recipe = Recipe(epochs=1, learning_rate=0.1, random_resized_crop=(0.08, 1.0), interpolation="bicubic")

    def test_each_image_is_the_box_that_was_drawn_for_it(self) -> None:
        images = torch.rand(6, 3, 20, 24, generator=torch.Generator().manual_seed(1))
        kept = images.clone()
        found = augment(images, self.recipe, torch_generator(0, "a"))
        boxes = _boxes(6, 20, 24, self.recipe, torch_generator(0, "a")).tolist()
        for image, out, (top, left, height, width) in zip(images, found, boxes, strict=True):
            part = image[None, :, top : top + height, left : left + width]
            expected = torch.nn.functional.interpolate(part, (20, 24), mode="bicubic", antialias=True)[0]
            assert torch.allclose(out, expected, atol=1e-6)
            assert torch.equal(
                out, resized_crop(image, top, left, height, width, [20, 24], InterpolationMode.BICUBIC)
            )
        assert torch.equal(images, kept)

    @pytest.mark.parametrize("shape", [(32, 32), (20, 60), (224, 224)])
    def test_boxes_are_distributed_as_torchvision_draws_them(self, shape: tuple[int, int]) -> None:
        n = 4000
        ours = _boxes(n, *shape, self.recipe, torch_generator(0, "a"))
        top, left, height, width = ours.T
        assert bool(((top >= 0) & (left >= 0) & (top + height <= shape[0]) & (left + width <= shape[1])).all())
        transform, image = RandomResizedCrop(shape), torch.zeros(1, *shape)
        with torch.random.fork_rng():
            torch.manual_seed(5)
            drawn = [transform.make_params([image]) for _ in range(n)]
        theirs = torch.tensor([[box[key] for key in ("top", "left", "height", "width")] for box in drawn])
        for one, other in zip(ours.T.double(), theirs.T.double(), strict=True):
            # means within 5 standard errors, and the spread within 10 %
            error = 5 * math.sqrt((float(one.var()) + float(other.var())) / n)
            assert abs(float(one.mean() - other.mean())) <= error + 1e-9
            assert float(one.std()) == pytest.approx(float(other.std()), rel=0.1)

    @pytest.mark.parametrize("shape", [(10, 100), (100, 10), (1, 1)])
    def test_where_no_box_fits_the_central_one_of_an_allowed_ratio(self, shape: tuple[int, int]) -> None:
        recipe = load_recipe(self.recipe, random_resized_crop=(1.0, 1.0))
        boxes = _boxes(5, *shape, recipe, torch_generator(0, "a"))
        expected = {(10, 100): [0, 43, 10, 13], (100, 10): [43, 0, 13, 10], (1, 1): [0, 0, 1, 1]}[shape]
        assert boxes.tolist() == [expected] * 5

    def test_a_part_of_the_batch_sees_what_the_whole_does(self) -> None:
        recipe = load_recipe(self.recipe, flip=True, crop_padding=2)
        images = torch.rand(7, 1, 12, 12)
        whole = augment(images, recipe, torch_generator(0, "a"))
        for part in (slice(0, 3), slice(3, 7), slice(7, 7)):
            assert torch.equal(augment(images, recipe, torch_generator(0, "a"), part), whole[part])

    def test_tables_are_refused(self) -> None:
        with pytest.raises(InputError, match="random_resized_crop need images"):
            augment(torch.zeros(4, 3), self.recipe, torch_generator(0, "a"))
