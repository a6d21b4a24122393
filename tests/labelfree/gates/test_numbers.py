"""The numbers of the gates against direct formulas, and their false alarms under the null."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, multivariate_normal

from roadworthy.errors import InputError
from roadworthy.labelfree import Outputs
from roadworthy.labelfree.gates import mmd_test, run_gates
from roadworthy.labelfree.gates.beyond import share_beyond
from roadworthy.labelfree.gates.calibration import calibrated_errors
from roadworthy.labelfree.gates.class_shares import class_shares
from roadworthy.labelfree.gates.collapsed import classes_in_effect
from roadworthy.labelfree.gates.domain_classifier import area_interval
from roadworthy.labelfree.gates.mahalanobis import mahalanobis_scores


def direct_mmd(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """The definition, pair by pair."""
    both = np.concatenate([one, other])
    both = (both - both.mean(axis=0)) / both.std(axis=0)
    n, total = len(one), len(both)
    apart = [np.sum((both[i] - both[j]) ** 2) for i in range(total) for j in range(i)]
    width = np.median(apart)

    def k(i: int, j: int) -> float:
        return float(np.exp(-np.sum((both[i] - both[j]) ** 2) / (2 * width)))

    xx = sum(k(i, j) for i in range(n) for j in range(n) if i != j) / (n * (n - 1))
    yy = sum(k(i, j) for i in range(n, total) for j in range(n, total) if i != j)
    m = total - n
    xy = sum(k(i, j) for i in range(n) for j in range(n, total)) / (n * m)
    return xx + yy / (m * (m - 1)) - 2 * xy, float(np.sqrt(width))


def test_mmd_is_its_definition() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.normal(size=(12, 3)), rng.normal(size=(9, 3)) + 0.5
    found = mmd_test(one, other, permutations=10)
    squared, width = direct_mmd(one, other)
    assert found.squared == pytest.approx(squared, abs=1e-12)
    assert found.bandwidth == pytest.approx(width)


def test_mmds_p_is_exact_where_all_permutations_can_be_listed() -> None:
    from itertools import combinations

    rng = np.random.default_rng(1)
    both = rng.normal(size=(8, 2)) + np.array([1.5] * 4 + [0] * 4)[:, None]
    values = []
    for chosen in combinations(range(8), 4):
        rest = [row for row in range(8) if row not in chosen]
        values.append(direct_mmd(both[list(chosen)], both[rest])[0])
    exact = np.mean(np.array(values) >= values[0] - 1e-12)
    found = mmd_test(both[:4], both[4:], permutations=20_000)
    assert found.p == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("width", [4, 400])
def test_mmds_p_is_uniform_under_the_null(width: int) -> None:
    rng = np.random.default_rng(2)
    p = [
        mmd_test(rng.normal(size=(30, width)), rng.normal(size=(25, width)), permutations=99, seed=k).p
        for k in range(200)
    ]
    assert binomtest(int(np.sum(np.array(p) <= 0.1)), 200, 0.1).pvalue > 0.01


def test_mmd_of_bad_input() -> None:
    with pytest.raises(InputError, match="one width"):
        mmd_test(np.zeros((3, 2)), np.zeros((3, 3)))
    with pytest.raises(InputError, match="at least 2 each"):
        mmd_test(np.zeros((1, 2)), np.zeros((3, 2)))
    assert mmd_test(np.zeros((5, 2)), np.zeros((5, 2))).p == 1.0


def test_the_interval_of_an_area_covers() -> None:
    from scipy.stats import norm
    from sklearn.metrics import roc_auc_score

    rng, truth, n, m = np.random.default_rng(3), float(norm.cdf(1 / np.sqrt(2))), 60, 40
    hits = 0
    for _ in range(300):
        scores = np.concatenate([rng.normal(size=n) + 1, rng.normal(size=m)])
        low, high = area_interval(float(roc_auc_score([1] * n + [0] * m, scores)), n, m)
        hits += low <= truth <= high
    assert binomtest(hits, 300, 0.95).pvalue > 0.001
    low, high = area_interval(1.0, 20, 20)
    assert 0.8 < low < high == 1.0
    with pytest.raises(InputError, match="some on both"):
        area_interval(0.5, 0, 3)


def test_mahalanobis_is_the_normals_exponent() -> None:
    rng = np.random.default_rng(4)
    mix = np.array([[2.0, 0.0], [1.5, 0.3]])
    source, target = rng.normal(size=(20_000, 2)) @ mix.T, rng.normal(size=(50, 2)) @ mix.T
    _, found = mahalanobis_scores(source, target)
    density = multivariate_normal(cov=mix @ mix.T)
    expected = -2 * (density.logpdf(target) - density.logpdf(np.zeros(2)))
    np.testing.assert_allclose(found, expected, rtol=0.15, atol=0.05)


def test_class_shares_find_planted_ones() -> None:
    rng = np.random.default_rng(5)
    prior, truth = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    labels = rng.choice(3, size=20_000, p=truth)
    spots = np.array([0.0, 2.0, 4.0])
    values = spots[labels] + rng.normal(size=len(labels))
    chances = prior * np.exp(-((values[:, None] - spots) ** 2) / 2)
    found = class_shares(chances / chances.sum(axis=1, keepdims=True), prior)
    np.testing.assert_allclose(found, truth, atol=0.02)


def test_a_class_that_the_source_lacks_stays_away() -> None:
    found = class_shares(np.array([[0.5, 0.4, 0.1]] * 4), np.array([0.6, 0.4, 0.0]))
    assert found[2] == 0
    assert found.sum() == pytest.approx(1)


def test_share_beyond_counts_ties_with_the_quantile_as_inside() -> None:
    gate = share_beyond("x", np.arange(100.0), np.array([98.0, 99.0, 99.0, 100.0] * 5), what="it")
    assert gate.value == 0.25
    ends = binomtest(5, 20).proportion_ci(0.95, method="wilson")
    assert (gate.low, gate.high) == pytest.approx((ends.low, ends.high))
    assert share_beyond("x", np.zeros(50), np.zeros(50), what="it").value == 0


@pytest.mark.parametrize("n", [30, 300])
def test_share_beyond_rarely_alarms_under_the_null_even_of_few(n: int) -> None:
    rng = np.random.default_rng(7)
    alarms = sum(
        share_beyond("x", rng.normal(size=n), rng.normal(size=100), what="it").status != "pass" for _ in range(300)
    )
    assert binomtest(alarms, 300, 0.05, "greater").pvalue > 0.01


def test_calibrated_errors_are_those_of_a_calibrated_classifier() -> None:
    from roadworthy.labelfree.calibration import expected_calibration_error

    rng = np.random.default_rng(6)
    sure = rng.uniform(0.5, 1, size=200)
    own = [expected_calibration_error(sure, rng.random(200) < sure) for _ in range(300)]
    ours = calibrated_errors(sure)
    assert np.quantile(ours, 0.95) == pytest.approx(np.quantile(own, 0.95), rel=0.15)


def test_classes_in_effect() -> None:
    assert classes_in_effect(np.zeros(9, dtype=int), 3) == 1.0
    assert classes_in_effect(np.arange(12) % 4, 7) == 4.0


@pytest.mark.slow
def test_false_alarms_under_the_null_are_few() -> None:
    alarms: dict[str, int] = {}
    for seed in range(20):
        rng = np.random.default_rng(seed)
        sides = []
        for _ in range(2):
            p = rng.uniform(size=150)
            features = rng.normal(size=(150, 5)) + p[:, None]
            sides.append(Outputs.of(p, labels=(rng.random(150) < p).astype(int), features=features))
        for gate in run_gates(sides[1], source=sides[0], seed=seed):
            alarms[gate.name] = alarms.get(gate.name, 0) + (gate.status in ("warn", "refuse"))
    # each is to alarm in 5 % of such cases at most: 1 of 20, and 5 or more have a chance below 1 %
    assert all(count < 5 for count in alarms.values()), alarms
