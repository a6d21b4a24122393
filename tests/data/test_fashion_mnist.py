"""Fashion-MNIST: our own IDX reader, bounded, plain and compressed; where the files are looked for."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from roadworthy.data import fashion_mnist, load_data
from roadworthy.data.fashion_mnist import DEBIAN, read_idx
from roadworthy.errors import DataError

IMAGES = np.random.default_rng(0).integers(0, 256, (12, 5, 7), dtype=np.uint8)
LABELS = np.arange(12, dtype=np.uint8) % 10


def idx(values: np.ndarray, kind: int = 8) -> bytes:
    header = bytes([0, 0, kind, values.ndim]) + struct.pack(f">{values.ndim}I", *values.shape)
    return header + values.tobytes()


def put(folder: Path, *, end: str = "", joint: str = "-", n: int = 12) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for prefix in ("train", "t10k"):
        for kind, values in (("images", IMAGES[:n]), ("labels", LABELS[:n])):
            data = idx(values)
            path = folder / f"{prefix}-{kind}{joint}idx{values.ndim}-ubyte{end}"
            path.write_bytes(gzip.compress(data) if end else data)
    return folder


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize("joint", ["-", "."])
def test_a_folder_of_idx_files(tmp_path: Path, end: str, joint: str) -> None:
    data = load_data(f"fashion-mnist:{put(tmp_path, end=end, joint=joint)}")
    np.testing.assert_array_equal(data.train.images.numpy()[:, 0], IMAGES.astype(np.float32) / np.float32(255))
    assert data.test.labels.tolist() == LABELS.tolist()
    assert (data.train.ids[3], data.test.ids[3]) == ("train:3", "test:3")
    assert data.classes[0] == "T-shirt/top"
    assert len(data.classes) == 10
    assert torch.equal(data.train[4][0], data.train.images[4])


def test_size_and_channels(tmp_path: Path) -> None:
    data = load_data(f"fashion-mnist:{put(tmp_path)}", size=(5, 7), channels=3)
    assert torch.equal(data.train.images[:, 1], torch.from_numpy(IMAGES / np.float32(255)))
    assert load_data(f"fashion-mnist:{tmp_path}", size=10).train.images.shape == (12, 1, 10, 10)


@pytest.mark.parametrize("end", ["", ".gz"])
@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "starts with , expected 00000803"),
        (idx(IMAGES, kind=13), r"starts with 00000d03, expected 00000803 \(an IDX file of unsigned bytes"),
        (idx(LABELS), "starts with 00000801, expected 00000803"),
        (idx(IMAGES)[:9], r"the header announces the shape \(12,\)"),
        (idx(IMAGES)[:-1], r"is cut off: the header announces 420 values for the shape \(12, 5, 7\)"),
        (idx(IMAGES) + b"\0", "has bytes left over"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, r"shape \(4294967295, 4294967295, 4294967295\), expected at most"),
    ],
)
def test_broken_idx_files(tmp_path: Path, data: bytes, message: str, end: str) -> None:
    path = tmp_path / f"x{end}"
    path.write_bytes(gzip.compress(data) if end else data)
    with pytest.raises(DataError, match=message) as caught:
        read_idx(path, 3)
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize("damage", [lambda b: b[:-20], lambda b: b"\x1f\x8b" + b[9:], lambda b: b[::-1]])
def test_damaged_gzip(tmp_path: Path, damage: Any) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(damage(gzip.compress(idx(IMAGES))))
    with pytest.raises(DataError, match=f"{path}: (cannot be read|starts with|is cut off)"):
        read_idx(path, 3)


def test_no_more_is_decompressed_than_announced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(idx(IMAGES))
        for _ in range(64):
            file.write(bytes(1 << 20))
    taken = []
    real = gzip.GzipFile.read
    monkeypatch.setattr(gzip.GzipFile, "read", lambda self, n=-1: taken.append(n) or real(self, n))
    with pytest.raises(DataError, match="has bytes left over"):
        read_idx(path, 3)
    assert min(taken) >= 0
    assert sum(taken) < 1000


def test_files_that_do_not_belong_together(tmp_path: Path) -> None:
    put(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(LABELS[:5]))
    with pytest.raises(DataError, match="test has 12 images and 5 labels"):
        load_data(f"fashion-mnist:{tmp_path}")
    (tmp_path / "t10k-labels-idx1-ubyte").write_bytes(idx(LABELS + 3))
    with pytest.raises(DataError, match="test has the label 12, expected 0 to 9"):
        load_data(f"fashion-mnist:{tmp_path}")
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(DataError, match="no t10k-labels-idx1-ubyte"):
        load_data(f"fashion-mnist:{tmp_path}")
    with pytest.raises(DataError, match="nothing: no train-images-idx3-ubyte"):
        load_data(f"fashion-mnist:{tmp_path}/nothing")


def test_places_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROADWORTHY_DATA", str(tmp_path / "own"))
    monkeypatch.setattr(fashion_mnist, "DEBIAN", tmp_path / "debian")
    calls: list[str] = []

    def fetched(name: str, arguments: dict[str, Any], otherwise: str) -> None:
        calls.append(name)
        put(tmp_path / "own" / "FashionMNIST" / "raw", n=4)

    monkeypatch.setattr(fashion_mnist, "fetch", fetched)
    assert len(load_data("fashion-mnist").train) == 4
    assert len(load_data("fashion-mnist").train) == 4
    assert calls == ["FashionMNIST"]  # the second time the files are there
    put(tmp_path / "debian", end=".gz", n=6)
    assert len(load_data("fashion-mnist").train) == 6
    assert len(load_data(f"fashion-mnist:{put(tmp_path / 'given', n=8)}").train) == 8
    assert calls == ["FashionMNIST"]


def test_the_real_data_set() -> None:
    if not (DEBIAN / "train-images-idx3-ubyte.gz").is_file():
        pytest.skip("Debian's package dataset-fashion-mnist is not installed")
    data = load_data("fashion-mnist")
    assert (len(data.train), len(data.test), data.train.shape) == (60_000, 10_000, (1, 28, 28))
    assert torch.bincount(data.train.labels).tolist() == [6000] * 10
    assert data.train.take(6).images.shape == (6, 1, 28, 28)
    assert data.mean[0] == pytest.approx(0.2860, abs=0.01)  # of all 60,000; ours is from 5,000
    assert data.std[0] == pytest.approx(0.3530, abs=0.01)
