"""Guided backpropagation: the same map for every way to write a ReLU, or a refusal."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_networks import FORMS, forms, plain, some_images
from captum.attr import GuidedBackprop
from torch import nn
from torch.nn import functional as F

from roadworthy.attribution import Settings, attribute
from roadworthy.errors import AttributionError


def test_equals_captum_on_a_network_of_modules() -> None:
    model, images, targets = plain(), some_images(), torch.tensor([0, 3, 1, 2])
    found = attribute(model, images, "gb", target=targets)["gb"]
    expected = GuidedBackprop(model).attribute(images, target=targets)
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_relu_is_guided(form: str) -> None:
    images = some_images()
    expected = GuidedBackprop(forms("module")).attribute(images, target=1).detach().numpy()
    maps = attribute(forms(form), images, ["gb", "grad"], target=[1] * 4)
    np.testing.assert_allclose(maps["gb"], expected, atol=1e-6)
    assert np.abs(maps["gb"] - maps["grad"]).max() > 1e-2, "a plain gradient"
    assert maps.info["gb"]["guided_relus"] == 2


class One(nn.Module):
    """Linear layer, an activation, linear layer."""

    def __init__(self, activation) -> None:  # type: ignore[no-untyped-def]
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
        self.activation = activation
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.second(self.activation(self.first(values.flatten(1))))


def by_hand(values: torch.Tensor, low: float, high: float, target: int) -> np.ndarray:
    """Guided backpropagation of One by the rule of the paper: gates of the activation and of the gradient."""
    model = One(nn.ReLU())
    inner = model.first(values)
    incoming = model.second.weight[target].expand(inner.shape)
    gate = (inner > low) & (inner < high) & (incoming > 0)
    return ((incoming * gate) @ model.first.weight).detach().numpy()


@pytest.mark.parametrize(
    "activation",
    [
        F.relu,
        torch.relu_,
        lambda x: F.threshold(x, 0.0, 0.0),
        lambda x: torch.clamp_min(x, 0),
        lambda x: torch.maximum(x, torch.zeros(())),
        lambda x: x.clamp(min=torch.zeros(())),
        nn.ReLU(inplace=True),
    ],
)
def test_functions_that_are_a_relu(activation) -> None:  # type: ignore[no-untyped-def]
    values = torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
    found = attribute(One(activation), values, "gb", target=[2] * 5)["gb"]
    np.testing.assert_allclose(found, by_hand(values, 0, np.inf, 2), atol=1e-5)


@pytest.mark.parametrize("activation", [nn.ReLU6(), nn.ReLU6(inplace=True), F.relu6, lambda x: x.clamp(0, 6)])
def test_relu6_is_guided(activation) -> None:  # type: ignore[no-untyped-def]
    values = 4 * torch.randn(5, 6, generator=torch.Generator().manual_seed(3))
    found = attribute(One(activation), values, "gb", target=[2] * 5)["gb"]
    np.testing.assert_allclose(found, by_hand(values, 0, 6, 2), atol=1e-4)


@pytest.mark.parametrize("activation", [nn.GELU(), nn.SiLU(), F.elu, torch.tanh, lambda x: x.clamp(0, 1)])
def test_without_a_relu_it_refuses_naming_what_it_found(activation) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(AttributionError, match=r"no ReLU runs.*(Gelu|Silu|Elu|Tanh|Clamp) \(1\).*'grad'"):
        attribute(One(activation), some_images(2, 1, 2, 3), "gb")


def test_layers_with_other_activations_are_named() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 4), nn.GELU(), nn.Linear(4, 2))
    with pytest.raises(AttributionError, match=r"layers 2 \(GELU\)"):
        attribute(model, some_images(2, 1, 2, 3), "gb-sg")


def test_a_mixed_network_guides_its_relus_and_says_so() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 2))
    maps = attribute(model, some_images(2, 1, 2, 3), "gb")
    assert maps.info["gb"]["guided_relus"] == 1
    assert maps.info["gb"]["not_guided"] == {"Gelu": 1}


class OwnReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, values):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(values)
        return values.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):  # type: ignore[no-untyped-def]
        return gradient * (ctx.saved_tensors[0] > 0)


@pytest.mark.parametrize(
    ("activation", "message"),
    [
        (OwnReLU.apply, "'OwnReLUBackward' hides what it does"),
        (lambda x: torch.where(x > 0, x, 0.0), "torch.where may be a ReLU in disguise"),
        (lambda x: x * (x > 0), "a product with a boolean mask may be a ReLU in disguise"),
    ],
)
def test_what_cannot_be_seen_is_refused(activation, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(AttributionError, match=message):
        attribute(One(activation), some_images(2, 1, 2, 3), "gb")


@pytest.mark.filterwarnings("ignore:.*torch.jit.*:FutureWarning", "ignore:.*torch.jit.*:DeprecationWarning")
def test_scripted_parts_are_refused_by_name() -> None:
    model = nn.Sequential()
    model.add_module("flat", nn.Flatten())
    model.add_module("head", torch.jit.script(nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.Linear(4, 2))))
    with pytest.raises(AttributionError, match=r"layer 'head' is a RecursiveScriptModule"):
        attribute(model, some_images(2, 1, 2, 3), "gb")


def test_nothing_is_left_on_the_model_even_after_a_refusal() -> None:
    model = One(nn.GELU())
    with pytest.raises(AttributionError):
        attribute(model, some_images(2, 1, 2, 3), "gb")
    for module in model.modules():
        hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks)
        assert not any(hooks)
    values = torch.ones(1, 6, requires_grad=True)
    model(values).sum().backward()  # a gradient of one's own is plain again
    assert values.grad is not None


def test_ensembles_are_guided_too() -> None:
    images = some_images(2)
    settings = Settings(samples=3, noise=0.1)
    in_place = attribute(forms("function-in-place"), images, ["gb-sg", "gb-var"], settings=settings)
    module = attribute(forms("module"), images, ["gb-sg", "gb-var"], settings=settings)
    for name in module:
        np.testing.assert_allclose(in_place[name], module[name], atol=1e-6)
