"""Image classifiers of transformers: as they come, and by the name of a folder; tiny, random, without network."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import roadworthy as rw
from roadworthy.attribution import Settings, attribute
from roadworthy.errors import AttributionError, InputError, MissingExtraError, ModelError, RoadworthyWarning
from roadworthy.model import load_model
from roadworthy.model.transformers_models import ImageClassifier

transformers = pytest.importorskip("transformers", reason="transformers is an extra")

SIDE = 16
NAMES = {0: "cat", 1: "dog", 2: "emu", 3: "fox"}
FAST = Settings(ig_steps=3, samples=2)


@pytest.fixture(autouse=True)
def _without_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def vit(**changes: Any) -> Any:
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=SIDE,
        patch_size=4,
        id2label=NAMES,
        initializer_range=0.3,
        **changes,
    )
    return drawn(transformers.ViTForImageClassification, config)


def resnet() -> Any:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 2], layer_type="basic", id2label=NAMES
    )
    return drawn(transformers.ResNetForImageClassification, config)


def convnext() -> Any:
    config = transformers.ConvNextConfig(
        patch_size=2, hidden_sizes=[8, 16], depths=[1, 1], num_stages=2, id2label=NAMES
    )
    return drawn(transformers.ConvNextForImageClassification, config)


def swin() -> Any:
    config = transformers.SwinConfig(
        image_size=SIDE, patch_size=2, embed_dim=8, depths=[1, 1], num_heads=[1, 2], window_size=4, id2label=NAMES
    )
    return drawn(transformers.SwinForImageClassification, config)


def drawn(kind: Any, config: Any) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return kind(config).eval()


def images(n: int = 3, side: int = SIDE) -> torch.Tensor:
    """Return images that are 8-bit pixels, in [0, 1]."""
    drawn = np.random.default_rng(5).integers(0, 256, (n, 3, side, side), dtype=np.uint8)
    return torch.from_numpy(drawn).float() / 255


def pictures(values: torch.Tensor) -> list[Image.Image]:
    return [Image.fromarray((255 * image).round().byte().permute(1, 2, 0).numpy()) for image in values]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "vit"
    vit().save_pretrained(folder)
    size = {"height": SIDE, "width": SIDE}
    mean, std = [0.5, 0.4, 0.3], [0.2, 0.25, 0.3]
    transformers.ViTImageProcessor(size=size, image_mean=mean, image_std=std).save_pretrained(folder)
    return folder


NO_CONVOLUTION = r"'gradcam': the only convolution, .*patch_embeddings.projection', cuts the images into patches"
KINDS: dict[str, tuple[Callable[[], Any], str]] = {
    "vit": (vit, NO_CONVOLUTION),
    "resnet": (resnet, ""),
    "convnext": (convnext, ""),
    "swin": (swin, NO_CONVOLUTION),
}


@pytest.mark.parametrize("kind", KINDS)
def test_works_as_it_comes(kind: str) -> None:
    make, refusal = KINDS[kind]
    net, values = make(), images()
    found = attribute(net, values, ["grad", "ig"], settings=FAST)
    leaf = values.clone().requires_grad_()
    logits = net(pixel_values=leaf).logits
    (expected,) = torch.autograd.grad(logits.max(dim=1).values.sum(), leaf)
    np.testing.assert_allclose(found["grad"], expected, atol=1e-6)
    assert found.targets.tolist() == logits.argmax(1).tolist()
    if refusal:
        with pytest.raises(AttributionError, match=refusal):
            attribute(net, values, "gradcam")
    else:
        assert attribute(net, values, "gradcam")["gradcam"].shape == (3, SIDE, SIDE)


def test_methods_that_do_not_fit_name_others() -> None:
    net = vit()
    for method, message in {
        "gb": "no ReLU runs in this model; .*Use 'grad', 'ig' or 'gradient-shap' instead",
        "lrp": "'lrp' needs the model's layers one by one, and torch.fx cannot trace ViT.*Use 'ig', 'gradient-shap'",
    }.items():
        with pytest.raises(AttributionError, match=message):
            attribute(net, images(1), method)


def test_objects_and_callables_get_the_scores_alone() -> None:
    from captum.attr import Saliency

    net, values = vit(), images()

    def own(model: Any, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        leaf = images.requires_grad_()
        (gradient,) = torch.autograd.grad(model(leaf).gather(1, targets[:, None]).sum(), leaf)
        return gradient

    found = attribute(net, values, {"grad": "grad", "own": own, "captum": Saliency(net)})
    np.testing.assert_allclose(found["own"], found["grad"], atol=1e-7)
    np.testing.assert_allclose(found["captum"], np.abs(found["grad"]), atol=1e-7)


def test_an_evaluation_of_one_with_a_normalisation_beside_it(saved: Path) -> None:
    values = images(4)
    options = {"strategy": "road", "imputer": "zero", "fractions": (0.4,), "audit": "off", "intact_check": "warn"}
    tables = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoadworthyWarning)
        for model, normalize in (
            (vit(), ([0.5, 0.4, 0.3], [0.2, 0.25, 0.3])),
            (load_model(f"transformers:{saved}"), None),
        ):
            result = rw.evaluate(model, values, torch.arange(4), ["grad", "random"], normalize=normalize, **options)
            tables.append(result.table["probability"].to_numpy())
    np.testing.assert_allclose(tables[0], tables[1], atol=1e-5)


def test_a_folder_gives_the_numbers_of_processor_and_model(saved: Path) -> None:
    model = load_model(f"transformers:{saved}")
    assert model.class_names == tuple(NAMES.values())
    np.testing.assert_allclose(model.pixel_mean, [0.5, 0.4, 0.3], atol=1e-6)
    np.testing.assert_allclose(model.pixel_std, [0.2, 0.25, 0.3], atol=1e-6)
    processor = transformers.AutoImageProcessor.from_pretrained(saved)
    network = transformers.AutoModelForImageClassification.from_pretrained(saved).eval()
    with torch.no_grad():
        for side, tolerance in ((SIDE, 1e-4), (40, 0.05)):  # when it resizes, the processor rounds to 8 bits
            values = images(side=side)
            expected = network(**processor(pictures(values), return_tensors="pt")).logits
            torch.testing.assert_close(model(values), expected, atol=tolerance, rtol=0)
            assert float(expected.std(dim=0).max()) > 5 * tolerance


def test_the_pipeline_of_transformers_agrees(saved: Path) -> None:
    pipeline = transformers.pipeline("image-classification", model=str(saved), device="cpu")
    values = images()
    with torch.no_grad():
        probabilities = load_model(f"transformers:{saved}")(values).softmax(1)
    for row, answers in zip(probabilities, pipeline(pictures(values), top_k=4), strict=True):
        expected = {answer["label"]: answer["score"] for answer in answers}
        for name, probability in zip(NAMES.values(), row.tolist(), strict=True):
            assert abs(expected[name] - probability) < 1e-4


# what a processor may do to 8-bit pixels, as one mean and standard deviation
PROCESSORS: dict[str, tuple[dict[str, Any], list[float], list[float]]] = {
    "no normalisation": ({"do_normalize": False}, [0.0] * 3, [1.0] * 3),
    "no rescaling": (
        {"do_rescale": False, "image_mean": [100.0] * 3, "image_std": [50.0] * 3},
        [100 / 255] * 3,
        [50 / 255] * 3,
    ),
    "another factor": (
        {"rescale_factor": 1 / 127.5, "image_mean": [1.0] * 3, "image_std": [1.0] * 3},
        [0.5] * 3,
        [0.5] * 3,
    ),
    "no resizing": ({"do_resize": False}, [0.5] * 3, [0.5] * 3),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_what_a_processor_amounts_to_is_found_by_asking_it(name: str, tmp_path: Path) -> None:
    options, mean, std = PROCESSORS[name]
    vit().save_pretrained(tmp_path)
    transformers.ViTImageProcessor(size={"height": SIDE, "width": SIDE}, **options).save_pretrained(tmp_path)
    model = load_model(f"transformers:{tmp_path}")
    np.testing.assert_allclose(getattr(model, "pixel_mean", (0.0,) * 3), mean, atol=1e-5)
    np.testing.assert_allclose(getattr(model, "pixel_std", (1.0,) * 3), std, atol=1e-5)
    if name == "no resizing":
        with pytest.raises(ValueError, match="doesn't match model"):
            model(images(side=20))
    else:
        assert model(images(side=20)).shape == (3, 4)


def test_a_processor_that_is_no_mean_and_deviation_is_refused(tmp_path: Path) -> None:
    vit().save_pretrained(tmp_path)
    size = {"height": SIDE, "width": SIDE}
    transformers.MobileViTImageProcessor(  # takes BGR
        size={"shortest_edge": SIDE}, crop_size=size, do_flip_channel_order=True
    ).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match=r"MobileViTImageProcessor.* does is not a mean and .*pass normalize="):
        load_model(f"transformers:{tmp_path}")
    assert load_model(f"transformers:{tmp_path}", normalize=None)(images()).shape == (3, 4)


def test_without_a_processor_images_go_in_as_they_are(tmp_path: Path) -> None:
    net = vit()
    net.save_pretrained(tmp_path)
    with pytest.warns(RoadworthyWarning, match="no image processor could be read"):
        model = load_model(f"transformers:{tmp_path}")
    with torch.no_grad():
        torch.testing.assert_close(model(images()), net(images()).logits)


class TestWhatCannotBeRead:
    def test_no_such_folder_and_nothing_downloaded(self, tmp_path: Path) -> None:
        with pytest.raises(ModelError, match="there is no folder '.*nowhere', nor such a model in the local cache"):
            load_model(f"transformers:{tmp_path / 'nowhere'}")
        with pytest.raises(ModelError, match="names no model; write it as 'transformers:runs/vit'"):
            load_model("transformers:")

    def test_pickled_weights(self, saved: Path, tmp_path: Path) -> None:
        (tmp_path / "config.json").write_text((saved / "config.json").read_text())
        torch.save(vit().state_dict(), tmp_path / "pytorch_model.bin")
        with pytest.raises(ModelError, match="it takes a folder with config.json and model.safetensors"):
            load_model(f"transformers:{tmp_path}")

    def test_code_that_comes_with_a_model(self, saved: Path, tmp_path: Path) -> None:
        config = json.loads((saved / "config.json").read_text())
        config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Mine"}}
        (tmp_path / "config.json").write_text(json.dumps(config))
        (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
        with pytest.raises(ModelError, match="the model cannot be read"):
            load_model(f"transformers:{tmp_path}")
        assert not (tmp_path / "ran").exists()

    def test_a_network_without_its_last_layer(self, saved: Path, tmp_path: Path) -> None:
        vit().vit.save_pretrained(tmp_path)
        with pytest.raises(ModelError, match="the weights lack classifier.bias, .*no image classifier"):
            load_model(f"transformers:{tmp_path}")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"classes": 7}, "the model is for 4 classes, not 7; fine-tune"),
            ({"weights": "IMAGENET1K"}, "expected the path of a file, or 'pretrained' to download"),
            ({"normalize": "cifar"}, "expected 'auto', 'imagenet', None"),
        ],
    )
    def test_options(self, saved: Path, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            load_model(f"transformers:{saved}", **options)

    def test_not_installed(self, saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "transformers", None)
        with pytest.raises(MissingExtraError, match=r"needs transformers: pip install 'roadworthy\[transformers\]'"):
            load_model(f"transformers:{saved}")


@pytest.mark.slow
def test_the_command_takes_a_folder(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from roadworthy.cli.app import app

    names = {number: str(number) for number in range(10)}
    network = vit()
    network.config.id2label = names
    network.classifier = torch.nn.Linear(16, 10)
    network.save_pretrained(tmp_path / "vit")
    size = {"height": SIDE, "width": SIDE}
    transformers.ViTImageProcessor(size=size).save_pretrained(tmp_path / "vit")
    line = [
        "road",
        "--model",
        f"transformers:{tmp_path / 'vit'}",
        "--channels",
        "3",
        "--size",
        str(SIDE),
        "--n",
        "12",
    ]
    line += ["--methods", "grad,random", "--intact-check", "warn", "--audit", "off", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "report.html").is_file()


def test_the_data_must_fit(saved: Path, make_data: Callable[..., Any]) -> None:
    with pytest.raises(ModelError, match="takes 3 channels, 'stripes' has 1; load the data with channels=3"):
        load_model(f"transformers:{saved}", make_data(classes=4, channels=1))
    data = make_data(classes=4, channels=3)
    object.__setattr__(data, "classes", ("dog", "cat", "emu", "fox"))
    with pytest.warns(RoadworthyWarning, match="numbers the classes in another order"):
        load_model(f"transformers:{saved}", data)


def test_weights_of_ones_own_and_random_ones(saved: Path, tmp_path: Path) -> None:
    model = load_model(f"transformers:{saved}")
    with torch.no_grad():
        model.body.network.classifier.bias += 1.0
    path = rw.model.save_weights(model, tmp_path / "changed.safetensors")
    again = load_model(f"transformers:{saved}", weights=path)
    with torch.no_grad():
        torch.testing.assert_close(again(images()), model(images()))


@pytest.fixture
def pixels() -> ImageClassifier:
    class Pixels(torch.nn.Module):
        def forward(self, pixel_values: torch.Tensor) -> Any:
            return SimpleNamespace(logits=pixel_values.flatten(1))

    return ImageClassifier(Pixels(), (2, 2), "bilinear", tuple("abcd"))


def test_resizing_takes_the_whole_image_and_is_differentiable(pixels: ImageClassifier) -> None:
    values = torch.arange(16.0).view(1, 1, 4, 4).requires_grad_()
    scores = pixels(values)
    quadrants = torch.nn.functional.interpolate(values, size=(2, 2), mode="bilinear", antialias=True)
    torch.testing.assert_close(scores, quadrants.flatten(1))
    scores.sum().backward()
    assert values.grad is not None
    assert bool((values.grad > 0).all())
    assert pixels(torch.ones(1, 1, 2, 2)).tolist() == [[1.0] * 4]
