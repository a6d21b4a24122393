"""Grad-CAM, DeepLIFT and LRP: against captum where it is exact, against their own axioms where it is not."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from attribution_networks import FORMS, forms, plain, some_images
from captum.attr import LRP, DeepLift, GuidedGradCam, LayerGradCam
from captum.attr._utils.lrp_rules import EpsilonRule, GammaRule
from torch import nn
from torch.nn import functional as F

from roadworthy.attribution import Settings, attribute, presets
from roadworthy.errors import AttributionError, InputError, RoadworthyWarning

NOISELESS = Settings(ig_steps=4, samples=2, shap_samples=2, lime_samples=20, kernel_shap_samples=20, cells=2)


# Grad-CAM


def test_gradcam_equals_captum() -> None:
    model, images = plain(), some_images()
    maps = attribute(model, images, "gradcam", target=[0, 3, 1, 2])
    layer = LayerGradCam(model, model[3]).attribute(images, target=torch.tensor([0, 3, 1, 2]))
    expected = F.interpolate(layer, size=(8, 10), mode="bilinear", align_corners=False)[:, 0]
    np.testing.assert_allclose(maps["gradcam"], expected.detach().numpy(), atol=1e-6)
    assert maps.info["gradcam"]["layer"] == "3"
    assert maps["gradcam"].min() < 0, "signed by default"


def test_gradcam_takes_a_layer_by_name_and_the_positive_part() -> None:
    model, images = plain(), some_images()
    settings = Settings(gradcam_layer="0", gradcam_relu=True)
    maps = attribute(model, images, "gradcam", target=[1] * 4, settings=settings)
    expected = LayerGradCam(model, model[0]).attribute(images, target=1, relu_attributions=True)[:, 0]
    np.testing.assert_allclose(maps["gradcam"], expected.detach().numpy(), atol=1e-6)


def test_guided_gradcam_equals_captum() -> None:
    model, images = plain(), some_images()
    found = attribute(model, images, "guided-gradcam", target=[2] * 4)["guided-gradcam"]
    explainer = GuidedGradCam(model, model[3])
    expected = explainer.attribute(images, target=2, interpolate_mode="bilinear").detach().numpy()
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_the_last_convolution_is_the_one_that_runs_last() -> None:
    class Backwards(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.late = nn.Conv2d(4, 4, 3)
            self.early = nn.Conv2d(3, 4, 3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.late(self.early(images)).mean((2, 3))

    maps = attribute(Backwards(), some_images(), "gradcam")
    assert maps.info["gradcam"]["layer"] == "late"


def test_gradcam_refuses_what_it_cannot_mean() -> None:
    dense = nn.Sequential(nn.Flatten(), nn.Linear(240, 3))
    with pytest.raises(AttributionError, match=r"no two-dimensional convolution ran.*Flatten, Linear"):
        attribute(dense, some_images(), "gradcam")
    with pytest.raises(InputError, match=r"Unknown layer 'conv9'. Did you mean 'conv2'\?"):
        attribute(forms(), some_images(), "gradcam", settings=Settings(gradcam_layer="conv9"))
    with pytest.raises(AttributionError, match="'gradcam' looks inside a torch.nn.Module; the model is a function"):
        attribute(lambda x: x.flatten(1)[:, :3], some_images(), "gradcam")
    twice = nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(240, 3))
    twice.insert(0, twice[0])
    with pytest.raises(AttributionError, match=r"layer '0' runs 2 times"):
        attribute(twice, some_images(), "gradcam")
    with pytest.raises(AttributionError, match=r"layer '2' gives .*\(4, 3\), not feature maps"):
        attribute(
            nn.Sequential(nn.Conv2d(3, 3, 1), nn.Flatten(), nn.Linear(240, 3)),
            some_images(),
            "gradcam",
            settings=Settings(gradcam_layer="2"),
        )


# the same map for every way to write a ReLU (field report 40)


@pytest.mark.parametrize("form", FORMS)
def test_every_method_gives_the_same_map_for_every_form_of_relu(form: str) -> None:
    from roadworthy.attribution import methods

    images = some_images(2)
    expected = attribute(forms(), images, list(methods), settings=NOISELESS)
    found = attribute(forms(form), images, list(methods), settings=NOISELESS)
    for name in methods:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6, err_msg=name)


# DeepLIFT


def captum_deeplift(model: nn.Module, images: torch.Tensor, target: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = DeepLift(model).attribute(images, torch.full_like(images, 0.5), target=target)
    values: np.ndarray = found.detach().numpy()
    return values


def test_deeplift_equals_captum_without_pooling() -> None:
    layers = [layer for layer in plain() if not isinstance(layer, nn.MaxPool2d)]
    model, images = nn.Sequential(*layers), some_images()
    found = attribute(model, images, "deeplift", target=[3] * 4)["deeplift"]
    np.testing.assert_allclose(found, captum_deeplift(model, images, 3), atol=1e-5)


def test_deeplift_is_complete_with_pooling_where_captum_is_not() -> None:
    model, images = plain(), some_images()
    with torch.no_grad():
        difference = (model(images) - model(torch.full_like(images, 0.5)))[:, 3].numpy()
    maps = attribute(model, images, "deeplift", target=[3] * 4)
    np.testing.assert_allclose(maps["deeplift"].reshape(4, -1).sum(1), difference, atol=1e-5)
    np.testing.assert_allclose(maps.info["deeplift"]["completeness_gap"], 0, atol=1e-5)
    missing = captum_deeplift(model, images, 3).reshape(4, -1).sum(1) - difference
    assert np.abs(missing).max() > 1e-2, "captum is exact here now: compare with it"


@pytest.mark.parametrize(
    "activation", [nn.GELU(), nn.SiLU(), nn.ReLU6(), nn.Hardswish(), nn.Sigmoid(), F.elu, torch.tanh]
)
def test_deeplift_is_complete_for_any_elementwise_activation(activation) -> None:  # type: ignore[no-untyped-def]
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.rest = plain()[0], plain()[3:]
            self.activation = activation

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            features = self.first(images)
            features = self.activation(features) + 0.5 * features
            return self.rest(F.max_pool2d(features, 2))

    maps = attribute(Net().eval(), 3 * some_images(), "deeplift", target=[1] * 4)
    assert np.abs(maps.info["deeplift"]["completeness_gap"]).max() < 1e-4


def test_deeplift_keeps_what_overlapping_windows_contribute() -> None:
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.MaxPool2d(3, 1, padding=1), nn.Flatten(), nn.Linear(240, 4)).eval()
    images = some_images()
    maps = attribute(model, images, "deeplift", target=[1] * 4)
    with torch.no_grad():
        difference = (model(images) - model(torch.full_like(images, 0.5)))[:, 1].numpy()
    np.testing.assert_allclose(maps["deeplift"].reshape(4, -1).sum(1), difference, atol=1e-5)


def test_a_softmax_behind_the_model_is_not_passed_over_in_silence() -> None:
    def probabilities(scores: torch.Tensor) -> torch.Tensor:
        return scores.softmax(1)

    with pytest.warns(RoadworthyWarning, match="miss the difference of the scores by up to"):
        attribute(plain(), some_images(), "deeplift", target=[1] * 4, output=probabilities)


def test_a_deeplift_map_does_not_depend_on_its_batch() -> None:
    model, images = plain(), some_images(6)
    images[1] = 0.5  # nothing differs from the baseline
    together = attribute(model, images, "deeplift", target=[1] * 6)["deeplift"]
    for row in range(6):
        alone = attribute(model, images[row : row + 1], "deeplift", target=[1])["deeplift"]
        np.testing.assert_allclose(alone[0], together[row], atol=1e-6)


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Conv2d(3, 4, 1)
        self.gate = nn.Conv2d(3, 4, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (self.body(images) * self.gate(images)).mean((2, 3))


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(10)
        self.fc = nn.Linear(240, 3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(images).flatten(1))


class Branching(nn.Module):
    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if float(images.detach().sum()) > 0:
            return images.mean(3).flatten(1)[:, :3]
        return images.flatten(1)[:, :3]


@pytest.mark.parametrize("method", ["deeplift", "lrp"])
def test_operations_without_a_rule_are_refused_by_name(method: str) -> None:
    images = some_images(2)
    with pytest.raises(AttributionError, match=rf"'{method}': layer 'mul' \(mul\).*Use 'ig'"):
        attribute(Gate(), images, method)
    with pytest.raises(AttributionError, match=rf"'{method}': layer 'norm' \(LayerNorm\)"):
        attribute(Norm(), images, method)
    with pytest.raises(AttributionError, match=rf"'{method}'.*torch.fx cannot trace Branching"):
        attribute(Branching(), images, method)
    with pytest.raises(AttributionError, match=rf"'{method}' follows the layers of a torch.nn.Module"):
        attribute(lambda x: x.flatten(1)[:, :3], images, method)


def test_a_copy_that_computes_something_else_is_refused() -> None:
    model = plain()
    model.register_forward_hook(lambda module, inputs, output: output * 2)
    with pytest.raises(AttributionError, match="gives other scores than the model"):
        attribute(model, some_images(), "deeplift")


def test_hooks_of_the_caller_stay_and_the_model_is_not_shared() -> None:
    model, calls = forms(), []
    model.conv1.register_full_backward_hook(lambda *arguments: calls.append(1))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attribute(model, some_images(), ["deeplift", "lrp"])
    assert len(model.conv1._backward_hooks) == 1
    assert not calls
    assert set(vars(model)) == set(vars(forms()))
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


# LRP


def captum_lrp(model: nn.Module, images: torch.Tensor, target: int, gammas: tuple[int, ...]) -> np.ndarray:
    for place, layer in enumerate(model):
        if isinstance(layer, (nn.Conv2d, nn.Linear, nn.MaxPool2d, nn.AdaptiveAvgPool2d)):
            layer.rule = GammaRule(0.25) if place in gammas else EpsilonRule(1e-6)
    found: np.ndarray = LRP(model).attribute(images, target=target).detach().numpy()
    return found


@pytest.mark.parametrize(("rule", "gammas"), [("epsilon", ()), ("composite", (3,))])
def test_lrp_equals_captum_on_a_network_of_modules(rule: str, gammas: tuple[int, ...]) -> None:
    model = plain()
    images = some_images()
    found = attribute(model, images, "lrp", target=[1] * 4, settings=Settings(lrp_rule=rule))["lrp"]
    last = nn.Conv2d(6, 4, 2)  # what Flatten and Linear do, in a form that captum takes
    with torch.no_grad():
        last.weight.copy_(model[7].weight.view(4, 6, 2, 2))
        last.bias.copy_(model[7].bias)

    class Squeezed(nn.Sequential):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return super().forward(values)[:, :, 0, 0]

    expected = captum_lrp(Squeezed(*model[:6], last), images, 1, gammas)
    np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())


@pytest.fixture
def no_stabiliser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the stabiliser negligible in float64: identities that it breaks by its own size hold to rounding then."""
    monkeypatch.setattr("roadworthy.attribution.lrp.EPSILON", 1e-12)


@pytest.mark.usefixtures("no_stabiliser")
def test_lrp_epsilon_of_a_relu_network_is_input_times_gradient() -> None:
    for model in (forms("function-in-place").double(), plain().double()):
        images = some_images()
        maps = attribute(model, images, ["lrp", "ixg"], settings=Settings(lrp_rule="epsilon"))
        np.testing.assert_allclose(maps["lrp"], maps["ixg"], atol=1e-6 * np.abs(maps["ixg"]).max())


@pytest.mark.usefixtures("no_stabiliser")
def test_relevance_is_conserved_where_no_bias_takes_any() -> None:
    model = forms("reused-in-place")
    with torch.no_grad():
        for layer in (model.conv1, model.conv2, model.fc):
            layer.bias.zero_()
    model, images = model.double(), some_images()
    maps = attribute(model, images, "lrp", target=[2] * 4)
    with torch.no_grad():
        scores = model(images.double())[:, 2].numpy()
    np.testing.assert_allclose(maps["lrp"].reshape(4, -1).sum(1, dtype=float), scores, atol=1e-6)
    np.testing.assert_allclose(maps.info["lrp"]["relevance_absorbed"], 0, atol=1e-6)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gamma_rule_by_hand_for_inputs_of_either_sign(sign: int) -> None:
    from roadworthy.attribution.lrp import GAMMA, Relevance

    layer = nn.Conv1d(3, 1, 1)
    weights, inputs, bias = np.array([2.0, -1.0, 0.5]), np.array([1.0, 3.0, -4.0]), 0.25 * sign
    with torch.no_grad():
        layer.weight.copy_(sign * torch.tensor(weights).view(1, 3, 1))
        layer.bias.fill_(bias)
    values = torch.tensor(inputs, dtype=torch.float32).view(1, 3, 1).requires_grad_()
    out = Relevance(layer, GAMMA)(values)
    assert out.item() == pytest.approx(sign * -3 + bias)
    (found,) = torch.autograd.grad(out, values, torch.tensor([[[5.0]]]))
    parts = sign * weights * inputs
    agreeing = np.sign(parts) == np.sign(out.item())
    parts = parts * np.where(agreeing, 1 + GAMMA, 1)
    np.testing.assert_allclose(found.detach().numpy().ravel(), 5 * parts / (parts.sum() + bias), rtol=1e-5)


def test_normalisation_inside_the_model_passes_relevance_on() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.tensor([0.5, 0.4, 0.3]))
            self.register_buffer("std", torch.tensor([0.2, 0.3, 0.4]))
            self.body = plain()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.body((images - self.mean.view(1, -1, 1, 1)) / self.std.view(1, -1, 1, 1))

    images = some_images()
    inside = attribute(Normalised().eval(), images, "lrp", target=[1] * 4)["lrp"]
    outside = attribute(plain(), images, "lrp", target=[1] * 4, normalize=([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]))["lrp"]
    np.testing.assert_allclose(inside, outside, atol=1e-5)


# a network as people have it: reused in-place ReLUs, overlapping pooling, residual branches, batch normalisation


@pytest.fixture(scope="module")
def resnet() -> nn.Module:
    import torchvision

    with torch.random.fork_rng():
        torch.manual_seed(4)
        model = torchvision.models.resnet18(num_classes=5)
        model.train()
        with torch.no_grad():
            model(torch.rand(8, 3, 64, 64))
    return model.eval()


def test_a_torchvision_resnet_is_taken_as_it_is(resnet: nn.Module) -> None:
    images = some_images(2, 3, 64, 64)
    names = ["gb", "gradcam", "guided-gradcam", "deeplift", "lrp"]
    maps = attribute(resnet, images, names, target=[1, 4], normalize=([0.5] * 3, [0.25] * 3))
    with torch.no_grad():
        scores = resnet((images - 0.5) / 0.25) - resnet(torch.zeros(1, 3, 64, 64))
    difference = scores[[0, 1], [1, 4]].numpy()
    np.testing.assert_allclose(maps["deeplift"].reshape(2, -1).sum(1), difference, atol=1e-3)
    assert maps.info["gb"]["guided_relus"] == 17
    assert maps.info["gradcam"]["layer"].startswith("layer4")
    assert np.abs(maps["lrp"]).max() > 0


def test_relevance_stays_bounded_behind_linear_bottlenecks() -> None:
    import timm

    with torch.random.fork_rng():
        torch.manual_seed(3)
        model = timm.create_model("mobilenetv2_050", num_classes=10).eval()
    maps = attribute(model, some_images(2, 3, 64, 64), ["lrp", "deeplift"])
    assert np.abs(maps.info["lrp"]["relevance_absorbed"]).max() < 1
    assert np.abs(maps.info["deeplift"]["completeness_gap"]).max() < 1e-3


def test_functional_layers_have_the_rules_of_their_modules() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm, self.fc = nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.Linear(4, 3)
            self.norm.running_mean.uniform_()
            self.norm.running_var.uniform_()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.norm(self.conv(x)).relu()
            return self.fc(x.mean((2, 3)))

    class Calls(Functional):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = F.conv2d(x, self.conv.weight, self.conv.bias, stride=2)
            norm = self.norm
            x = F.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, False, 0.1, norm.eps)
            return F.linear(torch.relu(x).mean((2, 3)), self.fc.weight, self.fc.bias)

    modules, calls = Functional().eval(), Calls().eval()
    calls.load_state_dict(modules.state_dict())
    names = ["lrp", "deeplift"]
    expected, found = (attribute(model, some_images(), names, target=[1] * 4) for model in (modules, calls))
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_epsilon_lrp_of_the_resnet_is_input_times_gradient(resnet: nn.Module) -> None:
    images = some_images(1, 3, 64, 64)
    settings = replace(presets["road"], lrp_rule="epsilon")
    maps = attribute(resnet.double(), images, ["lrp", "ixg"], target=[1], settings=settings)
    resnet.float()
    agreement = np.corrcoef(maps["lrp"].ravel(), maps["ixg"].ravel())[0, 1]
    assert agreement > 0.99
