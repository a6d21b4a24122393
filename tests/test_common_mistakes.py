"""The mistakes of a first hour, each really made: what came, what was expected and the way out stand in one line.

Through the library where it is met there, through the command where it is met there; nothing of the user's is lost.
"""

# ruff: noqa: E501  messages are quoted as they stand
from __future__ import annotations

import errno
import json
import os
import re
import resource
import sys
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import roadworthy as rw
from roadworthy.cli import main
from roadworthy.errors import MissingExtraError, ModelError, RoadworthyError

IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
NETS = '''
import torch

class Halves(torch.nn.Module):
    """Two classes: the brighter half."""
    def __init__(self, flip=False):
        super().__init__()
        self.flip, self.scale = flip, torch.nn.Parameter(torch.tensor(20.0))
    def forward(self, x):
        w = x.shape[3] // 2
        s = self.scale * torch.stack([x[..., :w].mean((1, 2, 3)), x[..., w:].mean((1, 2, 3))], 1)
        return s.flip(1) if self.flip else s

def halves(): return Halves()
def flipped(): return Halves(True)
def soft(): return torch.nn.Sequential(Halves(), torch.nn.Softmax(1))
def pair(): return lambda x: (Halves()(x), x)
def a_class(): return Halves
def needs(size): return Halves()
'''


def said(work: Callable[[], Any]) -> str:
    """Return the one line of an error, or the warnings of what works, one a line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            work()
        except RoadworthyError as error:
            text = str(error)
            assert "\n" not in text, text
            return text
    return "\n".join(str(one.message) for one in caught if issubclass(one.category, rw.errors.RoadworthyWarning))


def picture(
    path: Path, seed: int = 0, *, size: tuple[int, int] = (8, 8), bright: str = "", mode: str = "RGB"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    values = np.random.default_rng(seed).integers(0, 60, (size[1], size[0], 3), dtype=np.uint8)
    half = {"left": slice(None, size[0] // 2), "right": slice(size[0] // 2, None)}.get(bright, slice(0, 0))
    values[:, half] += 150
    Image.fromarray(values).convert(mode).save(path)
    return path


def photos(root: Path, classes: tuple[str, ...] = ("cat", "dog"), n: int = 40) -> Path:
    for label, name in enumerate(classes):
        for row in range(n):
            picture(root / name / f"{row}.png", row, bright=("left", "right")[label % 2])
    return root


def convolution(channels: int = 3, classes: int = 4) -> nn.Module:
    torch.manual_seed(0)
    pooled = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, classes))
    return nn.Sequential(nn.Conv2d(channels, 8, 3, padding=1), nn.ReLU(), *pooled).eval()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ROADWORTHY_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="session")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return photos(tmp_path_factory.mktemp("photos") / "pets")


@pytest.fixture
def command(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs the command: (exit code, standard output, standard error)."""
    (here / "my_pets_nets.py").write_text(NETS)
    monkeypatch.delitem(sys.modules, "my_pets_nets", raising=False)

    def run(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        text = capsys.readouterr()
        return int(stop.value.code or 0), text.out, text.err

    return run


@pytest.fixture
def refused(command):
    """Return a function that runs the command, which must fail in one line without a traceback, and returns it."""

    def run(*arguments: str) -> str:
        code, out, err = command(*arguments)
        lines = [line for line in err.splitlines() if line.startswith("error: ")]
        assert (code, len(lines), out) == (2, 1, ""), (code, out, err)
        assert "Traceback" not in err
        return lines[0].removeprefix("error: ")

    return run


def on_pets(pets: Path, *options: str, model: str = "my_pets_nets:halves") -> tuple[str, ...]:
    line = ("road", "--data", f"folder:{pets}", "--model", model, "--audit", "off", "--out", "run", *options)
    defaults = (("--methods", "grad,random"), ("--fractions", ".5"))
    return (*line, *(word for pair in defaults if pair[0] not in options for word in pair))


@pytest.fixture
def ask(q4, q4_data) -> Callable[..., Any]:
    """Return a function that evaluates the quadrant model on 16 right images, but for what is passed otherwise."""
    images, labels = q4_data(n=16)
    given = {"model": q4, "images": images.clamp(0, 1), "labels": labels, "attributions": ["random"]}
    quick = {"strategy": "road", "fractions": (0.5,), "audit": "off", "sheet": 0}

    def evaluate(**changes: Any) -> Any:
        return rw.evaluate(**{**given, **quick, **changes})

    evaluate.images, evaluate.labels, evaluate.model = given["images"], labels, q4  # type: ignore[attr-defined]
    return evaluate


def test_right_use_says_nothing(ask, q4_data) -> None:
    """What follows is of mistakes; this is what none of its warnings may be said of."""
    images, labels = q4_data(n=64)
    assert said(lambda: ask()) == ""
    assert said(lambda: ask(images=images.clamp(0, 1), labels=labels.float()[:, None])) == ""
    assert said(lambda: ask(images=DataLoader(TensorDataset(images.clamp(0, 1), labels), 8), labels=None)) == ""
    assert said(lambda: ask(normalize=IMAGENET)) == ""
    assert said(lambda: ask(model=lambda x: ask.model(x).log_softmax(1))) == ""


# 1 the wrong folder


def test_01_the_wrong_folder(here: Path, refused) -> None:
    photos(here / "pets", n=2)
    photos(here / "above" / "pets", n=1)
    photos(here / "split" / "2020", n=1), photos(here / "split" / "2021", n=1)
    picture(here / "flat" / "train" / "0.png"), picture(here / "flat" / "test" / "0.png")
    (here / "empty").mkdir()
    (here / "heic" / "cat").mkdir(parents=True)
    (here / "heic" / "cat" / "0.heic").write_bytes(b"x")
    zipfile.ZipFile(here / "pets.zip", "w").close()
    tarfile.open(here / "pets.tar.gz", "w:gz").close()
    (here / "zipped").mkdir()
    zipfile.ZipFile(here / "zipped" / "cat.zip", "w").close()
    wanted = "expected PATH/<class>/<image>, or PATH/train/<class>/<image> and PATH/test/<class>/<image>"
    for spec, message in {
        "folder:petz": f"petz: no such folder (Did you mean 'pets'?); {wanted}",
        "folder:empty": f"empty: no training images found; {wanted}",
        "folder:pets/cat": "pets/cat: no training images found (2 other files): 2 images lie in it directly, not in "
        f"class folders; it looks like one class: give the folder above, 'pets'; {wanted}",
        "folder:above": "above: one class ('pets') found, expected at least two; the classes seem to lie one level "
        "deeper ('cat', 'dog'): give 'above/pets'",
        "folder:flat": f"flat: 'train' and 'test' hold images and no class folders; {wanted}",
        "folder:pets/cat/0.png": f"pets/cat/0.png: not a folder; {wanted}",
        "folder:pets.zip": f"pets.zip: is an archive: unpack it, and name the folder; {wanted}",
        "folder:pets.tar.gz": f"pets.tar.gz: is an archive: unpack it, and name the folder; {wanted}",
        "folder:zipped": f"zipped: no training images found (1 other files): unpack 'cat.zip' first; {wanted}",
        "folder:": "data: 'folder' needs a path behind the colon: 'folder:PATH'",
        "pets": "data: 'pets' is a path; say what lies there: 'folder:pets', 'parquet:pets' or 'tfrecord:pets'",
    }.items():
        assert said(lambda spec=spec: rw.load_data(spec)) == message
        assert refused("road", "--data", spec) == message
    heic = said(lambda: rw.load_data("folder:heic"))
    assert "no training images found (1 other files): the first is 'cat/0.heic', and images end in .avif .bmp" in heic
    assert said(lambda: rw.load_data("folder:split")) == (
        "split: the classes are '2020', '2021', and each holds the same folders 'cat', 'dog'; if those are the classes, "
        "give 'split/2020', or name the folders train and test"
    )
    for right in ("folder:pets", "folder:pets/", "folder:above/pets"):
        assert said(lambda right=right: rw.load_data(right)) == ""


# 2 one class


def test_02_one_class(here: Path, refused) -> None:
    photos(here / "one", ("cat",), n=2)
    assert refused("road", "--data", "folder:one") == "one: one class ('cat') found, expected at least two"


# 3 labels


def test_03_labels(ask) -> None:
    images, labels = ask.images, ask.labels
    both = torch.tensor([[1, 0, 1, 0]] * 16)
    for given, message in (
        (
            labels + 1,
            "range from 1 to 4, but the model has 4 classes (0 to 3). They look numbered from 1: subtract 1.",
        ),
        (
            ["cat"] * 16,
            "got text ('cat', 'cat', 'cat', ... (16 in all)), expected whole numbers that count the classes",
        ),
        (["cat"] * 16, "[classes.index(name) for name in ...] does, with classes in the model's order"),
        (labels + 0.5, "got 0.5, 1.5, 2.5, ... (16 in all), expected whole numbers"),
        (labels[:-1], "got shape (15,), expected one class per sample, (16,)"),
        (labels - 1, "range from -1 to 2, but the model has 4 classes (0 to 3). Negative labels often mark missing"),
        (
            nn.functional.one_hot(labels),
            "got shape (16, 4), expected one class per sample, (16,); of one-hot labels tak",
        ),
        (
            both,
            "got shape (16, 4), expected one class per sample, (16,); of one-hot labels take their argmax(1), of seve",
        ),
    ):
        assert message in said(lambda given=given: ask(labels=given))
    lacking = labels < 3
    assert "100% of the answers equal the label - 1 (modulo 4): labels look shifted by one; subtract 1" in said(
        lambda: ask(images=images[lacking], labels=(labels + 1)[lacking])
    )


# 4 pixel units


def test_04_units_and_normalisation(ask, command, pets: Path) -> None:
    images = ask.images
    mean, std = (torch.tensor(part).view(1, 3, 1, 1) for part in IMAGENET)
    normalised = (images - mean) / std
    apart = "removal and noise work in pixel units: "
    for changes, message in (
        (
            {"images": (images * 255).byte()},
            "got torch.uint8 values up to 254, expected floats in [0, 1]; divide 8-bit",
        ),
        ({"images": images * 255}, f"images range from 0.01 to 254.99, expected [0, 1]; {apart}divide by 255"),
        (
            {"images": normalised},
            f"range from -2.12 to 2.64, expected [0, 1]; {apart}pass normalized=(mean, std) if they",
        ),
        (
            {"images": normalised, "normalize": IMAGENET},
            "look normalised already, and normalize= does it again; pass n",
        ),
        (
            {"normalize": ((123.0, 116.0, 103.0), (58.0, 57.0, 57.0))},
            "mean is [123.0, 116.0, 103.0], which is of pixels from 0 to 255, but the images range from 0.00 to 1.00; "
            "divide mean and std by 255",
        ),
        (
            {"model": rw.load_model(convolution(), normalize="imagenet"), "normalize": IMAGENET},
            "the model normalises its images itself (mean [0.485, 0.456, 0.406]), so they would be normalised twice; "
            "leave normalize= out, or load the model with normalize=None",
        ),
    ):
        assert message in said(lambda changes=changes: ask(**changes))
    assert said(lambda: ask(images=normalised, normalized=IMAGENET)) == ""
    code, _, err = command(*on_pets(pets, "--normalize", "123,116,103/58,57,57"))
    assert code == 2
    assert "divide mean and std by 255" in err


# 5 axes


def test_05_axes_and_channels(ask, refused, pets: Path) -> None:
    images, labels, rgb, grey = ask.images, ask.labels, convolution(3), convolution(1)
    last = images.permute(0, 2, 3, 1)
    for changes, message in (
        ({"model": rgb, "images": last}, "(16, 16, 16, 3) (NCHW, torch.float32, cpu): "),
        (
            {"model": rgb, "images": last},
            "images look channels last: pass layout='NHWC', or images.permute(0, 3, 1, 2)",
        ),
        (
            {"images": last, "intact_check": "warn"},
            "images of shape (16, 16, 3) are taken for 16 channels; if they are",
        ),
        (
            {"model": rgb, "images": images[:, :1]},
            "The model takes 3 channels, the images have 1: load the data with chan",
        ),
        ({"model": rgb, "images": images[:, :1]}, "or repeat the grey channel, images.expand(-1, 3, -1, -1)"),
        ({"model": grey}, "takes 1 channel, the images have 3: load the data with channels=1 (--channels 1)"),
        ({"model": grey, "images": images[:, 0]}, "The images have no channel axis: give them one, images[:, None]"),
        (
            {"model": rgb, "images": images[0], "labels": [0]},
            "got one image of shape (3, 16, 16); give it and its label",
        ),
        (
            {"model": rgb, "images": images[0], "labels": None},
            "This looks like one image: give it a batch axis, images[N",
        ),
        (
            {"images": list(images)},
            "got a list of 16 arrays, the first of shape (3, 16, 16); make one of them, torch.stack",
        ),
        (
            {"images": ["a.png"], "labels": [0]},
            "got a list of 1 paths; expected floats (N, C, H, W) in [0, 1]; load_data(",
        ),
        (
            {"images": "pets", "labels": None},
            "got the text 'pets'; pictures are read by load_data('folder:pets').test",
        ),
        (
            {"images": rw.load_data("digits"), "labels": None},
            "got a Data; pass one of its splits, data.test or data.train",
        ),
        ({"images": ask.model}, "got Q4, a model; the order is evaluate(model, images, labels, attributions)"),
        ({"images": labels, "labels": images}, "got shape (16,), expected (N, C, H, W) or (N, features)"),
    ):
        assert message in said(lambda changes=changes: ask(**changes)), message
    message = refused(*on_pets(pets, "--channels", "1", model="torchvision:resnet18"))
    assert "takes 3 channels, 'folder:" in message
    assert "has 1; load the data with channels=3 (--channels 3)" in message


# 6 size


def test_06_too_large_for_memory_or_disk(ask, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("roadworthy.evaluation.checks.free_memory", lambda: 100_000)
    assert said(lambda: ask(max_batch=64)) == (
        "images: 32 copies of shape (3, 16, 16) in one pass take 0.2 MB before the model's own needs, and 0.1 MB are "
        "free; pass max_batch=4 (--max-batch 4), or smaller images (--size)"
    )
    assert said(lambda: ask(max_batch=4)) == ""
    monkeypatch.setattr("roadworthy.evaluation.checks.free_memory", lambda: None)
    assert said(lambda: ask(max_batch=64)) == ""
    monkeypatch.setattr("shutil.disk_usage", lambda _: type("Usage", (), {"free": 1_000_000})())
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 64 * 64, 2))
    told = said(
        lambda: rw.attribution.attribute_to_store(
            model, torch.rand(40, 3, 64, 64), ["grad", "ixg"], tmp_path / "m.zarr"
        )
    )
    assert "maps of 40 samples x 2 methods take up to 3.9 MB, less what compression saves, and " in told
    assert "has 1.0 MB free; take fewer samples (--n) or methods" in told


# 7 no space, no right to write


@pytest.fixture
def limited() -> Iterator[Callable[[int], None]]:
    """Return a function that lets files grow to so many bytes, -1 for any; the limit is gone after the test."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda size: resource.setrlimit(resource.RLIMIT_FSIZE, (before[0] if size < 0 else size, before[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize(
    "sizes",
    [(10, 300, 4000), pytest.param((10, 300, 1500, 4000, 12_000, 100_000), marks=pytest.mark.slow)],
    ids=["maps", "maps, blocks, tables, pictures, page"],
)
def test_07_a_full_disk_and_the_same_command_goes_on(command, limited, pets: Path, here: Path, sizes: Any) -> None:
    kept: set[str] = set()
    for size in sizes:
        limited(size)
        code, out, err = command(*on_pets(pets, "--json"))
        limited(-1)
        assert (code, out) == (2, "")
        assert "File too large; make room and give the same command again: what is finished is kept" in err
        assert "Traceback" not in err
        found = {path.name for path in (here / "run").rglob("*") if path.is_file() and not path.name.startswith(".")}
        assert kept <= found
        kept = found
    if len(sizes) > 3:
        assert {"result.json", "per_sample.parquet"} <= kept
        again, whole = (json.loads(command(*on_pets(pets, "--json", "--out", name))[1]) for name in ("run", "whole"))
        assert again["ranking"] == whole["ranking"]
    else:
        assert len(rw.attribution.open_maps("run/maps.zarr")["grad"]) > 8


def test_07_a_full_disk_under_maps_alone(command, limited, pets: Path) -> None:
    line = (
        "attribute",
        "--data",
        f"folder:{pets}",
        "--model",
        "my_pets_nets:halves",
        "--methods",
        "grad",
        "--n",
        "8",
    )
    limited(300)
    code, _, err = command(*line)
    limited(-1)
    assert (code, "make room and give the same command again" in err) == (2, True)
    assert command(*line)[0] == 0
    assert len(rw.attribution.open_maps("maps.zarr")["grad"]) == 8


@pytest.mark.slow
def test_07_a_full_disk_under_a_sweep(command, limited, pets: Path) -> None:
    line = ("roar", "--data", f"folder:{pets}", "--model", "small-cnn", "--recipe", "small", "--methods", "random")
    line = (*line, "--fractions", ".5", "--set", "recipe.epochs=1", "--engine", "serial", "--out", "sweep", "--json")
    for size in (50, 3000):
        limited(size)
        code, _, err = command(*line)
        limited(-1)
        assert (code, "Traceback" in err) == (2, False)
        assert "make room" in err.lower()
    assert command(*line)[0] == 0


@pytest.mark.parametrize(
    ("number", "way_out"),
    [
        (errno.ENOSPC, "make room and give the same command again: what is finished is kept"),
        (errno.EDQUOT, "make room and give the same command again: what is finished is kept"),
        (errno.EROFS, "see to the rights there, or name another folder with --out"),
        (errno.EACCES, "see to the rights there, or name another folder with --out"),
    ],
)
def test_07_what_the_system_refuses(refused, pets: Path, monkeypatch, number: int, way_out: str) -> None:
    def no(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number), "run/blocks")

    monkeypatch.setattr("roadworthy.evaluation.blocks.BlockStore.__init__", no)
    message = refused(*on_pets(pets))
    assert message == f"[Errno {number}] {os.strerror(number)}: 'run/blocks'; {way_out}"
    assert len(rw.attribution.open_maps("run/maps.zarr")["grad"]) > 8, "the maps that were made are there"


# 8 weights


def small_net(classes: int = 4) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return rw.load_model("torchvision:squeezenet1_1", classes=classes, normalize=None)


def test_08_the_wrong_weights(here: Path, refused, pets: Path) -> None:
    state = small_net(2).state_dict()
    torch.save(state, "pets.pt")
    torch.save(state, "renamed.safetensors")
    torch.save(small_net(4).state_dict(), "four.pt")
    torch.save({"features.0.weight": torch.zeros(64, 3, 3, 3)}, "other.pt")
    torch.save(nn.Linear(2, 2), "whole.pt")
    torch.save({**{f"model.{name}": value for name, value in state.items()}, "loss.weight": torch.ones(2)}, "lit.pt")
    Path("lfs.safetensors").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5000000\n")
    Path("page.pt").write_text("<!DOCTYPE html><html>")
    Path("empty.pt").touch()
    Path("short.pt").write_bytes(Path("pets.pt").read_bytes()[:5000])
    Path("folder").mkdir()
    torch.save(nn.Linear(2, 2).state_dict(), "folder/last.pt")
    for file, message in {
        "pet.pt": "weights: there is no file 'pet.pt'. Did you mean 'pets.pt'?",
        "folder": "weights: 'folder' is a folder, expected a file; in it lie 'last.pt'",
        "four.pt": "Likely cause: the file has 4 classes, the model 2; pass classes=4 (in Python), or data with a folder for each class",
        "other.pt": "Likely cause: the weights are of another architecture.",
        "whole.pt": "loading those could run code: refused. Where the model is known, save its weights alone: "
        "roadworthy.model.save_weights(model, 'name.safetensors'), or torch.save(model.state_dict(), 'name.pt')",
        "lit.pt": "its names start with 'model.', and beside them are 'loss.weight'. Save the network's own state dict, "
        "such as wrapper.model.state_dict()",
        "lfs.safetensors": "is a Git LFS pointer, not the weights themselves; 'git lfs pull' in its repository fetches",
        "page.pt": "is a web page, so what was downloaded is not the file; download it anew",
        "renamed.safetensors": "is a PyTorch file by its contents; name it .pt",
        "empty.pt": "is empty (0 bytes); copy or download it anew",
        "short.pt": "cannot be read, it may be cut short: copy or download it anew",
    }.items():
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            with pytest.raises(ModelError) as caught:
                rw.load_model("torchvision:squeezenet1_1", classes=2, weights=Path(file))
        assert message in str(caught.value)
    assert "Did you mean 'pets.pt'?" in refused(
        *on_pets(pets, "--weights", "pet.pt", model="torchvision:squeezenet1_1")
    )


@pytest.mark.parametrize("key", ["", "state_dict", "model", "model_state_dict", "net"])
@pytest.mark.parametrize("prefix", ["", "module.", "model.", "_orig_mod.", "module.backbone."])
def test_08_weights_of_a_training_script_are_taken_as_they_come(here: Path, key: str, prefix: str) -> None:
    wanted, found = convolution(), convolution().apply(lambda part: getattr(part, "reset_parameters", int)())
    state = {f"{prefix}{name}": value for name, value in wanted.state_dict().items()}
    torch.save({key: state, "epoch": 3, "optimizer": {"state": {}}} if key else state, "last.pth.tar")
    rw.model.load_weights(found, "last.pth.tar")
    assert all(torch.equal(found.state_dict()[name], value) for name, value in wanted.state_dict().items())


# 9 modes


def test_09_training_mode_and_no_gradients(ask) -> None:
    model = convolution().train()
    dropout = nn.Sequential(nn.Dropout(0.5), model)
    with torch.no_grad():
        assert said(lambda: ask(attributions=["grad"])) == ""
    twice = [ask(model=dropout, intact_check="warn").scores.logit for _ in range(2)]
    assert (twice[0] == twice[1]).all(), "dropout was off"
    assert dropout.training
    assert model.training
    with torch.inference_mode():
        inside = said(lambda: ask(attributions=["grad"]))
        made_inside = convolution()
    assert "called inside torch.inference_mode(), where no gradient can be computed; call it outside" in inside
    assert "parameter '0.weight' was made inside torch.inference_mode()" in said(
        lambda: ask(model=made_inside, attributions=["grad"], intact_check="warn")
    )
    cut = said(lambda: ask(model=lambda x: ask.model(x).detach(), attributions=["ig"]))
    assert (
        "The model's scores carry no gradient with respect to the images (does its forward run under no_grad" in cut
    )
    assert "Methods that only ask for scores work: 'occlusion'" in cut


# 10 names


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"attributions": ["gradcm"]}, "Unknown attribution method 'gradcm'. Did you mean 'gradcam'? Known: center,"),
        (
            {"attributions": ["IntegratedGradients"]},
            "method 'IntegratedGradients'. Did you mean 'ig'? Known: center,",
        ),
        ({"attributions": ["Saliency"]}, "Unknown attribution method 'Saliency'. Did you mean 'grad'?"),
        ({"attributions": ["smooth_grad"]}, "Unknown attribution method 'smooth_grad'. Did you mean 'grad-sg'?"),
        (
            {"attributions": "ig,grad"},
            "method 'ig,grad'. Give each name by itself: 'ig', 'grad' (for the command ig,grad",
        ),
        (
            {"attributions": {"mine": ["ig", "grad"]}},
            "a list of methods stands by itself, attributions=['ig', 'grad'], no",
        ),
        (
            {"attributions": {"mine": "maps.npy"}},
            "opened first, attributions=roadworthy.attribution.open_maps('maps.npy'",
        ),
        ({"attributions": {"mine": Path("maps.npy")}}, "attributions=roadworthy.attribution.open_maps('maps.npy')"),
        ({"attributions": {"mine": 3}}, "attributions: 'mine' is a int; expected a method name, a callable"),
        (
            {"strategy": "raod"},
            "Unknown strategy 'raod'. Did you mean 'road'? Known: deletion, f-fidelity, insertion,",
        ),
        ({"imputer": "noisy_linear"}, "Unknown imputer 'noisy_linear'. Did you mean 'noisy-linear'? Known: blur,"),
        ({"order": "MoRF"}, "order: got 'MoRF', expected one of 'morf', 'lerf', 'both'"),
        ({"target": "predict"}, "target: got 'predict', expected 'predicted', 'label', or one class per sample"),
        (
            {"settings": "rood"},
            "Unknown settings 'rood'. Did you mean 'road'? Known: road, road-code, roar, roar-code.",
        ),
    ],
)
def test_10_names_misspelt(ask, changes: dict[str, Any], message: str) -> None:
    assert message in said(lambda: ask(**changes))


def test_10_names_misspelt_in_front(here: Path) -> None:
    assert "Unknown data source 'digitz'. Did you mean 'digits'?" in said(lambda: rw.load_data("digitz"))
    assert "Unknown data source 'cifar-10'. Did you mean 'torchvision:CIFAR10'?" in said(
        lambda: rw.load_data("cifar-10")
    )
    assert "Unknown model 'resnet50'. Did you mean 'torchvision:resnet50'?" in said(lambda: rw.load_model("resnet50"))
    assert "'resnet5'. Did you mean 'resnet50'?" in said(lambda: rw.load_model("torchvision:resnet5"))
    with pytest.raises(AttributeError, match=r"no attribute 'evaluat'. Did you mean 'evaluate'\?"):
        rw.evaluat  # noqa: B018


def test_10_names_misspelt_in_the_command(refused, pets: Path) -> None:
    for given, message in {
        "ig grad": "'ig grad'. Give each name by itself: 'ig', 'grad' (for the command ig,grad). Known: ",
        "ig;grad": "'ig;grad'. Give each name by itself: 'ig', 'grad' (for the command ig,grad). Known: ",
        "ig,,grad": "--methods: got 'ig,,grad', expected names separated by commas",
        "ig,gradcm": "Unknown attribution method 'gradcm'. Did you mean 'gradcam'?",
        "ig,mine=none.npy": "none.npy does not exist",
        "ig,ig": "--methods: 'ig' is named twice",
        "nets:mine": "--methods: got 'nets:mine', expected a method by name, inverse:NAME, or saved maps as in mine=maps",
    }.items():
        assert message in refused(*on_pets(pets, "--methods", given))
    split = refused(*on_pets(pets, "--methods", "ig", "random"))
    assert split == (
        "Got unexpected extra argument(s) (random) (every value follows its option, as in --data folder:PATH, and "
        "lists have commas, as in --methods ig,grad; --help lists what is known)"
    )
    assert "No such command 'raod'. Did you mean 'road'?" in refused("raod")
    assert "No such option: --method (Possible options: --methods" in refused("road", "--method", "ig")


# 11 what comes out of the model: not logits


def test_11_probabilities_in_place_of_logits(ask, command, pets: Path) -> None:
    twice = (
        "and a softmax is taken of them again: the recorded probabilities are too even, and gradients are those of th"
    )
    plain = ask().table["probability"].to_numpy()
    for last, way_out in (
        (nn.Softmax(1), "(every row lies in [0, 1] and adds up to 1)"),
        (nn.Sigmoid(), "(all lie in [0, 1] and come from a Sigmoid)"),
    ):
        model = nn.Sequential(ask.model, last)
        message = said(lambda model=model: ask(model=model))
        assert f"the model's class scores look like probabilities {way_out}, {twice}" in message
        assert ask(model=model).warnings == [message]
    undone = ask(model=nn.Sequential(ask.model, nn.Softmax(1)), output=lambda p: p.clamp_min(1e-12).log())
    assert undone.warnings == []
    np.testing.assert_allclose(undone.table["probability"], plain, atol=1e-5)
    assert ask(model=nn.Sequential(ask.model, nn.LogSoftmax(1))).warnings == [], (
        "softmax of log-softmax is the softmax"
    )
    _, _, err = command(
        *on_pets(pets, "--methods", "gradcam", model="my_pets_nets:soft")
    )  # has none, but is told first
    assert "warning: the model's class scores look like probabilities" in err
    one = "expected (N, classes) with at least two classes. Pass output= a callable that brings them to that form; for two"
    for single in (lambda x: ask.model(x)[:, :1], lambda x: ask.model(x)[:, 0]):
        assert one in said(lambda single=single: ask(model=single))
    assert "for a score at every position lambda s: s.flatten(2).mean(2)" in said(
        lambda: ask(model=nn.Conv2d(3, 4, 1))
    )
    right = ask(
        model=lambda x: 20 * (x[:, :, :, 8:] - x[:, :, :, :8]).mean((1, 2, 3)),
        labels=ask.labels % 2,
        output=lambda s: torch.stack([0 * s.flatten(), s.flatten()], 1),
    )
    assert right.intact_accuracy == 1


# 12 a tuple or a mapping


def test_12_a_model_that_returns_more(ask, refused, pets: Path) -> None:
    more = "Pass output= a position, a key or a callable that picks the class scores, or a model that returns these alone."
    for model, came in (
        (lambda x: (ask.model(x), x), "a tuple of 2: a tensor (16, 4), a tensor (16, 3, 16, 16)"),
        (lambda x: {"scores": ask.model(x), "x": x}, "a dict with keys ['scores', 'x']"),
        (lambda x: None, "an object of type NoneType"),
    ):
        message = said(lambda model=model: ask(model=model))
        assert message == (
            f"The model returned {came}; expected a tensor (N, classes), or a mapping or object with 'logits'. {more}"
        )
    assert said(lambda: ask(model=lambda x: (ask.model(x), x), output=0)) == ""
    assert "output='score' finds nothing in what the model returned: a dict with keys ['scores']" in said(
        lambda: ask(model=lambda x: {"scores": ask.model(x)}, output="score")
    )
    assert more in refused(*on_pets(pets, model="my_pets_nets:pair"))


# 13 devices


@pytest.mark.skipif(torch.cuda.is_available(), reason="the mistake is to ask for what is not there")
def test_13_devices(ask, refused, pets: Path) -> None:
    for device, message in {
        "cuda": "device='cuda', but no CUDA device is available here; use 'cpu'",
        "gpu": "device: got 'gpu', expected a device such as 'cpu' or 'cuda:0'",
    }.items():
        assert said(lambda device=device: ask(device=device)) == message
        assert said(lambda device=device: rw.load_model("torchvision:resnet18", device=device)) == message
        told = refused(*on_pets(pets, "--device", device))
        assert told.startswith(f"--device: '{device}' cannot be used here (")
        assert told.endswith("); leave it out, or name cpu")
        assert len(told) < 300
    assert said(lambda: ask(model=convolution(), device="cuda")) == (
        "device='cuda', but the model is on 'cpu'; move it with model.to(...) first"
    )


# 14 maps


def test_14_maps_of_another_form(ask, refused, pets: Path, here: Path) -> None:
    draw = np.random.default_rng(0).random
    broken = draw((16, 16, 16))
    broken[3, 0, 0] = np.nan
    for maps, message in (
        (
            draw((16, 8, 8)),
            "m: maps have shape (8, 8), the inputs (3, 16, 16); expected (3, 16, 16) or (16, 16). Resize",
        ),
        (
            draw((16, 16, 16, 3)),
            "maps have shape (16, 16, 3), the inputs (3, 16, 16); expected (3, 16, 16) or (16, 16). T",
        ),
        (draw((16, 16, 16, 3)), "The maps look channels last: move the last axis to the front."),
        (draw((15, 16, 16)), "m: 15 maps for 16 samples; give one map per sample, in their order"),
        (
            broken,
            "maps with NaN or infinite values, samples by method: m: '3'. Mend the maps, or pass nonfinite='drop'",
        ),
        (np.ones((16, 16, 16)), "m: 16 of 16 maps are constant, removed in random order"),
    ):
        assert message in said(lambda maps=maps: ask(attributions={"m": maps}))
    tall = said(lambda: ask(images=ask.images[..., :12], attributions={"m": draw((16, 12, 16))}, intact_check="warn"))
    assert "Height and width look swapped: transpose the last two axes." in tall
    assert (
        "got ndarray; expected method names, or a mapping of names to method names, callables or arrays, such as {"
        in (said(lambda: ask(attributions=draw((16, 16, 16)), mean=[0.5])))
    )
    np.save("mine.npy", draw((3, 8, 8)))
    assert "m: 3 maps for 1" in refused(*on_pets(pets, "--methods", "m=mine.npy"))


# 15 the order of the classes


def test_15_labels_in_another_class_order(q4, q4_data, refused, pets: Path) -> None:
    images, labels = q4_data(n=64)
    images = images.clamp(0, 1)
    quick = {"attributions": ["random"], "strategy": "road", "fractions": (0.5,), "audit": "off", "imputer": "zero"}

    def evaluated(labels: torch.Tensor, model: Any = q4) -> Callable[[], Any]:
        return lambda: rw.evaluate(model, images, labels, **quick)

    order = torch.tensor([2, 0, 3, 1])  # no shift: folders by name against another order in training
    assert said(evaluated(order[labels])) == (
        "intact accuracy is 0.00 (n = 64), but 100% of the answers follow from the labels if classes are renamed (label "
        "0 as 1, 1 as 3, 2 as 0, 3 as 2): labels and model seem to number the classes in different orders, for instance "
        "folders by name and the model as it was trained. Bring the labels into the model's order; for a folder list the "
        "names in that order in classes.json"
    )
    places = torch.tensor([217, 482, 491, 701])  # four folders, a network of 1000 classes

    def thousand(x: torch.Tensor) -> torch.Tensor:
        return torch.full((len(x), 1000), -9.0).index_copy(1, places, q4(x))

    assert "(label 0 as 217, 1 as 482, 2 as 491, 3 as 701)" in said(evaluated(labels, thousand))
    assert said(evaluated(places[labels], thousand)) == ""
    half = said(evaluated(torch.tensor([1, 0, 2, 3])[labels]))
    assert (
        "intact accuracy is 0.50 (n = 64); 100% of the answers follow from the labels if classes are renamed (label"
        in half
    )
    assert "(label 0 as 1, 1 as 0)" in half
    weak = labels.clone()
    weak[torch.from_numpy(np.random.default_rng(0).permutation(64)[:28])] = 0
    assert "renamed" not in said(evaluated(weak)), "a weak model is no other order"
    swapped = refused(*on_pets(pets, model="my_pets_nets:flipped"))
    assert (
        "100% of the answers equal the other label: the two labels look swapped; pass 1 - labels, or bring the"
        in swapped
    )


@pytest.mark.parametrize("classes", [2, 5, 10, 100])
def test_15_a_renaming_is_not_found_where_there_is_none(classes: int) -> None:
    draws = np.random.default_rng(classes)
    for accuracy in (1 / classes, 0.3, 0.6, 0.9):
        for _ in range(20):
            labels = draws.integers(0, classes, 200)
            predicted = np.where(draws.random(200) < accuracy, labels, draws.integers(0, classes, 200))
            assert rw.evaluation.class_order.class_order(labels, predicted) is None


# 16 tables and token ids


def test_16_tables_and_token_ids() -> None:
    table = torch.rand(40, 6, generator=torch.Generator().manual_seed(0))
    linear, embedding = nn.Linear(6, 2), nn.Sequential(nn.Embedding(50, 4), nn.Flatten(), nn.Linear(48, 2))
    tokens = torch.randint(1, 50, (40, 12), generator=torch.Generator().manual_seed(0))
    quick = {"fractions": (0.5,), "audit": "off", "intact_check": "warn"}
    of_table = said(lambda: rw.evaluate(linear, table, linear(table).argmax(1), ["ig"], **quick))
    assert (
        "noisy-linear: input of shape (40, 6) is a table or a batch of token ids, whose entries have no neigh"
        in of_table
    )
    assert "Use imputer='mean' or 'zero' or a callable for a table, MaskToken(id) for token ids" in of_table
    answers = embedding(tokens).argmax(1)
    assert said(lambda: rw.evaluate(embedding, tokens, answers, ["ig"], **quick)) == (
        "imputer 'mean': token ids have no mean; pass imputer=roadworthy.imputation.MaskToken(id)"
    )
    mask = rw.imputation.MaskToken(0)
    assert (
        "'ig' has no meaning for tokens (N,T): it needs gradients with respect to real numbers; use 'random'"
        in said(lambda: rw.evaluate(embedding, tokens, answers, ["ig"], imputer=mask, **quick))
    )
    assert "Token ids must be integers: pass images.long()" in said(
        lambda: rw.evaluate(embedding, tokens.float(), answers, {"m": np.ones((40, 12))}, imputer=mask, **quick)
    )
    assert (
        "'gradcam' has no meaning for tables (N,F): it looks at the feature maps of a two-dimensional conv"
        in said(lambda: rw.evaluate(linear, table, linear(table).argmax(1), ["gradcam"], imputer="zero", **quick))
    )


# 17 numbers


def test_17_numbers_out_of_range(ask, refused, command, pets: Path) -> None:
    for fractions, message in (
        (
            (10, 30, 50),
            "got [10.0, 30.0, 50.0], expected shares removed between 0 and 1. They look like percentages: div",
        ),
        ((0.1, 1.2), "fractions: got [1.2], expected shares removed between 0 and 1."),
        ((-0.1, 0.5), "fractions: got [-0.1], expected shares removed between 0 and 1."),
        ((0,), "fractions: got only 0, which is always evaluated; expected at least one share in (0, 1]"),
        (0.5, "fractions: got 0.5, expected shares removed such as (.1, .3, .5)"),
    ):
        assert message in said(lambda fractions=fractions: ask(fractions=fractions))
    assert ask(fractions=(0.5, 0, 0.1, 0.5)).fractions == [0.0, 0.1, 0.5], "sorted, once each, with 0 in front"
    assert "They look like percentages: divide by 100." in refused(*on_pets(pets, "--fractions", "10,30"))
    assert refused(*on_pets(pets, "--fractions", ".1 .3")) == (
        "--fractions: got '.1 .3', expected numbers separated by commas, such as .1,.3,.5"
    )
    assert said(lambda: ask(images=ask.images[:1], labels=ask.labels[:1])) == (
        "intact accuracy is 1.00 (n = 1), not clearly above chance 0.25 for 4 classes: so few samples show nothing; take "
        "more"
    )
    code, _, err = command(
        *(
            "attribute",
            "--data",
            f"folder:{pets}",
            "--model",
            "my_pets_nets:halves",
            "--methods",
            "random",
            "--n",
            "1000",
        )
    )
    assert code == 0
    samples = len(rw.attribution.open_maps("maps.zarr")["random"])
    assert f"warning: --n 1000 was asked for, folder:{pets} has {samples} test samples: all are used" in err
    assert "Invalid value for '--n'" in refused("road", "--n", "0")


# 18 a folder that holds another run


def test_18_a_folder_that_holds_another_run(command, refused, pets: Path, here: Path) -> None:
    assert command(*on_pets(pets))[0] == 0
    before = {path: path.read_bytes() for path in (here / "run").rglob("*") if path.is_file()}
    other = refused(*on_pets(pets, "--fractions", ".3"))
    assert other == (
        "run/blocks holds a run with other settings (fractions is [0.5] there and [0.3] here); give those again, choose "
        "another folder (--out), or delete this one"
    )
    seed = refused(*on_pets(pets, "--seed", "1"))
    assert "seed is 0 there and 1 here. Choose another path, or delete this folder" in seed
    (here / "file").write_text("mine")
    assert refused(*on_pets(pets, "--out", "file")) == "--out: file is a file, expected a folder"
    assert (here / "file").read_text() == "mine"
    assert {path: path.read_bytes() for path in before} == before, "nothing of the first run was touched"


# 19 factories


def test_19_factories(refused, pets: Path, here: Path) -> None:
    for model, message in {
        "my_pets_nets:needs": "calling it without arguments failed: TypeError: needs() missing 1 required positional "
        "argument: 'size'; name a function that takes none and passes them on",
        "my_pets_nets:a_class": "'my_pets_nets:a_class' returned the class Halves; let it return Halves()",
        "my_pets_nets:halfs": "'my_pets_nets:halfs': my_pets_nets has no 'halfs'. Did you mean 'halves'?",
        "no_such_nets:net": f"there is no module 'no_such_nets', neither installed nor in {str(here)!r}.",
        "my_pets_nets.py:halves": "is the path of a file; name the module from the current folder or an installed "
        "package, with dots and without .py, here 'my_pets_nets:halves'",
        "my_pets_nets": "Unknown model 'my_pets_nets'. Did you mean 'my_pets_nets:FACTORY'?",
        "my_pets_nets.halves": "Unknown model 'my_pets_nets.halves'. Did you mean 'my_pets_nets:halves'?",
    }.items():
        assert message in refused(*on_pets(pets, model=model))


# 20 experiments


def test_20_experiment_files(refused, here: Path) -> None:
    right = "data: digits\nmodel: small-cnn\nrecipe: digits\nmethods: [grad, random]\nfractions: [.5]\n"
    for text, message in (
        (
            right.replace("methods", "metods"),
            "x.yaml: metods: unknown key. Did you mean 'methods'? Known: data, model,",
        ),
        (
            right + "\trepeats: 2\n",
            "line 6, column 1: found character '\\t' that cannot start any token; indent with",
        ),
        (right.replace("fractions: ", "fractions:"), "could not find expected ':'; a space belongs behind the colon"),
        (right.replace("[.5]", "[50]"), "fractions: got [50], expected shares between 0 and 1; these look like perc"),
        (
            right.replace("[grad, random]", "grad, random"),
            "Give each name by itself: 'grad', 'random' (for the command",
        ),
        (right + right, "x.yaml, line 6, column 1: the key 'data' is there twice"),
        (
            right + "strategy: road\n",
            "'road' trains nothing, expected one that retrains such as 'roar'; for this one use",
        ),
    ):
        (here / "x.yaml").write_text(text)
        assert message in refused("run", "x.yaml", "--plan")
    assert refused("run", "x.yml") == "x.yml: there is no such file. Did you mean 'x.yaml'?"
    assert "--strategy: 'roar' retrains; that is 'roadworthy roar --strategy roar'" in refused(
        "road", "--strategy", "roar"
    )


# 21 pictures


def test_21_pictures_of_every_kind(here: Path, refused) -> None:
    photos(here / "broken", n=5)
    (here / "broken" / "cat" / "text.jpg").write_bytes(b"no image")
    (here / "broken" / "cat" / "short.png").write_bytes((here / "broken" / "cat" / "0.png").read_bytes()[:60])
    (here / "broken" / "dog" / "readme.txt").write_text("x")

    def read(spec: str) -> list[tuple[int, ...]]:
        data = rw.load_data(spec)
        return [tuple(batch.images.shape[1:]) for split in (data.train, data.test) for batch in split.batches(8)]

    told = said(lambda: read("folder:broken"))
    assert "broken: 1 files that are no images in a class folder are left out; the first: dog/readme.txt" in told
    assert "samples could not be read and are left out; the first: broken/cat/" in told
    picture(photos(here / "sizes", n=3) / "cat" / "wide.png", size=(12, 8))
    assert "images differ in shape: (3, 8, 8) at sizes/cat/" in said(lambda: read("folder:sizes"))
    assert "pass size=(H, W) (--size HxW) to bring them to one shape" in said(lambda: read("folder:sizes"))
    for mode, ending in (("RGBA", "png"), ("L", "png"), ("CMYK", "jpg"), ("P", "gif"), ("I;16", "png"), ("1", "bmp")):
        photos(here / "modes", n=1)
        Image.new(mode, (8, 8)).save(here / "modes" / "cat" / f"{ending}{len(mode)}.{ending}")
    frames = [Image.new("P", (8, 8), color) for color in (1, 2)]
    frames[0].save(here / "modes" / "dog" / "moves.gif", save_all=True, append_images=frames[1:])
    assert said(lambda: read("folder:modes")) == ""
    assert set(read("folder:modes")) == {(3, 8, 8)}


# 22 paths


def test_22_paths(here: Path, monkeypatch: pytest.MonkeyPatch, refused) -> None:
    monkeypatch.setenv("HOME", str(here))
    photos(here / "pets", n=2)
    for spec in ("folder:~/pets", "folder:pets/", f"folder:{here}/pets/", "folder:./pets"):
        assert rw.load_data(spec).classes == ("cat", "dog")
    way_out = (
        "looks like a path, but nothing lies there; correct it, and say what it is: 'folder:PATH', 'parquet:PATH', "
    )
    for path in ("./petz", "~/petz", "/petz/cat", r"C:\Users\me\petz"):
        assert f"data: {path!r} {way_out}" in refused("road", "--data", path)
    assert said(lambda: rw.load_data(Path("pets"))) == (  # type: ignore[arg-type]
        "data: got PosixPath, expected a specification such as 'digits' or 'folder:PATH', here 'folder:pets'"
    )


# 23 extras


@pytest.mark.parametrize(
    ("module", "work", "extra"),
    [
        ("timm", lambda: rw.load_model("timm:resnet18"), "timm"),
        (
            "cv2",
            lambda: rw.imputation.impute(torch.rand(1, 1, 8, 8), torch.ones(1, 8, 8) > 0, method="telea"),
            "opencv",
        ),
        ("google_crc32c", lambda: rw.load_data("tfrecord:records"), "tfrecord"),
    ],
)
def test_23_missing_extras(here: Path, monkeypatch, module: str, work: Callable[[], Any], extra: str) -> None:
    (here / "records").mkdir()
    (here / "records" / "train-00000-of-00001").write_bytes(b"0" * 64)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError) as caught:
        work()
    assert f"pip install 'roadworthy[{extra}]'" in str(caught.value)


# 24 wrapped and compiled models


@pytest.mark.filterwarnings("ignore:.*deprecated")
def test_24_wrapped_models(ask) -> None:
    class Lightning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = convolution()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

    model = convolution()
    parallel, compiled = nn.DataParallel(model), torch.compile(model, backend="eager")
    scripted = torch.jit.trace(model, torch.rand(1, 3, 16, 16))
    quick: dict[str, Any] = {"attributions": ["grad"], "intact_check": "warn"}
    wanted = ask(model=model, **quick).scores.logit
    for wrapped in (parallel, compiled, scripted, Lightning()):
        np.testing.assert_allclose(ask(model=wrapped, **quick).scores.logit, wanted, atol=1e-5)
    for wrapped, method, message in (
        (parallel, "lrp", "The model is wrapped in DataParallel: pass model.module."),
        (compiled, "gradcam", "The model is wrapped in OptimizedModule: pass model._orig_mod."),
        (scripted, "gb", "compiled code whose operations cannot be seen. Pass the model from before compilation."),
    ):
        told = said(lambda w=wrapped, m=method: ask(model=w, attributions=[m], intact_check="warn"))
        assert message in told
        assert len(told) < 500
    for given, message in (
        (Lightning, "model: got the class Lightning; pass an instance of it"),
        (
            "resnet50",
            "got str, expected a torch.nn.Module or a callable; roadworthy.load_model('resnet50') loads a model",
        ),
        (
            model.state_dict(),
            "These look like weights: put them into the network they belong to, with load_state_dict",
        ),
        (None, "model: got NoneType, expected a torch.nn.Module or a callable"),
    ):
        assert message in said(lambda given=given: ask(model=given))


# 25 results


def test_25_what_is_no_result(ask, here: Path, refused) -> None:
    result = ask()
    for given in (result.table, None, ask.model):
        assert said(lambda given=given: rw.report(given, "r.html")) == (
            f"report: got {type(given).__name__}, expected a result (of roadworthy.evaluate or label-free evaluation), or "
            "the folder it was saved in"
        )
    result.save("run")
    assert said(lambda: rw.load_result("run/result.json")) == (
        "run/result.json: is a file, expected the folder it lies in; give 'run'"
    )
    assert said(lambda: rw.load_result(result)) == "load_result: got Result, expected the folder a run wrote"
    assert "nowhere: no result lies here (result.json is missing); give the folder a run" in said(
        lambda: rw.load_result("nowhere")
    )
    assert refused("report", "run/result.json") == "run/result.json: is a file; give the folder it lies in, run"
    assert refused("report", "rum") == "rum: there is no such folder; give the folder of a run or of a sweep"
    assert "readout: got 'accuracy', expected one of top1, top5, probability, logit" in said(
        lambda: result.ranking("accuracy")
    )


# 26 loaders


def test_26_loaders(ask) -> None:
    images, labels = ask.images, ask.labels
    pairs = TensorDataset(images, labels)
    shuffled = DataLoader(pairs, batch_size=4, shuffle=True)
    assert said(lambda: ask(images=shuffled, labels=None, attributions={"m": np.ones((16, 16, 16))})) == (
        "attributions: 'm' is an array, but the DataLoader draws its own order, so its rows cannot be matched; use "
        "shuffle=False"
    )
    assert ask(images=shuffled, labels=None, attributions=["grad"]).intact_accuracy == 1
    hot = TensorDataset(images, nn.functional.one_hot(labels))
    assert "got shape (4, 4), expected one class per sample, (4,); of one-hot labels take their argmax(1)" in said(
        lambda: ask(images=DataLoader(hot, batch_size=4), labels=None)
    )
    assert "labels: a data set brings its own labels; pass labels=None, or images as a tensor" in said(
        lambda: ask(images=pairs)
    )
    assert "the data set yields a dict with keys 'image', 'label', expected pairs (image, label)" in said(
        lambda: ask(images=[{"image": images[0], "label": 0}], labels=None)
    )


# the page


PAGE = Path(__file__).resolve().parents[1] / "docs" / "howto" / "mistakes.md"


def quoted(page: str) -> list[str]:
    """Return the messages in the first column of the page's tables."""
    return re.findall(r"^\| `([^`]+)` \|", page, flags=re.MULTILINE)


def test_the_page_quotes_what_is_said(ask, refused, pets: Path, here: Path) -> None:
    images, labels = ask.images, ask.labels
    photos(here / "above" / "pets", n=2)
    picture(photos(here / "sizes", n=3) / "cat" / "wide.png", size=(12, 8))
    torch.save({"weight": torch.ones(1)}, "other.pt")
    rgb, renamed = convolution(), torch.tensor([2, 0, 3, 1])
    mean, std = (torch.tensor(part).view(1, 3, 1, 1) for part in IMAGENET)
    (here / "run" / "blocks").mkdir(parents=True)
    ask(checkpoint=here / "run" / "blocks")
    mixed = rw.load_data("folder:sizes")
    messages = [
        said(lambda: rw.load_data(f"folder:{pets}/cat")),
        said(lambda: rw.load_data("folder:above")),
        said(lambda: [list(split.batches(8)) for split in (mixed.train, mixed.test)]),
        said(lambda: ask(labels=labels + 1)),
        said(lambda: ask(labels=nn.functional.one_hot(labels))),
        said(lambda: ask(labels=renamed[labels])),
        said(lambda: ask(images=images * 255)),
        said(lambda: ask(images=(images - mean) / std)),
        said(lambda: ask(model=rgb)),
        said(lambda: ask(model=rw.load_model(rgb, normalize="imagenet"), normalize=IMAGENET)),
        said(lambda: ask(model=rgb, images=images.permute(0, 2, 3, 1))),
        said(lambda: ask(model=rgb, images=images[:, :1])),
        said(lambda: ask(model=nn.Sequential(ask.model, nn.Softmax(1)))),
        said(lambda: ask(model=lambda x: (ask.model(x), x))),
        said(lambda: rw.model.load_weights(rgb, "other.pt")),
        said(lambda: ask(attributions=["IntegratedGradients"])),
        said(lambda: ask(fractions=(10, 30))),
        said(lambda: ask(attributions={"m": np.ones((15, 16, 16))})),
        said(lambda: ask(checkpoint=here / "run" / "blocks", fractions=(0.3,))),
        said_of_a_full_disk(refused, pets),
    ]
    shown = quoted(PAGE.read_text(encoding="utf8"))
    assert len(shown) == len(messages) == 20
    for quote, message in zip(shown, messages, strict=True):
        assert re.search(".*".join(map(re.escape, quote.split("…"))), message), f"{quote!r} is not in {message!r}"


def said_of_a_full_disk(refused: Callable[..., str], pets: Path) -> str:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roadworthy.attribution.attribute_to_store", full)
        return refused(*on_pets(pets))
