"""The formulas that docs/methods write down, worked out by hand, are what the code gives."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats
import torch

from roadworthy.attribution import Settings, attribute
from roadworthy.comparison.intact import newcombe
from roadworthy.imputation import impute
from roadworthy.labelfree import Outputs, agreement_curve, perturbation_consistency
from roadworthy.labelfree.estimators import estimators
from roadworthy.labelfree.estimators.nuclear_norm import nuclear_norm
from roadworthy.labelfree.intervals import Experience, sampling_half_width
from roadworthy.labelfree.labelling.intervals import wilson
from roadworthy.removal import smoothness, units_removed
from roadworthy.statistics import (
    area,
    holm,
    information_bounds,
    kendalls_w,
    least_difference,
    topk_accuracy,
    unpaired_difference,
)
from roadworthy.statistics.resampling import expanded_interval

RNG = np.random.default_rng(20)


def test_removal() -> None:
    assert units_removed(10, 0.3) == math.floor(0.3 * 10 + 1e-9) == 3
    values = RNG.normal(size=(6, 7))
    v = values - values.mean()
    pairs = np.concatenate([(v[1:] * v[:-1]).ravel(), (v[:, 1:] * v[:, :-1]).ravel()])
    assert smoothness(values[None])[0] == pytest.approx(pairs.mean() / (v**2).mean())


def test_imputation() -> None:
    image = torch.rand(1, 1, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    removed = torch.zeros(1, 5, 5, dtype=torch.bool)
    places = [(0, 0), (0, 1), (2, 2)]
    for row, column in places:
        removed[0, row, column] = True
    filled = impute(image, removed, noise=0)[0, 0].numpy()
    for row, column in places:
        around = [
            (1 / 6 if 0 in (down, right) else 1 / 12, filled[row + down, column + right])
            for down in (-1, 0, 1)
            for right in (-1, 0, 1)
            if (down or right) and 0 <= row + down < 5 and 0 <= column + right < 5
        ]
        expected = sum(weight * value for weight, value in around) / sum(weight for weight, _ in around)
        assert filled[row, column] == pytest.approx(expected, abs=1e-4)


def test_area() -> None:
    p, a = np.array([0, 0.1, 0.5, 0.9]), RNG.random(4)
    by_hand = sum((p[i] - p[i - 1]) * (a[i] + a[i - 1]) / 2 for i in (1, 2, 3)) / (p[-1] - p[0])
    assert float(area(p, a)) == pytest.approx(by_hand)


def test_attribution() -> None:
    torch.manual_seed(0)
    net = torch.nn.Sequential(
        torch.nn.Flatten(), torch.nn.Linear(12, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3)
    ).eval()
    image = torch.rand(1, 1, 3, 4)
    settings = Settings(ig_steps=7, samples=5, baseline="black", noise=0.1, noise_unit="pixel")
    names = ["grad", "ixg", "ig", "grad-sg", "grad-sq", "grad-var"]
    maps = attribute(net, image, names, target=[1], settings=settings)

    def gradient(x: torch.Tensor) -> torch.Tensor:
        leaf = x.clone().requires_grad_()
        (found,) = torch.autograd.grad(net(leaf)[0, 1], leaf)
        return found

    nodes, weights = np.polynomial.legendre.leggauss(7)
    path = sum(w / 2 * gradient(float((1 + a) / 2) * image) for a, w in zip(nodes, weights, strict=True))
    for name, expected in (("grad", gradient(image)), ("ixg", image * gradient(image)), ("ig", image * path)):
        assert np.allclose(maps[name][0], expected[0], atol=1e-6), name
    mean, square, variance = (np.asarray(maps[f"grad-{suffix}"]) for suffix in ("sg", "sq", "var"))
    assert np.allclose(variance, square - mean**2, atol=1e-6)


def test_statistics() -> None:
    draws, n = RNG.normal(size=(999, 1)), 12
    tail = scipy.stats.norm.cdf(scipy.stats.t.ppf(0.025, n - 1) * math.sqrt(n / (n - 1)))
    low, high = expanded_interval(draws, 0.95, n)
    assert [low[0], high[0]] == pytest.approx(np.quantile(draws, [tail, 1 - tail]).tolist())
    p = np.sort(RNG.random(5) / 10)
    assert holm(p) == pytest.approx([max(min(1, (5 - j) * p[j]) for j in range(i + 1)) for i in range(5)])
    ranks = np.array([RNG.permutation(5) for _ in range(4)], dtype=float)
    d = ranks - ranks.mean(axis=1, keepdims=True)
    assert float(kendalls_w(ranks)) == pytest.approx((d.sum(axis=0) ** 2).sum() / (4 * (d**2).sum()))
    assert least_difference(5, 36) == pytest.approx(scipy.stats.t.ppf(1 - 0.05 / 72, 4) / math.sqrt(5))
    first, second = RNG.normal(size=9), RNG.normal(size=6)
    one, other = first.var(ddof=1) / 9, second.var(ddof=1) / 6
    freedom = (one + other) ** 2 / (one**2 / 8 + other**2 / 5)
    half = scipy.stats.t.ppf(0.975, freedom) * math.sqrt(one + other)
    found = unpaired_difference(first[None], second[None])
    assert found.high[0] - found.difference[0] == pytest.approx(half)
    z = scipy.stats.norm.ppf(0.975)
    (low, high), (base_low, base_high) = wilson(0.7, 40, z), wilson(0.4, 25, z)
    assert newcombe((0.7, 40), (0.4, 25), 0.95) == pytest.approx(
        (0.3 - math.hypot(0.7 - low, base_high - 0.4), 0.3 + math.hypot(high - 0.7, 0.4 - base_low))
    )


def test_information() -> None:
    error, entropy = 0.4, 2.0
    h = -(error * math.log2(error) + (1 - error) * math.log2(1 - error))
    assert information_bounds(1 - error, [1] * 4) == pytest.approx(
        (entropy - h - error * math.log2(3), entropy - 2 * error)
    )


def test_estimators_of_accuracy() -> None:
    p = RNG.dirichlet(np.ones(3), size=200)
    labels = np.array([RNG.choice(3, p=row) for row in p])
    source, target = Outputs.of(p[:120], labels=labels[:120]), Outputs.of(p[120:])
    sure, right = p.max(axis=1), p.argmax(axis=1) == labels

    def said(name: str) -> float:
        return estimators[name].fit(source).estimate(target).accuracy

    assert said("source") == pytest.approx(right[:120].mean())
    assert said("doc") == pytest.approx(right[:120].mean() + sure[120:].mean() - sure[:120].mean())
    threshold = np.sort(sure[:120])[(~right[:120]).sum()]
    assert said("atc") == pytest.approx((sure[120:] >= threshold).mean())
    norm = np.linalg.svd(p, compute_uv=False).sum() / math.sqrt(min(200, 3) * 200)
    assert nuclear_norm(p) == pytest.approx(norm)


def test_self_validation() -> None:
    shifts, errors = RNG.normal(size=(12, 5)), RNG.normal(size=(12, 3))
    kinds, live = np.array(list("aaaabbbccccc")), RNG.normal(size=5)
    distance = np.sqrt((((shifts - live) / (shifts.std(axis=0) + 0.02)) ** 2).mean(axis=1))
    balance = np.array([1 / (kinds == kind).sum() for kind in kinds])
    weights = balance * np.exp(-(distance**2 - distance.min() ** 2) / (2 * 0.3**2))
    expected = weights @ np.abs(errors) / weights.sum()
    assert Experience(shifts, errors, kinds).expected_errors(live) == pytest.approx(expected)
    z = scipy.stats.norm.ppf(0.95)
    centre = (0.8 * 50 + z**2 / 2) / (50 + z**2)
    assert sampling_half_width(0.8, 50, 0.9) == pytest.approx(z * math.sqrt(centre * (1 - centre) / (50 + z**2)))


def test_firmness() -> None:
    found = perturbation_consistency(lambda x: x, RNG.normal(size=(5, 3)), features=None, passes=7)
    assert found.scores("variance") == pytest.approx(1 - found.variance / (1 - 1 / 3))
    assert found.scores("entropy") == pytest.approx(1 - found.entropy)
    spread = 4 * found.confidence_variance / (1 - 1 / 3) ** 2
    assert found.scores("confidence-variance") == pytest.approx(1 - spread)
    shares, predicted, sure = RNG.dirichlet(np.ones(3), size=20), RNG.integers(3, size=20), RNG.random(20)
    order = np.argsort(-sure)
    r = np.cumsum(shares[np.arange(20), predicted][order])
    chance = np.cumsum((shares @ (np.bincount(predicted, minlength=3) / 20))[order])
    curve = agreement_curve(shares, predicted, sure, draws=0)
    assert curve.reliability == pytest.approx((r - chance) / (np.arange(1, 21) - chance))


def test_rank_k() -> None:
    assert dict(topk_accuracy([[0.5, 0.5, 0.5, 0.9]], [1], k=(1, 2, 3))) == pytest.approx({1: 0, 2: 1 / 3, 3: 2 / 3})
    r, n, z = 0.9, 50, 1.96
    centre = (r + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * math.sqrt(r * (1 - r) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    assert wilson(r, n, z) == pytest.approx((centre - half, centre + half))
