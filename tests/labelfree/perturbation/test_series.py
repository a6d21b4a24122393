from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation import Draws, FrequencyNoise, InputPerturbation, Slice, TimeWarp
from roadworthy.labelfree.perturbation.series import read_at

KINDS = [TimeWarp(), FrequencyNoise(), Slice()]


def draws(n: int) -> Draws:
    return Draws(0, "test", [str(row) for row in range(n)])


@pytest.mark.parametrize("shape", [(4, 30), (4, 3, 30), (4, 2, 31), (4, 1, 2)])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_series_are_changed_but_not_those_of_the_caller(kind: InputPerturbation, shape: tuple[int, ...]) -> None:
    series = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    kept = series.clone()
    found = kind.disturb(series, torch.tensor([0.3, 0.0, 0.3, 0.0]), draws(4))
    assert found.shape == series.shape
    assert torch.equal(series, kept)
    assert torch.allclose(found[[1, 3]], series[[1, 3]], atol=1e-5)
    if shape[-1] > 2:
        assert bool((found[[0, 2]] - series[[0, 2]]).abs().flatten(1).amax(1).gt(1e-3).all())


@pytest.mark.parametrize("kind", [TimeWarp(), Slice()], ids=lambda kind: kind.name)
def test_time_keeps_its_direction_and_channels_stay_together(kind: InputPerturbation) -> None:
    time = torch.arange(50.0).expand(6, 2, 50) * torch.tensor([1.0, -2.0])[:, None]
    found = kind.disturb(time, torch.full((6,), 0.3), draws(6))
    assert bool((found[:, 0].diff(dim=1) > 0).all())
    assert torch.allclose(found[:, 1], -2 * found[:, 0], atol=1e-3)
    if kind.name == "time-warp":
        assert torch.allclose(found[:, 0, [0, -1]], torch.tensor([0.0, 49.0]).expand(6, 2), atol=1e-4)
    else:
        length = found[:, 0, -1] - found[:, 0, 0]
        assert length.tolist() == pytest.approx([49 * 0.7] * 6, rel=1e-4)


def test_the_speed_of_a_warp_has_the_wanted_spread() -> None:
    time = torch.arange(400.0).expand(300, 400)
    found = TimeWarp(knots=2).disturb(time, torch.full((300,), 0.2), draws(300))
    # at the ends the logarithm of the speed is a drawn knot; the mean of the series' speeds is divided out
    speed = found.diff(dim=1).double().log()
    difference = (speed[:, -1] - speed[:, 0]).numpy()
    assert difference.std() == pytest.approx(0.2 * 2**0.5, rel=0.1)


def test_frequencies_change_by_the_wanted_share_and_the_level_stays() -> None:
    time = np.arange(64)
    wave = torch.tensor(5 + np.sin(2 * np.pi * 4 * time / 64), dtype=torch.float32).expand(500, 1, 64)
    found = FrequencyNoise().disturb(wave, torch.full((500,), 0.1), draws(500))
    spectrum = np.fft.rfft(found.numpy()[:, 0], axis=1)
    clean = np.fft.rfft(wave[0, 0].numpy())
    assert np.allclose(spectrum[:, 0], clean[0], rtol=1e-4)
    change = spectrum[:, 4] / clean[4] - 1
    assert change.real.std() == pytest.approx(0.1, rel=0.1)
    assert change.imag.std() == pytest.approx(0.1, rel=0.1)
    assert np.abs(np.delete(spectrum, [0, 4], axis=1)).max() < 1e-3


def test_reading_between_points_is_that_of_numpy() -> None:
    generator = torch.Generator().manual_seed(1)
    values, places = torch.randn(3, 2, 9, generator=generator), torch.rand(3, 9, generator=generator) * 8
    places[0, 0], places[0, 1] = 0.0, 8.0
    found = read_at(values, places.double())
    for row in range(3):
        for channel in range(2):
            expected = np.interp(places[row].numpy(), np.arange(9), values[row, channel].numpy())
            assert np.allclose(found[row, channel].numpy(), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_what_is_no_series_is_refused(kind: InputPerturbation) -> None:
    for shape in ((3, 1, 8, 8), (3, 2, 1)):
        with pytest.raises(InputError, match=r"expected series \(N, C, T\)"):
            kind.check(torch.rand(shape))
    with pytest.raises(InputError, match=r"word-swap"):
        kind.check(torch.ones(3, 4, dtype=torch.int64))
