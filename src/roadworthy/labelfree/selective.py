"""Samples taken by falling rank: mean reliability of the kept part at every coverage, exact under ties.

Each sample has a rank score, a value in [0, 1] (how often it agrees, or how likely it is correct) and the value that
chance alone would give it. Reliability of the kept part S is ``(sum of values - sum of chance) / (|S| - sum of
chance)``: 1 where every value is 1, 0 where values are what chance gives, below 0 where they are less. With no chance
term it is the plain mean, and one minus it the risk of a risk-coverage curve (El-Yaniv and Wiener, JMLR 2010).

Samples of equal rank are kept or left together, so the order of rows changes nothing. The area is the mean of the
reliability over coverage in (0, 1]; at a coverage between two steps the larger part is meant, since no smaller one
can be chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from roadworthy.errors import InputError, listed
from roadworthy.rng import numpy_generator
from roadworthy.statistics.resampling import expanded_interval

_FULL = 1e-12  # chance this close to certainty leaves nothing to be reliable beyond it
_CELLS = 1 << 21  # weights held at a time


@dataclass(frozen=True, eq=False)
class Ranked:
    """Samples in falling rank, ready to be summed. Make one with :func:`ranked`.

    Attributes:
        order: (N,) rows of the caller, in the order used here.
        values: (N,) in this order.
        chance: (N,) in this order.
        predicted: (N,) class of each sample in this order, or None: chance then does not depend on class shares.
        shares: (N, C) how likely each class is on each sample, in this order, or None.
        last: (K,) position of the last sample of each step.
        thresholds: (K,) rank score of each step, falling.
    """

    order: np.ndarray
    values: np.ndarray
    chance: np.ndarray
    predicted: np.ndarray | None
    shares: np.ndarray | None
    last: np.ndarray
    thresholds: np.ndarray

    @property
    def coverage(self) -> np.ndarray:
        """Share of samples kept at each step, float64 (K,); the last is 1."""
        return np.asarray((self.last + 1) / len(self.order))

    @property
    def reliability(self) -> np.ndarray:
        """Reliability of the part kept at each step, float64 (K,)."""
        gained = np.cumsum(self.values)[self.last], np.cumsum(self.chance)[self.last]
        return _beyond_chance(gained[0], gained[1], self.last + 1.0)

    @property
    def area(self) -> float:
        """Mean reliability over coverage in (0, 1]."""
        return float((self.reliability * np.diff(self.coverage, prepend=0.0)).sum())

    def thinned(self, most: int) -> np.ndarray:
        """Return positions of at most ``most`` steps, about evenly spaced in coverage; the last is always there."""
        if len(self.last) <= most:
            return np.arange(len(self.last))
        return np.unique(np.searchsorted(self.coverage, np.arange(1, most + 1) / most - 1e-12))

    def resampled(self, steps: np.ndarray, draws: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Draw samples anew, with replacement, and read coverage and reliability at the thresholds of ``steps``.

        Two sets of the same samples in the same order are drawn alike. Class shares are those of the draw.

        Args:
            steps: positions among the steps, rising.
            draws: number of resamples.
            seed: resolved seed.

        Yields:
            ``(coverage, reliability)``, each (some draws, len(steps)); NaN where a draw keeps nothing.
        """
        yield from self.read(weights_of(len(self.order), draws, seed), steps)

    def read(self, weights: Iterator[np.ndarray], steps: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Read coverage and reliability at ``steps`` for weights (some draws, N) given in this object's order."""
        starts = np.concatenate(([0], self.last[steps][:-1] + 1))
        shares = (
            None
            if self.shares is None
            else np.cumsum(np.add.reduceat(self.shares, starts, axis=0, dtype=np.float64), axis=0)
        )
        for drawn in weights:
            kept = np.cumsum(np.add.reduceat(drawn, starts, axis=1), axis=1)
            gained = np.cumsum(np.add.reduceat(drawn * self.values, starts, axis=1), axis=1)
            chance = np.cumsum(np.add.reduceat(drawn * self.chance, starts, axis=1), axis=1)
            if shares is not None and self.predicted is not None:
                # class shares of the draw; their product with the draw's own share of each class is of second order
                chance = chance + (self._class_shares(drawn) - self._class_shares(np.ones_like(drawn[:1]))) @ shares.T
            found = _beyond_chance(gained, chance, kept)
            yield kept / kept[:, -1:], np.where(kept > 0, found, np.nan)

    def _class_shares(self, drawn: np.ndarray) -> np.ndarray:
        assert self.predicted is not None
        assert self.shares is not None
        held = np.unique(self.predicted)
        table = np.zeros((len(drawn), self.shares.shape[1]))
        table[:, held] = drawn @ (self.predicted[:, None] == held).astype(np.float64)
        return table / table.sum(axis=1, keepdims=True)


def _beyond_chance(gained: np.ndarray, chance: np.ndarray, kept: np.ndarray) -> np.ndarray:
    room = kept - chance
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(room > _FULL * np.maximum(kept, 1), (gained - chance) / room, 0.0))


def ranked(
    scores: np.ndarray,
    values: np.ndarray,
    *,
    predicted: np.ndarray | None = None,
    shares: np.ndarray | None = None,
) -> Ranked:
    """Put samples in falling order of a score.

    Args:
        scores: (N,) rank score, high = kept first; finite.
        values: (N,) in [0, 1].
        predicted: int (N,) class of each sample; with ``shares`` it makes the chance term.
        shares: (N, C) how likely each class is on each sample when it is perturbed. Chance for a sample is
            ``sum over c of (share of samples of class c) x (its share of class c)``: how often it would agree with
            the class of a sample drawn at random.

    Returns:
        The samples, in an order that does not depend on that of the rows.

    Raises:
        InputError: no samples, lengths that differ, or values that are not finite.

    Example:
        >>> kept = ranked(np.array([0.9, 0.7, 0.7]), np.array([1.0, 1.0, 0.0]))
        >>> kept.coverage.round(3).tolist(), kept.reliability.round(3).tolist()
        ([0.333, 1.0], [1.0, 0.667])
        >>> round(kept.area, 4)  # 1/3 * 1 + 2/3 * 2/3
        0.7778
    """
    scores, values = _column("scores", scores), _column("values", values)
    if scores.shape != values.shape or not len(scores):
        raise InputError(f"scores have shape {scores.shape} and values {values.shape}, expected (N,) each, N >= 1")
    chance = np.zeros(len(values))
    if shares is not None and predicted is not None:
        frequency = np.bincount(predicted, minlength=shares.shape[1]) / len(predicted)
        chance = np.einsum("nc,c->n", shares, frequency)
    order = np.lexsort((*(() if predicted is None else (predicted,)), chance, values, -scores))
    falling = scores[order]
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))
    return Ranked(
        order=order,
        values=values[order],
        chance=chance[order],
        predicted=None if predicted is None else predicted[order],
        shares=None if shares is None else shares[order],
        last=last,
        thresholds=falling[last],
    )


def weights_of(n: int, draws: int, seed: int) -> Iterator[np.ndarray]:
    """Yield how often each of ``n`` samples is drawn, float64 (some draws, n), until there are ``draws`` of them."""
    generator = numpy_generator(seed, "selective")
    step = max(1, _CELLS // n)
    for start in range(0, draws, step):
        size = min(step, draws - start)
        flat = (generator.integers(n, size=(size, n)) + n * np.arange(size)[:, None]).ravel()
        yield np.bincount(flat, minlength=size * n).reshape(size, n).astype(np.float64)


def bands(drawn: np.ndarray, level: float, kept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return an interval at each step from resampled values.

    Args:
        drawn: (draws, K) resampled reliability; NaN where a draw kept nothing.
        level: confidence level at each step on its own.
        kept: (K,) samples kept at each step.

    Returns:
        ``(low, high)``, each (K,): expanded percentile intervals; NaN for one sample, and where more than a tenth of
        the draws kept nothing.

    Example:
        >>> low, high = bands(np.linspace(0, 1, 1001)[:, None], 0.9, np.array([10]))
        >>> low.round(3).tolist(), high.round(3).tolist()
        ([0.027], [0.973])
    """
    low, high = np.full(drawn.shape[1], np.nan), np.full(drawn.shape[1], np.nan)
    for k, column in enumerate(drawn.T):
        seen = column[np.isfinite(column)]
        if kept[k] > 1 and len(seen) >= 0.9 * len(column):
            low[k], high[k] = expanded_interval(seen, level, int(kept[k]))
    return low, high


def _column(name: str, values: np.ndarray) -> np.ndarray:
    column = np.asarray(values, dtype=np.float64)
    bad = np.flatnonzero(~np.isfinite(column)).tolist() if column.ndim == 1 else []
    if bad:
        raise InputError(f"{name}: rows {listed(bad)} are not finite; leave these samples out")
    return column + 0.0
