"""The front function: what it takes, what it refuses, and what it leaves alone (field reports 4, 8, 16, 17, 24)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from attribution_networks import forms, plain, some_images
from torch import nn

from roadworthy.attribution import Maps, Settings, attribute, methods, presets
from roadworthy.errors import AttributionError, InputError, ModelError
from roadworthy.records import Batch, Split

FAST = Settings(ig_steps=3, samples=2, shap_samples=2, lime_samples=20, kernel_shap_samples=20, cells=2)


class InMemory:
    """A source of images that are there already."""

    def __init__(self, images: torch.Tensor, labels: list[int]) -> None:
        self.images, self.labels = images, np.array(labels)
        self.ids = [f"sample-{row}" for row in range(len(labels))]

    def read(self, index: int) -> torch.Tensor:
        return self.images[index]

    def where(self, index: int) -> str:
        return str(index)


# what comes in


def test_tensors_arrays_splits_and_batches_agree() -> None:
    model, images = forms(), some_images()
    split = Split(InMemory(images, [0, 1, 2, 3]))
    ids = split.ids
    expected = attribute(model, images, "grad-sg", ids=ids)
    batches = [Batch(images[:3], torch.arange(3), ids[:3]), Batch(images[3:], torch.tensor([3]), ids[3:])]
    sources = {
        "array": attribute(model, images.numpy(), "grad-sg", ids=ids),
        "double": attribute(model, images.double(), "grad-sg", ids=ids),
        "split": attribute(model, split, "grad-sg", max_batch=3),
        "batch": attribute(model, Batch(images, torch.arange(4), ids), "grad-sg"),
        "batches": attribute(model, iter(batches), "grad-sg"),
    }
    for name, found in sources.items():
        np.testing.assert_allclose(found["grad-sg"], expected["grad-sg"], atol=1e-6, err_msg=name)
        assert found.ids == ids
    assert isinstance(expected, Maps)
    assert expected["grad-sg"].dtype == np.float32


@pytest.mark.parametrize(
    "labels",
    [[1, 0, 3, 2], np.array([1, 0, 3, 2], np.int32), torch.tensor([[1], [0], [3], [2]], dtype=torch.int16)],
)
def test_labels_in_any_form(labels) -> None:  # type: ignore[no-untyped-def]
    model, images = forms(), some_images()
    expected = attribute(model, images, "grad", target=[1, 0, 3, 2])
    assert np.array_equal(attribute(model, images, "grad", labels=labels, target="label")["grad"], expected["grad"])
    assert np.array_equal(attribute(model, images, "grad", target=labels)["grad"], expected["grad"])
    assert expected.targets.tolist() == [1, 0, 3, 2]


def test_the_predicted_class_is_the_default() -> None:
    model, images = forms(), some_images()
    with torch.no_grad():
        predicted = model(images).argmax(1)
    maps = attribute(model, images, "grad", labels=[0, 0, 0, 0])
    assert maps.targets.tolist() == predicted.tolist()
    assert maps.run["target"] == "predicted"


def test_layout_is_followed_never_guessed() -> None:
    inner, images = forms(), some_images()

    class ChannelsLast(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return self.inner(values.movedim(-1, 1))

    names = ["ig", "gb", "gradcam", "deeplift", "lrp", "occlusion", "random"]
    expected = attribute(inner, images, names, settings=FAST)
    last = attribute(ChannelsLast(), images.movedim(1, -1), names, layout="NHWC", settings=FAST)
    batch = attribute(
        ChannelsLast(), Batch(images, torch.zeros(4), list("0123")), names, layout="NHWC", settings=FAST
    )
    for name in names:
        np.testing.assert_allclose(last[name], expected[name], atol=1e-6, err_msg=name)
        np.testing.assert_allclose(batch[name], expected[name], atol=1e-6, err_msg=name)


def test_maps_are_in_pixel_units_with_a_normalisation() -> None:
    model, images = plain(), some_images()
    mean, std = [0.4, 0.5, 0.6], [0.2, 0.3, 0.4]

    class Inside(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model
            self.pixel_mean, self.pixel_std = tuple(mean), tuple(std)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            scale = torch.tensor(std).view(1, 3, 1, 1)
            return self.inner((values - torch.tensor(mean).view(1, 3, 1, 1)) / scale)

    outside = attribute(model, images, ["grad", "ig-sg"], normalize=(mean, std))
    inside = attribute(Inside(), images, ["grad", "ig-sg"])
    for name in outside:
        np.testing.assert_allclose(inside[name], outside[name], atol=1e-5)
    found = outside.info["ig-sg"]["settings"]
    assert found["baseline_pixels"] == pytest.approx(mean)
    assert found["noise_pixels"] == pytest.approx([0.04, 0.06, 0.08])
    assert (found["baseline_from"], found["noise_from"]) == ("normalize=", "normalize=")
    assert inside.info["ig-sg"]["settings"]["baseline_from"] == "the model's pixel_mean"


def test_the_baseline_is_resolved_in_order() -> None:
    model, images = plain(), some_images(2)
    given = attribute(model, images, "ig", mean=[0.1, 0.2, 0.3], normalize=([0.5] * 3, [0.2] * 3))
    assert given.info["ig"]["settings"]["baseline_pixels"] == pytest.approx([0.1, 0.2, 0.3])
    none = attribute(model, images, "ig").run["settings"]
    assert none["baseline_pixels"] == [0.5, 0.5, 0.5]
    assert none["baseline_from"].startswith("no mean known")
    black = attribute(model, images, "ig", settings="roar", mean=0.3).run["settings"]
    assert (black["baseline_pixels"], black["ig_steps"], black["samples"]) == ([0, 0, 0], 25, 15)


@pytest.mark.parametrize("output", [None, "scores", 1, lambda returned: returned[1]])
def test_outputs_of_any_form(output) -> None:  # type: ignore[no-untyped-def]
    inner, images = forms(), some_images(2)
    wrap = {
        None: lambda logits: {"logits": logits},
        "scores": lambda logits: {"scores": logits, "other": 0},
        1: lambda logits: (images, logits),
    }
    form = wrap.get(output if isinstance(output, (str, int, type(None))) else 1)

    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, values: torch.Tensor):  # type: ignore[no-untyped-def]
            return form(self.inner(values))  # type: ignore[misc]

    names = ["ig", "gb", "gradcam", "occlusion", "deeplift"]
    expected = attribute(inner, images, names, settings=FAST)
    found = attribute(Wrapped(), images, names, settings=FAST, output=output)
    for name in names:
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6, err_msg=name)


@pytest.mark.parametrize("shape", [(3, 2, 9), (3, 7)])
def test_series_and_tables(shape: tuple[int, ...]) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape[1:])), 6), nn.ReLU(), nn.Linear(6, 3))
    kind = "series" if len(shape) == 3 else "tables"
    names = [name for name in methods if kind in methods[name].kinds]
    maps = attribute(model, torch.rand(shape), names, settings=FAST)
    assert {"grad", "ixg-sq", "ig", "gb-var", "random", "constant", "occlusion", "deeplift"} <= set(names)
    for name, values in maps.items():
        assert values.shape in (shape, (shape[0], *shape[2:])), name


def test_float16_and_float64_models() -> None:
    images = some_images(2)
    expected = attribute(plain(), images, "ig")["ig"]
    np.testing.assert_allclose(attribute(plain().double(), images, "ig")["ig"], expected, atol=1e-5)
    half = attribute(plain().bfloat16(), images, "ig", target=attribute(plain(), images, "ig").targets)["ig"]
    assert half.dtype == np.float32
    assert np.corrcoef(half.ravel(), expected.ravel())[0, 1] > 0.95


# what is refused


def test_values_that_are_not_finite_are_refused_by_sample_and_method() -> None:
    def broken(model, images, targets):  # type: ignore[no-untyped-def]
        values = images.mean(1)
        values[3] = float("nan")
        values[5, 0, 0] = float("inf")
        return values

    with pytest.raises(AttributionError, match=r"'broken': NaN or infinite attributions for samples '3', '5'"):
        attribute(forms(), some_images(8), ["grad", broken])
    images = some_images(3)
    images[1, 0, 0, 0] = float("nan")
    with pytest.raises(InputError, match="NaN or infinite values in samples 'b'"):
        attribute(forms(), images, "grad", ids=["a", "b", "c"])

    class Nan(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            scores = values.flatten(1)[:, :2].clone()
            scores[2] = float("nan")
            return scores

    with pytest.raises(ModelError, match="scores are NaN or infinite for samples '2'"):
        attribute(Nan(), some_images(), "grad")


def test_gradients_that_are_not_finite_are_refused() -> None:
    class Root(nn.Module):
        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return torch.stack([values.flatten(1).sum(1).sqrt(), values.flatten(1).sum(1) - 9e9], 1)

    images = some_images(3)
    images[1] = 0
    with pytest.raises(AttributionError, match="'grad': NaN or infinite attributions for samples '1'"):
        attribute(Root(), images, ["grad"])


def test_wrong_arguments_name_what_came() -> None:
    model, images = forms(), some_images()
    with pytest.raises(InputError, match=r"torch.uint8, expected floats in \[0, 1\]; divide 8-bit images by 255"):
        attribute(model, (images * 255).to(torch.uint8), "grad")
    with pytest.raises(InputError, match=r"got shape \(3,\), expected"):
        attribute(model, torch.rand(3), "grad")
    with pytest.raises(InputError, match=r"labels: got shape \(3,\), expected one class per sample, \(4,\)"):
        attribute(model, images, "grad", labels=[0, 1, 2])
    with pytest.raises(InputError, match="target='label' needs labels"):
        attribute(model, images, "grad", target="label")
    with pytest.raises(InputError, match="target: got 'best', expected 'predicted', 'label'"):
        attribute(model, images, "grad", target="best")
    with pytest.raises(InputError, match=r"class \[7\] is outside the model's 0..3, for samples '2'"):
        attribute(model, images, "grad", target=[0, 1, 7, 2])
    with pytest.raises(InputError, match="target: 5 classes for 4 samples"):
        attribute(model, images, "grad", target=[0, 1, 2, 3, 0])
    with pytest.raises(InputError, match="target: 3 classes for more samples"):
        attribute(model, images, "grad", target=[0, 1, 2])
    with pytest.raises(InputError, match="'a' is there more than once"):
        attribute(model, images, "grad", ids=["a", "b", "a", "c"])
    with pytest.raises(InputError, match="3 ids for 4 samples"):
        attribute(model, images, "grad", ids=["a", "b", "c"])
    with pytest.raises(InputError, match="there are no samples"):
        attribute(model, images[:0], "grad")
    with pytest.raises(InputError, match=r"Unknown settings 'raod'. Did you mean 'road'\?"):
        attribute(model, images, "grad", settings="raod")
    with pytest.raises(InputError, match="a Batch brings its own"):
        attribute(model, Batch(images, torch.zeros(4), list("abcd")), "grad", ids=list("abcd"))
    with pytest.raises(InputError, match="got Tensor among the batches"):
        attribute(model, [images], "grad")  # type: ignore[list-item]
    with pytest.raises(InputError, match="mean has 2 values, the images have 3 channels"):
        attribute(model, images, "ig", mean=[0.5, 0.5])
    with pytest.raises(AttributionError, match=r"'bad': maps have shape \(4, 10, 8\), expected \(4, 3, 8, 10\) or"):
        attribute(model, images, {"bad": lambda model, images, targets: images.mean(1).transpose(1, 2)})
    with pytest.raises(AttributionError, match="'bad': the callable failed with TypeError"):
        attribute(model, images, {"bad": lambda model: None})
    with pytest.raises(AttributionError, match=r"'bad': the callable failed .* images.clone\(\).requires_grad_\(\)"):
        attribute(model, images, {"bad": lambda m, x, y: torch.autograd.grad(m(x).sum(), x)[0]})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"ig_steps": 0}, "ig_steps is 0, expected an integer of at least 1"),
        ({"samples": 1.5}, "samples is 1.5"),
        ({"noise": -0.1}, "noise is -0.1, expected a number of at least 0"),
        ({"noise_unit": "sigma"}, "noise_unit is 'sigma', expected one of 'normalized', 'range', 'pixel'"),
        ({"baseline": "white"}, "baseline is 'white'"),
        ({"ig_rule": "simpson"}, "ig_rule is 'simpson'"),
    ],
)
def test_settings_are_checked(values: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings(**values)


def test_the_named_settings_are_those_of_the_papers() -> None:
    road, roar = presets["road"], presets["roar"]
    assert (road.ig_steps, road.ig_rule, road.samples, road.noise, road.noise_unit, road.baseline) == (
        *(50, "gausslegendre", 15, 0.2, "normalized", "mean"),
    )
    assert (roar.ig_steps, roar.ig_rule, roar.samples, roar.noise, roar.noise_unit, roar.baseline) == (
        *(25, "uniform", 15, 0.15, "range", "black"),
    )
    assert (presets["road-code"].guided_samples, presets["road-code"].guided_noise) == (100, 1.0)
    assert presets["roar-code"].samples == 25


# what is told


def test_progress_counts_maps() -> None:
    done: list[int] = []
    attribute(forms(), some_images(7), ["ig", "ig-sg", "random"], settings=FAST, max_batch=3, progress=done.append)
    assert sum(done) == 21


def test_seed_changes_what_is_random_and_nothing_else() -> None:
    model, images = forms(), some_images(2)
    names = ["random", "grad-sg", "lime", "ig", "occlusion"]
    first, second = (attribute(model, images, names, settings=FAST, seed=seed) for seed in (0, 1))
    changed = {name for name in names if not np.array_equal(first[name], second[name])}
    assert changed == {"random", "grad-sg", "lime"}
    generator = attribute(model, images, names, settings=FAST, seed=np.random.default_rng(5))
    assert generator.run["seed"] != 0


def test_info_states_what_was_done() -> None:
    maps = attribute(forms(), some_images(2), {"mine": "ig", "other": lambda model, images, targets: images}, seed=3)
    assert maps.info["mine"]["method"] == "ig"
    assert maps.info["mine"]["settings"]["ig_steps"] == 50
    assert "test_front" in maps.info["other"]["method"]
    assert (maps.run["seed"], maps.run["n"], maps.run["settings"]["name"]) == (3, 2, "road")


def test_known_answer_model(q4: nn.Module, q4_data: Callable) -> None:
    images, labels = q4_data(8, 3, 16, 24)
    maps = attribute(q4, images, ["grad", "ixg", "deeplift", "ig", "occlusion"], labels=labels, target="label")
    for row, label in enumerate(labels.tolist()):
        top, left = (label // 2) * 8, (label % 2) * 12
        inside = np.zeros((16, 24), bool)
        inside[top : top + 8, left : left + 12] = True
        gradient = maps["grad"][row]
        np.testing.assert_allclose(gradient[:, inside], 20 / (3 * 8 * 12), rtol=1e-5)
        assert not gradient[:, ~inside].any()
        np.testing.assert_allclose(
            maps["ig"][row][:, inside], (gradient * (images[row].numpy() - 0.5))[:, inside], atol=1e-6
        )
        np.testing.assert_allclose(maps["deeplift"][row], maps["ig"][row], atol=1e-6)
        assert maps["occlusion"][row][inside].mean() > maps["occlusion"][row][~inside].mean()
