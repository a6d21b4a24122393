"""Objects of captum as methods: equal to captum where nothing stands between, known answers where something does."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import captum.attr as captum
import numpy as np
import pytest
import torch
from attribution_networks import forms, plain, some_images
from captum.attr._utils.lrp_rules import GammaRule
from torch import nn
from torch.nn import functional as F

import roadworthy as rw
from roadworthy.attribution import attribute, attribute_to_store, captum_method
from roadworthy.errors import AttributionError, DataError, InputError, ModelError, RoadworthyWarning
from roadworthy.fingerprints import callable_fingerprint

MEAN, STD = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])
NORMALIZE = (MEAN.tolist(), STD.tolist())
TARGETS = torch.tensor([0, 1, 2, 3])
GRID = (torch.arange(80) // 20).view(1, 1, 8, 10)
pytestmark = pytest.mark.filterwarnings(
    "ignore:\\s*Setting:UserWarning", "ignore:Input Tensor:UserWarning", "ignore::roadworthy.errors.RoadworthyWarning"
)


def normalized(images: torch.Tensor) -> torch.Tensor:
    return (images - MEAN.view(1, 3, 1, 1)) / STD.view(1, 3, 1, 1)


class Traceable(nn.Module):
    """What captum's LRP has rules for."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.relu, self.pool, self.fc = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Linear(48, 4)
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.fc(self.pool(self.relu(self.conv(images))).flatten(1))
        return scores


# name -> how captum's object is made of a network, and what its attribute is given
WHOLE: dict[str, tuple[Callable[[Any], Any], dict[str, Any]]] = {
    "IntegratedGradients": (captum.IntegratedGradients, {"n_steps": 7}),
    "Saliency": (captum.Saliency, {"abs": False}),
    "InputXGradient": (captum.InputXGradient, {}),
    "DeepLift": (captum.DeepLift, {"baselines": 0.3}),
    "DeepLiftShap": (captum.DeepLiftShap, {"baselines": some_images(3, seed=9)}),
    "GuidedBackprop": (captum.GuidedBackprop, {}),
    "Deconvolution": (captum.Deconvolution, {}),
    "Occlusion": (captum.Occlusion, {"sliding_window_shapes": (3, 2, 2), "strides": (3, 2, 2), "baselines": 0.5}),
    "FeatureAblation": (captum.FeatureAblation, {"feature_mask": GRID}),
    "GuidedGradCam": (lambda net: captum.GuidedGradCam(net, net[3]), {}),
}


@pytest.mark.parametrize("name", WHOLE)
def test_equal_to_captum_where_nothing_stands_between(name: str) -> None:
    make, settings = WHOLE[name]
    net, images = plain(), some_images()
    method = make(net)
    expected = method.attribute(images.clone(), target=TARGETS, **settings).detach().numpy()
    found = attribute(net, images, {"m": captum_method(method, **settings)}, target=TARGETS)["m"]
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert np.abs(found).max() > 0.01


@pytest.mark.parametrize("name", WHOLE)
def test_behind_a_normalisation_the_answer_is_that_of_one_network(name: str) -> None:
    """The oracle is a network whose first layer is the normalisation, written as a convolution, asked by captum."""
    make, settings = WHOLE[name]
    net, images = plain(), some_images()
    first = nn.Conv2d(3, 3, 1, groups=3)
    with torch.no_grad():
        first.weight.copy_((1 / STD).view(3, 1, 1, 1))
        first.bias.copy_(-MEAN / STD)
    whole = nn.Sequential(first, *net)
    oracle = captum.GuidedGradCam(whole, net[3]) if name == "GuidedGradCam" else make(whole)
    expected = oracle.attribute(images.clone(), target=TARGETS, **settings).detach().numpy()
    method = captum_method(make(net), **settings)
    # built into the model, where the object holds a part of it, and beside it
    behind = rw.load_model(net, normalize=NORMALIZE)
    for model, normalize in ((net, NORMALIZE), (behind, None)):
        found = attribute(model, images, {"m": method}, target=TARGETS, normalize=normalize)["m"]
        np.testing.assert_allclose(found, expected, atol=2e-5)


def test_a_linear_model_gives_the_answer_on_paper() -> None:
    """Of w . (x - mean) / std, the gradient to the pixels is w / std, and from black IG is x times that."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))
    images = torch.tensor([[0.2, 0.5, 0.9], [1.0, 0.0, 0.3]]).view(2, 3, 1, 1)
    targets = torch.tensor([1, 0])
    methods = {"gradient": captum.Saliency(net), "path": captum.IntegratedGradients(net)}
    found = attribute(net, images, methods, target=targets, normalize=NORMALIZE)
    slope = net[1].weight.detach()[targets] / STD
    np.testing.assert_allclose(found["gradient"][:, :, 0, 0], slope.abs(), rtol=1e-5)
    np.testing.assert_allclose(found["path"][:, :, 0, 0], images[:, :, 0, 0] * slope, rtol=1e-4)


def test_relevance_passes_a_normalisation_as_it_is() -> None:
    net, images = Traceable().eval(), some_images()
    for rule in (None, GammaRule()):
        if rule is not None:
            net.conv.rule = rule
        found = {
            "beside": attribute(net, images, {"m": captum.LRP(net)}, target=TARGETS, normalize=NORMALIZE),
            "inside": attribute(
                rw.load_model(net, normalize=NORMALIZE), images, {"m": captum.LRP(net)}, target=TARGETS
            ),
            "bare": attribute(net, images, {"m": captum.LRP(net)}, target=TARGETS),
        }
        assert getattr(net.conv, "rule", None) is rule  # captum deletes it
        for name, seen in (("beside", normalized(images)), ("inside", normalized(images)), ("bare", images)):
            if rule is not None:
                net.conv.rule = rule
            expected = captum.LRP(net).attribute(seen.clone(), target=TARGETS).detach().numpy()
            np.testing.assert_allclose(found[name]["m"], expected, atol=1e-6, err_msg=name)


LAYERS: dict[str, Callable[[Any], Any]] = {
    "LayerGradCam": captum.LayerGradCam,
    "LayerGradientXActivation": captum.LayerGradientXActivation,
    "LayerActivation": captum.LayerActivation,
    "LayerConductance": captum.LayerConductance,
    "LayerIntegratedGradients": captum.LayerIntegratedGradients,
    "LayerDeepLift": captum.LayerDeepLift,
}


@pytest.mark.parametrize("name", LAYERS)
def test_maps_of_a_layer_are_reduced_and_enlarged(name: str) -> None:
    net, images = plain(), some_images()
    method = LAYERS[name](net, net[3]) if name != "LayerActivation" else captum.LayerActivation(net, net[3])
    given = {} if name == "LayerActivation" else {"target": TARGETS}
    small = method.attribute(images.clone(), **given).detach()
    small = small[0] if isinstance(small, tuple) else small
    assert small.shape[2:] == (4, 5)
    expected = F.interpolate(small.sum(1, keepdim=True), size=(8, 10), mode="bilinear", align_corners=False)[:, 0]
    found = attribute(net, images, {"m": method}, target=TARGETS)["m"]
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-6)


def test_grad_cam_is_the_same_from_either_library() -> None:
    net, images = plain(), some_images()
    found = attribute(net, images, {"theirs": captum.LayerGradCam(net, net[3]), "gradcam": "gradcam"}, target=TARGETS)
    np.testing.assert_allclose(found["theirs"], found["gradcam"], atol=1e-6)


def test_the_evaluations_reduction_holds_for_the_channels_of_a_layer() -> None:
    net, images = plain(), some_images(2)
    settings = {"imputer": "zero", "intact_check": "warn", "audit": "off", "fractions": (0.3,), "strategy": "road"}
    scores = {}
    for reduction in ("sum", "l2"):
        small = captum.LayerActivation(net, net[3]).attribute(images).detach()
        reduced = small.sum(1) if reduction == "sum" else small.norm(dim=1)
        maps = F.interpolate(reduced[:, None], size=(8, 10), mode="bilinear", align_corners=False)[:, 0].numpy()
        methods = {"object": captum.LayerActivation(net, net[3]), "array": maps}
        result = rw.evaluate(net, images, TARGETS[:2], methods, reduction=reduction, **settings)
        curves = result.table.pivot_table(index=["order", "fraction"], columns="method", values="probability")
        np.testing.assert_allclose(curves["object"], curves["array"], atol=1e-6)
        scores[reduction] = curves["array"].to_numpy()
    assert not np.allclose(scores["sum"], scores["l2"])


RANDOM: dict[str, Callable[[Any], Any]] = {
    "NoiseTunnel": lambda net: captum_method(
        captum.NoiseTunnel(captum.IntegratedGradients(net)), n_steps=4, nt_samples=3, stdevs=0.1
    ),
    "GradientShap": lambda net: captum_method(captum.GradientShap(net), baselines=torch.zeros(2, 3, 8, 10)),
    "KernelShap": lambda net: captum_method(captum.KernelShap(net), feature_mask=GRID, n_samples=12),
    "ShapleyValueSampling": lambda net: captum_method(
        captum.ShapleyValueSampling(net), feature_mask=GRID, n_samples=2
    ),
}


@pytest.mark.parametrize("name", RANDOM)
def test_draws_belong_to_the_sample(name: str) -> None:
    net, images, ids = plain(), some_images(), list("abcd")
    method = RANDOM[name](net)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    run = functools.partial(attribute, net, methods={"m": method}, seed=5)
    whole = run(images, target=TARGETS, ids=ids)["m"]
    assert torch.equal(torch.get_rng_state(), state)
    assert np.array_equal(whole, run(images, target=TARGETS, ids=ids)["m"])
    np.testing.assert_allclose(whole, run(images, target=TARGETS, ids=ids, max_batch=3)["m"], atol=1e-6)
    turned = run(images.flip(0), target=TARGETS.flip(0), ids=ids[::-1])["m"]
    np.testing.assert_allclose(whole, turned[::-1], atol=1e-6)
    assert not np.array_equal(whole, attribute(net, images, {"m": method}, seed=6, target=TARGETS, ids=ids)["m"])


def test_two_tunnels_see_the_same_noise() -> None:
    net, images = plain(), some_images(2)
    options = {"nt_samples": 4, "stdevs": 0.2}
    methods = {
        name: captum_method(captum.NoiseTunnel(make(net)), **options)
        for name, make in (("gradient", captum.Saliency), ("again", captum.Saliency))
    }
    found = attribute(net, images, methods)
    assert np.array_equal(found["gradient"], found["again"])


def test_a_partial_of_attribute_is_the_same_method() -> None:
    net, images = plain(), some_images()
    path = captum.IntegratedGradients(net)
    methods = {
        "partial": functools.partial(path.attribute, n_steps=5),
        "method": captum_method(path, n_steps=5),
        "bound": path.attribute,
        "object": path,
    }
    found = attribute(net, images, methods, target=TARGETS)
    assert np.array_equal(found["partial"], found["method"])
    assert np.array_equal(found["bound"], found["object"])
    assert not np.array_equal(found["method"], found["object"])
    assert list(attribute(net, images, [path])) == list(attribute(net, images, path)) == ["IntegratedGradients"]
    minus = attribute(net, images, {"path": path, "minus": "inverse:path"}, target=TARGETS)
    assert np.array_equal(minus["minus"], -minus["path"])


class Tuple(nn.Module):
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return images, self.body(images)


def test_scores_are_picked_and_layouts_turned() -> None:
    net, images = plain(), some_images()
    expected = attribute(net, images, {"m": captum.Saliency(net)}, target=TARGETS)["m"]
    several = Tuple(net)
    found = attribute(several, images, {"m": captum.Saliency(several)}, target=TARGETS, output=1)["m"]
    np.testing.assert_allclose(found, expected, atol=1e-7)

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            scores: torch.Tensor = self.body(images.movedim(-1, 1))
            return scores

    last = Last()
    turned = attribute(last, images.movedim(1, -1), {"m": captum.Saliency(last)}, target=TARGETS, layout="NHWC")["m"]
    np.testing.assert_allclose(turned, expected, atol=1e-7)


def test_a_wrapper_of_the_model_is_taken_where_nothing_stands_between() -> None:
    net, images = plain(), some_images()
    soft = nn.Sequential(net, nn.Softmax(1))
    expected = captum.Saliency(soft).attribute(images.clone(), target=TARGETS).numpy()
    found = attribute(net, images, {"m": captum.Saliency(soft)}, target=TARGETS)["m"]
    np.testing.assert_allclose(found, expected, atol=1e-7)
    with pytest.raises(AttributionError, match=r"'m' \(Saliency\) explains a function of its own, and normalize="):
        attribute(net, images, {"m": captum.Saliency(soft)}, normalize=NORMALIZE)
    # one that normalises by itself is known by its scores
    whole = attribute(
        net, images, {"m": captum.Saliency(lambda x: net(normalized(x)))}, target=TARGETS, normalize=NORMALIZE
    )["m"]
    expected = attribute(net, images, {"m": captum.Saliency(net)}, target=TARGETS, normalize=NORMALIZE)["m"]
    np.testing.assert_allclose(whole, expected, atol=1e-6)


def test_another_network_is_refused() -> None:
    with pytest.raises(AttributionError, match="explains a Sequential that is no part of the model: make it of the"):
        attribute(plain(), some_images(), {"m": captum.Saliency(plain())})


def test_a_function_with_scores_of_its_own_is_warned_of() -> None:
    net, other, images = plain(), plain().requires_grad_(False), some_images()
    list(other)[-1].weight += 1
    head = nn.Sequential(*list(net)[:-1], list(other)[-1])
    for theirs in (lambda x: other(x), lambda x: net(x)[:, :2], head):
        with pytest.warns(RoadworthyWarning, match="whose scores are not the model's: its maps may be of another"):
            attribute(net, images, {"m": captum.Saliency(theirs)}, target=np.zeros(len(images), dtype=int))
    with warnings.catch_warnings():
        warnings.simplefilter("error", RoadworthyWarning)
        for theirs in (lambda x: net(x), lambda x: net(x).softmax(1), lambda x: net(x).log_softmax(1)):
            attribute(net, images, {"m": captum.Saliency(theirs)})
        attribute(net, images, {"m": captum.Saliency(nn.Sequential(net, nn.Tanh()))})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            captum.Occlusion,
            r"Occlusion.attribute needs sliding_window_shapes; pass .*captum_method\(object, sliding_",
        ),
        (captum.GradientShap, r"needs baselines; .*functools.partial\(object.attribute, baselines=torch.zeros"),
        (lambda net: captum.NoiseTunnel(captum.Occlusion(net)), "NoiseTunnel.attribute needs sliding_window_shapes"),
        (captum.FeaturePermutation, "shuffles features between the images of a batch.*use FeatureAblation"),
        (lambda net: captum.Saliency, r"'m' is the class Saliency; pass an object: Saliency\(model\)"),
        (
            lambda net: functools.partial(captum.Saliency(net).attribute, target=3),
            r"Saliency: target= is not taken here: pass target= to evaluate or attribute",
        ),
        (
            lambda net: functools.partial(captum.Saliency(net).attribute, some_images()),
            "give the settings of Saliency.attribute by keyword",
        ),
    ],
)
def test_what_cannot_be_asked_is_said_before_anything_is_computed(make: Any, message: str) -> None:
    net = plain()
    net.register_forward_hook(lambda *_: pytest.fail("the model was asked"))
    with pytest.raises(InputError, match=message):
        attribute(net, some_images(), {"m": make(net)})


def test_wrong_settings_are_named() -> None:
    with pytest.raises(
        InputError, match="IntegratedGradients: its attribute takes no 'steps', but inputs, baselines"
    ):
        captum_method(captum.IntegratedGradients(plain()), steps=3)
    with pytest.raises(InputError, match="captum_method: got Sequential, expected an object such as captum.attr"):
        captum_method(plain())
    linear = captum.LayerActivation(net := plain(), net[7])
    with pytest.raises(AttributionError, match=r"gives \(1, 4\), which has no positions to enlarge to \(8, 10\)"):
        attribute(net, some_images(), {"m": linear})
    wrong = captum_method(captum.IntegratedGradients(net), baselines=torch.zeros(7, 3, 8, 10))
    with pytest.raises(AttributionError, match="'m': it failed with AssertionError: Baseline can be provided"):
        attribute(net, some_images(), {"m": wrong})


def test_nothing_of_the_callers_is_changed_also_after_a_failure() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.calls = forms(), []

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            self.calls.append(len(images))
            if len(self.calls) > 1:
                raise RuntimeError("halfway")
            scores: torch.Tensor = self.body(images)
            return scores

    def state(net: nn.Module) -> list[Any]:
        return [
            (sorted(vars(part)), part.training, len(part._forward_hooks), len(part._backward_hooks))
            for part in net.modules()
        ]

    for make in (captum.DeepLift, captum.GuidedBackprop, captum.IntegratedGradients):
        net = Failing().train()
        net.body.conv1.eval()
        method = make(net)
        before, kept = state(net), dict(vars(method))
        with pytest.raises((AttributionError, ModelError), match="'m': .*halfway"):
            attribute(net, some_images(), {"m": method})
        assert state(net) == before
        assert all(vars(method)[key] is value for key, value in kept.items())
        assert all(value == [] for value in kept.values() if isinstance(value, list))


def test_fingerprints_tell_settings_and_objects_apart() -> None:
    net = plain()
    path = captum.IntegratedGradients(net)
    methods = [
        path,
        captum.IntegratedGradients(net, multiply_by_inputs=False),
        captum.Saliency(net),
        captum_method(path, n_steps=5),
        captum_method(path, n_steps=6),
        captum.NoiseTunnel(path),
        captum.LayerGradCam(net, net[0]),
        captum.LayerGradCam(net, net[3]),
        captum.IntegratedGradients(plain(seed=6)),
    ]
    found = [attribute(net, some_images(1), {"m": method}).info["m"]["method"] for method in methods[:6]]
    assert len(set(found)) == 6
    marks = [callable_fingerprint(method) for method in methods]
    assert len(set(marks)) == len(marks)
    assert callable_fingerprint(captum.IntegratedGradients(plain())) == marks[0]  # wherever it lies in memory
    attribute(net, some_images(1), {"m": methods[3]})
    assert callable_fingerprint(methods[3]) == marks[3]  # use leaves no trace


def test_kept_maps_and_blocks_of_another_setting_are_not_taken(tmp_path: Any) -> None:
    net, images = plain(), some_images(2)
    few, many = (captum_method(captum.IntegratedGradients(net), n_steps=steps, baselines=0.7) for steps in (2, 9))
    for _ in range(2):
        attribute_to_store(net, images, {"m": few}, tmp_path / "maps.zarr")
    with pytest.raises(DataError, match="'m'"):
        attribute_to_store(net, images, {"m": many}, tmp_path / "maps.zarr")
    settings = {"imputer": "zero", "intact_check": "warn", "audit": "off", "fractions": (0.3,), "strategy": "road"}
    run = functools.partial(rw.evaluate, net, images, TARGETS[:2], checkpoint=tmp_path / "blocks", **settings)
    first = run({"m": few})
    assert first.table.equals(run({"m": few}).table)
    with pytest.raises(InputError, match="holds a run with other settings .methods is"):
        run({"m": many})


def test_retraining_takes_objects_too() -> None:
    from roadworthy.evaluation.retrained import named_attributions

    path = captum.IntegratedGradients(plain())
    assert named_attributions({"ig": path, "random": "random"}) == {"ig": path, "random": "random"}
    assert named_attributions([path, "ig"]) == {"IntegratedGradients": path, "ig": "ig"}
