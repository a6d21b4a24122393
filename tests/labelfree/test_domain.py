"""Telling source from target: areas and density ratios of planted Gaussians."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from scipy.stats import norm

from roadworthy.labelfree.domain import drawn_rows, tell_apart
from roadworthy.labelfree.outputs import Outputs


def cloud(n: int, mean: float, seed: int, width: int = 1, start: int = 0) -> Outputs:
    values = np.random.default_rng(seed).normal(size=(n, width))
    values[:, 0] += mean
    return Outputs.of(np.full(n, 0.5), features=values, ids=range(start, start + n))


def test_the_area_is_that_of_two_gaussians() -> None:
    found = tell_apart(cloud(1000, 0, 0), cloud(1000, 1, 1))
    assert found.auc == pytest.approx(norm.cdf(1 / np.sqrt(2)), abs=0.03)


def test_nothing_to_tell_gives_a_half() -> None:
    assert tell_apart(cloud(1000, 0, 0, width=5), cloud(1000, 0, 1, width=5)).auc == pytest.approx(0.5, abs=0.04)


def test_weights_follow_the_density_ratio() -> None:
    source = cloud(1000, 0, 2)
    found = tell_apart(source, cloud(1000, 0.7, 3))
    assert source.features is not None
    exact = np.exp(0.7 * source.features[found.rows, 0] - 0.7**2 / 2)
    assert found.weights.mean() == pytest.approx(1)
    assert np.corrcoef(found.weights, exact)[0, 1] > 0.97


def test_unequal_sizes_leave_the_weights_alone() -> None:
    found = tell_apart(cloud(900, 0, 4), cloud(90, 0, 5))
    assert found.weights.mean() == pytest.approx(1)
    assert found.weights.std() < 0.5
    source = cloud(150, 0, 2)
    many = tell_apart(source, cloud(1000, 1, 3))  # odds are high everywhere: the cut must not bite for that
    assert source.features is not None
    exact = np.exp(source.features[many.rows, 0] - 0.5)
    assert np.corrcoef(many.weights, np.minimum(exact, 20))[0, 1] > 0.97


def test_wide_and_constant_features_and_none() -> None:
    wide, other = cloud(200, 0, 6, width=80), cloud(200, 6, 7, width=80)
    assert tell_apart(wide, other).auc > 0.99
    assert tell_apart(cloud(60, 0, 6, width=300), cloud(60, 0, 7, width=300)).auc == pytest.approx(0.5, abs=0.15)
    same = Outputs.of(np.full(20, 0.5), features=np.ones((20, 2)))
    assert tell_apart(same, same).auc == pytest.approx(0.5, abs=0.3)
    sure, unsure = Outputs.of(np.full(50, 0.95)), Outputs.of(np.full(50, 0.6))
    assert tell_apart(sure, unsure).auc == 1  # log probabilities in place of features


def test_one_sample_cannot_be_told() -> None:
    found = tell_apart(cloud(1, 0, 8), cloud(50, 0, 9))
    assert np.isnan(found.auc)
    assert found.weights.tolist() == [1]


def test_the_order_of_rows_changes_nothing() -> None:
    source, target = cloud(120, 0, 10, width=3), cloud(150, 0.5, 11, width=3)
    turned = source.take(np.random.default_rng(0).permutation(120))
    first, second = tell_apart(source, target, most=100), tell_apart(turned, target, most=100)
    assert first.auc == second.auc
    assert source.take(first.rows).ids == turned.take(second.rows).ids
    np.testing.assert_array_equal(first.weights, second.weights)


def test_rows_are_drawn_without_repetition() -> None:
    rows = drawn_rows(cloud(50, 0, 12), 20, seed=0, purpose="x")
    assert len(set(rows.tolist())) == 20
    assert set(rows.tolist()) != set(drawn_rows(cloud(50, 0, 12), 20, seed=1, purpose="x").tolist())


def test_the_same_question_is_answered_once_and_forgotten_with_its_samples() -> None:
    source, target = cloud(40, 0, 13), cloud(40, 1, 14)
    first = tell_apart(source, target)
    assert tell_apart(source, target) is first
    assert tell_apart(source, target, seed=1) is not first
    assert tell_apart(target, source) is not first
    gone = weakref.ref(target)
    del target
    gc.collect()
    assert gone() is None
