"""Zennit's attributors and composites as methods: equal to Zennit, the same however images are normalised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from attribution_networks import forms, plain, some_images
from torch import nn

import roadworthy as rw
from roadworthy.attribution import Settings, attribute
from roadworthy.errors import AttributionError, InputError
from roadworthy.fingerprints import callable_fingerprint

pytest.importorskip("zennit", reason="Zennit is an extra (pip install 'roadworthy[zennit]')")
from zennit import attribution as zennit
from zennit import composites, rules
from zennit.canonizers import Canonizer, SequentialMergeBatchNorm

MEAN, STD = torch.tensor([0.4, 0.5, 0.6]), torch.tensor([0.2, 0.25, 0.3])
NORMALIZE = (MEAN.tolist(), STD.tolist())
TARGETS = torch.tensor([0, 1, 2, 3])
HOT = torch.eye(4)[TARGETS]

# name -> rules, and whether they share out relevance
RULES = {
    "none": (lambda: None, False),
    "EpsilonPlus": (composites.EpsilonPlus, True),
    "EpsilonPlusFlat": (composites.EpsilonPlusFlat, True),
    "EpsilonGammaBox": (lambda: composites.EpsilonGammaBox(low=-3.0, high=3.0), True),
    "GuidedBackprop": (composites.GuidedBackprop, False),
}


def normalized(images: torch.Tensor) -> torch.Tensor:
    return (images - MEAN.view(1, 3, 1, 1)) / STD.view(1, 3, 1, 1)


def directly(attributor: Any, images: torch.Tensor, relevance: bool) -> np.ndarray:
    """Return what Zennit gives: relevance from the target's score on, a gradient from one on."""
    found: torch.Tensor = attributor(images.clone(), (lambda scores: HOT * scores) if relevance else HOT)[1]
    return found.detach().numpy()


def hooks(net: nn.Module) -> int:
    return sum(len(part._forward_hooks) + len(part._forward_pre_hooks) for part in net.modules())


@pytest.mark.parametrize("name", RULES)
def test_equal_to_zennit_with_and_without_a_normalisation(name: str) -> None:
    make, relevance = RULES[name]
    net, images = plain(), some_images()
    attributor = zennit.Gradient(net, make())
    found = attribute(net, images, {"m": attributor}, target=TARGETS)["m"]
    np.testing.assert_allclose(found, directly(attributor, images, relevance), atol=1e-7)
    assert hooks(net) == 0
    # a gradient is divided by the standard deviation; relevance is shared out, and passes as it is
    scale = 1 if relevance else STD.view(1, 3, 1, 1).numpy()
    expected = directly(attributor, normalized(images), relevance) / scale
    behind = rw.load_model(net, normalize=NORMALIZE)
    methods: dict[str, Any] = {"of the part": attributor, "of the whole": zennit.Gradient(behind, make())}
    beside = attribute(net, images, {"m": attributor}, target=TARGETS, normalize=NORMALIZE)["m"]
    np.testing.assert_allclose(beside, expected, atol=1e-6)
    if name != "none":
        methods["composite"] = make()
    for maps in attribute(behind, images, methods, target=TARGETS).values():
        np.testing.assert_allclose(maps, expected, atol=1e-6)


def test_a_linear_model_gives_the_answer_on_paper() -> None:
    """Epsilon on w . z: each input's share is w z, of z = (x - mean) / std, whatever the sign of the score."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(3, 2, bias=False))
    images = torch.tensor([[0.2, 0.5, 0.9], [1.0, 0.0, 0.3]]).view(2, 3, 1, 1)
    lrp = composites.LayerMapComposite([(nn.Linear, rules.Epsilon(epsilon=1e-9))])
    for targets in (torch.tensor([1, 0]), torch.tensor([0, 1])):  # scores of either sign
        found = attribute(net, images, {"lrp": lrp}, target=targets, normalize=NORMALIZE)["lrp"]
        expected = net[1].weight.detach()[targets] * normalized(images)[:, :, 0, 0]
        np.testing.assert_allclose(found[:, :, 0, 0], expected, atol=1e-5)


def test_with_epsilon_it_is_the_lrp_of_roadworthy() -> None:
    net, images = plain(), some_images()
    epsilon = composites.LayerMapComposite([((nn.Conv2d, nn.Linear, nn.AdaptiveAvgPool2d), rules.Epsilon())])
    found = attribute(
        net, images, {"zennit": epsilon, "lrp": "lrp"}, target=TARGETS, settings=Settings(lrp_rule="epsilon")
    )
    np.testing.assert_allclose(found["zennit"], found["lrp"], atol=2e-5)


def test_other_attributors() -> None:
    net, images = plain(), some_images()
    path = zennit.IntegratedGradients(net, n_iter=5)
    window = zennit.Occlusion(net, window=(3, 2, 2), stride=(3, 2, 2))
    noisy, noisy_lrp = (zennit.SmoothGrad(net, rule, n_iter=3) for rule in (None, composites.EpsilonPlus()))
    methods = {"path": path, "window": window, "noisy": noisy, "noisy lrp": noisy_lrp}
    ids = list("abcd")
    found = attribute(net, images, methods, target=TARGETS, ids=ids)
    np.testing.assert_allclose(found["path"], directly(path, images, False), atol=1e-6)
    np.testing.assert_allclose(found["window"], directly(window, images, True), atol=1e-6)
    again = attribute(net, images[2:], methods, target=TARGETS[2:], ids=ids[2:], max_batch=1)
    for name, maps in again.items():  # also the draws belong to the sample
        np.testing.assert_allclose(found[name][2:], maps, atol=1e-6, err_msg=name)
    other = attribute(net, images, methods, target=TARGETS, ids=ids, seed=1)
    assert [name for name in methods if not np.array_equal(found[name], other[name])] == ["noisy", "noisy lrp"]


def test_an_output_of_ones_own_is_kept() -> None:
    net, images = plain(), some_images()
    always = zennit.Gradient(net, composites.EpsilonPlus(), attr_output=lambda scores: torch.eye(4)[3] * scores)
    expected = always(images.clone())[1].detach().numpy()
    np.testing.assert_allclose(attribute(net, images, {"m": always}, target=TARGETS)["m"], expected, atol=1e-7)


def test_in_place_modules_and_picked_scores() -> None:
    images = some_images()
    expected = attribute(forms("module"), images, {"m": composites.EpsilonPlus()}, target=TARGETS)["m"]
    found = attribute(forms("module-in-place"), images, {"m": composites.EpsilonPlus()}, target=TARGETS)["m"]
    np.testing.assert_allclose(found, expected, atol=1e-7)

    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = forms("module")

        def forward(self, images: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"logits": self.body(images)}

    picked = attribute(Several(), images, {"m": composites.EpsilonPlus()}, target=TARGETS)["m"]
    np.testing.assert_allclose(picked, expected, atol=1e-7)


def with_norm() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 4),
    )
    net[1].running_mean.uniform_(-1, 1)
    net[1].running_var.uniform_(0.5, 1.5)
    return net.train()


def test_weights_flags_and_hooks_stay_also_after_a_failure() -> None:
    class Failing(Canonizer):
        """Rewrites a weight and fails."""

        def apply(self, root_module: nn.Module) -> list[Any]:
            SequentialMergeBatchNorm().apply(root_module)
            raise ValueError("halfway")

        def register(self) -> None: ...

        def remove(self) -> None: ...

        def copy(self) -> Failing:
            return self

    net, images = with_norm(), some_images()
    before = {name: value.clone() for name, value in net.state_dict().items()}

    def unchanged() -> bool:
        same = all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        return same and hooks(net) == 0 and all(part.training for part in net.modules()) and net[0].bias is None

    merged = composites.EpsilonPlus(canonizers=[SequentialMergeBatchNorm()])
    assert np.isfinite(attribute(net, images, {"m": merged})["m"]).all()
    assert unchanged()
    with pytest.raises(AttributionError, match="'m': EpsilonPlus does not fit the model: ValueError: halfway"):
        attribute(net, images, {"m": composites.EpsilonPlus(canonizers=[Failing()])})
    assert unchanged()
    wrong = zennit.Gradient(net, merged, attr_output=torch.ones(3, 3))
    with pytest.raises(AttributionError, match="'m': it failed with RuntimeError: Mismatch in shape"):
        attribute(net, images, {"m": wrong})
    assert unchanged()
    assert not merged.handles


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (composites.EpsilonPlus, r"'m' is the class EpsilonPlus; pass an object: EpsilonPlus\(\)"),
        (zennit.Gradient, r"'m' is the class Gradient; pass an object: Gradient\(model, composite\)"),
        (
            composites.NameMapComposite([(("conv9",), rules.Epsilon())]),
            "NameMapComposite has no rule for any layer of",
        ),
        (zennit.Gradient(plain(seed=1)), r"'m' \(Gradient\) explains a Sequential that is no part of the model"),
    ],
)
def test_what_does_not_fit_is_named(method: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        attribute(plain(), some_images(), {"m": method})


def test_rules_that_are_in_force_already_are_refused() -> None:
    net, lrp = plain(), composites.EpsilonPlus()
    with (
        lrp.context(net),
        pytest.raises(AttributionError, match="EpsilonPlus is registered on a network already, inside a with block"),
    ):
        attribute(net, some_images(), {"m": lrp})
    with pytest.raises(
        AttributionError, match="puts rules on the layers of a torch.nn.Module; the model is a function"
    ):
        attribute(lambda images: net(images), some_images(), {"m": lrp})


def test_an_evaluation_takes_them_beside_names_and_tells_them_apart(tmp_path: Any) -> None:
    net, images = plain(), some_images(2)
    options = {"imputer": "zero", "intact_check": "warn", "audit": "off", "fractions": (0.3,), "strategy": "road"}
    methods = {"lrp": zennit.Gradient(net, composites.EpsilonPlus()), "box": composites.EpsilonPlusFlat(), "ig": "ig"}
    with pytest.warns(rw.errors.RoadworthyWarning):
        result = rw.evaluate(net, images, TARGETS[:2], methods, checkpoint=tmp_path / "blocks", **options)
    assert result.methods == ["lrp", "box", "ig"]
    other = methods | {"box": composites.EpsilonPlusFlat(epsilon=0.1)}
    with (
        pytest.warns(rw.errors.RoadworthyWarning),
        pytest.raises(InputError, match="holds a run with other settings .methods is"),
    ):
        rw.evaluate(net, images, TARGETS[:2], other, checkpoint=tmp_path / "blocks", **options)


def test_fingerprints_tell_rules_apart_at_any_depth() -> None:
    net = plain()
    methods: list[Any] = [
        composites.EpsilonPlus(),
        composites.EpsilonPlus(epsilon=1e-3),
        composites.EpsilonPlusFlat(),
        composites.EpsilonGammaBox(low=-3.0, high=3.0),
        composites.EpsilonGammaBox(low=-2.0, high=3.0),
        composites.MixedComposite(
            [composites.NameMapComposite([(("0",), rules.Gamma(0.1))]), composites.EpsilonPlus()]
        ),
        composites.MixedComposite(
            [composites.NameMapComposite([(("0",), rules.Gamma(0.2))]), composites.EpsilonPlus()]
        ),
        composites.EpsilonPlus(canonizers=[SequentialMergeBatchNorm()]),
    ]
    methods += [zennit.Gradient(net, method) for method in methods]
    methods += [zennit.SmoothGrad(net, n_iter=iterations) for iterations in (3, 4)]
    marks = [callable_fingerprint(method) for method in methods]
    assert len(set(marks)) == len(marks)
    assert callable_fingerprint(composites.EpsilonPlus()) == marks[0]
    attribute(net, some_images(1), {"m": methods[0]})
    assert callable_fingerprint(methods[0]) == marks[0]  # use leaves no trace
