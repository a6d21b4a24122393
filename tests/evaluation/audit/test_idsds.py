"""IDSDS against networks whose answer to every patch is known, and against SciPy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.stats
import torch

from roadworthy.errors import AttributionError, InputError, ModelError
from roadworthy.evaluation.audit.idsds import idsds
from roadworthy.evaluation.selftest.wired import CELL, GRID, MEAN, WiredNet, wired_bench


class Weighted(torch.nn.Module):
    """The first logit is a weighted sum of all values, the second 0: what a patch is worth is known exactly."""

    def __init__(self, weights: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weights", weights)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = (images.double() * self.weights).sum(dim=(1, 2, 3))
        return torch.stack([first, 0 * first], dim=1)


@pytest.fixture
def uneven() -> tuple[Weighted, torch.Tensor, np.ndarray]:
    """Three channels of 25 x 22 pixels, which 4 divides neither way, with the exact worth of every value."""
    draw = torch.Generator().manual_seed(5)
    images = torch.rand(12, 3, 25, 22, generator=draw)
    model = Weighted(torch.randn(3, 25, 22, generator=draw))
    return model, images, (model.weights * (images - 0.5)).double().numpy()


def test_graded_truth_of_the_wired_network_scores_one_and_its_inverse_minus_one() -> None:
    bench = wired_bench(40, seed=3)
    own = np.take_along_axis(bench.strengths, bench.labels[:, None, None], axis=1)[:, 0]
    truth = own.reshape(-1, GRID, GRID).repeat(CELL, axis=1).repeat(CELL, axis=2)
    draw = np.random.default_rng(0)
    maps = {
        "truth": truth,
        "region": 1.0 * (truth > 0),
        "inverse": -truth,
        "random": draw.random(truth.shape),
        "constant": np.full(truth.shape, 0.1),
    }
    found = idsds(WiredNet(), bench.images, bench.labels, maps, mean=[MEAN], draws=500)
    scores = {name: each["score"] for name, each in found["scores"].items()}
    assert (scores["truth"], scores["inverse"], scores["constant"]) == (1.0, -1.0, 0.0)
    assert 0.8 < scores["region"] < 1
    random = found["scores"]["random"]
    assert random["low"] < 0 < random["high"]
    assert [each["undefined"] for each in found["scores"].values()] == [0, 0, 0, 0, 40]
    assert (found["grid"], found["n"], found["unmoved"]) == (4, 40, 0)
    assert json.loads(json.dumps(found)) == found


def test_sides_that_the_grid_does_not_divide_and_channels(uneven) -> None:
    model, images, truth = uneven
    maps = {"channels": truth, "summed": truth.sum(axis=1), "shifted": truth.sum(axis=1) + 5}
    found = idsds(model, images, [0] * 12, maps, mean=[0.5] * 3, draws=200)["scores"]
    assert [found[name]["score"] for name in maps] == pytest.approx([1.0, 1.0, 1.0], abs=1e-12)


def test_large_patches_are_not_favoured() -> None:
    ones = Weighted(torch.ones(3, 25, 22))
    positive = np.random.default_rng(1).random((400, 25, 22))
    more = torch.rand(400, 3, 25, 22, generator=torch.Generator().manual_seed(2))
    found = idsds(ones, more, [0] * 400, {"random": positive}, mean=[0.0] * 3, draws=200)["scores"]["random"]
    assert abs(found["score"]) < 0.05  # 0.5 with sums in place of means: both grow with the patch


def test_equals_spearman_image_by_image(uneven) -> None:
    _, images, _ = uneven
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 5), torch.nn.Tanh(), torch.nn.Flatten(), torch.nn.Linear(4 * 21 * 18, 3)
    ).eval()
    values = np.random.default_rng(4).normal(size=(12, 25, 22))
    targets = np.arange(12) % 3
    found = idsds(net, images, targets, {"m": values}, mean=[0.2, 0.4, 0.6], grid=3, max_batch=5)["scores"]["m"]
    rows, columns = ([np.flatnonzero(np.arange(side) * 3 // side == k) for k in range(3)] for side in (25, 22))
    expected = []
    for i in range(12):
        drops, means = [], []
        for r in rows:
            for c in columns:
                without = images[i : i + 1].clone()
                for channel, mean in enumerate((0.2, 0.4, 0.6)):
                    without[0, channel, r[0] : r[-1] + 1, c[0] : c[-1] + 1] = mean
                with torch.no_grad():
                    drop = (net(images[i : i + 1]) - net(without))[0, targets[i]]
                drops.append(float(drop) / (len(r) * len(c)))
                means.append(values[i][np.ix_(r, c)].mean())
        expected.append(scipy.stats.spearmanr(means, drops)[0])
    assert found["score"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert found["low"] < found["score"] < found["high"]


def test_an_image_without_an_order_counts_as_nothing_and_is_told() -> None:
    bench = wired_bench(20, seed=1)
    truth = np.take_along_axis(bench.strengths, bench.labels[:, None, None], axis=1)[:, 0]
    truth = truth.reshape(-1, GRID, GRID).repeat(CELL, axis=1).repeat(CELL, axis=2)
    silent = truth.copy()
    silent[::2] = 0
    found = idsds(WiredNet(), bench.images, bench.labels, {"a": truth, "b": silent}, mean=[MEAN])["scores"]
    assert (found["a"]["score"], found["b"]["score"], found["b"]["undefined"]) == (1.0, 0.5, 10)


def test_images_that_no_patch_moves_are_left_out_for_all_methods() -> None:
    bench = wired_bench(8)
    images = bench.images.clone()
    images[:3] = MEAN
    maps = {"random": np.random.default_rng(0).random((8, 24, 24)), "zero": np.zeros((8, 24, 24))}
    found = idsds(WiredNet(), images, bench.labels, maps, mean=[MEAN])
    assert (found["n"], found["unmoved"]) == (5, 3)
    assert found["scores"]["zero"]["undefined"] == 5
    with pytest.raises(InputError, match=r"no patch of a 4 x 4 grid changes .* any of 8 images"):
        idsds(WiredNet(), torch.full((8, 1, 24, 24), MEAN), bench.labels, maps, mean=[MEAN])


def test_batches_and_the_model_are_left_alone(uneven) -> None:
    model, images, truth = uneven
    model.train()
    before = images.clone()
    options = {"mean": [0.5] * 3, "draws": 100}
    one = idsds(model, images, [0] * 12, {"truth": truth}, max_batch=1, **options)
    assert one == idsds(model, images, [0] * 12, {"truth": truth}, max_batch=64, **options)
    assert model.training
    assert torch.equal(before, images)


@pytest.mark.parametrize("shape", [(4, 7), (4, 3, 9)])
def test_what_is_no_image_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"patches are parts of a picture.*'road' and 'symmetric'"):
        idsds(lambda x: x, torch.rand(shape), [0] * 4, {"m": np.zeros(shape)}, mean=[0.0])
    with pytest.raises(InputError, match="int64"):
        idsds(lambda x: x, torch.zeros(4, 1, 8, 8, dtype=torch.int64), [0] * 4, {"m": np.zeros(shape)}, mean=[0.0])


def test_arguments_that_do_not_fit(uneven) -> None:
    model, images, truth = uneven
    good = {"model": model, "images": images, "targets": [0] * 12, "maps": {"m": truth}, "mean": [0.5] * 3}

    def call(**changes: object) -> None:
        given = good | changes
        first = [given.pop(name) for name in ("model", "images", "targets", "maps")]
        idsds(*first, **given)

    with pytest.raises(InputError, match="grid is 1"):
        call(grid=1)
    with pytest.raises(InputError, match="grid: got 23, expected 1 to 22"):
        call(grid=23)
    with pytest.raises(InputError, match="targets: 3 classes for 12 images"):
        call(targets=[0, 1, 0])
    with pytest.raises(InputError, match="targets: range from 2 to 2"):
        call(targets=[2] * 12)
    with pytest.raises(InputError, match="no maps"):
        call(maps={})
    with pytest.raises(InputError, match="no images"):
        call(images=images[:0])
    with pytest.raises(AttributionError, match="m: 3 maps for 12 images"):
        call(maps={"m": truth[:3]})
    broken = truth.copy()
    broken[[2, 7], 0, 3, 3] = np.nan
    with pytest.raises(AttributionError, match="m: .* 2 of 12 images: 2, 7"):
        call(maps={"m": broken})
    with pytest.raises(InputError, match="NaN or infinite pixels"):
        call(images=images * float("inf"))
    with pytest.raises(ModelError, match="NaN or infinite logits"):
        call(model=lambda x: torch.full((len(x), 2), float("nan")))
