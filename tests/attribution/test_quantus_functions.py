"""Explain functions in the style of Quantus as methods: told by their parameters, asked with arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
import torch
from attribution_networks import plain, some_images
from torch import nn

import roadworthy as rw
from roadworthy.attribution import attribute
from roadworthy.errors import InputError
from roadworthy.fingerprints import callable_fingerprint

NORMALIZE = ([0.4, 0.5, 0.6], [0.2, 0.25, 0.3])
TARGETS = torch.tensor([0, 1, 2, 3])


def gradient(model: Any, inputs: Any, targets: Any, scale: float = 1.0, **kwargs: Any) -> np.ndarray:
    """The gradient, written as for Quantus."""
    assert isinstance(inputs, np.ndarray)
    assert targets.dtype == np.int64
    assert isinstance(model, nn.Module)
    images = torch.from_numpy(inputs).to(kwargs["device"]).requires_grad_()
    model(images).gather(1, torch.from_numpy(targets)[:, None]).sum().backward()
    return scale * images.grad.numpy().sum(1, keepdims=True)


def test_a_function_is_asked_with_arrays_and_with_the_model_in_pixel_units() -> None:
    net, images = plain(), some_images()
    for normalize in (None, NORMALIZE):
        methods = {"q": gradient, "twice": functools.partial(gradient, scale=2.0), "grad": "grad"}
        found = attribute(net, images, methods, target=TARGETS, normalize=normalize, max_batch=3)
        np.testing.assert_allclose(found["q"], found["grad"].sum(1, keepdims=True), atol=1e-6)
        np.testing.assert_allclose(found["twice"], 2 * found["q"], atol=1e-6)
    assert all(parameter.grad is None for parameter in net.parameters())
    assert list(attribute(net, images, [gradient])) == ["gradient"]


def test_a_function_of_three_is_called_with_tensors_as_ever() -> None:
    def own(model: Any, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        assert isinstance(inputs, torch.Tensor)
        return inputs

    images = some_images()
    np.testing.assert_array_equal(attribute(plain(), images, {"m": own})["m"], images)


def test_a_callable_model_and_one_with_named_scores_come_as_modules() -> None:
    net, images = plain(), some_images()
    expected = attribute(net, images, {"m": gradient}, target=TARGETS)["m"]

    class Named(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net

        def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.body(images)}

    for model in (lambda images: net(images), Named()):
        found = attribute(model, images, {"m": gradient}, target=TARGETS)["m"]
        np.testing.assert_allclose(found, expected, atol=1e-7)
    net.zero_grad()


def test_settings_by_keyword_alone_and_told_apart() -> None:
    with pytest.raises(InputError, match="'m': give the settings of gradient by keyword"):
        attribute(plain(), some_images(), {"m": functools.partial(gradient, plain())})
    marks = {callable_fingerprint(functools.partial(gradient, scale=scale)) for scale in (1.0, 2.0)}
    assert len(marks) == 2


def test_draws_belong_to_the_sample() -> None:
    def noisy(model: Any, inputs: np.ndarray, targets: np.ndarray, **kwargs: Any) -> np.ndarray:
        return np.random.normal(size=inputs.shape)  # noqa: NPY002

    net, images = plain(), some_images()
    found = attribute(net, images, {"m": noisy}, ids=list("abcd"))["m"]
    again = attribute(net, images[1:], {"m": noisy}, ids=list("bcd"), max_batch=1)["m"]
    assert np.array_equal(found[1:], again)


METHODS: dict[str, dict[str, Any]] = {
    "Saliency": {"method": "Saliency"},
    "IntegratedGradients": {"method": "IntegratedGradients"},
    "Occlusion": {"method": "Occlusion", "window": (1, 2, 2)},
    "LayerGradCam": {
        "method": "LayerGradCam",
        "xai_lib_kwargs": {},
        "gc_layer": "list(model.named_modules())[4][1]",
        "interpolate": (8, 10),
    },
    "every channel": {"method": "InputXGradient", "reduce_axes": ()},
}


@pytest.mark.slow  # Quantus is installed there alone, without its opencv
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_equal_to_quantus(name: str) -> None:
    quantus = pytest.importorskip("quantus", reason="Quantus is installed for the slow tests alone")
    net, images, settings = plain(), some_images(), METHODS[name]
    found = attribute(net, images, {"m": functools.partial(quantus.explain, **settings)}, target=TARGETS)["m"]
    assert settings.get("xai_lib_kwargs", {}) == {}
    expected = quantus.explain(net, images.numpy(), TARGETS.numpy(), **settings | {"xai_lib_kwargs": {}})
    np.testing.assert_allclose(found, expected, atol=1e-6)
    behind = rw.load_model(net, normalize=NORMALIZE)
    if name != "LayerGradCam":  # there the layer is named by its position
        inside, beside = (
            attribute(model, images, {"m": functools.partial(quantus.explain, **settings)}, target=TARGETS, **options)
            for model, options in ((behind, {}), (net, {"normalize": NORMALIZE}))
        )
        np.testing.assert_allclose(inside["m"], beside["m"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_quantus_explain_is_named_by_its_method_and_needs_one() -> None:
    quantus = pytest.importorskip("quantus", reason="Quantus is installed for the slow tests alone")
    with pytest.raises(
        InputError, match=r"pass functools.partial\(quantus.explain, method=\"Saliency\"\), or attrib"
    ):
        attribute(plain(), some_images(), {"m": quantus.explain})
    found = attribute(plain(), some_images(), [functools.partial(quantus.explain, method="Saliency")])
    assert list(found) == ["Saliency"]
