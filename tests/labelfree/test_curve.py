"""The ranked curve: planted answers, small real networks, and what must hold of any such curve."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.metrics import cohen_kappa_score

from roadworthy.errors import InputError
from roadworthy.labelfree.curve import agreement_curve, pass_shares, selective_curve

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray]  # mean probabilities, clean class, clean confidence


def one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    return np.eye(count)[classes]


def test_a_perfect_balanced_model_stands_above_a_collapsed_one() -> None:
    """Plain class purity gives .1 and 1 here, the wrong way round."""
    balanced, nothing = np.arange(100) % 10, np.zeros(100, dtype=int)
    scores = np.linspace(1, 0.5, 100)
    perfect = agreement_curve(one_hot(balanced, 10), balanced, scores, draws=0)
    collapsed = agreement_curve(one_hot(nothing, 10), nothing, scores, draws=0)
    assert (perfect.area, collapsed.area) == (1.0, 0.0)
    assert (perfect.reliability == 1).all()
    assert (collapsed.reliability == 0).all()
    assert "one class to every sample" in collapsed.notes[0]
    unsure = np.stack([0.9 - 0.4 * scores, 0.1 + 0.4 * scores], axis=1)  # one class, of varied certainty
    np.testing.assert_allclose(agreement_curve(unsure, np.ones(100, int), scores, draws=0).reliability, 0, atol=1e-12)


def test_the_whole_set_has_cohens_kappa() -> None:
    rng = np.random.default_rng(0)
    clean = rng.choice(4, p=[0.5, 0.3, 0.15, 0.05], size=300)
    again = np.where(rng.random(300) < 0.7, clean, rng.integers(4, size=300))
    found = agreement_curve(one_hot(again, 4), clean, rng.random(300), draws=0)
    assert found.reliability[-1] == pytest.approx(cohen_kappa_score(clean, again))
    assert found.coverage[-1] == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 5), st.floats(0.01, 1))
def test_more_stable_at_equal_clean_outputs_never_scores_lower(seed: int, classes: int, step: float) -> None:
    rng = np.random.default_rng(seed)
    n = 40
    predicted = rng.integers(classes, size=n)
    scores = rng.random(n).round(1)
    shares = rng.dirichlet(np.ones(classes), size=n) * 0.5 + 0.5 * one_hot(predicted, classes)
    before = agreement_curve(shares, predicted, scores, draws=0)
    if (before.reliability < 0).any():  # below chance less so is no gain
        return
    moved = step * rng.random((n, 1)) * rng.integers(2, size=(n, 1))  # some samples a little, some not at all
    after = agreement_curve((1 - moved) * shares + moved * one_hot(predicted, classes), predicted, scores, draws=0)
    assert (after.reliability >= before.reliability - 1e-12).all()
    assert after.area >= before.area - 1e-12


def test_passes_of_other_samples_give_nothing() -> None:
    """Every sample gets the passes of another: 40 draws of them lie around 0."""
    rng = np.random.default_rng(1)
    predicted = rng.integers(5, size=400)
    shares = 0.8 * one_hot(predicted, 5) + 0.2 * rng.dirichlet(np.ones(5), size=400)
    scores = rng.random(400)
    areas = np.array(
        [agreement_curve(shares[rng.permutation(400)], predicted, scores, draws=0).area for _ in range(40)]
    )
    assert abs(areas.mean()) < 4 * areas.std() / np.sqrt(40)
    assert np.abs(areas).max() < 0.1
    assert agreement_curve(shares, predicted, scores, draws=0).area > 0.75


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000))
def test_the_order_of_rows_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.ones(3), size=25)
    predicted, scores = rng.integers(3, size=25), rng.integers(4, size=25) / 4
    rows = rng.permutation(25)
    one = agreement_curve(shares, predicted, scores, draws=50)
    two = agreement_curve(shares[rows], predicted[rows], scores[rows], draws=50)
    assert one.as_dict() == two.as_dict()


def test_a_lone_class_and_a_lone_sample_have_a_curve() -> None:
    curve = agreement_curve(np.full((100, 2), 0.5), np.zeros(100, int), np.linspace(0.5, 1, 100), draws=100)
    assert (curve.n, curve.coverage[-1], curve.area) == (100, 1.0, 0.0)
    only = agreement_curve([[0.2, 0.8]], [1], [0.8], draws=100)
    assert only.coverage.tolist() == [1.0]
    assert np.isnan([only.area_low, only.area_high]).all()
    assert json.loads(json.dumps(only.as_dict()))["area_low"] is None


def test_the_area_is_of_all_steps_though_fewer_are_kept() -> None:
    rng = np.random.default_rng(2)
    values, scores = rng.random(5000), rng.random(5000)
    curve = selective_curve(values, scores, draws=200)
    assert len(curve.coverage) == 200
    falling = values[np.argsort(-scores)]
    assert curve.area == pytest.approx((np.cumsum(falling) / np.arange(1, 5001)).mean())
    assert curve.area_low < curve.area < curve.area_high
    np.testing.assert_allclose(curve.coverage, np.arange(1, 201) / 200)


def test_shares_of_passes() -> None:
    found = pass_shares([30, 0, 15], 30, [0, 1, 2], np.array([[1, 0, 0], [0.5, 0.25, 0.25], [0, 0, 1.0]]))
    np.testing.assert_allclose(found, [[1, 0, 0], [2 / 3, 0, 1 / 3], [0.25, 0.25, 0.5]])
    with pytest.raises(InputError, match="expected 0 to 30 passes"):
        pass_shares([31], 30, [0], 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([[0.5, 0.5]], [0, 1], [1.0]), r"\(1, 2\) and predicted \(2,\)"),
        (([[np.nan, 0.5]], [0], [1.0]), "shares: some values are not finite"),
        (([[0.5, 0.5]], [2], [1.0]), "whole numbers from 0 to 1"),
        (([[0.5, 0.5]], [0], [np.nan]), "scores: rows 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(InputError, match=message):
        agreement_curve(*arguments)
    with pytest.raises(InputError, match="level: 90 came"):
        selective_curve([1.0], [1.0], level=90)


def network(seed: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    layers = [torch.nn.Linear(64, 48), torch.nn.ReLU(), torch.nn.Linear(48, 48), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(48, 10))


@pytest.fixture(scope="module")
def digits() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    images, labels = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(images))
    x, y = torch.tensor(images[rows] / 16, dtype=torch.float32), torch.tensor(labels[rows])
    return x[:900], y[:900], x[900:]


def train(seed: int, x: torch.Tensor, y: torch.Tensor, epochs: int) -> torch.nn.Module:
    with torch.random.fork_rng():
        model = network(seed)
        optimizer = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(epochs):
            for rows in torch.randperm(len(x)).split(64):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
    return model


@torch.no_grad()
def perturbed(
    model: Callable[[torch.Tensor], torch.Tensor], x: torch.Tensor, noise: float, passes: int = 20
) -> Arrays:
    generator = torch.Generator().manual_seed(0)
    total = torch.zeros(len(x), 10, dtype=torch.float64)
    for _ in range(passes):
        total += model(x + noise * torch.randn(x.shape, generator=generator)).double().softmax(1)
    clean = model(x).double().softmax(1)
    return (total / passes).numpy(), clean.argmax(1).numpy(), clean.max(1).values.numpy()


def test_small_networks_stand_in_the_right_order(digits: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> None:
    x, y, held_out = digits

    def area(model: torch.nn.Module, noise: float = 0.1) -> float:
        return agreement_curve(*perturbed(model, held_out, noise), draws=0).area

    with torch.random.fork_rng():
        untrained = [area(network(seed)) for seed in range(3)]
    trained = train(0, x, y, 8)
    ladder = [area(trained, noise) for noise in (0.02, 0.1, 0.2, 0.4, 0.8)]
    assert np.abs(untrained).max() < 0.02
    assert area(train(1, x, torch.zeros_like(y), 4)) == pytest.approx(0, abs=1e-9)
    assert ladder[1] > 0.9
    assert ladder == sorted(ladder, reverse=True)  # the same clean outputs, ever less stable


def band_coverage(runs: int, n: int) -> tuple[float, float]:
    """How often area and middle point of a planted curve lie in their 90 % intervals."""
    rng = np.random.default_rng(7)

    def sample(size: int) -> Arrays:
        scores, predicted = rng.random(size), rng.choice(3, p=[0.6, 0.3, 0.1], size=size)
        keep = rng.beta(2 + 6 * scores, 2)
        noise = rng.dirichlet(np.ones(3), size=size)
        return keep[:, None] * one_hot(predicted, 3) + (1 - keep)[:, None] * noise, predicted, scores

    truth = agreement_curve(*sample(100_000), draws=0)
    held, middle = 0, 0
    for run in range(runs):
        shares, predicted, scores = sample(n)
        curve = agreement_curve(shares, predicted, scores, draws=200, seed=run)
        held += curve.area_low <= truth.area <= curve.area_high
        assert curve.low is not None
        assert curve.high is not None
        k = int(np.searchsorted(-curve.thresholds, -0.5, side="right")) - 1  # the last score of at least one half
        want = np.interp(curve.thresholds[k], truth.thresholds[::-1], truth.reliability[::-1])
        middle += curve.low[k] <= want <= curve.high[k]
    return held / runs, middle / runs


def test_intervals_hold_what_they_say() -> None:
    area, middle = band_coverage(runs=150, n=100)
    assert 0.84 <= area <= 0.96
    assert 0.84 <= middle <= 0.96
