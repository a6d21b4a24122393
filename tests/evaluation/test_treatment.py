"""Treatments: exact counts, the same rule for every split, nothing of the caller's changed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch

from roadworthy.errors import AttributionError
from roadworthy.evaluation.degrade import Filler, tie_order
from roadworthy.evaluation.retrained import as_split
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import Degrader, MapRows, Treatment
from roadworthy.imputation import resolve_imputer
from roadworthy.records import Batch, Split
from roadworthy.removal import units_removed

FILL = -1.0  # no image has it, so that what was removed can be counted


def split(n: int = 12, shape: tuple[int, ...] = (3, 6, 5)) -> Split:
    images = torch.rand(n, *shape, generator=torch.Generator().manual_seed(0))
    return as_split("train", images, torch.arange(n) % 2)


def degrader(repeat: int = 0, seed: int = 0, **changes: object) -> Degrader:
    strategy = Strategy.of("roar", **changes)
    filler = Filler(resolve_imputer(strategy.imputer), torch.full((3,), FILL), seed, torch.device("cpu"))
    return Degrader(strategy, filler, repeat)


def maps_of(base: Split, seed: int = 1, channels: bool = False) -> MapRows:
    shape = base.images.shape if channels else (len(base), *base.images.shape[2:])
    return MapRows("ig", np.random.default_rng(seed).normal(size=shape), base.ids)


def removed(images: torch.Tensor) -> torch.Tensor:
    return images == FILL


@pytest.mark.parametrize("fraction", [0.01, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("kind", ["estimator", "random"])
def test_counts_are_exact_and_whole_pixels_go(kind: str, fraction: float) -> None:
    base = split()
    treatment = Treatment.of("ig" if kind == "estimator" else "random", "morf", fraction)
    gone = removed(degrader().split(base, treatment, maps_of(base)).images)
    assert (gone.any(1) == gone.all(1)).all()
    assert gone[:, 0].flatten(1).sum(1).tolist() == [units_removed(30, fraction)] * 12


def test_the_most_relevant_pixels_go_in_morf_and_the_least_in_lerf() -> None:
    base, maps = split(), maps_of(split())
    values = np.asarray(maps.array).reshape(12, -1)
    most = removed(degrader().split(base, Treatment.of("ig", "morf", 0.3), maps).images)[:, 0].flatten(1).numpy()
    least = removed(degrader().split(base, Treatment.of("ig", "lerf", 0.3), maps).images)[:, 0].flatten(1).numpy()
    for row in range(12):
        assert set(np.flatnonzero(most[row])) == set(np.argsort(-values[row])[:9])
        assert set(np.flatnonzero(least[row])) == set(np.argsort(values[row])[:9])


def test_the_unit_channel_counts_values() -> None:
    base = split()
    found = degrader(unit="channel", sign="squared").split(
        base, Treatment.of("ig", "morf", 0.5), maps_of(base, channels=True)
    )
    assert removed(found.images).flatten(1).sum(1).tolist() == [45] * 12
    assert (removed(found.images).any(1) != removed(found.images).all(1)).any()


def test_p_0_and_random_are_the_same_treatment_for_all_methods() -> None:
    assert Treatment.of("ig", "morf", 0.0) == Treatment.of("grad", "lerf", 0.0) == Treatment()
    assert Treatment.of("random", "morf", 0.3) == Treatment.of("random", "lerf", 0.3)
    assert Treatment.of("ig", "morf", 0.3) != Treatment.of("ig", "lerf", 0.3)
    base = split()
    assert degrader().split(base, Treatment()) is base


def test_reading_by_batch_by_sample_and_in_parts_gives_the_same() -> None:
    base = split()
    for treatment in (Treatment.of("ig", "morf", 0.5), Treatment.of("random", "morf", 0.5)):
        for imputer in ("mean", "noisy-linear"):
            one = degrader(imputer=imputer)
            whole = one.split(base, treatment, maps_of(base)).images
            parts = torch.cat([b.images for b in one.split(base, treatment, maps_of(base)).batches(5)])
            singles = torch.stack([one.split(base, treatment, maps_of(base))[row][0] for row in range(12)])
            subset = one.split(base, treatment, maps_of(base)).subset([7, 2, 9])
            torch.testing.assert_close(parts, whole, atol=1e-6, rtol=0)
            torch.testing.assert_close(singles, whole, atol=1e-5, rtol=0)
            torch.testing.assert_close(subset.images, whole[[7, 2, 9]], atol=1e-5, rtol=0)
            assert subset.ids == [base.ids[row] for row in (7, 2, 9)]
            if imputer == "mean":
                assert torch.equal(parts, whole)
                assert torch.equal(singles, whole)


def test_the_split_it_came_from_is_untouched() -> None:
    base = split()
    before = base.images.clone()
    found = degrader().split(base, Treatment.of("ig", "morf", 0.5), maps_of(base))
    assert found.images.data_ptr() != base.images.data_ptr()
    assert torch.equal(base.images, before)
    assert torch.equal(found.labels, base.labels)
    assert found.ids == base.ids


def test_random_masks_are_fixed_nested_and_new_for_every_repeat_and_seed() -> None:
    base = split()

    def masks(fraction: float, **which: int) -> torch.Tensor:
        return removed(degrader(**which).split(base, Treatment.of("random", "morf", fraction)).images)[:, 0]

    assert torch.equal(masks(0.5), masks(0.5))
    assert (masks(0.3) <= masks(0.7)).all()
    assert not torch.equal(masks(0.5), masks(0.5, repeat=1))
    assert not torch.equal(masks(0.5), masks(0.5, seed=1))
    assert not torch.equal(masks(0.5)[0], masks(0.5)[1])


@pytest.mark.parametrize("mode", ["redrawn", "bernoulli"])
def test_random_masks_can_be_drawn_anew_each_epoch(mode: str) -> None:
    base = split(200)
    found = degrader(random_masks=mode).split(base, Treatment.of("random", "morf", 0.3))
    first, again, second = (removed(found.for_epoch(epoch).images)[:, 0] for epoch in (0, 0, 1))
    assert torch.equal(first, again)
    # independent draws agree where both remove or both keep
    assert abs((first == second).double().mean() - (0.3**2 + 0.7**2)) < 0.03
    counts = first.flatten(1).sum(1).numpy()
    if mode == "redrawn":
        assert (counts == 9).all()
    else:
        assert scipy.stats.binomtest(int(counts.sum()), 200 * 30, 0.3).pvalue > 1e-3
        assert counts.std() > 1  # a binomial count has sd 2.5


def test_redrawing_is_for_random_masks_alone() -> None:
    base = split()
    found = degrader(random_masks="redrawn").split(base, Treatment.of("ig", "morf", 0.3), maps_of(base))
    assert not hasattr(found, "for_epoch")


def test_ties_are_drawn_or_go_by_position() -> None:
    draw = tie_order(Strategy.of("roar-2019"), 0, ["a", "b"], (3, 2, 2), 0)
    # the first two in the published order: red and green of the top left pixel
    assert draw[0, :3].tolist() == [0, 4, 8]
    assert (draw[0] == draw[1]).all()
    assert tie_order(Strategy.of("roar-2019"), 0, ["a"], (2, 2), 0).tolist() == [[0, 1, 2, 3]]
    base = split()
    constant = MapRows("ig", np.zeros((12, 3, 6, 5)), base.ids)
    found = degrader(unit="channel", ties="first").split(base, Treatment.of("ig", "morf", 10 / 90), constant).images
    gone = removed(found).movedim(1, -1).flatten(1)  # height, width, channel
    assert gone[:, :10].all()
    assert not gone[:, 10:].any()


def test_maps_are_matched_by_id_in_any_order() -> None:
    base = split()
    array = np.random.default_rng(3).normal(size=(12, 6, 5))
    order = np.random.default_rng(4).permutation(12)
    shuffled = MapRows("ig", array[order], [base.ids[row] for row in order])
    assert (shuffled(base.ids) == array).all()
    assert (shuffled(["train 11", "train 0"]) == array[[11, 0]]).all()
    spread = MapRows("ig", np.arange(1000)[:, None], [str(row) for row in range(1000)])
    assert spread(["999", "3", "500"]).ravel().tolist() == [999, 3, 500]
    with pytest.raises(AttributionError, match="ig: there is no map for 1 of 2 samples, the first 'x'"):
        shuffled(["train 1", "x"])
    with pytest.raises(AttributionError, match="ig: 12 maps for 2 samples"):
        MapRows("ig", array, ["a", "b"])


def test_maps_that_are_not_finite_are_refused_with_the_samples() -> None:
    base = split()
    array = np.zeros((12, 6, 5))
    array[3, 0, 0] = np.nan
    treated = degrader().split(base, Treatment.of("ig", "morf", 0.5), MapRows("ig", array, base.ids))
    with pytest.raises(AttributionError, match="NaN or infinite values for 1 samples, the first .train 3."):
        _ = treated.images


def test_repeats_draw_noise_anew_and_share_it_between_methods() -> None:
    base = split()

    def noise(method: str, repeat: int) -> torch.Tensor:
        treatment = Treatment.of(method, "morf", 1.0)
        found = degrader(repeat, imputer="noisy-linear").split(base, treatment, maps_of(base)).images
        return found - FILL  # everything is removed: the mean, and noise on top

    assert torch.equal(noise("ig", 0), noise("random", 0))
    assert not torch.equal(noise("ig", 0), noise("ig", 1))
    assert abs(float(noise("ig", 0).std()) - 0.01) < 1e-3


def test_a_batch_keeps_its_labels_and_device() -> None:
    base = split(2)
    batch = next(degrader().split(base, Treatment.of("random", "morf", 0.5)).batches(1))
    assert isinstance(batch, Batch)
    assert batch.labels.tolist() == [0]
    assert batch.ids == ["train 0"]
