"""HDF5: layouts that are told or refused, groups or a pool, value ranges, workers, what cannot be used."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from roadworthy.data import load_data
from roadworthy.errors import DataError, InputError, RoadworthyWarning

SEED = np.random.default_rng(0)
IMAGES = SEED.integers(0, 256, (12, 6, 5, 3), dtype=np.uint8)
LABELS = np.arange(12) % 3


def put(
    path: Path, images: Any = IMAGES, labels: Any = LABELS, *, group: str = "", chunks: Any = None, **more: Any
) -> Path:
    with h5py.File(path, "a") as file:
        node = file.require_group(group) if group else file
        node.create_dataset("images", data=images, chunks=chunks)
        node["labels"] = labels
        for name, value in more.items():
            node["images"].attrs[name] = value
    return path


def test_groups_are_splits_and_values_are_kept(tmp_path: Path) -> None:
    path = put(tmp_path / "a.h5", group="train", chunks=(5, 6, 5, 3))
    put(path, IMAGES[:3].transpose(0, 3, 1, 2), LABELS[:3], group="validation")
    with h5py.File(path, "a") as file:
        file.attrs["classes"] = ["a", "b", "c"]
        file["train/ids"] = [f"s{row}" for row in range(12)]
    data = load_data(f"hdf5:{path}")
    wanted = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).astype(np.float32) / 255)
    torch.testing.assert_close(data.train.images, wanted)
    torch.testing.assert_close(data.test.images, wanted[:3])
    assert data.classes == ("a", "b", "c")
    assert data.train.ids[:2] == ["s0", "s1"]
    assert data.test.ids == ["validation:0", "validation:1", "validation:2"]
    assert data.train.labels.tolist() == LABELS.tolist()
    copy = pickle.loads(pickle.dumps(data.train))
    assert torch.equal(copy.source.read(7), data.train.source.read(7))


def test_a_root_is_one_pool(tmp_path: Path) -> None:
    data = load_data(f"hdf5:{put(tmp_path / 'a.h5')}")
    assert sorted(data.train.ids + data.test.ids) == sorted(f"a.h5:{row}" for row in range(12))
    assert data.classes == ("0", "1", "2")
    assert set(data.test.labels.tolist()) == {0, 1, 2}


@pytest.mark.parametrize("workers", [0, 1, 2])
def test_each_row_comes_once_for_any_number_of_workers(tmp_path: Path, workers: int) -> None:
    images = np.arange(20, dtype=np.uint8)[:, None, None] + np.zeros((1, 4, 4), np.uint8)
    path = put(tmp_path / "a.h5", images, np.arange(20) % 2, group="train", chunks=(3, 4, 4))
    put(path, images[:2], [0, 1], group="test")
    train = load_data(f"hdf5:{path}").train
    train.source.read(0)  # opened before the fork
    found = [
        v for x, _ in DataLoader(train, batch_size=3, num_workers=workers) for v in (x[:, 0, 0, 0] * 255).tolist()
    ]
    assert np.rint(found).tolist() == list(range(20))


@pytest.mark.parametrize(
    ("shape", "attributes", "option", "found"),
    [
        ((12, 6, 5, 3), {}, "", (3, 6, 5)),
        ((12, 3, 6, 5), {}, "", (3, 6, 5)),
        ((12, 6, 5), {}, "", (1, 6, 5)),
        ((12, 3, 6, 3), {}, "", None),
        ((12, 3, 6, 3), {"layout": "NCHW"}, "", (3, 6, 3)),
        ((12, 3, 6, 3), {"layout": "NCHW"}, ",layout=NHWC", (3, 3, 6)),
        ((12, 1, 6, 4), {}, ",layout=NHWC", (3, 1, 6)),
        ((12, 6, 5, 7), {}, "", None),
    ],
)
def test_the_layout_is_never_guessed(tmp_path: Path, shape: Any, attributes: Any, option: str, found: Any) -> None:
    path = put(tmp_path / "a.h5", np.zeros(shape, np.uint8), **attributes)
    if found is None:
        with pytest.raises(DataError, match=r"has shape \(12, .*say which it is with 'hdf5:PATH,layout=NHWC'"):
            load_data(f"hdf5:{path}{option}")
    else:
        assert load_data(f"hdf5:{path}{option}").train.shape == found


def test_floats_are_kept_and_their_range_is_checked(tmp_path: Path) -> None:
    images = SEED.random((12, 6, 5, 1), dtype=np.float32)
    data = load_data(f"hdf5:{put(tmp_path / 'a.h5', images)}")
    assert torch.equal(data.train.source.read(3), torch.from_numpy(images[3].transpose(2, 0, 1)))
    for bad in (1.5, -0.1, np.nan):
        broken = images.copy()
        broken[5, 0, 0, 0] = bad
        path = put(tmp_path / f"{bad}.h5", broken)
        with pytest.raises(DataError, match=r"images\[5\]: has values from .*expected floats in \[0, 1\]"):
            load_data(f"hdf5:{path}").train.source.read(5)
    data = load_data(f"hdf5:{path}")
    with pytest.warns(RoadworthyWarning, match="1 of"):
        assert sum(len(split.images) for split in (data.train, data.test)) == 11


def test_size_and_channels(tmp_path: Path) -> None:
    path = put(tmp_path / "a.h5")
    alpha = put(tmp_path / "b.h5", np.concatenate([IMAGES, np.zeros_like(IMAGES[..., :1])], axis=-1))
    assert load_data(f"hdf5:{path}", size=4, channels=1).train.shape == (1, 4, 4)
    grey = load_data(f"hdf5:{path}", channels=1).train.source.read(0)[0]
    weights = np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(grey, (IMAGES[0] / 255 * weights).sum(-1), atol=1e-6)
    assert load_data(f"hdf5:{path}", channels=4).train.source.read(0)[3].eq(1).all()
    assert load_data(f"hdf5:{alpha}").train.images.eq(1).all(), "what is transparent is laid on white"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("classes", None, "'classes': is a group, expected a list of texts"),
        ("classes", "abc", r"'classes': holds object of shape \(\), expected a list of texts"),
        ("classes", h5py.Empty("f"), "'classes': holds float32 of shape None"),
        ("classes", [0.5, 1.5, 2.5], r"'classes': holds float64 of shape \(3,\)"),
        ("ids", None, "/ids: is a group, expected a list of texts"),
        ("ids", 3, r"/ids: holds int64 of shape \(\), expected a list of texts"),
        ("ids", np.zeros((12, 2), int), r"/ids: holds int64 of shape \(12, 2\)"),
        ("ids", [b"a"] * 12, "/ids: 12 ids for 12 images, or some twice"),
        ("labels", h5py.Empty("i"), r"/labels: holds int32 of shape None, expected integers of shape \(12,\)"),
        ("images", h5py.Empty("u1"), r"/images: has shape \(\), expected \(N, H, W, C\)"),
        ("images", 3, r"/images: holds int64, expected uint8"),
        ("images", h5py.SoftLink("/nowhere"), r"expected datasets 'images' and 'labels'"),
        ("labels", h5py.ExternalLink("no.h5", "/labels"), r"expected datasets 'images' and 'labels'"),
    ],
)
def test_members_of_another_form_are_named(tmp_path: Path, name: str, value: Any, words: str) -> None:
    path = put(tmp_path / "a.h5")
    with h5py.File(path, "a") as file:
        if name in file:
            del file[name]
        if value is None:
            file.create_group(name)
        else:
            file[name] = value
    with pytest.raises(DataError, match=words):
        load_data(f"hdf5:{path}")


def test_a_class_attribute_lists_names(tmp_path: Path) -> None:
    path = put(tmp_path / "a.h5")
    for value in (["a", "b", "c"], np.array([b"a", b"b", b"c"])):
        with h5py.File(path, "a") as file:
            file.attrs["classes"] = value
        assert load_data(f"hdf5:{path}").classes == ("a", "b", "c")
    with h5py.File(path, "a") as file:
        file.attrs["classes"] = "abc"
    with pytest.raises(DataError, match=r"'classes': holds <U3 of shape \(\), expected a list of texts"):
        load_data(f"hdf5:{path}")


def test_what_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no such file")
    with h5py.File(tmp_path / "bare.h5", "w") as file:
        file["x"] = np.zeros(3)
    with h5py.File(tmp_path / "half.h5", "w") as file:
        file.create_group("train")
    with h5py.File(tmp_path / "huge.h5", "w") as file:
        file.create_dataset("images", (4, 10**6, 10**6, 3), np.uint8, chunks=(1, 64, 64, 3))
        file["labels"] = [0, 1, 0, 1]
    put(tmp_path / "ints.h5", IMAGES.astype(np.int32))
    put(tmp_path / "flat.h5", IMAGES.reshape(12, -1))
    put(tmp_path / "short.h5", labels=LABELS[:5])
    put(tmp_path / "gap.h5", labels=LABELS * 2)
    put(tmp_path / "minus.h5", labels=LABELS - 1)
    for spec, message in (
        ("", "'hdf5' needs a path behind the colon"),
        ("absent.h5", "no such file; expected an HDF5 file"),
        ("text.h5", "not an HDF5 file that can be read"),
        ("bare.h5", "/ holds 'x'; expected datasets 'images' and 'labels'"),
        ("half.h5", "has the group 'train', but none for the other split"),
        ("huge.h5", "at most 268435456 values an image"),
        ("ints.h5", "holds int32, expected uint8, or floats"),
        ("flat.h5", r"has shape \(12, 90\), expected \(N, H, W, C\)"),
        ("short.h5", r"of shape \(5,\), expected integers of shape \(12,\)"),
        ("gap.h5", "labels go from 0 to 4 and 1 is absent"),
        ("minus.h5", "labels go from -1 to 1"),
        ("ints.h5,layout=HWC", "layout=HWC: expected NHWC"),
    ):
        with pytest.raises(InputError, match=message):
            load_data(f"hdf5:{tmp_path / spec if spec else ''}")
