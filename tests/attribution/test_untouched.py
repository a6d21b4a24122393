"""Where attribution works, and that it leaves everything of the caller's alone (field reports 8 and 24)."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from attribution_networks import forms, some_images
from torch import nn

from roadworthy.attribution import Settings, attribute, methods
from roadworthy.errors import AttributionError, ModelError

FAST = Settings(ig_steps=3, samples=2, shap_samples=2, lime_samples=20, kernel_shap_samples=20, cells=2)


def test_works_where_gradients_are_off_and_parameters_frozen() -> None:
    model, images = forms(), some_images()
    names = [name for name in methods if name not in ("lime", "kernel-shap")]
    expected = attribute(model, images, names, settings=FAST)
    model.requires_grad_(False)
    with torch.no_grad():
        found = attribute(model, images, names, settings=FAST)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-7, err_msg=name)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_inference_mode_is_refused_with_the_way_out() -> None:
    with (
        torch.inference_mode(),
        pytest.raises(AttributionError, match=r"inside torch.inference_mode\(\).*call it outside"),
    ):
        attribute(forms(), some_images(), "grad")
    with torch.inference_mode():
        model, images = forms(), some_images()
    with pytest.raises(AttributionError, match="parameter 'conv1.weight' was made inside torch.inference_mode"):
        attribute(model, images, "grad")
    assert attribute(forms(), images, "grad")["grad"].shape == (4, 3, 8, 10)  # images made there are no hindrance


class WithDropout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.norm, self.inner = nn.Dropout(0.5), nn.BatchNorm2d(3), forms()

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.inner(self.drop(self.norm(values)))


def snapshot(model: nn.Module, images: torch.Tensor) -> list:
    return [
        [module.training for module in model.modules()],
        [value.clone() for value in model.state_dict().values()],
        [parameter.grad is None for parameter in model.parameters()],
        [parameter.requires_grad for parameter in model.parameters()],
        [len(module._forward_hooks) + len(module._backward_hooks) for module in model.modules()],
        [sorted(vars(module)) for module in model.modules()],
        images.clone(),
        images.requires_grad,
        torch.get_rng_state(),
        np.random.get_state()[1].tolist(),  # noqa: NPY002
        random.getstate(),
        torch.is_grad_enabled(),
    ]


def same(first: list, second: list) -> bool:
    return all(
        torch.equal(a, b)
        if isinstance(a, torch.Tensor)
        else (same(a, b) if isinstance(a, list) and a and isinstance(a[0], torch.Tensor) else a == b)
        for a, b in zip(first, second, strict=True)
    )


def test_nothing_of_the_callers_is_changed() -> None:
    model, images = WithDropout(), some_images()
    model.train()
    model.inner.conv1.eval()
    model.inner.conv1.weight.requires_grad_(False)
    before = snapshot(model, images)
    first = attribute(model, images, list(methods), settings=FAST)
    assert same(before, snapshot(model, images))
    second = attribute(model, images, list(methods), settings=FAST)
    for name in methods:
        assert np.array_equal(first[name], second[name]), f"{name}: the same call twice is not bit-equal"


class Failing(nn.Module):
    """Fails at one of its calls."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.inner, self.calls, self.at = forms(), [], at

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        self.calls.append(1)
        if len(self.calls) >= self.at:
            raise RuntimeError("halfway")
        return self.inner(values)


@pytest.mark.parametrize("name", ["grad-sg", "ig", "gb", "gradcam", "deeplift", "lrp", "occlusion", "lime"])
def test_nothing_is_changed_by_a_failure_halfway(name: str) -> None:
    model, images = Failing(at=2), some_images()
    model.train()
    before = snapshot(model, images)
    with pytest.raises((ModelError, AttributionError), match="halfway"):
        attribute(model, images, name, settings=FAST)
    assert same(before, snapshot(model, images))
