"""``load_model``: what passes through, and the families that build by name."""

from __future__ import annotations

import sys
import urllib.error
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
import torchvision
from torch import nn

from roadworthy.errors import InputError, MissingExtraError, ModelError, RoadworthyWarning
from roadworthy.model import Normalized, load_model, models, save_weights
from roadworthy.records import Data

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
Make = Callable[..., Data]


def quiet(*args: Any, **options: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)
        return load_model(*args, **options)


class TestPassThrough:
    def test_modules_and_callables_as_they_are(self) -> None:
        model = nn.Sequential(nn.Dropout(), nn.Linear(2, 2)).train()
        assert load_model(model) is model
        assert load_model(model, normalize=None) is model
        assert model.training
        function = lambda images: images.mean(dim=(2, 3))  # noqa: E731
        assert load_model(function) is function

    @pytest.mark.parametrize("normalize", [([0.5, 0.4, 0.3], [0.2, 0.1, 0.4]), ([0.5], [0.2]), "imagenet"])
    def test_normalisation_goes_in_front(self, normalize: Any) -> None:
        body = nn.Sequential(nn.Flatten(), nn.Linear(12, 2))
        model = load_model(body, normalize=normalize)
        mean, std = IMAGENET if normalize == "imagenet" else normalize
        images = torch.rand(5, len(mean), 4, 12 // (4 * len(mean)))
        scaled = (images - torch.tensor(mean).view(1, -1, 1, 1)) / torch.tensor(std).view(1, -1, 1, 1)
        assert torch.allclose(model(images), body(scaled), atol=1e-6)
        assert (model.pixel_mean, model.pixel_std) == (tuple(mean), tuple(std))
        assert list(model.children())[1] is body
        assert set(model.state_dict()) == {"body.1.weight", "body.1.bias"}

    def test_one_value_for_all_channels(self) -> None:
        model = load_model(nn.Flatten(), normalize=([0.5, 0.5, 0.5], 0.25))
        assert model.pixel_std == (0.25, 0.25, 0.25)
        with pytest.raises(InputError, match=r"takes images with 3 channels, \(N, 3, ...\); got \(2, 1, 4, 4\)"):
            model(torch.zeros(2, 1, 4, 4))

    def test_normalisation_follows_device_dtype_and_train_flags(self) -> None:
        model = load_model(nn.Linear(2, 2).double().train(), normalize=([0.5, 0.5], [1.0, 1.0]))
        assert model.training
        assert model.normalize.training
        assert not model.eval().normalize.training
        assert model.double()(torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64
        assert model.half().normalize.mean.dtype == torch.float16
        on_meta = load_model(nn.Linear(2, 2, device="meta"), normalize=([0.5, 0.5], [1.0, 1.0]))
        assert on_meta(torch.ones(1, 2, device="meta")).device.type == "meta"

    @pytest.mark.parametrize(
        ("spec", "options", "message"),
        [
            (nn.Linear, {}, "got the class Linear; pass an instance"),
            (3, {}, "got int, expected a name, a torch.nn.Module or a callable"),
            (
                nn.Linear(2, 2),
                {"weights": "a.pt"},
                r"weights= has no effect.*\(Linear\).*load_weights\(module, path\)",
            ),
            (nn.Linear(2, 2), {"classes": 4}, "classes= has no effect"),
            (nn.Linear(2, 2), {"device": "meta"}, "device='meta', but the model is on 'cpu'"),
            (len, {"normalize": ([0.5], [0.5])}, "normalize: 'builtin_function_or_method' is no torch.nn.Module"),
            (nn.Linear(2, 2), {"normalize": "mnist"}, "got 'mnist', expected 'auto', 'imagenet', None or"),
            (nn.Linear(2, 2), {"normalize": ([0.5], [0.0])}, "std is .*expected positive"),
            (nn.Linear(2, 2), {"normalize": ([0.5, 0.5], [1.0] * 3)}, "mean has 2 values, the images have 3"),
            (nn.Linear(2, 2), {"normalize": 0.5}, "got 0.5, expected a pair"),
            (nn.Linear(2, 2), {"seed": "a"}, "seed: got str"),
            ("small-cnn", {"classes": 1}, "classes: got 1, expected an integer of at least 2"),
            ("small-cnn", {"classes": 2.0}, "classes: got 2.0"),
        ],
    )
    def test_refused(self, spec: Any, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_model(spec, **options)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digits_cnn", "Unknown model 'digits_cnn'. Did you mean 'digits-cnn'"),
        ("resnet50", "Unknown model 'resnet50'.*torchvision"),
        ("", "Unknown model ''"),
        ("mine.pt", "'mine.pt' is a file of weights; name the network it belongs to"),
        ("torchvision", "names no model; write it as 'torchvision:resnet50'"),
        ("timm:", "names no model; write it as 'timm:resnet18'"),
        ("torchvision:resnet5", "Unknown torchvision model 'resnet5'. Did you mean 'resnet50'"),
        ("torchvision:fasterrcnn_resnet50_fpn", "Unknown torchvision model"),
        ("timm:resnet1", "Unknown timm model 'resnet1'. Did you mean 'resnet"),
        ("timn:resnet18", "there is no module 'timn'.*Did you mean 'timm'"),
        ("digits-cnn:large", "'digits-cnn' takes nothing after the colon"),
    ],
)
def test_wrong_names(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_model(spec)


def test_every_family_is_described() -> None:
    assert set(models) == {
        "digits-cnn", "small-cnn", "resnet18-cifar", "torchvision", "timm", "transformers", "package.module:factory",
    }  # fmt: skip
    assert all(models.describe(name) for name in models)


class TestTorchvision:
    def test_random_weights_are_told_and_seeded(self) -> None:
        state = torch.get_rng_state()
        with pytest.warns(
            RoadworthyWarning, match="torchvision:squeezenet1_1: no weights.*weights='DEFAULT'"
        ) as caught:
            model = load_model("torchvision:squeezenet1_1", classes=7)
        assert caught[0].filename == __file__
        again, other = (quiet("torchvision:squeezenet1_1", classes=7, seed=seed) for seed in (0, 1))
        assert torch.equal(torch.get_rng_state(), state)
        assert not any(part.training for part in model.modules())
        images = torch.rand(1, 3, 64, 64)
        assert model(images).shape == (1, 7)
        assert torch.equal(model(images), again(images))
        assert not torch.equal(model(images), other(images))
        assert (model.pixel_mean, model.pixel_std) == IMAGENET
        plain = (images - torch.tensor(IMAGENET[0]).view(1, 3, 1, 1)) / torch.tensor(IMAGENET[1]).view(1, 3, 1, 1)
        assert torch.allclose(model(images), model.body(plain), atol=1e-5)

    def test_classes_from_the_data_or_the_architecture(self, make_data: Make) -> None:
        data = make_data(channels=3, classes=4)
        assert quiet("torchvision:squeezenet1_1", data).body.num_classes == 4
        assert quiet("torchvision:squeezenet1_1", data, classes=6).body.num_classes == 6
        assert quiet("torchvision:squeezenet1_1").body.num_classes == 1000

    def test_grey_data_are_refused(self, make_data: Make) -> None:
        with pytest.raises(ModelError, match="takes 3 channels, 'stripes' has 1; load the data with channels=3"):
            load_model("torchvision:squeezenet1_1", make_data(channels=1))

    def test_weights_from_a_file(self, tmp_path: Path) -> None:
        model = quiet("torchvision:squeezenet1_1", classes=5, seed=3)
        path = save_weights(model, tmp_path / "a.safetensors")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            other = load_model("torchvision:squeezenet1_1", classes=5, weights=path)
        images = torch.rand(1, 3, 64, 64)
        assert torch.equal(model(images), other(images))
        with pytest.raises(ModelError, match="the file has 5 classes, the model 1000; pass classes=5"):
            load_model("torchvision:squeezenet1_1", weights=str(path))

    def test_published_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        published = torchvision.models.squeezenet1_1(weights=None)
        kinds = torchvision.models.SqueezeNet1_1_Weights
        monkeypatch.setattr(kinds, "get_state_dict", lambda *_, **__: published.state_dict())
        state = torch.get_rng_state()
        for name in ("DEFAULT", "IMAGENET1K_V1"):
            model = load_model("torchvision:squeezenet1_1", weights=name)
            assert all(
                torch.equal(value, published.state_dict()[key]) for key, value in model.body.state_dict().items()
            )
            assert model.pixel_mean == IMAGENET[0]
        assert torch.equal(torch.get_rng_state(), state)

    def test_the_statistics_are_those_of_the_weights(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torchvision.models, "get_model", lambda *_, **__: nn.Linear(2, 2))
        assert quiet("torchvision:vit_b_16").pixel_mean == IMAGENET[0]
        model = quiet("torchvision:efficientnet_v2_l")
        assert (model.pixel_mean, model.pixel_std) == ((0.5,) * 3, (0.5,) * 3)

    def test_published_weights_of_other_classes_or_name(self, make_data: Make) -> None:
        with pytest.raises(ModelError, match=r"are for 1000 classes, not 2; pass classes=1000 .*weights="):
            load_model("torchvision:squeezenet1_1", make_data(channels=3), weights="DEFAULT")
        with pytest.raises(InputError, match="set of weights 'IMAGENET1K'. Did you mean 'IMAGENET1K_V1'"):
            load_model("torchvision:squeezenet1_1", weights="IMAGENET1K")

    def test_no_network(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        def offline(*_: Any, **__: Any) -> None:
            raise urllib.error.URLError("no route to host")

        monkeypatch.setattr(torch.hub, "urlopen", offline)
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        with pytest.raises(
            ModelError, match=r"IMAGENET1K_V1 cannot be downloaded \(URLError.*no route.*weights= the p"
        ):
            load_model("torchvision:squeezenet1_1", weights="DEFAULT")


class TestTimm:
    def test_any_channels_and_classes(self, make_data: Make) -> None:
        data = make_data(channels=2, classes=4)
        with pytest.warns(RoadworthyWarning, match="timm:test_resnet: no weights.*'pretrained'"):
            model = load_model("timm:test_resnet", data, normalize=data.normalize)
        assert model(torch.rand(2, 2, 32, 32)).shape == (2, 4)
        assert model.pixel_mean == pytest.approx(data.mean)
        assert torch.equal(
            model(torch.ones(1, 2, 32, 32)),
            quiet("timm:test_resnet", data, normalize=data.normalize)(torch.ones(1, 2, 32, 32)),
        )

    def test_statistics_are_the_models_own(self) -> None:
        config = timm.get_pretrained_cfg("vit_tiny_patch16_224")
        assert config.mean == (0.5, 0.5, 0.5)
        assert quiet("timm:vit_tiny_patch16_224").pixel_mean == (0.5, 0.5, 0.5)

    def test_pretrained(self, monkeypatch: pytest.MonkeyPatch, make_data: Make) -> None:
        asked: list[tuple[str, dict[str, Any]]] = []
        create = timm.create_model

        def fake(name: str, pretrained: bool = False, **options: Any) -> nn.Module:
            asked.append((name, {"pretrained": pretrained, **options}))
            return create(name, pretrained=False, **options)

        monkeypatch.setattr(timm, "create_model", fake)
        load_model("timm:test_resnet", weights="pretrained")
        assert asked == [("test_resnet", {"pretrained": True})]
        with pytest.raises(ModelError, match="pretrained weights are for 1000 classes, not 2; pass classes=1000"):
            load_model("timm:test_resnet", make_data(channels=3), weights="pretrained")
        with pytest.raises(ModelError, match="got 'IMAGENET1K_V1', expected 'pretrained' or the path of a file"):
            load_model("timm:test_resnet", weights="IMAGENET1K_V1")

    def test_no_network(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def offline(*_: Any, **__: Any) -> None:
            raise ConnectionError("cannot reach the hub\nmany\nlines")

        monkeypatch.setattr(timm, "create_model", offline)
        with pytest.raises(
            ModelError, match=r"cannot be downloaded \(ConnectionError: cannot reach the hub\); pass w"
        ):
            load_model("timm:test_resnet", weights="pretrained")

    def test_weights_from_a_file(self, tmp_path: Path) -> None:
        model = quiet("timm:test_resnet", classes=5, seed=3)
        path = save_weights(model, tmp_path / "a.safetensors")
        images = torch.rand(1, 3, 32, 32)
        assert torch.equal(load_model("timm:test_resnet", classes=5, weights=path)(images), model(images))

    def test_not_installed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "timm", None)
        with pytest.raises(MissingExtraError, match=r"'timm:resnet18' needs timm: pip install 'roadworthy\[timm\]'"):
            load_model("timm:resnet18")


FACTORIES = """
import torch
class Nets:
    @staticmethod
    def small():
        return torch.nn.Linear(3, 2)
def build():
    return torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Linear(3, 2))
def function():
    return lambda images: images
def needs(size):
    return None
def fails():
    raise RuntimeError("no weights\\nhere")
def text():
    return "resnet"
ready = torch.nn.Linear(3, 2)
number = 3
"""


class TestFactory:
    @pytest.fixture
    def folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        (tmp_path / "my_nets_here.py").write_text(FACTORIES)
        (tmp_path / "my_broken_nets.py").write_text("import nowhere_to_be_found")
        (tmp_path / "my_wrong_nets.py").write_text("1 +")
        monkeypatch.chdir(tmp_path)
        for name in ("my_nets_here", "my_broken_nets", "my_wrong_nets"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return tmp_path

    def test_from_the_current_folder_whatever_the_path(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sys, "path", [part for part in sys.path if part not in ("", str(folder))])
        before, state = list(sys.path), torch.get_rng_state()
        model = load_model("my_nets_here:build")
        assert sys.path == before
        assert torch.equal(torch.get_rng_state(), state)
        assert isinstance(model, nn.Sequential)
        assert not any(part.training for part in model.modules())
        assert torch.equal(load_model("my_nets_here:build")[1].weight, model[1].weight)
        assert not torch.equal(load_model("my_nets_here:build", seed=1)[1].weight, model[1].weight)

    def test_forms(self, folder: Path, tmp_path: Path) -> None:
        assert isinstance(load_model("my_nets_here:Nets.small"), nn.Linear)
        assert isinstance(load_model("my_nets_here:ready"), nn.Linear)
        assert load_model("my_nets_here:function")(3) == 3
        wrapped = load_model("my_nets_here:build", normalize=([0.5], [0.5]))
        assert isinstance(wrapped, Normalized)
        assert not wrapped.training
        path = save_weights(nn.Linear(3, 2), tmp_path / "a.safetensors")
        loaded = load_model("my_nets_here:ready", weights=path)
        assert torch.equal(loaded.weight, load_model("my_nets_here:ready", weights=path).weight)
        assert load_model("my_nets_here:ready", device="meta").weight.device.type == "meta"

    @pytest.mark.parametrize(
        ("spec", "options", "message"),
        [
            ("my_nets_nowhere:build", {}, "there is no module 'my_nets_nowhere', neither installed nor in"),
            ("my_nets_here.deeper:build", {}, "importing my_nets_here.deeper failed|there is no module"),
            (
                "my_broken_nets:build",
                {},
                "importing my_broken_nets failed: it needs the module 'nowhere_to_be_found'",
            ),
            ("my_wrong_nets:build", {}, "importing my_wrong_nets failed: SyntaxError"),
            ("my_nets_here:biuld", {}, "my_nets_here has no 'biuld'. Did you mean 'build'"),
            ("my_nets_here:Nets.big", {}, "has no 'Nets.big'"),
            ("my_nets_here:", {}, "names no model; write it as 'package.module:factory'"),
            ("my_nets_here:number", {}, "is int, expected a function that returns the model"),
            ("my_nets_here:needs", {}, "calling it without arguments failed: TypeError.*'size'"),
            ("my_nets_here:fails", {}, "calling it without arguments failed: RuntimeError: no weights$"),
            ("my_nets_here:text", {}, "returned str, expected a torch.nn.Module or a callable"),
            ("my_nets_here:build", {"classes": 3}, "classes=3 has no effect on 'my_nets_here:build'"),
            ("my_nets_here:function", {"weights": "a.pt"}, "returned function; only a module takes weights"),
            ("my_nets_here:function", {"normalize": "imagenet"}, "is no torch.nn.Module"),
        ],
    )
    def test_errors_name_what_failed(self, folder: Path, spec: str, options: Any, message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_model(spec, **options)
