"""Occlusion, LIME and kernel SHAP: closed forms, captum itself, and independence of the batch."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from attribution_networks import forms, some_images
from captum.attr import Occlusion
from torch import nn

from roadworthy.attribution import Settings, attribute
from roadworthy.attribution.surrogate import grid
from roadworthy.errors import AttributionError

NAMES = ["occlusion", "lime", "kernel-shap"]
SMALL = Settings(cells=2, lime_samples=60, kernel_shap_samples=60)


class Additive(nn.Module):
    """The first score is a weighted sum of the image, so each cell's contribution is known."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(8)
        self.weight = nn.Parameter(torch.randn(shape, generator=generator))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        score = (images * self.weight).flatten(1).sum(1)
        return torch.stack([score, -score], dim=1)


def cell_sums(contributions: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """Sum contributions (n, ...) over each cell, and put the sum at each of its positions."""
    out = np.zeros_like(contributions)
    for cell in np.unique(cells):
        inside = cells == cell
        out[:, inside] = contributions[:, inside].sum(1, keepdims=True)
    return out


@pytest.mark.parametrize("shape", [(3, 6, 8), (2, 12), (5,)])
def test_kernel_shap_of_an_additive_model_is_the_contribution_of_each_cell(shape: tuple[int, ...]) -> None:
    model = Additive(shape)
    images = torch.rand(3, *shape, generator=torch.Generator().manual_seed(0))
    settings = Settings(cells=2, kernel_shap_samples=300)
    found = attribute(model, images, "kernel-shap", target=[0, 1, 0], settings=settings)["kernel-shap"]
    sign = np.array([1, -1, 1]).reshape(-1, *[1] * len(shape))
    contributions = sign * (model.weight.detach() * (images - 0.5)).numpy()
    if len(shape) > 1:
        contributions = contributions.sum(1)
    expected = cell_sums(contributions, grid(shape, 2).numpy().reshape(contributions.shape[1:]))
    np.testing.assert_allclose(found, expected, atol=1e-3)


def test_lime_orders_the_cells_of_an_additive_model_by_their_contribution() -> None:
    model, images = Additive((3, 6, 8)), some_images(2, 3, 6, 8)
    found = attribute(model, images, "lime", target=[0, 0], settings=Settings(cells=2, lime_samples=400))["lime"]
    expected = cell_sums((model.weight.detach() * (images - 0.5)).numpy().sum(1), grid((3, 6, 8), 2).numpy()[0])
    for row in range(2):
        assert np.corrcoef(found[row].ravel(), expected[row].ravel())[0, 1] > 0.99


def test_occlusion_equals_captum_for_any_batch() -> None:
    model, images = forms(), some_images()
    window, stride = (3, 3, 3), (3, 2, 2)
    expected = Occlusion(model).attribute(images, window, stride, baselines=0.5, target=1)[:, 0].detach().numpy()
    settings = Settings(occlusion_window=3, occlusion_stride=2)
    for max_batch in (1, 3, 64):
        maps = attribute(model, images, "occlusion", target=[1] * 4, settings=settings, max_batch=max_batch)
        np.testing.assert_allclose(maps["occlusion"], expected, atol=1e-5)
    assert maps.info["occlusion"]["window"] == [3, 3, 3]


def test_occlusion_of_a_table_is_the_contribution_of_each_feature() -> None:
    model, rows = Additive((5,)), torch.rand(3, 5)
    found = attribute(model, rows, "occlusion", target=[0] * 3, mean=0.25)["occlusion"]
    np.testing.assert_allclose(found, (model.weight.detach() * (rows - 0.25)).numpy(), atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_batch_and_order_change_nothing(name: str) -> None:
    model, images, ids = forms(), some_images(), ["a", "b", "c", "d"]
    expected = attribute(model, images, name, ids=ids, settings=SMALL)[name]
    order = [2, 0, 3, 1]
    moved = attribute(model, images[order], name, ids=[ids[i] for i in order], settings=SMALL, max_batch=5)[name]
    np.testing.assert_allclose(moved, expected[order], atol=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_global_random_states_are_left_alone(name: str) -> None:
    model = forms()
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    attribute(model, some_images(2), name, settings=SMALL)
    assert torch.equal(torch.get_rng_state(), states[0])
    assert np.array_equal(np.random.get_state()[1], states[1])  # noqa: NPY002
    assert random.getstate() == states[2]


def test_batches_are_bounded() -> None:
    passes: list[int] = []

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = forms()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            passes.append(len(images))
            return self.inner(images)

    attribute(Counting(), some_images(), NAMES, settings=SMALL, max_batch=6)
    assert max(passes) <= 6


def test_scores_without_gradients_are_enough() -> None:
    def model(images: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(images.detach().numpy().mean(axis=(2, 3)))

    maps = attribute(model, some_images(2), NAMES, settings=SMALL)
    assert set(maps) == set(NAMES)
    with pytest.raises(AttributionError, match="carry no gradient.*'occlusion', 'kernel-shap', 'lime'"):
        attribute(model, some_images(2), "ig")
