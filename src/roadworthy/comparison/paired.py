"""Scores of two runs on the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from roadworthy.statistics import paired_bootstrap

_DIGITS = 14  # what differs by less differs by the order of a sum


def over_samples(one: np.ndarray, other: np.ndarray, *, level: float, draws: int, seed: int) -> dict[str, Any]:
    """Compare the scores of two runs: the differences of each method against none at all.

    One bootstrap serves all methods. Its sign flips are, for hits of 0 and 1, McNemar's exact test.

    Args:
        one: (M, N) score of each method on each sample.
        other: likewise, on the same samples.
        level: of each interval.
        draws: resamples.
        seed: of the draws.

    Returns:
        ``difference``, ``low``, ``high`` and ``p``, each (M,); ``paired``, ``n`` and ``n_against``.

    Example:
        >>> found = over_samples(np.ones((1, 9)), np.zeros((1, 9)), level=0.95, draws=500, seed=0)
        >>> found["difference"].tolist(), found["low"].tolist(), found["n"]
        ([1.0], [1.0], 9)
    """
    rows = np.vstack([one - other, np.zeros(one.shape[1])])  # the last row is no difference
    found = paired_bootstrap(rows, level=level, draws=draws, seed=seed)
    last = len(one)
    tables = {"difference": found.difference, "low": found.difference_low, "high": found.difference_high}
    return {
        **{name: np.round(table[:-1, last], _DIGITS) + 0.0 for name, table in tables.items()},
        "p": found.p[:-1, last],
        "paired": True,
        "n": found.n,
        "n_against": found.n,
    }
