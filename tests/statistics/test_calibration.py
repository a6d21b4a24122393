"""How often a difference is called real although there is none: what decided between the tests, measured again.

Ten methods of equal mean, all 45 pairs, Holm at 5 %: the share of panels with any pair told apart must not pass 5 %
by more than its own sampling error.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import scipy.stats

from roadworthy.statistics import holm, paired_bootstrap

METHODS = 10
Panel = Callable[[np.random.Generator, int], np.ndarray]


def gaussian(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(METHODS, n)) + rng.normal(size=n)


def symmetric_gain_of_hits(rng: np.random.Generator, n: int) -> np.ndarray:
    """Right or wrong at seven shares in both orders, with samples of different difficulty."""
    difficulty = rng.normal(size=(n, 1)) + np.linspace(1.5, -1.5, 7)
    hits = rng.normal(size=(2, METHODS, n, 7)) * 0.7 + difficulty > 0
    return np.asarray((hits[0].astype(float) - hits[1]).mean(axis=-1))


def one_in_ten(rng: np.random.Generator, n: int) -> np.ndarray:
    """Scores of -1 or 1 in one sample of ten, else 0."""
    draw = rng.random((METHODS, n))
    return (draw < 0.05).astype(float) - (draw > 0.95)


def rare_hits(rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.random((METHODS, n)) < 0.03).astype(float)


def unequal_spread(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=(METHODS, n)) * np.repeat([0.3, 1.0], METHODS // 2)[:, None]


def opposite_skew(rng: np.random.Generator, n: int) -> np.ndarray:
    return (rng.exponential(size=(METHODS, n)) - 1) * np.repeat([1, -1], METHODS // 2)[:, None]


PANELS = [gaussian, symmetric_gain_of_hits, one_in_ten, rare_hits, unequal_spread, opposite_skew]
PAIRS = np.triu_indices(METHODS, 1)


def measure(panel: Panel, n: int, panels: int) -> tuple[int, float]:
    """Return in how many panels a pair is told apart, and how many intervals of differences hold 0."""
    rng = np.random.default_rng(91)
    wrong, held = 0, []
    for seed in range(panels):
        found = paired_bootstrap(panel(rng, n), seed=seed)
        wrong += bool(holm(found.p[PAIRS]).min() <= 0.05)
        held.append((found.difference_low[PAIRS] <= 1e-12) & (found.difference_high[PAIRS] >= -1e-12))
    return wrong, float(np.mean(held))


def most(panels: int) -> int:
    return int(scipy.stats.binom.ppf(0.999, panels, 0.05))


def test_sparse_differences_do_not_pass_for_real_ones() -> None:
    wrong, held = measure(one_in_ten, 50, 40)
    assert wrong <= 3
    assert held >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize(("n", "panels"), [(50, 300), (200, 150), (1000, 40)])
@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.__name__)
def test_family_wise_error_and_coverage_hold(panel: Panel, n: int, panels: int) -> None:
    wrong, held = measure(panel, n, panels)
    assert wrong <= most(panels)
    assert held >= 0.93


@pytest.mark.slow
@pytest.mark.parametrize("n", [50, 200])
def test_real_differences_are_found(n: int) -> None:
    """One method better by 4 standard errors of the difference and more is told apart as often as by Student's t."""
    rng = np.random.default_rng(92)
    ours, student = 0, 0
    for seed in range(60):
        scores = rng.normal(size=(METHODS, n))
        scores[0] += 5 * np.sqrt(2 / n)
        p = paired_bootstrap(scores, seed=seed).p
        ours += int((holm(p[PAIRS])[: METHODS - 1] <= 0.05).sum())
        reference = [scipy.stats.ttest_rel(scores[i], scores[j]).pvalue for i, j in zip(*PAIRS, strict=True)]
        student += int((holm(reference)[: METHODS - 1] <= 0.05).sum())
    assert ours >= 0.95 * student
