"""Shift in five numbers, on Gaussians whose figures are known."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.errors import InputError
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.shift import SHIFT_NAMES, measure_shift


def cloud(n: int, mean: float, seed: int, start: int = 0) -> Outputs:
    values = np.random.default_rng(seed).normal(size=(n, 3))
    values[:, 0] += mean
    p = 1 / (1 + np.exp(-2 * values[:, 0]))
    return Outputs.of(p, features=values, labels=(p > 0.5).astype(int), ids=range(start, start + n))


def named(source: Outputs, target: Outputs) -> dict[str, float]:
    return dict(zip(SHIFT_NAMES, measure_shift(source, target).tolist(), strict=True))


def test_no_shift_and_a_growing_one() -> None:
    source = cloud(800, 0, 0)
    none = named(source, cloud(800, 0, 1, 10**4))
    assert none["confidence"] == pytest.approx(0, abs=0.02)
    assert none["class shares"] == pytest.approx(0, abs=0.08)
    assert none["domain"] == pytest.approx(0.5, abs=0.05)
    assert none["distance"] == pytest.approx(0, abs=0.08)
    steps = [named(source, cloud(800, mean, 2, 10**4)) for mean in (0.5, 1, 2, 4)]
    for name in ("class shares", "domain", "distance", "transport"):
        values = [step[name] for step in steps]
        assert values == sorted(values), name


def test_figures_by_hand() -> None:
    source = Outputs.of([0.1, 0.9] * 20, labels=[0, 1] * 20)
    target = Outputs.of([0.6] * 40, ids=range(100, 140))
    found = named(source, target)
    assert found["confidence"] == pytest.approx(0.3)
    assert found["class shares"] == pytest.approx(0.5)  # halves, against all of class 1
    assert found["transport"] == pytest.approx(1 - (0.4 + 0.6) / 2)
    assert found["domain"] == 1


def test_constant_features_and_repeated_samples_are_no_infinite_distance() -> None:
    flat = Outputs.of(np.full(30, 0.7), labels=[1] * 30, features=np.ones((30, 2)))
    assert np.isfinite(measure_shift(flat, flat)[[0, 1, 2, 4]]).all()
    twice = Outputs.of([0.2, 0.8] * 15, labels=[0, 1] * 15, features=[[0.0], [1.0]] * 15)
    assert np.isfinite(measure_shift(twice, twice)).all()


def test_order_of_rows_and_what_is_refused() -> None:
    source, target = cloud(300, 0, 3), cloud(200, 1, 4, 10**4)
    rng = np.random.default_rng(0)
    turned = measure_shift(source.take(rng.permutation(300)), target.take(rng.permutation(200)))
    np.testing.assert_allclose(turned, measure_shift(source, target), atol=1e-9)
    with pytest.raises(InputError, match="got 3 classes, the source has 2"):
        measure_shift(source, Outputs.of(np.eye(3), features=np.ones((3, 3))))
    with pytest.raises(InputError, match="features of width None, the source has 3"):
        measure_shift(source, Outputs.of([0.5, 0.5]))
    with pytest.raises(InputError, match="got 1 samples"):
        measure_shift(source, target.take([0]))
