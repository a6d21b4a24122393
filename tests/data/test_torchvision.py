"""torchvision data sets: names, files that are there, downloads that fail."""

from __future__ import annotations

import struct
import urllib.error
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torchvision import datasets

from roadworthy.data import load_data
from roadworthy.data.torchvision import _KNOWN, data_folder
from roadworthy.errors import DataError, InputError

IMAGES = np.random.default_rng(1).integers(0, 256, (20, 28, 28), dtype=np.uint8)
LABELS = np.arange(20, dtype=np.uint8) % 10


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ROADWORTHY_DATA", str(tmp_path))
    return tmp_path


def no_network(*_: Any, **__: Any) -> None:
    raise urllib.error.URLError("no route\nto host")


def test_files_that_are_there_are_not_downloaded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.MNIST, "download", no_network)
    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True)
    for prefix in ("train", "t10k"):
        for kind, values in (("images-idx3", IMAGES), ("labels-idx1", LABELS)):
            header = bytes([0, 0, 8, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
            (raw / f"{prefix}-{kind}-ubyte").write_bytes(header + values.tobytes())
    data = load_data("torchvision:mnist")
    np.testing.assert_array_equal(data.train.images.numpy()[:, 0], IMAGES.astype(np.float32) / np.float32(255))
    assert data.test.labels.tolist() == LABELS.tolist()
    assert data.classes[1] == "1 - one"
    assert data.test.ids[5] == "test:5"
    assert load_data("torchvision:MNIST", size=14, channels=3).train.shape == (3, 14, 14)


def test_a_failed_download_is_one_line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.MNIST, "download", no_network)
    with pytest.raises(DataError, match=rf"torchvision:MNIST: not below {folder}, and the download failed") as caught:
        load_data("torchvision:MNIST")
    assert "\n" not in str(caught.value)
    assert "no route to host" in str(caught.value)


def test_what_cannot_be_downloaded_says_where_it_belongs(folder: Path) -> None:
    with pytest.raises(DataError, match=f"torchvision:ImageNet: no files below {folder} and no download exists"):
        load_data("torchvision:ImageNet")


class Folders:
    """Stands for the data sets that keep ``_samples`` and take ``split``."""

    def __init__(self, root: str, split: str, download: bool = False) -> None:
        self._samples = [(f"{row}.png", row % 2) for row in range(4 if split == "train" else 2)]
        self.broken = split == "test"

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        if self.broken and index == 1:
            raise OSError("image file is truncated")
        return Image.new("RGB", (5, 3), (255, 0, 0)), self._samples[index][1]


def test_other_forms_of_labels_and_broken_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "GTSRB", Folders)
    data = load_data("torchvision:GTSRB")
    assert data.classes == ("0", "1")
    assert data.train.labels.tolist() == [0, 1, 0, 1]
    assert torch.equal(data.train.images[0, :, 0, 0], torch.tensor([1.0, 0.0, 0.0]))
    with pytest.warns(UserWarning, match="1 of 2 .*torchvision:GTSRB test:1: cannot be decoded: image file is trunc"):
        assert data.test.images.shape == (1, 3, 3, 5)


def test_names() -> None:
    with pytest.raises(InputError, match="Unknown torchvision data set 'CIFAR11'. Did you mean 'CIFAR10"):
        load_data("torchvision:CIFAR11")
    with pytest.raises(InputError, match="Unknown torchvision data set ''"):
        load_data("torchvision:")
    for name in _KNOWN:
        assert hasattr(datasets, name), name


def test_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROADWORTHY_DATA", raising=False)
    assert data_folder() == Path.home() / ".cache" / "roadworthy" / "data"
    monkeypatch.setenv("ROADWORTHY_DATA", "~/elsewhere")
    assert data_folder() == Path.home() / "elsewhere"
