from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from roadworthy.labelfree.perturbation import Draws
from roadworthy.labelfree.perturbation.rows import spread

IDS = ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["normal", "uniform", "signed"])
def test_a_sample_meets_the_same_draws_in_every_company_and_order(kind: str) -> None:
    whole, other = Draws(1, "noise", IDS), Draws(1, "noise", ["c", "x", "a"])
    for _ in range(3):  # the streams go on from pass to pass
        one, two = getattr(whole, kind)(5, 4), getattr(other, kind)(5, 4)
        assert torch.equal(one[[2, 0]], two[[0, 2]])


def test_other_seeds_purposes_and_passes_are_other_draws() -> None:
    first = Draws(1, "noise", IDS)
    drawn = [first.normal(20), first.normal(20), Draws(2, "noise", IDS).normal(20), Draws(1, "else", IDS).normal(20)]
    assert all(not torch.equal(drawn[i], drawn[j]) for i in range(4) for j in range(i))


def test_a_place_in_memory_that_is_used_again_holds_the_same_draws() -> None:
    fresh, again = Draws(0, "noise", IDS), Draws(0, "noise", IDS)
    for shape in ((4,), (4,), (2, 3)):
        assert torch.equal(fresh.normal(*shape), again.normal(*shape, reuse=True))
    assert fresh.used == again.used == 3


def test_draws_have_their_distributions() -> None:
    draws = Draws(0, "noise", [str(i) for i in range(40)])
    assert stats.kstest(draws.normal(500).flatten().numpy(), "norm").pvalue > 0.001
    assert stats.kstest(draws.uniform(500).flatten().numpy(), "uniform").pvalue > 0.001
    assert stats.kstest(draws.signed(500).flatten().numpy(), stats.uniform(-1, 2).cdf).pvalue > 0.001
    columns = draws.normal(500).numpy()
    assert np.abs(np.corrcoef(columns) - np.eye(40)).max() < 0.25  # 780 pairs, sd of each 1 / sqrt(500)


def test_the_global_generators_stay_where_they_are() -> None:
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    draws = Draws(0, "noise", IDS)
    draws.normal(3), draws.uniform(), draws.seeds()
    assert torch.equal(before[0], torch.get_rng_state())
    assert np.array_equal(before[1], np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("shape", [(3, 2, 5), (7, 3, 2), (6, 4), (3, 1, 1)])
def test_inside_a_model_the_draws_follow_the_samples(shape: tuple[int, ...]) -> None:
    """The axis of the samples is first, second (sequence first), or run-wise along the first (heads)."""
    axis = 1 if shape[0] == 7 else 0
    whole = spread("normal", shape, Draws(0, "noise", IDS)).movedim(axis, 0).reshape(3, -1)
    small = list(shape)
    small[axis] //= 3
    for row, sample in enumerate(IDS):
        alone = spread("normal", tuple(small), Draws(0, "noise", [sample]))
        assert torch.equal(alone.flatten(), whole[row])


def test_where_no_axis_holds_the_samples_there_are_draws_all_the_same() -> None:
    assert spread("uniform", (5,), Draws(0, "noise", IDS)).shape == (5,)
    assert spread("uniform", (), Draws(0, "noise", IDS)).shape == ()
