"""Which samples to label: strata of alike confidence, and a draw from each with a known probability."""

from __future__ import annotations

import numpy as np

from roadworthy.rng import numpy_generator


def strata_of(scores: np.ndarray, wanted: int) -> np.ndarray:
    """Cut samples by rising score into strata of nearly equal size; equal scores stay together.

    Args:
        scores: (N,) finite.
        wanted: how many strata; fewer come out where scores are equal.

    Returns:
        int64 (N,), 0 is the stratum of the lowest scores.

    Example:
        >>> strata_of(np.array([0.9, 0.2, 0.9, 0.5]), 2).tolist()
        [1, 0, 1, 0]
    """
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2  # a step goes where its middle sample would
    part = np.minimum((middle * wanted / len(scores)).astype(np.int64), wanted - 1)
    return np.asarray(np.unique(part, return_inverse=True)[1].reshape(-1)[place], dtype=np.int64)


def allocation(sizes: np.ndarray, n: int) -> np.ndarray:
    """Share n draws among strata in proportion to their sizes, at least two of each that has two.

    Example:
        >>> allocation(np.array([60, 30, 10, 1]), 12).tolist()
        [6, 3, 2, 1]
    """
    least = np.minimum(sizes, 2 if n >= 2 * len(sizes) else 1)
    drawn = np.minimum(np.maximum(np.floor(n * sizes / sizes.sum()).astype(np.int64), least), sizes)
    while drawn.sum() > n and (drawn > least).any():
        drawn[np.where(drawn > least, drawn / sizes, -1).argmax()] -= 1
    while drawn.sum() < n:
        drawn[np.where(drawn < sizes, drawn / sizes, np.inf).argmin()] += 1
    return np.asarray(drawn)


def drawn_rows(ids: tuple[str, ...], stratum: np.ndarray, drawn: np.ndarray, seed: int) -> np.ndarray:
    """Draw from every stratum without replacement, and lay all draws out in random order.

    Args:
        ids: N names; the draw depends on them, not on the order of rows.
        stratum: (N,) from :func:`strata_of`.
        drawn: (H,) how many from each.
        seed: of the draw.

    Returns:
        int64 (n,) rows.

    Example:
        >>> rows = drawn_rows(("a", "b", "c", "d"), np.array([0, 0, 1, 1]), np.array([1, 2]), 0)
        >>> len(rows), set(rows.tolist()) >= {2, 3}
        (3, True)
    """
    order = np.argsort(np.array(ids, dtype=str), kind="stable")
    shuffled = numpy_generator(seed, "audit plan").permutation(order)
    place = np.empty(len(shuffled), dtype=np.int64)
    for part in range(len(drawn)):
        rows = np.flatnonzero(stratum[shuffled] == part)
        place[rows] = np.arange(len(rows))
    return np.asarray(shuffled[place < drawn[stratum[shuffled]]])
