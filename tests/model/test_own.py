"""The package's own networks: trained on the training split, cached by content, usable by every explainer."""

from __future__ import annotations

import dataclasses
import os
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from captum.attr import LRP, DeepLift, GuidedBackprop
from sklearn.datasets import load_digits
from torch import nn

from roadworthy.errors import ModelError, RoadworthyWarning
from roadworthy.model import Recipe, accuracy, load_model, own, resnet_cifar, save_weights, small_cnn
from roadworthy.model.resnet_cifar import CifarResNet18
from roadworthy.model.small_cnn import SmallCNN
from roadworthy.records import Data, Split

Make = Callable[..., Data]
QUICK = Recipe(epochs=2, learning_rate=0.1, batch_size=8)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Train two epochs only."""
    for module, name in ((small_cnn, "SMALL"), (small_cnn, "DIGITS"), (resnet_cifar, "CIFAR")):
        changed = dataclasses.replace(getattr(module, name), recipe=QUICK, samples=0)
        monkeypatch.setattr(module, name, changed)


def files(cache: Path) -> list[str]:
    return sorted(path.name for path in (cache / "models").iterdir())


def equal(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def trainings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by one with each training."""
    calls: list[int] = []
    fit = own.fit

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(len(args[1]))
        return fit(*args, **options)

    monkeypatch.setattr(own, "fit", counted)
    return calls


@pytest.fixture(scope="module")
def digits(array_source: Any) -> Data:
    found = load_digits()
    images = torch.from_numpy(found.images / 16).float()[:, None]
    labels = torch.from_numpy(found.target).long()
    order = np.random.default_rng(17).permutation(len(labels))
    source = array_source(images, labels)
    train, test = (Split(source, name, part) for name, part in (("train", order[360:]), ("test", order[:360])))
    return Data("digits", train, test, tuple("0123456789"))


def test_digits_are_learnt_in_seconds(digits: Data, tmp_path: Path) -> None:
    digits.train.images  # noqa: B018 (reading is not what is timed)
    began = time.process_time()
    model = load_model("digits-cnn", digits, cache=tmp_path)
    assert time.process_time() - began < 60  # 2 to 6 s on an idle core; a guard against a mistake, no measure
    assert accuracy(model, digits.test) >= 0.97
    assert model.pixel_mean == pytest.approx(digits.mean)
    assert model.pixel_std == pytest.approx(digits.std)
    assert not any(part.training for part in model.modules())
    began = time.process_time()
    assert equal(load_model("digits-cnn", digits, cache=tmp_path), model)
    assert time.process_time() - began < 2


@pytest.mark.usefixtures("quick")
class TestCache:
    def test_trained_once_and_read_afterwards(
        self, make_data: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        calls = trainings(monkeypatch)
        first = load_model("small-cnn", make_data(), cache=tmp_path)
        assert len(calls) == 2  # one step to tell how long it takes, and the training
        again = load_model("small-cnn", make_data(), cache=tmp_path)
        assert len(calls) == 2
        assert equal(first, again)
        (name,) = files(tmp_path)
        assert name.startswith("small-cnn-")
        assert name.endswith(".safetensors")

    def test_the_training_split_alone_is_read(self, make_data: Make, tmp_path: Path) -> None:
        data = make_data()
        load_model("small-cnn", data, cache=tmp_path)
        assert data.test.source.reads == 0  # type: ignore[attr-defined]
        assert data.train.source.reads > 0  # type: ignore[attr-defined]

    @pytest.mark.parametrize(
        ("options", "data"),
        [
            ({"seed": 1}, {}),
            ({"normalize": None}, {}),
            ({"normalize": ([0.5], [0.5])}, {}),
            ({"classes": 3}, {}),
            ({}, {"n": 42}),
            ({}, {"name": "other"}),
            ({}, {"prefix": "x"}),
            ({}, {"size": 10}),
            ({}, {"classes": 4}),
            ({}, {"channels": 2}),
        ],
    )
    def test_another_key_for_all_that_matters(
        self, make_data: Make, tmp_path: Path, options: dict[str, Any], data: dict[str, Any]
    ) -> None:
        load_model("small-cnn", make_data(), cache=tmp_path)
        load_model("small-cnn", make_data(**data), cache=tmp_path, **options)
        assert len(files(tmp_path)) == 2

    def test_another_recipe_or_network_is_another_key(
        self, make_data: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        load_model("small-cnn", make_data(), cache=tmp_path)
        monkeypatch.setattr(
            small_cnn, "SMALL", dataclasses.replace(small_cnn.SMALL, recipe=dataclasses.replace(QUICK, epochs=1))
        )
        load_model("small-cnn", make_data(), cache=tmp_path)
        monkeypatch.setattr(
            small_cnn, "SMALL", dataclasses.replace(small_cnn.SMALL, build=lambda c, k: SmallCNN(c, k, (4, 4)))
        )
        load_model("small-cnn", make_data(), cache=tmp_path)
        assert len(files(tmp_path)) == 3

    def test_the_folder_from_the_environment(
        self, make_data: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "elsewhere"))
        load_model("small-cnn", make_data())
        assert len(files(tmp_path / "elsewhere")) == 1
        monkeypatch.delenv("ROADWORTHY_CACHE")
        monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
        load_model("small-cnn", make_data())
        assert len(files(tmp_path / "home" / ".cache" / "roadworthy")) == 1

    def test_a_folder_that_cannot_be_written(self, make_data: Make, tmp_path: Path) -> None:
        (tmp_path / "models").write_text("a file in the way")
        with pytest.warns(RoadworthyWarning, match=r"cannot be kept in .*models.*Set ROADWORTHY_CACHE") as caught:
            model = load_model("small-cnn", make_data(), cache=tmp_path)
        assert caught[0].filename == __file__
        assert model(torch.zeros(1, 1, 8, 8)).shape == (1, 2)

    @pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
    def test_a_read_only_folder(self, make_data: Make, tmp_path: Path) -> None:
        (tmp_path / "models").mkdir(mode=0o500)
        with pytest.warns(RoadworthyWarning, match="cannot be kept"):
            load_model("small-cnn", make_data(), cache=tmp_path)

    def test_a_damaged_file_is_made_anew(self, make_data: Make, tmp_path: Path) -> None:
        first = load_model("small-cnn", make_data(), cache=tmp_path)
        (path,) = (tmp_path / "models").iterdir()
        path.write_bytes(b"damaged")
        with pytest.warns(RoadworthyWarning, match="cached weights are damaged and made anew.*not a safetensors"):
            again = load_model("small-cnn", make_data(), cache=tmp_path)
        assert equal(first, again)
        assert equal(first, load_model("small-cnn", make_data(), cache=tmp_path))

    def test_an_interrupted_training_goes_on(self, make_data: Make, tmp_path: Path) -> None:
        expected = load_model("small-cnn", make_data(), cache=tmp_path / "other")
        seen = 0

        def interrupt(done: int) -> None:
            nonlocal seen
            seen += done
            if seen > 40:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            load_model("small-cnn", make_data(), cache=tmp_path, progress=interrupt)
        assert [name.split(".", 1)[1] for name in files(tmp_path)] == ["checkpoint.pt"]
        model = load_model("small-cnn", make_data(), cache=tmp_path)
        assert equal(model, expected)
        assert [name.split(".", 1)[1] for name in files(tmp_path)] == ["safetensors"]


@pytest.mark.usefixtures("quick")
class TestLoading:
    def test_seeded_and_global_rng_untouched(self, make_data: Make, tmp_path: Path) -> None:
        states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
        one, same, other = (
            load_model("small-cnn", make_data(), seed=seed, cache=tmp_path / str(number))
            for number, seed in enumerate((0, 0, 1))
        )
        assert torch.equal(torch.get_rng_state(), states[0])
        assert (np.random.get_state()[1] == states[1]).all()  # noqa: NPY002
        assert random.getstate() == states[2]
        assert equal(one, same)
        assert not equal(one, other)

    def test_progress_knows_the_total(self, make_data: Make, tmp_path: Path) -> None:
        class Bar:
            total, done, what = 0, 0, ""

            def begin(self, total: int, what: str) -> None:
                self.total, self.what = total, what

            def __call__(self, done: int) -> None:
                self.done += done

        bar = Bar()
        load_model("small-cnn", make_data(41), cache=tmp_path, progress=bar)
        assert (bar.total, bar.done, bar.what) == (82, 82, "training small-cnn")

    def test_a_long_training_is_announced(
        self, make_data: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(own, "_LONG", 0.0)
        with pytest.warns(RoadworthyWarning, match=r"training on cpu \(40 images, 2 epochs\) will take about .* min"):
            load_model("small-cnn", make_data(), cache=tmp_path)

    def test_few_images_get_more_epochs(self) -> None:
        network = dataclasses.replace(small_cnn.SMALL, recipe=QUICK, samples=1000)
        assert [network.recipe_for(n).epochs for n in (10, 200, 250, 400, 10_000)] == [6, 5, 4, 3, 2]

    @pytest.mark.parametrize("name", ["digits-cnn", "small-cnn", "resnet18-cifar"])
    def test_untrained_without_data_or_weights(self, name: str) -> None:
        with pytest.warns(RoadworthyWarning, match=f"{name}: neither data .* untrained") as caught:
            model = load_model(name)
        assert caught[0].filename == __file__
        channels = 3 if name == "resnet18-cifar" else 1
        assert model(torch.zeros(2, channels, 12, 10)).shape == (2, 10)
        assert not hasattr(model, "pixel_mean")

    @pytest.mark.parametrize("name", ["digits-cnn", "small-cnn", "resnet18-cifar"])
    def test_the_first_weights_are_seeded(self, name: str) -> None:
        with pytest.warns(RoadworthyWarning, match="untrained"):
            one, same, other = (load_model(name, seed=seed) for seed in (0, 0, 1))
        assert equal(one, same)
        assert not equal(one, other)

    @pytest.mark.parametrize("name", ["digits-cnn", "small-cnn", "resnet18-cifar"])
    def test_saved_weights_bring_their_normalisation(self, make_data: Make, tmp_path: Path, name: str) -> None:
        data = make_data(channels=3, classes=4)
        model = load_model(name, data, cache=tmp_path)
        path = save_weights(model, tmp_path / "a.safetensors")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again = load_model(name, classes=4, weights=path)
        images = data.test.images
        assert torch.equal(again(images), model(images))
        assert again.pixel_mean == pytest.approx(data.mean)
        with pytest.raises(ModelError, match="the file has 4 classes, the model 10; pass classes=4"):
            load_model(name, weights=path)

    @pytest.mark.parametrize(("height", "width"), [(1, 1), (3, 2), (8, 8), (24, 17), (28, 28)])
    @pytest.mark.parametrize("channels", [1, 3, 5])
    def test_any_size_and_channels(self, height: int, width: int, channels: int) -> None:
        network = SmallCNN(channels, 4, (4, 6, 8)).eval()
        assert network(torch.rand(2, channels, height, width)).shape == (2, 4)

    def test_series_are_refused(self, tmp_path: Path, array_source: Any) -> None:
        train = Split(array_source(torch.zeros(4, 2, 30), torch.arange(4) % 2), "train")
        with pytest.raises(ModelError, match=r"small-cnn takes images \(C, H, W\).*'series' have shape \(2, 30\)"):
            load_model("small-cnn", Data("series", train, train, ("a", "b"), (0.5, 0.5), (1.0, 1.0)), cache=tmp_path)


class TestResNet:
    def test_the_parameters_of_torchvision_fit_but_for_the_stem(self) -> None:
        import torchvision

        theirs = torchvision.models.resnet18(num_classes=10).state_dict()
        ours = CifarResNet18(3, 10).state_dict()
        assert list(ours) == list(theirs)
        assert {name for name in ours if ours[name].shape != theirs[name].shape} == {"conv1.weight"}

    def test_the_same_function_as_torchvisions_with_a_cifar_stem(self) -> None:
        import torchvision

        reference = torchvision.models.resnet18(num_classes=10)
        reference.conv1 = nn.Conv2d(3, 64, 3, padding=1, bias=False)
        reference.maxpool = nn.Identity()
        network = CifarResNet18(3, 10)
        network.load_state_dict(reference.state_dict())
        images = torch.rand(2, 3, 32, 32)
        assert torch.allclose(network.eval()(images), reference.eval()(images), atol=1e-5)

    def test_it_learns(self, make_data: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        recipe = dataclasses.replace(
            resnet_cifar.CIFAR.recipe, epochs=4, batch_size=8, warmup_epochs=1, flip=False, crop_padding=0
        )
        monkeypatch.setattr(resnet_cifar, "CIFAR", dataclasses.replace(resnet_cifar.CIFAR, recipe=recipe))
        data = make_data(48, channels=3, size=8)
        assert accuracy(load_model("resnet18-cifar", data, cache=tmp_path), data.test) >= 0.9


def networks() -> list[nn.Module]:
    torch.manual_seed(2)
    return [SmallCNN(1, 4, (32, 64, 64)), SmallCNN(3, 4, (16, 32, 64)), CifarResNet18(3, 4)]


@pytest.mark.parametrize("number", range(3))
def test_each_relu_is_a_module_of_its_own_out_of_place(number: int) -> None:
    network, calls = networks()[number].eval(), dict[nn.Module, int]()
    for part in network.modules():
        if isinstance(part, nn.ReLU):
            assert not part.inplace
            part.register_forward_hook(lambda module, *_: calls.update({module: calls.get(module, 0) + 1}))
    channels = next(network.parameters()).shape[1]
    network(torch.rand(1, channels, 8, 8))
    assert len(calls) == (17 if number == 2 else 3)
    assert set(calls.values()) == {1}


@pytest.mark.parametrize("size", [(8, 8), (13, 10)])
@pytest.mark.parametrize("number", range(3))
def test_explainers_that_replace_gradients_work(number: int, size: tuple[int, int]) -> None:
    network = networks()[number].eval()
    channels = next(network.parameters()).shape[1]
    images, targets = torch.rand(3, channels, *size, requires_grad=True), torch.tensor([0, 1, 3])
    black = torch.zeros_like(images)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # captum's, on the hooks it sets
        change = (network(images) - network(black)).gather(1, targets[:, None])[:, 0]
        lifted = DeepLift(network).attribute(images, black, target=targets)
        assert torch.allclose(lifted.flatten(1).sum(1), change, atol=2e-3)
        assert GuidedBackprop(network).attribute(images, target=targets).isfinite().all()
        if number < 2:  # captum has no LRP rule for the addition of a shortcut
            relevance = LRP(network).attribute(images, target=targets)
            assert relevance.isfinite().all()
            assert relevance.abs().sum() > 0
