"""OpenCV's inpainting as an imputer, against OpenCV itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError, MissingExtraError
from roadworthy.imputation import OpenCVInpaint, impute, resolve_imputer

NAMES = ("telea", "navier-stokes")


@pytest.fixture
def cv2():
    return pytest.importorskip(
        "cv2", reason="OpenCV is not there: pip install 'roadworthy[opencv]'", exc_type=ImportError
    )


def batch(n: int = 3, *shape: int, share: float = 0.4) -> tuple[torch.Tensor, torch.Tensor]:
    shape = shape or (3, 12, 9)
    draws = torch.Generator().manual_seed(5)
    return torch.rand(n, *shape, generator=draws), torch.rand(n, *shape[1:], generator=draws) < share


@pytest.mark.parametrize("name", NAMES)
def test_removed_units_are_those_of_opencv_and_kept_ones_stay(cv2, name: str) -> None:
    images, removed = batch()
    filled = impute(images, removed, name)
    flag = {"telea": cv2.INPAINT_TELEA, "navier-stokes": cv2.INPAINT_NS}[name]
    for image, mask, fill in zip(images, removed.numpy(), filled, strict=True):
        shown = np.where(mask[..., None], 0, np.round(255 * image.permute(1, 2, 0).numpy())).astype(np.uint8)
        wanted = torch.from_numpy(cv2.inpaint(shown, mask.astype(np.uint8), 3, flag)).permute(2, 0, 1) / 255
        gone = torch.from_numpy(mask).expand_as(image)
        assert torch.equal(fill[~gone], image[~gone])
        assert torch.allclose(fill[gone], wanted[gone], atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_what_was_removed_does_not_show_through(cv2, name: str, channels: int) -> None:
    images, removed = batch(2, channels, 8, 8, share=0.7)
    other = torch.where(removed.unsqueeze(1), 1 - images, images)
    gone = removed.unsqueeze(1).expand_as(images)
    assert torch.equal(impute(images, removed, name)[gone], impute(other, removed, name)[gone])


@pytest.mark.parametrize("name", NAMES)
def test_a_constant_image_stays_constant_and_a_batch_is_its_images(cv2, name: str) -> None:
    images = torch.full((1, 1, 9, 9), 51 / 255)
    removed = batch(1, 1, 9, 9)[1]
    levels = {"telea": 2.1, "navier-stokes": 0.1}[name]  # Telea's in OpenCV is off by up to two of 255
    assert torch.allclose(impute(images, removed, name), images, atol=levels / 255)
    many, masks = batch(4)
    whole = impute(many, masks, name)
    assert torch.equal(whole[2:3], impute(many[2:3], masks[2:3], name))


@pytest.mark.parametrize("name", NAMES)
def test_all_nothing_and_one_unit(cv2, name: str) -> None:
    images, _ = batch(2)
    nothing = torch.zeros(2, 12, 9, dtype=torch.bool)
    assert torch.equal(impute(images, nothing, name), images)
    mean = torch.tensor([0.1, 0.2, 0.3])
    assert torch.equal(impute(images, ~nothing, name, mean=mean), mean.view(1, 3, 1, 1).expand_as(images))
    own = images.flatten(2).mean(2).view(2, 3, 1, 1).expand_as(images)
    assert torch.equal(impute(images, ~nothing, name), own)
    single = torch.full((1, 1, 1, 1), 0.5)
    assert torch.equal(impute(single, torch.zeros(1, 1, 1, dtype=torch.bool), name), single)


@pytest.mark.parametrize("name", NAMES)
def test_each_channel_can_have_its_own_mask(cv2, name: str) -> None:
    images, _ = batch(2)
    removed = torch.rand(2, 3, 12, 9, generator=torch.Generator().manual_seed(1)) < 0.3
    filled = impute(images, removed, name)
    for c in range(3):
        assert torch.equal(filled[:, c : c + 1], impute(images[:, c : c + 1], removed[:, c], name))


def test_input_is_checked(cv2) -> None:
    images, removed = batch()
    with pytest.raises(InputError, match=r"kept values lie in \[-0\.\d+, \d\.\d+\], expected \[0, 1\]"):
        impute(3 * images - 0.5, removed, "telea")
    with pytest.raises(InputError, match=r"shape \(3, 3, 12\), expected images"):
        impute(images[..., 0], removed[..., 0], "telea")
    with pytest.raises(InputError, match="method is 'tele'"):
        OpenCVInpaint("tele")
    with pytest.raises(InputError, match="radius is 0"):
        OpenCVInpaint("telea", radius=0)
    assert OpenCVInpaint("telea", radius=5).settings() == {"name": "telea", "radius": 5.0, "levels": 256}


@pytest.mark.parametrize("name", NAMES)
def test_without_opencv_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtraError, match=rf"{name}.* pip install 'roadworthy\[opencv\]'"):
        resolve_imputer(name)
