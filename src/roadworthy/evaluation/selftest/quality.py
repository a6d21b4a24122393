"""What a map is worth where the truth is known, and how well scores put maps into that order.

Average precision equals ``sklearn.metrics.average_precision_score`` for values without ties. Ties are ordered by the
draw that the evaluation itself takes them by, so the quality belongs to the order in which units are really removed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from roadworthy.errors import InputError
from roadworthy.removal import removal_ranks, tie_draw
from roadworthy.rng import numpy_generator
from roadworthy.statistics import spearman


class Order(NamedTuple):
    """How far scores follow a known order.

    Attributes:
        rho: Spearman's correlation; NaN where scores or qualities are all alike.
        low: lower end of its bootstrap interval over samples.
        high: upper end.
    """

    rho: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.rho:.3f} ({self.low:.3f} to {self.high:.3f})"


def average_precision(values: np.ndarray, relevant: np.ndarray, *, seed: int, ids: Sequence[str]) -> np.ndarray:
    """Return the average precision of each map against the units that are known to be relevant.

    Args:
        values: (N, *units), larger is more relevant.
        relevant: bool (N, *units), at least one True in each row.
        seed: the seed of the evaluation, whose draw orders equal values.
        ids: N sample ids.

    Returns:
        float64 (N,): the mean, over the relevant units, of the share of relevant ones among those ranked as high.

    Raises:
        InputError: a row without a relevant unit.

    Example:
        >>> values = np.array([[0.9, 0.1, 0.5, 0.2]])
        >>> average_precision(values, np.array([[True, False, False, True]]), seed=0, ids=["a"]).round(3).tolist()
        [0.833]
    """
    flat = np.asarray(relevant, dtype=bool).reshape(len(values), -1)
    if not flat.any(axis=1).all():
        raise InputError(f"relevant: sample {int(np.argmin(flat.any(axis=1)))} has no relevant unit")
    ranks = removal_ranks(values, tie_draw(seed, ids, flat.shape[1]), "morf").reshape(flat.shape)
    ordered = np.zeros(flat.shape, dtype=bool)
    np.put_along_axis(ordered, ranks.astype(np.int64), flat, axis=1)
    precision = ordered.cumsum(axis=1) / np.arange(1, flat.shape[1] + 1)
    return np.asarray((precision * ordered).sum(axis=1) / flat.sum(axis=1))


def order_found(
    scores: np.ndarray, quality: np.ndarray, *, draws: int = 1000, level: float = 0.95, seed: int = 0
) -> Order:
    """Correlate the mean scores of maps with their quality, with an interval over resampled samples.

    Resampling adds noise, which pulls a correlation down: percentiles lie too low, so the interval is the value plus
    and minus their farther end, as for :func:`roadworthy.statistics.concordance`.

    Args:
        scores: (M, N) score of each map on each sample; higher is better.
        quality: (M,) known quality, or (M, N) per sample, which is then resampled with the scores.
        draws: bootstrap draws.
        level: coverage of the interval.
        seed: of the draws.

    Returns:
        Spearman's rho and its interval; the interval is NaN where a tenth of the draws leave rho undefined.

    Example:
        >>> scores = np.array([[0.1] * 9, [0.5] * 9, [0.8] * 9])
        >>> order_found(scores, np.array([0.0, 0.4, 0.9]))
        Order(rho=1.0, low=1.0, high=1.0)
    """
    count = scores.shape[1]
    per_sample = quality.ndim == 2
    rho = float(spearman(scores.mean(axis=1), quality.mean(axis=1) if per_sample else quality))
    weights = numpy_generator(seed, "selftest-order").multinomial(count, np.full(count, 1 / count), size=draws)
    moved = spearman(weights @ scores.T, weights @ quality.T if per_sample else quality, axis=-1)
    known = moved[~np.isnan(moved)]
    if len(known) < 0.9 * draws:
        return Order(rho, np.nan, np.nan)
    tail = (1 - level) / 2
    low, high = np.quantile(known, [tail, 1 - tail])
    half = float(max(rho - low, high - rho))
    return _around(rho, half)


def together(found: Sequence[Order]) -> Order:
    """Return the mean correlation of independent benches with its interval.

    Example:
        >>> one = together([Order(0.9, 0.8, 1.0), Order(0.8, 0.7, 0.9)])
        >>> round(one.rho, 2), round(one.low, 3)
        (0.85, 0.779)
    """
    rho = float(np.mean([one.rho for one in found]))
    halves = [max(one.rho - one.low, one.high - one.rho) for one in found]
    half = float(np.sqrt(np.sum(np.square(halves))) / len(found))
    return _around(rho, half)


def _around(rho: float, half: float) -> Order:
    """Return an interval that ends where a correlation does; NaN stays."""
    low, high = np.clip([rho - half, rho + half], -1.0, 1.0)
    return Order(rho, float(low), float(high))


def clear_pairs(scores: np.ndarray, quality: np.ndarray, gap: float = 0.1) -> tuple[float, int]:
    """Return the share of pairs with clearly different quality that the scores put in the right order.

    Args:
        scores: (M,), higher is better.
        quality: (M,).
        gap: pairs whose qualities differ by at least this count.

    Returns:
        The share (equal scores count as wrong; NaN without such pairs) and the number of pairs.

    Example:
        >>> clear_pairs(np.array([0.2, 0.1, 0.9]), np.array([0.1, 0.3, 0.8]))
        (0.6666666666666666, 3)
    """
    first, second = np.triu_indices(len(quality), 1)
    difference = quality[first] - quality[second]
    clear = np.abs(difference) >= gap - 1e-12
    right = np.sign(scores[first] - scores[second]) == np.sign(difference)
    return (float(right[clear].mean()) if clear.any() else float("nan")), int(clear.sum())
