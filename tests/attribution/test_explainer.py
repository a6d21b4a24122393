"""An explainer serves block after block: the same maps as in one go, without doing anything twice."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from attribution_networks import forms, plain, some_images

from roadworthy.attribution import Explained, Explainer, Samples, Settings, attribute
from roadworthy.errors import AttributionError, InputError, ModelError

FAST = Settings(ig_steps=3, samples=2)


def in_blocks(explainer: Explainer, images: torch.Tensor, targets: torch.Tensor, size: int) -> list[Explained]:
    return [
        explainer.explain(
            Samples(
                images[begin : begin + size], list(map(str, range(begin, len(images))))[:size], targets[begin:][:size]
            )
        )
        for begin in range(0, len(images), size)
    ]


def test_many_blocks_trace_the_model_once_a_method(monkeypatch: pytest.MonkeyPatch) -> None:
    traces: list[object] = []
    original = torch.fx.symbolic_trace
    monkeypatch.setattr(torch.fx, "symbolic_trace", lambda model: (traces.append(model), original(model))[1])
    images, targets = some_images(640), torch.arange(640) % 4
    explainer = Explainer(plain(), ["lrp", "deeplift", "gradcam"])
    parts = in_blocks(explainer, images, targets, 64)
    assert len(parts) == 10
    assert len(traces) == 2
    whole = attribute(plain(), images, ["lrp", "deeplift", "gradcam"], target=targets)
    for name in whole:
        found = np.concatenate([part.maps[name] for part in parts])
        np.testing.assert_allclose(found, whole[name], atol=1e-6, err_msg=name)
    gap = np.concatenate([part.per_sample["deeplift"]["completeness_gap"] for part in parts])
    np.testing.assert_allclose(gap, whole.info["deeplift"]["completeness_gap"], atol=1e-6)


def test_known_scores_are_not_computed_again() -> None:
    model, images, ids = forms(), some_images(4), list("abcd")
    with torch.no_grad():
        logits = model(images)
    expected = Explainer(model, ["grad", "ig"], settings=FAST).explain(Samples(images, ids))
    passes: list[int] = []
    model.register_forward_hook(lambda module, inputs, output: passes.append(len(output)))
    known = Samples(images, ids, logits.argmax(1), logits=logits)
    found = Explainer(model, ["grad"]).explain(known)
    assert passes == [4], "the gradient's own pass"
    assert np.array_equal(found.maps["grad"], expected.maps["grad"])
    assert np.array_equal(found.targets, expected.targets)
    gap = Explainer(model, ["ig"], settings=FAST).explain(known).per_sample["ig"]["completeness_gap"]
    np.testing.assert_allclose(gap, expected.per_sample["ig"]["completeness_gap"], atol=1e-6)
    assert sum(passes) == 4 + 3 * 4 + 1, "three steps a sample, and the baseline"
    predicted = Explainer(model, ["grad"]).explain(Samples(images, ids, logits=logits))
    assert np.array_equal(predicted.targets, expected.targets)


def test_blocks_of_other_shapes_get_their_own_baseline() -> None:
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()
    )
    with torch.no_grad():
        model[0].bias.uniform_(-1, 1)
    model.insert(1, torch.nn.ConstantPad2d(1, 3.0))  # the border's share of the mean depends on the size
    explainer = Explainer(model, ["ig", "deeplift"])
    for side in (5, 9):
        images = some_images(2, 3, side, side)
        found = explainer.explain(Samples(images, ["a", "b"], [0, 1]))
        alone = attribute(model, images, ["ig", "deeplift"], ids=["a", "b"], target=[0, 1])
        for name in alone:
            np.testing.assert_allclose(
                found.per_sample[name]["completeness_gap"], alone.info[name]["completeness_gap"], atol=1e-6
            )


def test_the_number_of_channels_may_change() -> None:
    explainer = Explainer(lambda values: values.flatten(1)[:, :3], ["ig"])
    for features in (4, 6):
        assert explainer.explain(Samples(torch.rand(2, features), ["a", "b"])).maps["ig"].shape == (2, features)


def test_samples_are_checked_and_copied() -> None:
    images = some_images(2)
    samples = Samples(images, ("a", "b"), np.array([[1.0], [0.0]]), labels=[0, 1])  # type: ignore[arg-type]
    assert samples.target.tolist() == [1, 0]
    assert samples.labels.tolist() == [0, 1]
    images.zero_()
    assert samples.images.any()
    for match, arguments in {
        "ids: 1 ids for 2 samples": {"ids": ["a"]},
        "target: got shape": {"target": [1]},
        "labels: got text": {"labels": ["cat", "dog"]},
        r"logits: got shape \(3, 4\), expected \(2, classes\)": {"logits": torch.zeros(3, 4)},
        "values in samples 'b'": {"images": torch.tensor([[0.0], [np.nan]])},
    }.items():
        with pytest.raises(InputError, match=match):
            Samples(**{"images": images, "ids": ["a", "b"], **arguments})
    with pytest.raises(ModelError, match="scores are NaN or infinite for samples 'b'"):
        Explainer(forms(), ["grad"]).explain(
            Samples(images, ["a", "b"], [0, 1], logits=torch.tensor([[0.0] * 4, [np.nan] * 4]))
        )


def test_maps_that_are_not_finite_are_kept_where_asked() -> None:
    def broken(model: object, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return images / 0

    samples = Samples(some_images(2), ["a", "b"], [0, 1])
    assert np.isinf(Explainer(forms(), broken, nonfinite="keep").explain(samples).maps["broken"]).any()
    with pytest.raises(AttributionError, match="'broken': NaN or infinite attributions for samples 'a', 'b'"):
        Explainer(forms(), broken).explain(samples)
