"""The normalising layer: what it computes, and that explainers can look through it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from roadworthy.errors import InputError
from roadworthy.model import Normalized, PixelNormalize
from roadworthy.model.normalized import per_channel


@pytest.mark.parametrize("shape", [(2, 3, 6, 5), (1, 3, 1, 1), (4, 3, 30), (5, 3), (2, 3, 4, 4, 4)])
def test_any_number_of_axes_and_the_layout_that_came_in(shape: tuple[int, ...]) -> None:
    images, layer = torch.rand(shape), PixelNormalize([0.5, 0.4, 0.3], [0.2, 0.25, 0.5])
    found = layer(images)
    for channel, (mean, std) in enumerate(zip((0.5, 0.4, 0.3), (0.2, 0.25, 0.5), strict=True)):
        assert torch.allclose(found[:, channel], (images[:, channel] - mean) / std, atol=1e-6)
    assert found.is_contiguous()
    if len(shape) == 4:
        last = layer(images.contiguous(memory_format=torch.channels_last))
        assert last.is_contiguous(memory_format=torch.channels_last)


def test_torch_fx_traces_it_and_computes_the_same() -> None:
    model = Normalized(nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU()), ([0.5, 0.4, 0.3], [0.2] * 3))
    images = torch.rand(2, 3, 6, 5)
    assert torch.equal(torch.fx.symbolic_trace(model)(images), model(images))


@pytest.mark.parametrize("shape", [(2, 1, 4, 4), (3,), (2, 4)])
def test_other_channels_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="takes images with 3 channels"):
        PixelNormalize([0.5, 0.4, 0.3], [0.2] * 3)(torch.zeros(shape))


def test_statistics_in_any_form() -> None:
    assert per_channel((torch.tensor([0.5, 0.25]), 2)) == ((0.5, 0.25), (2.0, 2.0))  # type: ignore[arg-type]
    assert per_channel(([0.485], [0.229])) == ((0.485,), (0.229,))


def test_it_prints_its_statistics() -> None:
    assert "mean=[0.5], std=[0.25]" in repr(Normalized(nn.Flatten(), ([0.5], [0.25])))
