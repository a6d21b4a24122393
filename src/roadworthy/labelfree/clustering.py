"""Do the predicted classes follow clusters of the features? Purity, beside the purity that chance gives.

Purity is the share of clustered samples whose class is the commonest of their cluster (Manning, Raghavan and Schuetze
2008, section 16.3). It is never far from 1 when clusters are many or one class is common, so it stands beside its
mean under permutation: the same clusters, the classes dealt out anew. ``adjusted`` is 0 at that mean and 1 at a
purity of 1.

Features of the judged model are separated by its own head, so that its classes follow its clusters whether or not
they are right: features of another origin say more.

KMeans on many samples is fitted to a random part of them, from ten starts, and all are then assigned. Against
scikit-learn's KMeans on all, from one start, areas of curves lie .003 apart, purities of single clusterings up to .09
(``benchmarks/results/clustering.txt``, two networks). From one start KMeans often ends in a poor arrangement.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, listed, unknown_name
from roadworthy.labelfree.plain import plain
from roadworthy.rng import derive, numpy_generator, resolve_seed

if TYPE_CHECKING:
    from roadworthy.types import Seed

METHODS = ("kmeans", "kmeans-all", "minibatch-kmeans", "dbscan", "hdbscan")
NOISE = -1  # cluster of a sample that belongs to none
_STARTS = 10  # of KMeans on a part: a single one often ends in a poor arrangement
_ITERATIONS = 4
_FIT = 5000  # samples that centres are fitted to, at least
_FIT_PER_CLUSTER = 100
_CELLS = 1 << 24  # float32 values held at a time while samples are assigned
_NEIGHBOURS = 5  # of a dense point, in DBSCAN and HDBSCAN
_DENSITY_LIMIT = 5000  # samples that a clustering by density is made of; it compares pairs


@dataclass(frozen=True, eq=False)
class ClusterPurity:
    """How far classes follow clusters.

    Attributes:
        purity: share of clustered samples whose class is the commonest of their cluster; NaN if none is clustered.
        null_mean: mean purity of the same clusters with the classes dealt out anew.
        adjusted: (purity - null_mean) / (1 - null_mean); 0 where the null is 1.
        p: share of permutations, the data included, with at least this purity.
        method: how samples were clustered.
        cluster_count: number of clusters found.
        sizes: samples of each cluster.
        unclustered: share of samples in no cluster.
        permutations: number of permutations.
        n: number of samples.
        note: what to know when reading it.
    """

    purity: float
    null_mean: float
    adjusted: float
    p: float
    method: str
    cluster_count: int
    sizes: tuple[int, ...]
    unclustered: float
    permutations: int
    n: int
    note: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN is None."""
        return plain(self)


def cluster_purity(
    features: ArrayLike,
    predicted: ArrayLike,
    class_count: int,
    *,
    method: str = "kmeans",
    clusters: int | None = None,
    permutations: int = 199,
    seed: Seed = 0,
) -> ClusterPurity:
    """Cluster the features and say how pure the clusters are in predicted classes.

    Args:
        features: (N, D) finite.
        predicted: int (N,) predicted class of each sample, in [0, class_count).
        class_count: number of classes of the model, seen here or not.
        method: see :func:`cluster`.
        clusters: number of clusters of the KMeans kinds; that of the classes by default.
        permutations: how often the classes are dealt out anew.
        seed: seed or generator.

    Returns:
        Purity with its null.

    Raises:
        InputError: as :func:`cluster`; or classes out of range.

    Example:
        >>> features = np.repeat([[0.0], [9.0]], 20, axis=0) + np.linspace(0, 1, 40)[:, None]
        >>> found = cluster_purity(features, np.repeat([0, 1], 20), 2)
        >>> found.purity, found.adjusted, found.p
        (1.0, 1.0, 0.005)
    """
    number = resolve_seed(seed)
    classes = _classes(predicted, class_count)
    labels = cluster(features, clusters or class_count, method=method, seed=number)
    if len(labels) != len(classes):
        raise InputError(f"features: got {len(labels)} rows for {len(classes)} predicted classes")
    return purity_against_chance(labels, classes, class_count, method=method, permutations=permutations, seed=number)


def purity_against_chance(
    labels: np.ndarray,
    predicted: ArrayLike,
    class_count: int,
    *,
    method: str = "given",
    permutations: int = 199,
    seed: Seed = 0,
) -> ClusterPurity:
    """Say how pure given clusters are in predicted classes, and how pure they would be by chance.

    Args:
        labels: int (N,) cluster of each sample; -1 for none.
        predicted: int (N,) predicted class of each sample.
        class_count: number of classes of the model.
        method: name of the clustering.
        permutations: how often the classes are dealt out anew.
        seed: seed or generator.

    Returns:
        Purity with its null.

    Raises:
        InputError: classes out of range.

    Example:
        >>> purity_against_chance(np.array([0, 0, 1, 1]), [0, 0, 0, 0], 2).adjusted  # one class: chance gives as much
        0.0
    """
    classes = _classes(predicted, class_count)
    held = np.asarray(labels) != NOISE
    inside, own = np.unique(np.asarray(labels)[held], return_inverse=True)[1].reshape(-1), classes[held]
    sizes = np.bincount(inside)
    if not held.any():
        nan = math.nan
        note = "No sample is in a cluster: nothing is dense enough."
        return ClusterPurity(nan, nan, nan, nan, method, 0, (), 1.0, permutations, len(classes), note)
    generator = numpy_generator(resolve_seed(seed), "purity-null")
    top = _commonest(inside, own, class_count)
    counts = np.bincount(own, minlength=class_count)
    null = np.array([_dealt(sizes, counts, generator) for _ in range(permutations)])
    mean = float(null.mean() / len(own)) if permutations else math.nan
    purity = top / len(own)
    return ClusterPurity(
        purity=purity,
        null_mean=mean,
        adjusted=(purity - mean) / (1 - mean) if mean < 1 else 0.0 if mean == 1 else math.nan,
        p=float((1 + (null >= top).sum()) / (permutations + 1)),
        method=method,
        cluster_count=len(sizes),
        sizes=tuple(int(size) for size in sizes),
        unclustered=float(1 - held.mean()),
        permutations=permutations,
        n=len(classes),
        note="One cluster: purity is the share of the commonest class." if len(sizes) == 1 else "",
    )


def purity(labels: np.ndarray, predicted: np.ndarray, class_count: int) -> float:
    """Share of clustered samples whose class is the commonest of their cluster; NaN if none is clustered.

    Example:
        >>> purity(np.array([0, 0, 0, 1, -1]), np.array([1, 1, 0, 0, 1]), 2)
        0.75
    """
    held = labels != NOISE
    if not held.any():
        return math.nan
    return _commonest(labels[held], predicted[held], class_count) / int(held.sum())


def cluster(features: ArrayLike, clusters: int, *, method: str = "kmeans", seed: Seed = 0) -> np.ndarray:
    """Cluster samples by their features, whatever the order of the rows.

    Args:
        features: (N, D) finite.
        clusters: number of clusters of the KMeans kinds; at most the number of samples are made.
        method: ``"kmeans"``, fitted to a random part of at least 5,000 samples (100 a cluster) and all assigned;
            ``"kmeans-all"``, fitted to all; ``"minibatch-kmeans"``, fitted to all in small batches, with less memory;
            ``"dbscan"`` and ``"hdbscan"``, which find the number of clusters themselves, in a random part of at
            most 5,000 samples, the others going with their nearest one. DBSCAN's radius is the 90th percentile of
            the distance to the fifth neighbour.
        seed: seed or generator.

    Returns:
        int64 (N,): clusters from 0; -1 for a sample that is in none (DBSCAN, HDBSCAN).

    Raises:
        InputError: features that are not (N, D) and finite, no samples, or an unknown method.

    Example:
        >>> cluster([[0.0], [0.1], [9.0], [9.1]], 2).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
        True
    """
    return next(cluster_parts(features, [np.ones(len(np.asarray(features)), dtype=bool)], clusters, method, seed))


def cluster_parts(
    features: ArrayLike, parts: Iterable[np.ndarray], clusters: int, method: str = "kmeans", seed: Seed = 0
) -> Iterator[np.ndarray]:
    """Cluster several parts of the same samples, each on its own; what they share is done once.

    Args:
        features: (N, D) finite.
        parts: bool (N,) each, with at least one sample.
        clusters: as in :func:`cluster`.
        method: as in :func:`cluster`.
        seed: seed or generator.

    Yields:
        int64 clusters of the samples of each part.

    Raises:
        InputError: as :func:`cluster`.

    Example:
        >>> [len(labels) for labels in cluster_parts([[0.0], [1.0]], [np.array([True, False])], 1)]
        [1]
    """
    if method not in METHODS:
        raise unknown_name("clustering", method, METHODS)
    table = np.asarray(features, dtype=np.float32)
    if table.ndim != 2 or not len(table):
        raise InputError(f"features: shape {table.shape} came, expected (N, D) with at least one sample")
    bad = np.flatnonzero(~np.isfinite(table.sum(axis=1, dtype=np.float64)))
    if len(bad):
        raise InputError(f"features: rows {listed(bad.tolist())} are not finite; leave these samples out")
    if clusters < 1:
        raise InputError(f"clusters: {clusters} came, expected at least 1")
    number = resolve_seed(seed)
    along = numpy_generator(number, "clustering-order").standard_normal(table.shape[1], dtype=np.float32)
    order = np.argsort(np.einsum("nd,d->n", table, along), kind="stable")  # by what rows hold, not by their place
    for part in parts:
        rows = order[part[order]]
        if method in ("dbscan", "hdbscan"):
            yield _by_density(table[part], (np.cumsum(part) - 1)[rows], method, number)
        else:
            with warnings.catch_warnings():  # of equal samples there are fewer clusters, and that is no fault
                warnings.filterwarnings("ignore", "Number of distinct clusters")
                centres = _centres(table, rows, min(clusters, len(rows)), method, number)
            # copying most of the rows takes longer than assigning all of them
            yield _nearest(table, centres)[part] if part.mean() > 0.5 else _nearest(table[part], centres)


def _centres(table: np.ndarray, rows: np.ndarray, clusters: int, method: str, seed: int) -> np.ndarray:
    from sklearn.cluster import KMeans, MiniBatchKMeans

    state = derive(seed, "clustering") % 2**32
    if method == "kmeans":
        part = table[_some(rows, max(_FIT, _FIT_PER_CLUSTER * clusters), seed)]
        found = KMeans(clusters, random_state=state, n_init=_STARTS).fit(_main_directions(part, clusters + 5, seed))
        inside = found.labels_.reshape(-1, 1) == np.arange(clusters)
        means = inside.T.astype(np.float32) @ part / np.maximum(inside.sum(axis=0), 1)[:, None]
        return np.asarray(means, dtype=np.float32)
    if method == "minibatch-kmeans":
        found = MiniBatchKMeans(clusters, random_state=state, batch_size=1024, n_init=3).fit(table[rows])
    else:
        found = KMeans(clusters, random_state=state, n_init=1).fit(table[rows])
    return np.asarray(found.cluster_centers_, dtype=np.float32)


def _main_directions(part: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Project on about the ``count`` directions of largest variance: the best centres lie there.

    By subspace iteration (Halko, Martinsson and Tropp, SIAM Review 2011), which is quick where all directions would
    take longer than the clustering.
    """
    if part.shape[1] <= count:
        return part
    centred = part - part.mean(axis=0)
    basis = numpy_generator(seed, "directions").standard_normal((part.shape[1], count), dtype=np.float32)
    for _ in range(_ITERATIONS):
        basis = np.linalg.qr(centred.T @ (centred @ basis))[0]
    return np.ascontiguousarray(centred @ basis)


def _nearest(table: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Return the nearest centre of each row, block by block in float32."""
    half = (centres**2).sum(axis=1) / 2
    step = max(1, _CELLS // (table.shape[1] + len(centres)))
    parts = [(half - table[start : start + step] @ centres.T).argmin(axis=1) for start in range(0, len(table), step)]
    return np.concatenate(parts).astype(np.int64)


def _by_density(table: np.ndarray, order: np.ndarray, method: str, seed: int) -> np.ndarray:
    from sklearn.cluster import DBSCAN, HDBSCAN
    from sklearn.neighbors import NearestNeighbors

    rows = _some(order, _DENSITY_LIMIT, seed)
    part = table[rows]
    neighbours = min(_NEIGHBOURS, len(part) - 1)
    if neighbours < 1:
        return np.full(len(table), NOISE, dtype=np.int64)
    index = NearestNeighbors(n_neighbors=neighbours).fit(part)
    radius = float(np.quantile(index.kneighbors()[0][:, -1], 0.9))
    if method == "dbscan":
        # equal samples lie at distance 0: a radius of 0 is refused, the smallest number is not
        found = DBSCAN(eps=max(radius, float(np.finfo(np.float32).tiny)), min_samples=neighbours + 1).fit(part)
    else:
        found = HDBSCAN(min_cluster_size=max(2, neighbours), copy=True).fit(part)
    inside = found.labels_.astype(np.int64)
    distance, nearest = index.kneighbors(table, n_neighbors=1)
    labels = np.where(distance[:, 0] <= radius, inside[nearest[:, 0]], NOISE)
    labels[rows] = inside
    return np.asarray(labels)


def _some(rows: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Return a random part of the rows, or all of them if they are no more than ``size``."""
    if len(rows) <= size:
        return rows
    return np.asarray(rows[numpy_generator(seed, "clustering-part").choice(len(rows), size, replace=False)])


def _commonest(labels: np.ndarray, predicted: np.ndarray, class_count: int) -> int:
    """Sum over clusters of how many samples have the commonest class of the cluster."""
    table = np.bincount(labels.astype(np.int64) * class_count + predicted)
    table = np.append(table, np.zeros(-len(table) % class_count, dtype=table.dtype))
    return int(table.reshape(-1, class_count).max(axis=1).sum())


def _dealt(sizes: np.ndarray, counts: np.ndarray, generator: np.random.Generator) -> int:
    """Deal classes out to clusters of these sizes and return the sum of the commonest.

    Counts of a random permutation are drawn cluster by cluster, without the permutation itself: the time does not
    grow with the number of samples.
    """
    left, total = counts.copy(), 0
    for size in sizes[:-1]:
        hand = generator.multivariate_hypergeometric(left, size, method="marginals")
        left = left - hand
        total += int(hand.max())
    return total + int(left.max())


def _classes(predicted: ArrayLike, class_count: int) -> np.ndarray:
    classes = np.asarray(predicted)
    whole = classes.dtype.kind in "iu" and classes.ndim == 1
    if not whole or (classes.size and not 0 <= classes.min() <= classes.max() < class_count):
        raise InputError(f"predicted: expected one whole number from 0 to {class_count - 1} a sample")
    return classes.astype(np.int64)
