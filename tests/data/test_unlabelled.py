"""Samples without labels: a folder of pictures however they lie, or a test split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from roadworthy.data import load_data, load_unlabelled
from roadworthy.errors import DataError, InputError


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    for row, name in enumerate(("b.png", "a.jpg", "deep/er/c.PNG", ".hidden.png", "notes.txt")):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".txt":
            path.write_text("no image")
        else:
            Image.fromarray(np.full((6, 4, 3), 40 * row, np.uint8)).save(path)
    return tmp_path


def test_all_images_below_a_folder(pictures: Path) -> None:
    split = load_unlabelled(f"images:{pictures}")
    assert split.ids == ["a.jpg", "b.png", "deep/er/c.PNG"]
    assert split.labels.tolist() == [-1, -1, -1]
    assert split.shape == (3, 6, 4)
    torch.testing.assert_close(split.images[1], torch.zeros(3, 6, 4))
    assert load_unlabelled(f"images:{pictures}", size=2, channels=1).images.shape == (3, 1, 2, 2)


def test_grey_and_colour_become_colour(pictures: Path) -> None:
    Image.fromarray(np.zeros((6, 4), np.uint8)).save(pictures / "grey.png")
    assert load_unlabelled(f"images:{pictures}").images.shape == (4, 3, 6, 4)


def test_of_a_data_set_it_is_the_test_split() -> None:
    assert load_unlabelled("digits").ids == load_data("digits").test.ids


def test_what_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("no image")
    for spec, error, message in (
        ("images:", InputError, "needs a path"),
        (f"images:{tmp_path}/none", DataError, "no such folder; expected a folder of images"),
        (f"images:{tmp_path}/a.txt", DataError, "not a folder"),
        (f"images:{tmp_path}", DataError, "no images found"),
        ("imags:x", InputError, "imags"),
        (f"{tmp_path}", InputError, f"say 'images:{tmp_path}'"),
    ):
        with pytest.raises(error, match=message):
            load_unlabelled(spec)
