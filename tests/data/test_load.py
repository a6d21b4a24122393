"""The front door: specifications, options and their errors; the digits."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn import datasets

import roadworthy as rw
from roadworthy.data import load_data, sources
from roadworthy.errors import DataError, InputError


def test_the_front_door_leads_here() -> None:
    assert rw.load_data is load_data
    files = {"folder", "parquet", "tfrecord", "hdf5"}
    assert {*files, "digits", "torchvision", "fashion-mnist", "planted", "planted-colour"} == set(sources)
    assert all(sources.describe(name) for name in sources)


def test_digits_are_the_real_ones() -> None:
    data = load_data("digits")
    bunch = datasets.load_digits()
    rows = np.array([int(i.removeprefix("digits:")) for i in data.train.ids + data.test.ids])
    assert sorted(rows.tolist()) == list(range(1797))
    images = torch.cat([data.train.images, data.test.images]).numpy()
    np.testing.assert_array_equal(images[:, 0] * 16, bunch.images[rows])
    labels = torch.cat([data.train.labels, data.test.labels]).numpy()
    np.testing.assert_array_equal(labels, bunch.target[rows])
    assert data.classes == tuple("0123456789")
    assert (images.min(), images.max(), images.dtype) == (0, 1, np.float32)
    np.testing.assert_allclose(data.mean, data.train.images.double().mean(), rtol=1e-9)
    np.testing.assert_allclose(data.std, data.train.images.double().std(correction=0), rtol=1e-9)
    for label in range(10):
        share = (data.test.labels == label).sum() / (labels == label).sum()
        assert share == pytest.approx(0.2, abs=0.01)


def test_digits_split_follows_the_seed_and_the_share() -> None:
    first, again, other = (load_data("digits", seed=seed).test.ids for seed in (0, 0, 1))
    assert first == again != other
    assert len(load_data("digits", test_share=0.5).test) == pytest.approx(898, abs=5)


def test_digits_at_other_sizes_and_channels() -> None:
    data = load_data("digits", size=(12, 20), channels=3)
    assert data.test.shape == (3, 12, 20)
    batch = next(data.test.batches(4))
    assert batch.images.shape == (4, 3, 12, 20)
    assert torch.equal(batch.images[2], data.test[2][0])
    assert 0 <= batch.images.min() <= batch.images.max() <= 1
    grey = load_data("digits", channels=3).test
    assert torch.equal(next(grey.batches(3)).images[1], grey[1][0])
    opaque = next(load_data("digits", channels=4).test.batches(3)).images
    assert opaque.shape == (3, 4, 8, 8)
    assert (opaque[:, 3] == 1).all()
    assert torch.equal(opaque[:, :3], next(grey.batches(3)).images)


def test_loading_leaves_the_global_generators_alone() -> None:
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # type: ignore[union-attr,index]  # noqa: NPY002
    for spec in ("digits", "planted:n=8,test=8"):
        _ = load_data(spec).normalize
        load_data(spec).train.take(3)
    assert torch.equal(states[0], torch.get_rng_state())
    assert (states[1] == np.random.get_state()[1]).all()  # type: ignore[index]  # noqa: NPY002
    assert states[2] == random.getstate()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("digitz", "Unknown data source 'digitz'. Did you mean 'digits'"),
        ("lmdb:x", "Unknown data source 'lmdb'"),
        ("", "Unknown data source ''"),
        ("folder:", "'folder' needs a path behind the colon"),
        ("parquet", "'parquet' needs a path behind the colon"),
        ("digits:8", "'digits' takes nothing behind a colon, got '8'"),
        (17, "got int, expected a specification"),
    ],
)
def test_specifications_that_cannot_be_used(spec: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_data(spec)


def test_a_bare_path_is_answered_with_the_right_form(tmp_path: Path) -> None:
    file = tmp_path / "some.data"
    file.touch()
    for path, kind in ((tmp_path, "folder"), (file, "hdf5")):
        forms = f"'{kind}:{path}', 'parquet:{path}' or 'tfrecord:{path}'"
        with pytest.raises(InputError, match=f"say what lies there: {forms}$"):
            load_data(str(path))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": 0}, "size: got 0, expected a positive integer or a pair"),
        ({"size": True}, "size: got True"),
        ({"size": (3,)}, r"size: got \(3,\)"),
        ({"size": (3, -1)}, r"size: got \(3, -1\)"),
        ({"size": 2.5}, "size: got 2.5"),
        ({"channels": 2}, r"channels: got 2, expected 1 \(grey\), 3 \(RGB\), 4"),
        ({"test_share": 0}, "test_share: got 0, expected a number between 0 and 1"),
        ({"test_share": 1.0}, "test_share: got 1.0"),
        ({"test_share": "a"}, "test_share: got 'a'"),
        ({"seed": "a"}, "seed: got str"),
    ],
)
def test_options_are_checked(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_data("digits", **options)


def test_paths_may_start_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "photos").mkdir()
    with pytest.raises(DataError, match=f"{tmp_path}/photos: no training images found"):
        load_data("folder:~/photos")
