"""Weights in and out: what fits, what does not and why, and nothing that could run code."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from roadworthy.errors import InputError, ModelError
from roadworthy.model import Normalized, load_weights, save_weights
from roadworthy.model.weights import read_weights


def net(channels: int = 3, classes: int = 4, wide: int = 5, deep: bool = False) -> nn.Sequential:
    torch.manual_seed(channels + classes + wide)
    more = [nn.Conv2d(wide, wide, 3, padding=1), nn.ReLU()] if deep else []
    return nn.Sequential(
        nn.Conv2d(channels, wide, 3),
        nn.BatchNorm2d(wide),
        *more,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(wide, classes),
    )


def same(one: nn.Module, other: nn.Module) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(value, theirs[name]) for name, value in one.state_dict().items())


def write(state: Any, path: Path) -> Path:
    torch.save(state, path)
    return path


def test_round_trip(tmp_path: Path) -> None:
    model, other = net(), net()
    with torch.no_grad():
        for value in model.state_dict().values():
            value.copy_(torch.rand(value.shape) * 9)
    assert not same(model, other)
    path = save_weights(model, tmp_path / "deep" / "a.safetensors")
    assert load_weights(other, path) == {}
    assert same(model, other)
    assert os.listdir(path.parent) == ["a.safetensors"]


def test_a_normalised_model_is_stored_bare_with_its_statistics(tmp_path: Path) -> None:
    model = net()
    path = save_weights(Normalized(model, ([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])), tmp_path / "a.safetensors")
    other = net()
    assert load_weights(other, path) == {"pixel_mean": [0.1, 0.2, 0.3], "pixel_std": [0.4, 0.5, 0.6]}
    assert same(model, other)


def test_tied_and_transposed_weights_and_other_dtypes(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    model[1].weight = model[0].weight
    model[0].bias.data = torch.rand(3, 3).t()[0]
    path = save_weights(model.half(), tmp_path / "a.safetensors")
    other = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    load_weights(other, path)
    assert other[1].weight.dtype == torch.float32
    assert torch.equal(other[1].weight, model[0].weight.float())


@pytest.mark.parametrize("ending", [".pt", ".pth", ".bin", ".ckpt"])
@pytest.mark.parametrize(
    "wrap",
    [
        lambda state: state,
        lambda state: {"state_dict": state, "epoch": 3},
        lambda state: {"model": state},
        lambda state: {f"module.{name}": value for name, value in state.items()},
        lambda state: {"state_dict": {f"module._orig_mod.{name}": value for name, value in state.items()}},
        lambda state: {f"body.{name}": value for name, value in state.items()},
        lambda state: {name: value for name, value in state.items() if "num_batches" not in name},
    ],
)
def test_the_forms_that_state_dicts_come_in(tmp_path: Path, wrap: Any, ending: str) -> None:
    model = net()
    other = net().apply(lambda part: part.reset_parameters() if hasattr(part, "reset_parameters") else None)
    load_weights(other, write(wrap(model.state_dict()), tmp_path / f"a{ending}"))
    assert same(model, other)


def test_a_prefix_that_belongs_to_the_model_stays(tmp_path: Path) -> None:
    model = nn.Sequential()
    model.add_module("module", nn.Linear(2, 2))
    path = write(model.state_dict(), tmp_path / "a.pt")
    load_weights(model, path)
    assert list(read_weights(path)[0]) == ["module.weight", "module.bias"]


@pytest.mark.parametrize(
    ("given", "wanted", "message"),
    [
        (
            net(classes=100),
            net(classes=10),
            r"4\.bias has shape \(100,\), the model \(10,\).*file has 100 classes, the model 10; pass classes=100",
        ),
        (net(channels=1), net(), r"0\.weight.*Likely cause: the file takes 1 channels, the model 3"),
        (net(wide=7), net(), "and 4 more shapes differ.*another size of this architecture"),
        (net(deep=True), net(), "the model has no '2.bias', .*another architecture"),
        (
            nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)),
            nn.Sequential(nn.Linear(2, 2)),
            "the model has no '1.bias', ",
        ),
        (net(), net(deep=True), "the file lacks '2.weight', '2.bias'.*another architecture"),
        (nn.Linear(2, 2), net(), r"the file lacks '0\.weight', '0\.bias', '1\.weight' and 5 more; the model has no"),
    ],
)
def test_what_does_not_fit_and_the_likely_cause(
    tmp_path: Path, given: nn.Module, wanted: nn.Module, message: str
) -> None:
    before = {name: value.clone() for name, value in wanted.state_dict().items()}
    with pytest.raises(ModelError, match=message):
        load_weights(wanted, save_weights(given, tmp_path / "a.safetensors"))
    assert all(torch.equal(value, before[name]) for name, value in wanted.state_dict().items())


class Bomb:
    """Writes a file where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return (open, (str(self.path), "w"))


def test_a_pickle_that_runs_code_is_refused(tmp_path: Path) -> None:
    path = write({"state_dict": net().state_dict(), "extra": Bomb(tmp_path / "mark")}, tmp_path / "a.pt")
    with pytest.raises(ModelError, match="Python objects other than tensors.*refused.*save_weights"):
        load_weights(net(), path)
    (tmp_path / "b.pt").write_bytes(pickle.dumps(Bomb(tmp_path / "mark"), protocol=2))
    with pytest.raises(ModelError, match="refused"):
        load_weights(net(), tmp_path / "b.pt")
    assert not (tmp_path / "mark").exists()


def test_a_whole_pickled_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="save its weights alone"):
        load_weights(net(), write(net(), tmp_path / "a.pt"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pt", b"", r"is empty \(0 bytes\)"),
        ("a.pth", b"PK\x03\x04 truncated", "cannot be read"),
        ("a.safetensors", b"", "is empty"),
        ("a.safetensors", b"\xff" * 64, "not a safetensors file"),
        ("a.onnx", b"x", r"'a\.onnx' ends in '\.onnx'; expected \.safetensors"),
    ],
)
def test_files_that_hold_no_weights(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=message):
        load_weights(net(), tmp_path / name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (torch.zeros(3), "holds Tensor, expected a state dict"),
        ({}, "holds dict, expected a state dict"),
        ({"epoch": 3, "lr": 0.1}, "'epoch', 'lr' are not tensors"),
    ],
)
def test_tensors_that_are_no_state_dict(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        load_weights(net(), write(content, tmp_path / "a.pt"))


def test_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"there is no file '.*none\.pt'"):
        load_weights(net(), tmp_path / "none.pt")


def test_other_endings_are_not_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.pt', expected a name that ends in \.safetensors"):
        save_weights(net(), tmp_path / "a.pt")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_weights(net(), tmp_path / "a.safetensors")
    before = path.read_bytes()

    def full(*_: Any) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space"):
        save_weights(net(classes=9), path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]
