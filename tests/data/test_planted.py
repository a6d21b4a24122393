"""Planted images: the truth is checked by intervention, with a template matcher instead of a trained model."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.data import load_data
from roadworthy.data.planted import PlantedSource, patterns
from roadworthy.errors import InputError
from roadworthy.records import Data


def matched(images: torch.Tensor, cell: int) -> np.ndarray:
    """Return the class whose pattern correlates best with a cell of the grid in any channel."""
    values = images.numpy() - 0.5
    n, channels, height, width = values.shape
    cells = values.reshape(n, channels, height // cell, cell, width // cell, cell)
    scores = np.einsum("nchiwj,kij->nkchw", cells, patterns(cell)[0])
    return scores.reshape(n, 4, -1).max(axis=2).argmax(axis=1)


def accuracy(data: Data, images: torch.Tensor) -> float:
    return float((matched(images, images.shape[2] // 4) == data.test.labels.numpy()).mean())


@pytest.mark.parametrize(
    "spec", ["planted:n=64,test=400", "planted-colour:n=64,test=400", "planted:test=400,size=28"]
)
def test_the_relevant_pixels_carry_the_class_and_nothing_else_does(spec: str) -> None:
    data = load_data(spec)
    images, relevant = data.test.images, torch.from_numpy(data.relevant)[:, None]
    assert accuracy(data, images) > 0.98
    assert accuracy(data, images.masked_fill(~relevant, 0.5)) == 1.0
    assert accuracy(data, images.masked_fill(relevant, 0.5)) == pytest.approx(0.25, abs=0.1)


def test_each_cell_is_as_likely_in_each_class() -> None:
    data = load_data("planted:n=4,test=8000")
    cells = data.relevant.reshape(8000, 4, 6, 4, 6).all(axis=(2, 4)).reshape(8000, 16)
    assert (cells.sum(axis=1) == 1).all()
    assert data.relevant.sum(axis=(1, 2)).tolist() == [36] * 8000
    for label in range(4):
        counts = cells[data.test.labels.numpy() == label].sum(axis=0)
        assert np.abs(counts - 125).max() < 5 * np.sqrt(125)


def test_the_decoy_is_strong_elsewhere_and_the_same_in_every_class() -> None:
    data = load_data("planted:n=4,test=200")
    decoy = patterns(6)[1]
    cells = (
        (data.test.images.numpy()[:, 0] - 0.5).reshape(200, 4, 6, 4, 6).transpose(0, 1, 3, 2, 4).reshape(200, 16, 36)
    )
    best = (cells @ decoy.ravel()).argmax(axis=1)
    assert not data.relevant.reshape(200, 4, 6, 4, 6).all(axis=(2, 4)).reshape(200, 16)[np.arange(200), best].any()
    assert len(set(best.tolist())) == 16


def test_patterns_have_mean_zero_and_are_told_apart() -> None:
    for cell in (6, 7, 12, 56):
        of_class, decoy = patterns(cell)
        stack = np.concatenate([of_class, decoy[None]]).reshape(5, -1)
        np.testing.assert_allclose(stack.mean(axis=1), 0, atol=1e-12)
        similarity = np.abs(np.corrcoef(stack) - np.eye(5))
        assert similarity.max() < (0.6 if cell % 6 else 0.4)


def test_noise_has_the_stated_deviation() -> None:
    values = (load_data("planted:n=4,test=600").test.images.numpy()[:, 0] - 0.5) * 6
    cells = values.reshape(600, 4, 6, 4, 6).transpose(0, 1, 3, 2, 4).reshape(600 * 16, 36)
    of_class, decoy = patterns(6)
    planted = np.concatenate([of_class, decoy[None]]).reshape(5, 36)
    quiet = cells[np.abs(cells @ planted.T).max(axis=1) < 20]  # a pattern gives 29 or 43
    assert np.std(quiet) == pytest.approx(0.5, abs=0.03)


def test_balance_counts_and_names() -> None:
    data = load_data("planted")
    assert (len(data.train), len(data.test), data.train.shape) == (2400, 300, (1, 24, 24))
    assert torch.bincount(data.train.labels).tolist() == [600] * 4
    assert data.classes == ("horizontal", "vertical", "diagonal", "blocks")
    assert len({*data.train.ids, *data.test.ids}) == 2700
    assert data.mean[0] == pytest.approx(0.5, abs=0.005)
    images = data.test.images
    assert 0 <= images.min() <= images.max() <= 1
    assert load_data("planted-colour:n=8").train.shape == (3, 24, 24)
    assert len(load_data("planted:n=800").test) == 100


def test_images_depend_on_seed_and_id_alone() -> None:
    data = load_data("planted:n=40,test=9,seed=5")
    assert torch.equal(data.train.images, load_data("planted:n=40,test=9", seed=5).train.images)
    assert torch.equal(data.train.images, load_data("planted:n=80,seed=5").train.images[:40])
    assert not torch.equal(data.train.images, load_data("planted:n=40,test=9,seed=6").train.images)
    assert not torch.equal(data.train.images[:9], data.test.images)
    assert torch.equal(next(data.train.subset([7, 3]).batches(1)).images[0], data.train.images[7])
    source = PlantedSource("train", 40, side=24, channels=1, seed=5)
    assert torch.equal(source.read(11), source.read_many(np.array([3, 11]))[1])


@pytest.mark.parametrize(
    ("spec", "options", "message"),
    [
        ("planted:m=4", {}, "Unknown option of planted 'm'"),
        ("planted:sise=24", {}, "Did you mean 'size'"),
        ("planted:n=2", {}, "n=2, expected an integer from 4 to 10000000"),
        ("planted:n=x", {}, "n=x, expected an integer"),
        ("planted:n", {}, "n=, expected an integer"),
        ("planted:size=26", {}, "size=26, expected a multiple of 4"),
        ("planted:size=12", {}, "size=12, expected an integer from 24 to 1024"),
        ("planted:seed=-1", {}, "seed=-1, expected an integer"),
        ("planted", {"channels": 3}, "'planted' makes 1 x 24 x 24 images"),
        ("planted", {"size": 48}, "choose 'planted' or 'planted-colour' and its own size: 'planted:size=48'"),
        ("planted-colour", {"channels": 1}, "'planted-colour' makes 3 x 24 x 24 images"),
    ],
)
def test_options_are_checked(spec: str, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_data(spec, **options)  # type: ignore[arg-type]


def test_options_that_say_the_same_are_fine() -> None:
    assert load_data("planted:n=8, size=48", size=48, channels=1).train.shape == (1, 48, 48)
