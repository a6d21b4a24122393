"""The judge's masks hold no trace of an explanation, and the copy is a copy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from roadworthy.errors import InputError, ModelError
from roadworthy.evaluation import finetune
from roadworthy.evaluation.finetune import RandomMasks, cells_of, fine_tuned, judge_recipe
from roadworthy.evaluation.retrained import as_split
from roadworthy.records import Split

IDS = [str(sample) for sample in range(400)]


def test_shares_are_uniform_and_counts_exact() -> None:
    masks = RandomMasks("uniform", seed=3).draw(IDS, (3, 12, 10), 0)
    assert masks.shape == (400, 12, 10)
    assert stats.kstest(masks.mean(axis=(1, 2)), "uniform").pvalue > 0.01


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_a_rate_removes_that_share_of_every_image(rate: float) -> None:
    assert (RandomMasks(rate).draw(IDS, (1, 10, 10), 0).sum(axis=(1, 2)) == round(100 * rate)).all()


def test_every_grain_is_drawn_and_wide_grains_make_blobs() -> None:
    def neighbours(grains: tuple[float, ...]) -> np.ndarray:
        masks = RandomMasks(0.5, grains=grains).draw(IDS, (1, 16, 16), 0)
        return (masks[:, :, 1:] == masks[:, :, :-1]).mean(axis=(1, 2))

    single, wide, mixed = neighbours((0.0,)), neighbours((4.0,)), neighbours((0.0, 4.0))
    assert abs(single.mean() - 0.5) < 0.02
    assert wide.min() > 0.75
    assert 0.4 < (mixed > 0.7).mean() < 0.6


def test_no_place_is_preferred() -> None:
    masks = RandomMasks("uniform", grains=(0.0, 2.0)).draw([str(i) for i in range(4000)], (1, 6, 6), 0)
    rates = masks.mean(axis=0)
    assert abs(rates - 0.5).max() < 0.06


def test_a_mask_belongs_to_sample_and_epoch_alone() -> None:
    draw = RandomMasks("uniform", seed=1)
    whole = draw.draw(IDS[:20], (1, 8, 8), 2)
    np.testing.assert_array_equal(draw.draw(IDS[5:7], (1, 8, 8), 2), whole[5:7])
    assert not np.array_equal(draw.draw(IDS[:20], (1, 8, 8), 3), whole)


def test_patches_remove_one_cell_from_half_of_the_images() -> None:
    masks = RandomMasks("patch", grid=2).draw(IDS, (3, 5, 4), 0)
    cells = cells_of((5, 4), 2)
    hit = masks.any(axis=(1, 2))
    assert 0.4 < hit.mean() < 0.6
    for mask in masks[hit]:
        assert len(np.unique(cells[mask])) == 1
        assert mask.sum() == (cells == cells[mask][0]).sum()
    assert set(cells[masks[hit].any(axis=0)]) == {0, 1, 2, 3}


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 9))
def test_cells_are_all_there_and_differ_by_one_unit_at_most(height: int, width: int, grid: int) -> None:
    if grid > min(height, width):
        with pytest.raises(InputError, match=f"grid: got {grid}"):
            cells_of((height, width), grid)
        return
    rows = np.bincount(cells_of((height, width), grid)[:, 0] // grid)
    assert len(rows) == grid
    assert rows.max() - rows.min() <= 1


def test_series_and_tables_have_masks_too() -> None:
    assert RandomMasks(0.5).draw(IDS[:3], (2, 30), 0).shape == (3, 30)
    assert RandomMasks(0.5).draw(IDS[:3], (8,), 0).sum() == 12
    assert RandomMasks(0.5, unit="channel").draw(IDS[:3], (3, 4, 4), 0).shape == (3, 3, 4, 4)


@pytest.mark.parametrize("masks", ["random", 0, 1.5, True])
def test_unknown_masks_are_refused(masks: object) -> None:
    with pytest.raises(InputError, match="masks: got"):
        RandomMasks(masks)  # type: ignore[arg-type]


@pytest.fixture
def trained():
    images = torch.from_numpy(np.random.default_rng(0).random((200, 1, 6, 6)).astype(np.float32))
    labels = (images[:, 0, :, 3:].mean((1, 2)) > images[:, 0, :, :3].mean((1, 2))).long()
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.BatchNorm1d(36), torch.nn.Linear(36, 2))
    return net.train(), as_split("train", images, labels)


def test_the_model_is_not_changed_and_the_copy_is_the_same_each_time(trained) -> None:
    model, train = trained
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    one, two = (fine_tuned(model, train, imputers=("mean", "noisy-linear"), seed=5) for _ in range(2))
    other = fine_tuned(model, train, seed=6)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert model.training
    assert not one.training
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), two.state_dict().values(), strict=True))
    assert not torch.equal(one[2].weight, other[2].weight)


def test_the_judge_knows_what_the_model_does_not() -> None:
    """A network that leans on one pixel learns, from masks alone, to use its copy elsewhere."""
    generator = np.random.default_rng(2)
    labels = torch.from_numpy(generator.integers(0, 2, 600))
    images = torch.rand(600, 1, 4, 4, generator=torch.Generator().manual_seed(0)) * 0.1
    images[:, 0, 0, 0] += labels * 0.8
    images[:, 0, 3, 3] += labels * 0.8
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 2))
    with torch.no_grad():
        model[1].weight.zero_()
        model[1].weight[1, 0], model[1].bias[1] = 10, -4
        model[1].bias[0] = 0
    judge = fine_tuned(
        model,
        as_split("train", images, labels),
        mean=[0.0],
        recipe=replace(judge_recipe(600), epochs=20, learning_rate=0.5),
    )
    gone = images.clone()
    gone[:, 0, 0, 0] = 0
    with torch.no_grad():
        accuracy = [float((net(gone).argmax(1) == labels).float().mean()) for net in (model, judge)]
    assert accuracy[0] < 0.6
    assert accuracy[1] > 0.95


def test_what_cannot_be_trained_is_refused(trained) -> None:
    model, train = trained
    with pytest.raises(ModelError, match="finetune: got function"):
        fine_tuned(lambda x: x, train)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="imputers: got none"):
        fine_tuned(model, train, imputers=())


@pytest.fixture(scope="module")
def quadrants() -> tuple[torch.nn.Module, Split]:
    """A network without normalisation layers, which a high rate ruins: it tells the bright quadrant of four."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(400) % 4
    images = 0.3 * torch.rand(400, 1, 8, 8, generator=generator)
    for row, label in enumerate(labels.tolist()):
        images[row, 0, 4 * (label // 2) :, 4 * (label % 2) :][:4, :4] += 0.6
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layers: list[torch.nn.Module] = []
        for before, after in ((1, 8), (8, 8)):
            layers += [torch.nn.Conv2d(before, after, 3, padding=1), torch.nn.ReLU()]
        net = torch.nn.Sequential(*layers, torch.nn.Flatten(), torch.nn.Linear(512, 4))
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(30):
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(net(images), labels).backward()
        optimiser.step()
    return net.eval(), as_split("train", images, labels)


def accuracy_of(net: torch.nn.Module, train: Split) -> float:
    with torch.no_grad():
        return float((net(train.images).argmax(1) == train.labels).float().mean())


def test_a_network_without_normalisation_survives(quadrants, monkeypatch: pytest.MonkeyPatch) -> None:
    net, train = quadrants
    assert accuracy_of(net, train) == 1.0
    ruinous = replace(judge_recipe(400), learning_rate=40.0)
    assert accuracy_of(fine_tuned(net, train, recipe=ruinous), train) > 0.95
    assert accuracy_of(fine_tuned(net, train), train) > 0.95
    monkeypatch.setattr(finetune, "RATES", (1.0,))
    with pytest.raises(ModelError, match="forgot its task"):
        fine_tuned(net, train, recipe=ruinous)


def test_a_copy_that_forgot_its_task_is_refused(quadrants) -> None:
    net, train = quadrants
    with pytest.raises(ModelError, match="forgot its task at every learning rate from 1e\\+06 down to 8000"):
        fine_tuned(net, train, recipe=replace(judge_recipe(400), learning_rate=1e6))


def test_few_samples_are_gone_over_more_often() -> None:
    assert [judge_recipe(count).epochs for count in (10, 1_000, 3_999, 50_000)] == [30, 8, 3, 2]
