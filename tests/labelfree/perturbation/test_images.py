from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torchvision.transforms.v2 import functional as v2

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation import (
    ColourJitter,
    Draws,
    Facts,
    Gaussian,
    InputPerturbation,
    Occlusion,
    Rotation,
    Translation,
)

IMAGES = torch.rand(5, 3, 12, 20, generator=torch.Generator().manual_seed(0))
KINDS = [
    Gaussian(scale=1.0, valid_range=None),
    Occlusion(),
    Rotation(),
    Translation(),
    ColourJitter(valid_range=(0, 1)),
]


def draws(n: int = 5, seed: int = 0) -> Draws:
    return Draws(seed, "test", [str(row) for row in range(n)])


def at(strength: float, n: int = 5) -> torch.Tensor:
    return torch.full((n,), strength)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_images_are_changed_but_not_those_of_the_caller(kind: InputPerturbation) -> None:
    given_images = IMAGES.clone()
    kind.check(given_images)
    found = kind.disturb(given_images, at(kind.strength or 0), draws())
    assert found.shape == IMAGES.shape
    assert torch.equal(given_images, IMAGES)
    assert bool((found != IMAGES).flatten(1).any(dim=1).all())
    assert torch.equal(found, kind.disturb(given_images, at(kind.strength or 0), draws()))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_strength_0_changes_nothing(kind: InputPerturbation) -> None:
    assert torch.allclose(kind.disturb(IMAGES, at(0), draws()), IMAGES, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_sample_has_its_own_strength(kind: InputPerturbation) -> None:
    strength = torch.tensor([kind.strength or 0, 0, kind.strength or 0, 0, 0])
    found = kind.disturb(IMAGES, strength, draws())
    far = (found - IMAGES).abs().flatten(1).amax(1)
    assert bool((far[[0, 2]] > 1e-3).all())
    assert bool((far[[1, 3, 4]] < 1e-5).all())


def test_noise_has_its_scale_for_each_channel_and_stays_in_its_range() -> None:
    images = torch.full((200, 3, 8, 8), 0.5)
    wide = Gaussian(scale=(0.0, 1.0, 4.0), valid_range=None).disturb(images, at(0.05, 200), draws(200))
    sd = (wide - images).std(dim=(0, 2, 3))
    assert sd.tolist() == pytest.approx([0, 0.05, 0.2], rel=0.02)
    clipped = Gaussian(scale=4.0, valid_range=(0.2, 0.6)).disturb(images, at(0.5, 200), draws(200))
    assert float(clipped.min()) == pytest.approx(0.2)
    assert float(clipped.max()) == pytest.approx(0.6)


def test_noise_is_not_clipped_unless_the_data_say_so() -> None:
    table = torch.tensor([[5.0, -3.0], [7.0, 9.0]])
    facts = Facts(scale=torch.tensor([[1.0, 10.0]]))
    found = Gaussian().fitted(facts)
    assert found.valid_range is None
    assert float((found.disturb(table, at(0.01, 2), draws(2)) - table).abs().max()) < 1
    pixels = Gaussian().fitted(Facts(valid_range=(0.0, 1.0)))
    assert pixels.valid_range == (0, 1)
    assert float(pixels.disturb(table, at(0.01, 2), draws(2)).max()) == 1
    assert Gaussian(valid_range=None).fitted(Facts(valid_range=(0.0, 1.0))).valid_range is None


def test_rotation_is_that_of_torchvision() -> None:
    angles = draws().signed() * 25
    found = Rotation(border="zero").disturb(IMAGES, at(25), draws())
    for image, angle, rotated in zip(IMAGES, angles.tolist(), found, strict=True):
        expected = v2.rotate(image[None], angle, interpolation=v2.InterpolationMode.BILINEAR)[0]
        assert torch.allclose(rotated, expected, atol=1e-4)


def test_translation_is_that_of_torchvision_for_whole_pixels() -> None:
    # a shift by whole pixels moves them without mixing, so the drawn shares are rounded to such
    class Whole(Draws):
        def signed(self, *shape: int) -> torch.Tensor:
            return torch.tensor([[0.25, -0.5]])  # of 20 columns and 12 rows: 5 to the right, 6 up

    found = Translation(border="zero").disturb(IMAGES[:1], at(1, 1), Whole(0, "test", ["0"]))
    expected = v2.affine(IMAGES[:1], 0, [5, -6], 1, [0.0, 0.0])
    assert torch.allclose(found, expected, atol=1e-5)
    edge = Translation().disturb(IMAGES[:1], at(1, 1), Whole(0, "test", ["0"]))
    assert torch.allclose(edge[0, :, 0, 0], IMAGES[0, :, 6, 0], atol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_colour_jitter_is_that_of_torchvision(channels: int) -> None:
    images = IMAGES[:, :channels]
    factors = 1 + 0.6 * draws().signed(3)
    found = ColourJitter(valid_range=(0, 1)).disturb(images, at(0.6), draws())
    for row, (brightness, contrast, saturation) in enumerate(factors.tolist()):
        expected = v2.adjust_contrast(v2.adjust_brightness(images[row : row + 1], brightness), contrast)
        if channels == 3:
            expected = v2.adjust_saturation(expected, saturation)
        assert torch.allclose(found[row : row + 1], expected, atol=2e-4)


def test_colours_outside_a_range_are_not_clipped_where_none_is_known() -> None:
    bright = ColourJitter().fitted(Facts()).disturb(IMAGES + 3, at(0.2), draws())
    assert float(bright.max()) > 3


@settings(max_examples=30, deadline=None)
@given(share=st.floats(0.02, 0.9), height=st.integers(4, 20), width=st.integers(4, 20), seed=st.integers(0, 9))
def test_a_square_of_the_wanted_size_is_covered_by_the_mean(share: float, height: int, width: int, seed: int) -> None:
    images = torch.rand(3, 2, height, width, generator=torch.Generator().manual_seed(seed))
    found = Occlusion().disturb(images, at(share, 3), draws(3, seed))
    for image, covered in zip(images, found, strict=True):
        changed = (image != covered).all(dim=0).numpy()
        rows, columns = np.flatnonzero(changed.any(axis=1)), np.flatnonzero(changed.any(axis=0))
        side = np.float32(share) ** 0.5
        assert abs(len(rows) - side * height) <= 0.51
        assert abs(len(columns) - side * width) <= 0.51
        assert changed.sum() == len(rows) * len(columns)
        if changed.any():
            assert torch.allclose(covered[:, rows[0], columns[0]], image.mean(dim=(1, 2)), atol=1e-6)


def test_every_place_can_be_covered() -> None:
    images = torch.rand(300, 1, 6, 6)
    hidden = (Occlusion().disturb(images, at(0.2, 300), draws(300)) != images).float().mean(dim=0)
    assert float(hidden.min()) > 0


def test_columns_of_a_table_are_covered_by_their_mean() -> None:
    table = torch.rand(4, 10)
    filled = Occlusion().fitted(Facts(mean=table.mean(dim=0, keepdim=True))).disturb(table, at(0.3, 4), draws(4))
    changed = filled != table
    assert changed.sum(1).tolist() == [3] * 4
    assert torch.equal(filled[changed], table.mean(dim=0).expand(4, 10)[changed])
    assert bool((Occlusion(fill=9.0).disturb(table, at(0.3, 4), draws(4)) == 9).any())


@pytest.mark.parametrize("kind", [Rotation(), Translation(), ColourJitter()], ids=lambda kind: kind.name)
def test_what_is_no_image_is_refused(kind: InputPerturbation) -> None:
    with pytest.raises(InputError, match=r"expected images \(N, C, H, W\).*time-warp"):
        kind.check(torch.rand(3, 4))
    with pytest.raises(InputError, match=r"int64 values.*word-neighbours"):
        kind.check(torch.ones(3, 4, dtype=torch.int64))


def test_settings_of_noise_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"scale has 2 values, the samples have 3"):
        Gaussian(scale=(1.0, 2.0)).check(IMAGES)
    with pytest.raises(InputError, match=r"negative or not finite"):
        Gaussian(scale=-1).check(IMAGES)
    with pytest.raises(InputError, match=r"valid_range is \(1, 0\)"):
        Gaussian(valid_range=(1, 0)).fitted(Facts())
    with pytest.raises(InputError, match=r"border: got 'mirror'"):
        Rotation(border="mirror").disturb(IMAGES, at(1), draws())
