"""Folders of images: layouts, names, what is left out, splits, mixed channels, broken files."""

from __future__ import annotations

import os
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from roadworthy.data import load_data
from roadworthy.errors import DataError, InputError, RoadworthyWarning


def put(path: Path, value: int | tuple[int, ...] = 90, size: tuple[int, int] = (6, 4), mode: str = "L") -> Path:
    """Write an image of one value; ``size`` is (height, width)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, size[::-1], value).save(path)
    return path


@pytest.fixture
def pool(tmp_path: Path) -> Path:
    """Two classes of 20 grey images, no split; the value of an image is its number."""
    for name in ("cat", "dog"):
        for row in range(20):
            put(tmp_path / name / f"{row}.png", row)
    return tmp_path


def test_a_pool_is_split_by_class_and_stays_split_when_files_are_added(pool: Path) -> None:
    data = load_data(f"folder:{pool}")
    assert data.classes == ("cat", "dog")
    assert data.name == f"folder:{pool}"
    assert sorted(data.train.ids + data.test.ids) == sorted(f"{c}/{i}.png" for c in ("cat", "dog") for i in range(20))
    for split in (data.train, data.test):
        assert len(split) > 2
        for image, label, sample in zip(split.images, split.labels.tolist(), split.ids, strict=True):
            name, file = sample.split("/")
            assert data.classes[label] == name
            torch.testing.assert_close(image, torch.full((1, 6, 4), int(file[:-4]) / 255))
    for row in range(20, 40):
        put(pool / "cat" / f"{row}.png", row)
    more = load_data(f"folder:{pool}")
    assert set(data.test.ids) <= set(more.test.ids)
    assert set(data.train.ids) <= set(more.train.ids)
    assert load_data(f"folder:{pool}", seed=1).test.ids != more.test.ids
    assert len(load_data(f"folder:{pool}", test_share=0.6).test) > len(more.test)


@pytest.mark.parametrize(("train", "test"), [("train", "test"), ("train", "val"), ("Training", "Validation")])
def test_split_folders(tmp_path: Path, train: str, test: str) -> None:
    for name, n in ((train, 3), (test, 2)):
        for label in ("b", "a"):
            for row in range(n):
                put(tmp_path / name / label / f"{row}.png")
    put(tmp_path / "annotations" / "x.png")
    data = load_data(f"folder:{tmp_path}")
    assert data.classes == ("a", "b")
    assert data.train.ids == [f"{train}/{label}/{row}.png" for label in "ab" for row in range(3)]
    assert data.test.ids == [f"{test}/{label}/{row}.png" for label in "ab" for row in range(2)]
    assert data.test.labels.tolist() == [0, 0, 1, 1]


def test_a_test_folder_goes_before_a_validation_folder(tmp_path: Path) -> None:
    for name in ("train", "val", "test"):
        for label in "ab":
            put(tmp_path / name / label / "0.png")
    assert load_data(f"folder:{tmp_path}").test.ids == ["test/a/0.png", "test/b/0.png"]


def test_a_train_folder_alone_is_split(tmp_path: Path) -> None:
    for label in "ab":
        for row in range(5):
            put(tmp_path / "train" / label / f"{row}.png")
    data = load_data(f"folder:{tmp_path}")
    assert len(data.train) + len(data.test) == 10
    assert data.test.ids[0].startswith("train/a/")


@pytest.mark.parametrize("nested", [False, True])
def test_a_class_may_be_called_train(tmp_path: Path, nested: bool) -> None:
    for label in ("bus", "train"):
        for row in range(3):
            put(tmp_path / label / ("2019" if nested else "") / f"{row}.png")
    assert load_data(f"folder:{tmp_path}").classes == ("bus", "train")


def test_nested_hidden_and_other_files(pool: Path) -> None:
    put(pool / "cat" / "deep" / "er" / "UPPER.PNG")
    put(pool / "cat" / ".hidden.png")
    put(pool / "cat" / ".thumbs" / "0.png")
    put(pool / ".git" / "0.png")
    (pool / "cat" / "notes.txt").write_text("x")
    (pool / "dog" / "Thumbs.db").write_text("x")
    put(pool / "stray.png")
    (pool / ".DS_Store").write_text("x")
    message = r"3 files that are no images in a class folder are left out; the first: cat/notes\.txt"
    with pytest.warns(RoadworthyWarning, match=message) as caught:
        data = load_data(f"folder:{pool}")
    assert caught[0].filename == __file__
    ids = data.train.ids + data.test.ids
    assert len(ids) == len(set(ids)) == 41
    assert "cat/deep/er/UPPER.PNG" in ids


def test_links_are_followed_once(pool: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    put(elsewhere / "far.png")
    (pool / "cow").symlink_to(elsewhere)
    (pool / "cat" / "loop").symlink_to(pool / "cat")
    (pool / "cat" / "dangling.png").symlink_to(pool / "no.png")
    os.mkfifo(pool / "cat" / "pipe.png")
    data = load_data(f"folder:{pool}")
    assert data.classes == ("cat", "cow", "dog")
    assert sorted(data.train.ids + data.test.ids).count("cow/far.png") == 1
    assert len(data.train) + len(data.test) == 41


def test_names_of_every_kind(tmp_path: Path) -> None:
    names = ["<script>alert(1)</script>", "größe 100 %", "猫", "a\\b", "x,y:z", "Ω'\""]
    for label in names:
        folder = tmp_path / label.replace("/", "∕")
        for row in range(3):
            put(folder / f"{label.replace('/', '∕')} {row}.png")
    odd = os.fsencode(tmp_path) + b"/\xff\xfe"
    put(Path(os.fsdecode(odd + b"/\xe9.png")))
    data = load_data(f"folder:{tmp_path}")
    ids = data.train.ids + data.test.ids
    assert len(set(ids)) == len(ids) == 19
    assert "\\xff\\xfe/\\xe9.png" in ids
    assert all(sample.encode() for sample in ids)
    assert "猫" in data.classes
    assert data.train.images.shape == (len(data.train), 1, 6, 4)


def test_broken_files_are_named_with_their_path_and_counted(pool: Path) -> None:
    whole = put(pool / "cat" / "photo.jpg", (9, 9, 9), mode="RGB", size=(90, 90)).read_bytes()
    (pool / "cat" / "photo.jpg").write_bytes(whole[: len(whole) // 2])
    (pool / "cat" / "empty.png").write_bytes(b"")
    (pool / "dog" / "text.png").write_text("no image at all")
    data = load_data(f"folder:{pool}", channels=1)
    with pytest.warns(RoadworthyWarning) as caught:
        counts = [sum(len(batch.ids) for batch in split.batches(8)) for split in (data.train, data.test)]
    broken = data.train.broken | data.test.broken
    assert sum(counts) == 40
    assert set(broken) == {"cat/photo.jpg", "cat/empty.png", "dog/text.png"}
    assert all(str(pool / sample) in cause for sample, cause in broken.items())
    assert "0 bytes" in broken["cat/empty.png"]
    assert "runcated" in broken["cat/photo.jpg"]
    assert "not an image" in broken["dog/text.png"]
    assert sum(int(str(w.message).split(" of ")[0].split()[-1]) for w in caught) == 3


@pytest.mark.parametrize(("channels", "expected"), [(None, 3), (1, 1), (3, 3), (4, 4)])
def test_grey_and_colour_mixed(pool: Path, channels: int | None, expected: int) -> None:
    put(pool / "dog" / "colour.png", (250, 10, 10), mode="RGB")
    data = load_data(f"folder:{pool}", channels=channels)
    assert {split.images.shape[1] for split in (data.train, data.test)} == {expected}
    assert len(data.mean) == len(data.std) == expected


def test_transparent_grey_stays_grey(tmp_path: Path) -> None:
    for label in "ab":
        for row in range(3):
            put(tmp_path / label / f"{row}.png", (0, 0), mode="LA")
    data = load_data(f"folder:{tmp_path}")
    assert data.train.shape == (1, 6, 4)
    assert data.mean == (1.0,)


def test_colour_that_the_sample_of_headers_missed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.data.folder.HEADERS_READ", 2)
    for label in "ab":
        for row in range(5):
            put(tmp_path / "train" / label / f"{row}.png")
    put(tmp_path / "train" / "a" / "3.png", (1, 2, 3), mode="RGB")
    data = load_data(f"folder:{tmp_path}", test_share=0.01)
    with pytest.raises(DataError, match=r"\(1, 6, 4\).*\(3, 6, 4\) at .*a/3.png; pass channels=1 or channels=3"):
        _ = data.train.images, data.test.images


def test_different_sizes_need_the_option(pool: Path) -> None:
    put(pool / "cat" / "0.png", 0, size=(9, 5))
    put(pool / "dog" / "0.png", 0, size=(9, 5))
    data = load_data(f"folder:{pool}")
    with pytest.raises(DataError, match=r"\(1, [69], [45]\) at .*\.png.*\(1, [69], [45]\) at .*\.png; pass size="):
        _ = data.train.images, data.test.images
    for size, shape in ((8, (1, 8, 8)), ((4, 10), (1, 4, 10))):
        data = load_data(f"folder:{pool}", size=size)
        assert data.train.images.shape[1:] == data.test.images.shape[1:] == shape


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([], "no training images found; expected PATH/<class>/<image>"),
        (["0.png", "1.png"], r"no training images found \(2 other files\)"),
        (["a/0.txt", "b/0.txt"], r"no training images found \(2 other files\)"),
        (["a/0.png", "a/1.png"], r"one class \('a'\) found, expected at least two"),
        (["train/a/0.png", "train/b/0.png", "test/a/x.txt"], "no test images found"),
        (["train/a/0.png", "train/b/0.png", "test/c/0.png"], "1 of the classes in 'test' are not in 'train': 'c'"),
        (["test/a/0.png", "test/b/0.png"], "'test' has no 'train' beside it"),
    ],
)
def test_folders_that_hold_no_data_set(tmp_path: Path, files: list[str], message: str) -> None:
    for file in files:
        if file.endswith(".png"):
            put(tmp_path / file)
        else:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text("x")
    with pytest.raises(DataError, match=message) as caught:
        load_data(f"folder:{tmp_path}")
    assert str(caught.value).startswith(str(tmp_path))


def test_no_folder_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing: no such folder"):
        load_data(f"folder:{tmp_path}/nothing")
    with pytest.raises(DataError, match=r"x\.png: not a folder"):
        load_data(f"folder:{put(tmp_path / 'x.png')}")
    with pytest.raises(InputError, match="needs a path"):
        load_data("folder")


def test_a_class_without_images_keeps_its_number(tmp_path: Path) -> None:
    for label in "ac":
        put(tmp_path / "train" / label / "0.png")
        put(tmp_path / "test" / label / "0.png")
    (tmp_path / "train" / "b").mkdir()
    with pytest.warns(RoadworthyWarning, match="1 of 3 classes have no training image; first: 'b'"):
        data = load_data(f"folder:{tmp_path}")
    assert data.classes == ("a", "b", "c")
    assert data.test.labels.tolist() == [0, 2]


def test_files_are_opened_when_they_are_read(pool: Path) -> None:
    data = load_data(f"folder:{pool}")
    for file in pool.rglob("*.png"):
        file.unlink()
    with pytest.warns(RoadworthyWarning, match="the file is gone"):
        assert list(data.train.batches()) == []


def test_rotated_photos_come_upright(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    for label in "ab":
        for row in range(3):
            path = tmp_path / label / f"{row}.jpg"
            path.parent.mkdir(exist_ok=True)
            Image.new("RGB", (24, 16)).save(path, exif=exif)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_data(f"folder:{tmp_path}").train.images.shape[1:] == (3, 24, 16)


def test_the_mean_is_that_of_the_training_images(pool: Path) -> None:
    data = load_data(f"folder:{pool}")
    values = np.array([int(sample.split("/")[1][:-4]) for sample in data.train.ids]) / 255
    np.testing.assert_allclose(data.mean, values.mean(), rtol=1e-6)
    np.testing.assert_allclose(data.std, values.std(), rtol=1e-6)
