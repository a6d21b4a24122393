"""Clusters and their purity: against scikit-learn's contingency table and permutations written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from roadworthy.errors import InputError
from roadworthy.labelfree.clustering import METHODS, cluster, cluster_purity, purity, purity_against_chance


def blobs(n: int, *, centres: int = 4, width: int = 40, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    inside = np.arange(n) % centres
    places = 6 * rng.normal(size=(centres, width))
    return (places[inside] + rng.normal(size=(n, width))).astype(np.float32), inside


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 6), st.integers(1, 5))
def test_purity_is_that_of_the_contingency_table(seed: int, n: int, clusters: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    labels, predicted = rng.integers(clusters, size=n), rng.integers(classes, size=n)
    table = contingency_matrix(predicted, labels)
    assert purity(labels, predicted, classes) == pytest.approx(table.max(axis=0).sum() / n)


def test_the_null_is_that_of_permuted_classes() -> None:
    rng = np.random.default_rng(0)
    labels, predicted = rng.choice(5, p=[0.5, 0.2, 0.1, 0.1, 0.1], size=200), rng.integers(3, size=200)
    found = purity_against_chance(labels, predicted, 3, permutations=3000)
    by_hand = np.array([purity(labels, rng.permutation(predicted), 3) for _ in range(3000)])
    assert found.null_mean == pytest.approx(by_hand.mean(), abs=4 * by_hand.std() * np.sqrt(2 / 3000))
    assert found.p == pytest.approx((by_hand >= found.purity).mean(), abs=0.05)
    assert found.adjusted == pytest.approx((found.purity - found.null_mean) / (1 - found.null_mean))


def test_p_is_not_too_small_without_a_relation() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat(np.arange(4), 25)
    p = [purity_against_chance(labels, rng.integers(3, size=100), 3, permutations=99, seed=s).p for s in range(100)]
    assert np.mean(np.array(p) <= 0.1) <= 0.1 + 3 * np.sqrt(0.09 / 100)


def test_a_collapsed_model_is_pure_and_yet_no_better_than_chance() -> None:
    features, inside = blobs(100)
    collapsed = cluster_purity(features, np.zeros(100, dtype=int), 4)
    assert (collapsed.purity, collapsed.null_mean, collapsed.adjusted, collapsed.p) == (1.0, 1.0, 0.0, 1.0)
    right = cluster_purity(features, inside, 4)
    assert (right.purity, right.adjusted, right.p) == (1.0, 1.0, 0.005)
    assert sorted(right.sizes) == [25] * 4


@pytest.mark.parametrize("method", METHODS)
def test_planted_clusters_are_found_whatever_the_order_of_rows(method: str) -> None:
    features, inside = blobs(400)
    before = features.copy()
    labels = cluster(features, 4, method=method, seed=3)
    held = labels >= 0
    assert held.mean() > 0.8
    assert adjusted_rand_score(inside[held], labels[held]) == 1
    rows = np.random.default_rng(5).permutation(400)
    again = cluster(features[rows], 4, method=method, seed=3)
    assert adjusted_rand_score(labels[rows], again) == 1
    np.testing.assert_array_equal(features, before)


@pytest.mark.parametrize("method", ["kmeans", "dbscan"])
def test_many_samples_are_clustered_by_a_part_of_them(method: str) -> None:
    features, inside = blobs(6000)
    labels = cluster(features, 4, method=method)
    held = labels >= 0
    assert held.mean() > 0.8
    assert adjusted_rand_score(inside[held], labels[held]) == 1


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("method", METHODS)
def test_few_and_equal_samples(method: str) -> None:
    assert len(cluster([[1.0, 2.0]], 3, method=method)) == 1
    for clusters in (1, 3):
        assert len(cluster(np.ones((12, 3)), clusters, method=method)) == 12


def test_samples_in_no_cluster_are_left_out_and_counted() -> None:
    found = purity_against_chance(np.array([0, 0, -1, -1]), [1, 1, 0, 0], 2)
    assert (found.purity, found.unclustered, found.cluster_count) == (1.0, 0.5, 1)
    nothing = purity_against_chance(np.full(3, -1), [0, 1, 1], 2)
    assert np.isnan(nothing.purity)
    assert "nothing is dense enough" in nothing.note
    assert nothing.as_dict()["purity"] is None


@pytest.mark.parametrize(
    ("features", "clusters", "method", "message"),
    [
        ([[1.0]], 1, "k-means", "Unknown clustering 'k-means'. Did you mean 'kmeans'"),
        ([1.0], 1, "kmeans", r"features: shape \(1,\) came"),
        ([[np.nan], [1.0]], 1, "kmeans", "rows 0 are not finite"),
        ([[1.0]], 0, "kmeans", "clusters: 0 came"),
    ],
)
def test_what_cannot_be_clustered_is_refused(features: list, clusters: int, method: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        cluster(features, clusters, method=method)
    with pytest.raises(InputError, match="whole number from 0 to 1"):
        cluster_purity([[1.0], [2.0]], [0, 2], 2)
    with pytest.raises(InputError, match="got 2 rows for 1 predicted"):
        cluster_purity([[1.0], [2.0]], [0], 2)
