"""Intervals against SciPy, and by how often they hold a planted accuracy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binomtest, norm

from roadworthy.labelfree.labelling import audit_estimate, audit_plan
from roadworthy.labelfree.labelling.intervals import Strata, exact, share_interval, wilson
from roadworthy.labelfree.outputs import Outputs


@pytest.mark.parametrize(("hits", "n"), [(0, 5), (1, 1), (45, 50), (100, 100), (7, 300)])
@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_wilson_and_exact_are_those_of_scipy(hits: int, n: int, level: float) -> None:
    oracle = binomtest(hits, n)
    assert wilson(hits / n, n, norm.ppf((1 + level) / 2)) == pytest.approx(
        tuple(oracle.proportion_ci(level, "wilson")), abs=1e-12
    )
    assert exact(hits / n, n, level) == pytest.approx(tuple(oracle.proportion_ci(level, "exact")), abs=1e-12)


def test_the_variance_of_strata_is_that_of_all_possible_draws() -> None:
    """A population of 4 + 6: the mean over every possible draw of 2 + 2."""
    from itertools import combinations, product

    values = np.array([1.0, 0, 0, 1, 1, 1, 0, 1, 1, 1])
    draws = product(combinations(range(4), 2), combinations(range(4, 10), 2))
    sizes, means = np.array([4, 6]), []
    for one, two in draws:
        strata = Strata(np.array([0, 0, 1, 1]), sizes)
        means.append(strata.mean(values[[*one, *two]]))
    assert np.mean(means) == pytest.approx(values.mean())
    spread = [values[:4].var(ddof=1), values[4:].var(ddof=1)]
    by_hand = sum((size / 10) ** 2 * (1 - 2 / size) * s / 2 for size, s in zip(sizes, spread, strict=True))
    assert np.var(means) == pytest.approx(by_hand)


def test_the_estimated_variance_weights_strata_and_knows_the_finite_population() -> None:
    values = np.array([1.0, 0, 1, 1, 1, 0])
    strata = Strata(np.array([0, 0, 0, 1, 1, 1]), np.array([30, 10]))
    # both strata have the same spread, which a common one does not change
    spread = values[:3].var(ddof=1)
    expected = 0.75**2 * (27 / 29) * spread / 3 + 0.25**2 * (7 / 9) * spread / 3
    assert strata.covariance(values, values) == pytest.approx(expected)
    assert strata.covariance(values, np.ones(6)) == 0
    assert Strata(np.array([0, 0]), np.array([2])).information == np.inf


def test_a_census_leaves_nothing_unsure() -> None:
    strata = Strata(np.array([0, 0, 1]), np.array([2, 1]))
    values = np.array([1.0, 1.0, 1.0])
    assert share_interval(strata, 1.0, strata.covariance(values, values), 0, 0.9) == (1.0, 1.0)
    one = Outputs.of([0.9, 0.8, 0.2, 0.4])
    found = audit_estimate(audit_plan(one, budget=4, strata=2), {"0": 1, "1": 0, "2": 0, "3": 0}, one)
    assert (found.alone.value, found.alone.low, found.alone.high) == (0.75, 0.75, 0.75)


def coverage(
    runs: int, n: int, strata: int, accuracy: float, slope: float, *, population: int = 2000
) -> tuple[float, float]:
    """Share of audits whose intervals (alone, combined) hold the truth; confidence is off by a planted amount."""
    rng = np.random.default_rng(5)
    confidence = 0.5 + rng.random(population) / 2
    chance = np.clip(accuracy + slope * (confidence - confidence.mean()), 0, 1)
    held = np.zeros(2)
    for run in range(runs):
        labels = (rng.random(population) < chance).astype(np.int64)  # class 1 is always predicted
        target = Outputs.of(confidence)
        plan = audit_plan(target, budget=n, strata=strata, seed=run)
        found = audit_estimate(plan, labels[plan.rows(target)], target)
        for k, part in enumerate((found.alone, found.combined)):
            held[k] += part.low <= labels.mean() <= part.high
    return held[0] / runs, held[1] / runs


@pytest.mark.parametrize(("n", "strata"), [(50, 1), (50, 5), (200, 5)])
def test_intervals_hold_as_often_as_they_say(n: int, strata: int) -> None:
    alone, combined = coverage(250, n, strata, 0.75, 0.9)
    assert 0.85 <= alone <= 0.97
    assert 0.85 <= combined <= 0.97


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200])
@pytest.mark.parametrize("strata", [1, 5])
@pytest.mark.parametrize(("accuracy", "slope"), [(0.6, 0.0), (0.8, 1.2), (0.97, 0.1)])
def test_intervals_hold_over_many_draws(n: int, strata: int, accuracy: float, slope: float) -> None:
    alone, combined = coverage(1000, n, strata, accuracy, slope)
    assert 0.88 <= alone <= 0.97
    assert 0.88 <= combined <= 0.97
