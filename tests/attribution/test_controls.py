"""Controls against SciPy and by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_networks import forms, some_images
from scipy import ndimage

from roadworthy.attribution import attribute
from roadworthy.errors import AttributionError, InputError


def flat(images: torch.Tensor) -> torch.Tensor:
    return images.flatten(1)[:, :2]


def test_sobel_equals_scipy_image_by_image() -> None:
    images = some_images(3, 2, 7, 9)
    found = attribute(flat, images, "sobel")["sobel"]
    for image, edges in zip(images.numpy().mean(1, dtype=np.float64), found, strict=True):
        np.testing.assert_allclose(edges, np.hypot(ndimage.sobel(image, 0), ndimage.sobel(image, 1)), atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (6, 1)])
def test_sobel_of_narrow_images_is_finite(shape: tuple[int, int]) -> None:
    images = some_images(2, 3, *shape)
    assert np.isfinite(attribute(flat, images, "sobel")["sobel"]).all()


def test_random_belongs_to_the_sample() -> None:
    images = some_images(3)
    first = attribute(flat, images, "random", ids=["a", "b", "c"], seed=1)["random"]
    moved = attribute(flat, images[[2, 0]], "random", ids=["c", "a"], seed=1, max_batch=1)["random"]
    assert np.array_equal(moved, first[[2, 0]])
    assert not np.array_equal(attribute(flat, images, "random", ids=["a", "b", "c"], seed=2)["random"], first)
    assert first.shape == (3, 8, 10)
    assert abs(first.mean()) < 0.3
    assert 0.7 < first.std() < 1.3


def test_center_falls_with_the_distance() -> None:
    found = attribute(flat, some_images(2, 3, 5, 7), "center")["center"]
    assert found[0].argmax() == 2 * 7 + 3
    assert found[0, 0, 0] == pytest.approx(-np.hypot(2, 3))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[0, ::-1, ::-1])


def test_constant_is_constant() -> None:
    assert not attribute(flat, some_images(2), "constant")["constant"].any()


def test_inverse_is_minus_the_map_computed_once() -> None:
    calls = []

    def mine(model, images, targets):  # type: ignore[no-untyped-def]
        calls.append(len(images))
        return images.mean(1)

    model, images = forms(), some_images()
    maps = attribute(model, images, ["ig", "inverse:ig", "inverse:sobel"])
    assert np.array_equal(maps["inverse:ig"], -maps["ig"])
    assert maps.info["inverse:ig"]["sign"] == -1
    maps = attribute(model, images, {"mine": mine, "worst": "inverse:mine", "back": "inverse:inverse:mine"})
    assert np.array_equal(maps["worst"], -maps["mine"])
    assert np.array_equal(maps["back"], maps["mine"])


def test_names_are_held_against_what_is_known() -> None:
    images = some_images(1)
    with pytest.raises(InputError, match=r"Unknown attribution method 'gradcm'. Did you mean 'gradcam'\?"):
        attribute(flat, images, "gradcm")
    with pytest.raises(InputError, match=r"Unknown attribution method 'igg'"):
        attribute(flat, images, "inverse:igg")
    with pytest.raises(InputError, match="'sobel' is there twice"):
        attribute(flat, images, ["sobel", "sobel"])
    with pytest.raises(InputError, match="got none"):
        attribute(flat, images, [])
    with pytest.raises(InputError, match="'a' is a float, expected a method name, a callable"):
        attribute(flat, images, {"a": 0.5})  # type: ignore[dict-item]
    with pytest.raises(InputError, match="defined by itself"):
        attribute(flat, images, {"a": "inverse:b", "b": "inverse:a"})


@pytest.mark.parametrize(
    ("name", "shape", "message"),
    [
        ("sobel", (2, 3, 9), r"'sobel' has no meaning for series \(N,C,T\): edges are of images; use 'random'"),
        ("gradcam", (2, 3, 9), r"'gradcam' has no meaning for series \(N,C,T\).*use 'ig'"),
        ("sobel", (2, 9), r"'sobel' has no meaning for tables \(N,F\)"),
        ("center", (2, 9), r"'center' has no meaning for tables \(N,F\): its features have no middle"),
    ],
)
def test_kinds_without_a_meaning_are_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(AttributionError, match=message):
        attribute(flat, torch.rand(shape), name)


def test_token_ids_take_controls_and_callables_only() -> None:
    tokens = torch.randint(0, 9, (3, 6))

    def score(ids: torch.Tensor) -> torch.Tensor:
        return torch.stack([ids.float().mean(1), -ids.float().mean(1)], 1)

    maps = attribute(score, tokens, {"random": "random", "own": lambda model, ids, targets: ids.float()})
    assert maps["random"].shape == (3, 6)
    assert np.array_equal(maps["own"], tokens.numpy().astype(np.float32))
    with pytest.raises(AttributionError, match=r"'ig' has no meaning for tokens \(N,T\).*use 'random' or 'constant'"):
        attribute(score, tokens, "ig")
