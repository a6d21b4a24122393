"""The wired network: exact Shapley values, and the order of its maps."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.evaluation.selftest import wired as module
from roadworthy.evaluation.selftest.contender import contenders
from roadworthy.evaluation.selftest.wired import (
    CELL,
    GRID,
    MEAN,
    ORDER,
    WiredNet,
    shapley_values,
    wired,
    wired_bench,
)


def by_permutations(game: np.ndarray) -> list[float]:
    """Return the mean over all orders of what each player adds when it joins."""
    players = int(math.log2(len(game)))
    found = np.zeros(players)
    for order in itertools.permutations(range(players)):
        held = 0
        for player in order:
            found[player] += game[held | 1 << player] - game[held]
            held |= 1 << player
    return (found / math.factorial(players)).tolist()


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5).flatmap(lambda k: st.lists(st.floats(-10, 10), min_size=2**k, max_size=2**k)))
def test_shapley_values_are_means_over_all_orders(game: list[float]) -> None:
    found = shapley_values(np.array(game))
    assert found.tolist() == pytest.approx(by_permutations(np.array(game)), abs=1e-9)
    assert found.sum() == pytest.approx(game[-1] - game[0], abs=1e-9)


@pytest.mark.parametrize("length", [0, 1, 3, 6])
def test_a_game_has_a_value_for_each_set(length: int) -> None:
    with pytest.raises(InputError, match=f"game: {length} values"):
        shapley_values(np.zeros(length))


def test_the_game_is_what_the_network_says_of_images_with_cells_removed() -> None:
    bench, net = wired_bench(8, seed=2), WiredNet().double()
    draw = np.random.default_rng(0)
    for row in range(8):
        game = module._game(bench.strengths[row], int(bench.labels[row]))
        for kept in draw.integers(0, 2**16, size=20):
            cells = (int(kept) >> np.arange(GRID * GRID)) & 1
            mask = torch.from_numpy(cells.reshape(GRID, GRID).repeat(CELL, axis=0).repeat(CELL, axis=1) > 0)
            image = torch.where(mask, bench.images[row].double(), MEAN)
            with torch.no_grad():
                answer = torch.softmax(net(image[None]), dim=1)[0, int(bench.labels[row])]
            assert float(answer) == pytest.approx(game[kept], abs=1e-5)


def test_worth_adds_up_and_maps_hold_it() -> None:
    bench = wired_bench(8, seed=4)
    worth, maps = bench.worth(), bench.maps()
    with torch.no_grad():
        answers = torch.softmax(WiredNet()(bench.images), dim=1)[torch.arange(8), torch.from_numpy(bench.labels)]
    np.testing.assert_allclose(worth.sum(axis=1), answers.numpy() - 0.25, atol=1e-5)
    cells = maps["graded truth"].reshape(8, GRID, CELL, GRID, CELL).sum(axis=(2, 4)).reshape(8, -1)
    np.testing.assert_allclose(cells, worth, atol=1e-12)
    whole = shapley_values(module._game(bench.strengths[0], int(bench.labels[0])))  # all 65,536 sets of cells
    np.testing.assert_allclose(worth[0], whole, atol=1e-12)
    own = np.take_along_axis(bench.strengths, bench.labels[:, None, None], axis=1)[:, 0]
    rival = (bench.strengths.sum(axis=1) > 0) & (own == 0)
    assert (worth[rival] < 0).all()
    assert all(np.corrcoef(worth[row], own[row])[0, 1] > 0.9 for row in range(8))
    assert (maps["half of the truth"].sum(axis=(1, 2)) == 2 * CELL**2).all()
    assert (maps["half of the truth"] <= maps["region truth"]).all()


def test_the_network_answers_all_and_sees_only_its_own_pattern() -> None:
    bench = wired_bench(40, seed=7)
    with torch.no_grad():
        logits = WiredNet()(bench.images).numpy()
    np.testing.assert_allclose(logits, 4 * bench.strengths.sum(axis=2), atol=1e-4)
    assert (logits.argmax(axis=1) == bench.labels).all()


def test_one_order_cannot_tell_the_truths_apart_both_can() -> None:
    found = {trial.strategy: trial for trial in wired(contenders(["mean", "mean morf", "mean lerf"]), n=60)}
    assert [found[name].passed for name in ("mean", "mean morf", "mean lerf")] == [True, True, False]
    assert found["mean morf"].measured == 1.0
    assert "graded truth > region truth fails" in found["mean lerf"].note
    assert (found["mean morf"].n, found["mean morf"].seeds) == (60, (0,))


def test_a_fine_tuned_copy_keeps_the_order() -> None:
    assert wired(contenders(["symmetric fine-tuned"]), n=60, train=200)[0].passed


def test_pairs_are_counted_on_scores_that_are_wrong() -> None:
    draw = np.random.default_rng(0)
    right = np.array([0.9, 0.7, 0.5, 0.0, 0.0, -0.9])[:, None] + 0.05 * draw.normal(size=(len(ORDER), 50))
    assert module._pairs(right, 0) == (15, [])
    assert module._pairs(right[::-1], 0)[0] == 0
    favoured = right.copy()
    favoured[4] += 0.2  # a constant map ahead of random
    assert module._pairs(favoured, 0) == (14, ["random = constant fails"])
