"""Smoothness against a loop over neighbours, and on maps with known answers."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import ndimage

from roadworthy.removal import smoothness


def by_hand(grid: np.ndarray) -> float:
    centred = grid - grid.mean()
    pairs = [
        centred[i, j] * centred[i + a, j + b]
        for i in range(grid.shape[0])
        for j in range(grid.shape[1])
        for a, b in ((0, 1), (1, 0))
        if i + a < grid.shape[0] and j + b < grid.shape[1]
    ]
    return float(np.mean(pairs) / (centred**2).mean())


@given(st.integers(2, 6), st.integers(2, 6), st.integers(0, 2**32))
def test_equals_a_loop_over_neighbours(height: int, width: int, seed: int) -> None:
    grid = np.random.default_rng(seed).normal(size=(2, height, width))
    np.testing.assert_allclose(smoothness(grid), [by_hand(part) for part in grid], atol=1e-12)


def test_known_maps() -> None:
    noise = np.random.default_rng(0).normal(size=(50, 24, 24))
    assert abs(smoothness(noise).mean()) < 0.01
    assert smoothness(ndimage.gaussian_filter(noise, 3, axes=(1, 2))).min() > 0.8
    row, column = np.indices((8, 8))
    assert smoothness(((row + column) % 2)[None])[0] == -1


def test_scale_and_shift_do_not_matter() -> None:
    maps = np.random.default_rng(1).normal(size=(3, 5, 5))
    for other in (1e-200 * maps, 1e200 * maps, 3 * maps + 1):
        np.testing.assert_allclose(smoothness(other), smoothness(maps), atol=1e-9)


def test_nothing_to_say() -> None:
    maps = np.zeros((3, 4, 4))
    maps[1, 0, 0], maps[2] = np.nan, np.random.default_rng(2).random((4, 4))
    assert np.isnan(smoothness(maps)).tolist() == [True, True, False]
    assert np.isnan(smoothness(np.ones((2, 1, 1)))).all()
    assert np.isnan(smoothness(np.arange(3.0)[:, None])).all()
    assert smoothness(np.empty((0, 3, 3))).shape == (0,)


def test_channels_are_not_neighbours() -> None:
    maps = np.random.default_rng(3).normal(size=(1, 4, 30, 30))
    smooth = np.broadcast_to(maps[:, :1], maps.shape)
    assert abs(smoothness(smooth)[0]) < 0.1
