"""The gradient families against captum given the same noise, closed forms, and any size of chunk."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from attribution_networks import forms, plain, some_images
from captum.attr import GradientShap, InputXGradient, IntegratedGradients, NoiseTunnel, Saliency
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from roadworthy.attribution import Settings, attribute, methods, presets
from roadworthy.attribution.ensemble import NOISE, Moments
from roadworthy.rng import normal_fields

KINDS = {"-sg": "smoothgrad", "-sq": "smoothgrad_sq", "-var": "vargrad"}
SMALL = Settings(ig_steps=7, samples=5, noise=0.3)


def captum_ensemble(explainer, images, targets, samples, sd, ids, **options):
    """Run captum's NoiseTunnel on the noise that this package draws."""
    fields = torch.from_numpy(normal_fields(0, NOISE, ids, (samples, *images.shape[1:])))
    original, found = torch.normal, {}
    torch.normal = lambda mean, std: mean + std * fields.reshape(std.shape)
    try:
        for suffix, kind in KINDS.items():
            found[suffix] = NoiseTunnel(explainer).attribute(
                images, nt_type=kind, nt_samples=samples, stdevs=sd, target=targets, **options
            )
    finally:
        torch.normal = original
    return {suffix: values.detach().numpy() for suffix, values in found.items()}


def test_integrated_gradients_equal_captum() -> None:
    model, images, targets = forms(), some_images(), torch.tensor([0, 3, 1, 2])
    found = attribute(model, images, "ig", target=targets)["ig"]
    expected = IntegratedGradients(model).attribute(images, baselines=0.5, target=targets, n_steps=50)
    np.testing.assert_allclose(found, expected.detach().numpy(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("max_batch", [1, 7, 256])
def test_ensembles_equal_captum_given_the_same_noise(max_batch: int) -> None:
    model, images, targets, ids = plain(), some_images(3), torch.tensor([0, 3, 1]), ["a", "b", "c"]
    names = [base + suffix for base in ("grad", "ixg", "ig") for suffix in ("", *KINDS)]
    found = attribute(model, images, names, target=targets, ids=ids, settings=SMALL, max_batch=max_batch)
    oracles = {
        "grad": (Saliency(model), {"abs": False}),
        "ixg": (InputXGradient(model), {}),
        "ig": (IntegratedGradients(model), {"baselines": 0.5, "n_steps": 7}),
    }
    for base, (explainer, options) in oracles.items():
        expected = captum_ensemble(explainer, images, targets, 5, 0.3 * 0.5, ids, **options)
        expected[""] = explainer.attribute(images, target=targets, **options).detach().numpy()
        for suffix, values in expected.items():
            np.testing.assert_allclose(found[base + suffix], values, atol=1e-5, rtol=1e-4, err_msg=base + suffix)


def test_integrated_gradients_of_a_linear_model_are_exact_for_any_chunk_and_steps() -> None:
    weights = torch.randn(2, 12, generator=torch.Generator().manual_seed(0))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    with torch.no_grad():
        model[1].weight.copy_(weights)
    images = some_images(5, 3, 2, 2)
    own = weights[[0, 1, 1, 0, 1]].view(5, 3, 2, 2).numpy()
    expected = own * (images.numpy() - 0.25)
    # noise moves the path's end alone: its mean over the copies comes to the map through the same weights
    drawn = normal_fields(0, NOISE, list("01234"), (3, 3, 2, 2))
    smooth = expected + own * 0.2 * 0.5 * drawn.mean(1)
    for max_batch in (1, 7, 64):
        for steps in (8, 64):
            maps = attribute(
                model,
                images,
                ["ig", "ig-sg"],
                target=[0, 1, 1, 0, 1],
                mean=0.25,
                max_batch=max_batch,
                settings=Settings(ig_steps=steps, samples=3),
            )
            np.testing.assert_allclose(maps["ig"], expected, atol=1e-5)
            np.testing.assert_allclose(maps["ig-sg"], smooth, atol=1e-5)
            assert np.abs(maps.info["ig"]["completeness_gap"]).max() < 1e-5
            assert maps.info["ig"]["completeness_gap"].shape == (5,)


def test_the_completeness_gap_is_what_is_missing_from_the_difference() -> None:
    model, images = forms(), some_images()
    maps = attribute(model, images, "ig", target=[1, 1, 2, 0], settings=Settings(ig_steps=2))
    with torch.no_grad():
        difference = (model(images) - model(torch.full_like(images, 0.5)))[range(4), [1, 1, 2, 0]]
    expected = maps["ig"].reshape(4, -1).sum(1) - difference.numpy()
    np.testing.assert_allclose(maps.info["ig"]["completeness_gap"], expected, atol=1e-5)
    relative = np.abs(expected) / np.abs(difference.numpy())
    np.testing.assert_allclose(maps.info["ig"]["completeness_gap_relative"], relative, rtol=1e-2)
    assert np.abs(expected).max() > 1e-4, "two steps are not exact: the gap must show it"


def test_the_uniform_rule_includes_both_ends_and_starts_from_black() -> None:
    model, images = forms(), some_images(2)
    settings = replace(presets["roar"], ig_steps=4)
    found = attribute(model, images, "ig", target=[0, 2], settings=settings)["ig"]
    total = torch.zeros_like(images)
    for alpha in (0, 1 / 3, 2 / 3, 1):
        leaf = (alpha * images).requires_grad_()
        total += torch.autograd.grad(model(leaf)[[0, 1], [0, 2]].sum(), leaf)[0]
    np.testing.assert_allclose(found, (images * total / 4).numpy(), atol=1e-5)


def test_noise_in_the_range_unit_follows_each_image() -> None:
    images = torch.stack([torch.linspace(0, 1, 48).view(3, 4, 4), torch.linspace(0, 0.1, 48).view(3, 4, 4)])
    square = torch.nn.Module()
    square.forward = lambda x: torch.stack([x.square().flatten(1).sum(1), x.flatten(1).sum(1)], 1)  # type: ignore
    found = attribute(square, images, "grad-var", target=[0, 0], settings=replace(presets["roar"], samples=400))
    spread = np.sqrt(found["grad-var"].reshape(2, -1).mean(1)) / 2  # the gradient is 2 x
    np.testing.assert_allclose(spread, [0.15, 0.015], rtol=0.05)


def test_noise_in_normalised_units_is_converted_by_the_standard_deviation() -> None:
    square = torch.nn.Module()
    square.forward = lambda x: torch.stack([x.square().flatten(1).sum(1), x.flatten(1).sum(1)], 1)  # type: ignore
    images = some_images(1, 2, 6, 6)
    settings = Settings(samples=800, noise=0.4)
    square.pixel_std = (0.1, 0.3)  # type: ignore[assignment]
    maps = attribute(square, images, "grad-var", target=[0], settings=settings)
    spread = np.sqrt(maps["grad-var"][0].reshape(2, -1).mean(1)) / 2
    np.testing.assert_allclose(spread, [0.04, 0.12], rtol=0.05)
    assert maps.info["grad-var"]["settings"]["noise_from"] == "the model's pixel_std"


def test_guided_noise_may_differ_from_the_others() -> None:
    model, images = plain(), some_images(1)
    code = attribute(model, images, ["gb-sg", "grad-sg"], settings=replace(presets["road-code"], guided_samples=3))
    paper = attribute(model, images, ["gb-sg", "grad-sg"])
    assert np.array_equal(code["grad-sg"], paper["grad-sg"])
    assert not np.allclose(code["gb-sg"], paper["gb-sg"])
    same = attribute(model, images, "gb-sg", settings=Settings(samples=3, noise=1.0))
    assert np.array_equal(code["gb-sg"], same["gb-sg"])


def test_one_copy_is_the_base_of_the_noisy_image_and_has_no_variance() -> None:
    model, images = forms(), some_images(1)
    maps = attribute(model, images, ["ig-sg", "ig-sq", "ig-var"], target=[1], settings=Settings(samples=1))
    noisy = images + 0.2 * 0.5 * torch.from_numpy(normal_fields(0, NOISE, ["0"], tuple(images.shape[1:])))
    expected = attribute(model, noisy, "ig", target=[1])["ig"]
    np.testing.assert_allclose(maps["ig-sg"], expected, atol=1e-6)
    np.testing.assert_allclose(maps["ig-sq"], expected**2, atol=1e-6)
    assert not maps["ig-var"].any()


def test_members_do_not_depend_on_which_others_are_asked_for() -> None:
    model, images = forms(), some_images(2)
    together = attribute(model, images, ["grad", "grad-sg", "grad-sq", "grad-var"], settings=SMALL)
    for name in together:
        alone = attribute(model, images, name, settings=SMALL)[name]
        np.testing.assert_allclose(alone, together[name], atol=1e-6, rtol=1e-5)


def test_moments_do_not_cancel() -> None:
    values = 1e6 + torch.tensor([[0.0], [1e-3], [2e-3]], dtype=torch.float64)
    moments = Moments()
    moments.add(values[:1])
    moments.add(values[1:])
    assert float(moments.results()["-var"]) == pytest.approx(2e-6 / 3, rel=1e-6)


@hypothesis_settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=5),
    seed=st.integers(0, 1000),
    shift=st.sampled_from([0.0, -3.0, 1e4]),
)
def test_moments_of_groups_equal_moments_of_all(sizes: list[int], seed: int, shift: float) -> None:
    values = shift + np.random.default_rng(seed).standard_normal((sum(sizes), 3))
    moments, begin = Moments(), 0
    for size in sizes:
        moments.add(torch.from_numpy(values[begin : begin + size]))
        begin += size
    results = {suffix: result.numpy() for suffix, result in moments.results().items()}
    np.testing.assert_allclose(results["-sg"], values.mean(0), rtol=1e-9)
    np.testing.assert_allclose(results["-sq"], (values**2).mean(0), rtol=1e-9)
    np.testing.assert_allclose(results["-var"], values.var(0), rtol=1e-6, atol=1e-9)


@hypothesis_settings(max_examples=10, deadline=None)
@given(max_batch=st.integers(1, 40), order=st.permutations([0, 1, 2, 3]))
def test_neither_chunks_nor_row_order_change_a_map(max_batch: int, order: list[int]) -> None:
    model, images, ids = forms(), some_images(), ["a", "b", "c", "d"]
    names = ["grad-var", "ig", "ig-sq", "gb-sg", "gradient-shap"]
    settings = Settings(ig_steps=3, samples=2, shap_samples=3)
    expected = attribute(model, images, names, ids=ids, settings=settings)
    moved = attribute(
        model, images[order], names, ids=[ids[i] for i in order], settings=settings, max_batch=max_batch
    )
    for name in names:
        np.testing.assert_allclose(moved[name], expected[name][order], atol=1e-6, rtol=1e-4, err_msg=name)


class Counting(torch.nn.Module):
    """Counts the images of each forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = plain()
        self.passes: list[int] = []

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.passes.append(len(images))
        return self.inner(images)


def test_work_is_shared_and_batches_are_bounded() -> None:
    model = Counting()
    attribute(model, some_images(3), ["ig", "ig-sg", "ig-sq", "ig-var"], settings=SMALL, max_batch=8)
    assert max(model.passes) <= 8
    own_answers_and_baseline = 3 + 1
    own_answers_and_baseline += 3  # the first answers are asked for in both memory layouts, which must agree
    assert sum(model.passes) == 3 * (1 + 5) * 7 + own_answers_and_baseline


def test_steps_do_not_raise_the_batch() -> None:
    for steps in (16, 128):
        model = Counting()
        attribute(model, some_images(4), "ig", settings=Settings(ig_steps=steps), max_batch=32)
        assert max(model.passes) == 32


def test_gradient_shap_of_a_linear_model_is_exact_up_to_noise() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 2))
    images = some_images(2, 3, 2, 2)
    found = attribute(model, images, "gradient-shap", target=[0, 1], settings=Settings(shap_noise=0.0))
    expected = model[1].weight.detach().view(2, 3, 2, 2) * (images - 0.5)
    np.testing.assert_allclose(found["gradient-shap"], expected.numpy(), atol=1e-6)


def test_gradient_shap_tends_to_captum() -> None:
    model, images = forms(), some_images(1)
    found = attribute(model, images, "gradient-shap", target=[1], settings=Settings(shap_samples=3000))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = GradientShap(model).attribute(
            images, torch.full_like(images, 0.5), target=1, n_samples=3000, stdevs=0.09 * 0.5
        )
    error = np.abs(found["gradient-shap"] - expected.detach().numpy()).max()
    assert error < 0.05 * float(expected.abs().max())


def test_every_member_is_described() -> None:
    for base in ("grad", "ixg", "ig", "gb"):
        for suffix in ("", "-sg", "-sq", "-var"):
            assert methods.describe(base + suffix)
