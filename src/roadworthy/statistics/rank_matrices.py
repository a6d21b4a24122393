"""Rank correlation of every pair of sources at once, and Kendall's W over all of them.

Spearman's rho and Kendall's tau-b of all pairs are products of matrices: of the ranks' deviations, and of the signs
of all pairs of methods. So thousands of resamples take no loop. Equal to ``scipy.stats.spearmanr`` and
``kendalltau``, pair by pair; with thousands of methods :func:`roadworthy.statistics.kendall` takes less memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.rng import numpy_generator, resolve_seed
from roadworthy.statistics._checks import check_draws, to_array
from roadworthy.statistics.ranks import midranks

if TYPE_CHECKING:
    from roadworthy.types import Seed

_CELLS = 1 << 22  # signs held at a time


def spearman_matrix(values: Any) -> np.ndarray:
    """Spearman's rho of every pair of sources.

    Args:
        values: (..., S, M) value that each of S sources gives to each of M methods.

    Returns:
        float64 (..., S, S) in [-1, 1]; NaN where a source gives all methods the same value or holds a NaN, also with
        itself.

    Example:
        >>> spearman_matrix([[1, 2, 3], [3, 2, 1], [5, 5, 5]]).tolist()
        [[1.0, -1.0, nan], [-1.0, 1.0, nan], [nan, nan, nan]]
    """
    return _normalised(_deviations(values))


def kendall_matrix(values: Any) -> np.ndarray:
    """Kendall's tau-b of every pair of sources.

    Args:
        values: (..., S, M) value that each of S sources gives to each of M methods.

    Returns:
        float64 (..., S, S) in [-1, 1]; NaN as in :func:`spearman_matrix`.

    Example:
        >>> kendall_matrix([[1, 2, 3, 4], [1, 3, 2, 4]]).round(4).tolist()
        [[1.0, 0.6667], [0.6667, 1.0]]
    """
    array = _values(values)
    sources, methods = array.shape[-2:]
    rows = array.reshape(-1, sources, methods)
    first, second = np.triu_indices(methods, 1)
    step = max(1, _CELLS // max(1, sources * len(first)))
    # sums of signs are exact in float32 up to 2 ** 24 of them, that is 5,793 methods
    exact = np.float32 if len(first) < 1 << 24 else np.float64
    parts = [
        _normalised(np.sign(chunk[..., first] - chunk[..., second]).astype(exact))
        for chunk in (rows[start : start + step] for start in range(0, len(rows), step))
    ]
    return np.concatenate(parts).reshape(*array.shape[:-1], sources)


def kendalls_w(values: Any) -> np.ndarray:
    """Kendall's coefficient of concordance over all sources, corrected for ties.

    W is 1 where all sources rank the methods alike and 0 where their ranks cancel. Without ties the mean Spearman
    over all pairs is ``(S W - 1) / (S - 1)``. A source that gives all methods the same value agrees with none: leave
    it out where it is no answer at all.

    Args:
        values: (..., S, M) value that each of S sources gives to each of M methods.

    Returns:
        float64 (...) in [0, 1]; NaN for fewer than two sources, where all give all methods the same value, or where
        the values hold a NaN.

    Example:
        >>> float(kendalls_w([[1, 2, 3], [1, 2, 3]])), float(kendalls_w([[1, 2, 3], [3, 2, 1]]))
        (1.0, 0.0)
    """
    deviations = _deviations(values)
    sources = deviations.shape[-2]
    spread = sources * (deviations**2).sum(axis=(-2, -1))
    if sources < 2:
        return np.full(deviations.shape[:-2], np.nan)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((deviations.sum(axis=-2) ** 2).sum(axis=-1) / spread)


def concordance_p(values: Any, *, draws: int = 10_000, seed: Seed = 0) -> float:
    """How often sources whose rankings have nothing to do with each other reach the W of these.

    The methods are permuted within each source on its own. That the sources agree says that they see something in
    common, be it what the methods are worth or a fault which all share.

    Args:
        values: (S, M) value that each of S sources gives to each of M methods.
        draws: permutations; p goes down to ``1 / (draws + 1)``.
        seed: seed or generator.

    Returns:
        The share of permutations with a W at least as large, the one seen included; NaN where W is undefined.

    Raises:
        InputError: not (S, M).

    Example:
        >>> concordance_p([[1, 2, 3, 4, 5, 6]] * 3, draws=999)
        0.001
    """
    check_draws(draws)
    deviations = _deviations(values)
    if deviations.ndim != 2:
        raise InputError(f"values: shape {deviations.shape} came, expected 2 axes (source, method)")
    if np.isnan(kendalls_w(values)):
        return float("nan")
    generator = numpy_generator(resolve_seed(seed), "concordance")
    seen, as_large = (deviations.sum(axis=0) ** 2).sum(), 0  # twice the deviations are whole numbers: sums are exact
    step = max(1, _CELLS // deviations.size)
    for start in range(0, draws, step):
        shape = (min(step, draws - start), *deviations.shape)
        moved = generator.permuted(np.broadcast_to(deviations, shape), axis=-1)
        as_large += int(((moved.sum(axis=1) ** 2).sum(axis=-1) >= seen).sum())
    return (as_large + 1) / (draws + 1)


def _values(values: Any) -> np.ndarray:
    array = to_array(values)
    if array.dtype.kind not in "biuf" or array.ndim < 2:
        raise InputError(f"values: {array.dtype} {array.shape} came, expected numbers (..., source, method)")
    return array.astype(np.float64)


def _deviations(values: Any) -> np.ndarray:
    """Return twice the deviations from the mean rank, which are whole numbers."""
    array = _values(values)
    return 2 * midranks(array) - (array.shape[-1] + 1)


def _normalised(rows: np.ndarray) -> np.ndarray:
    """Return the cosines of all pairs of rows, as (..., S, S)."""
    cross = (rows @ np.swapaxes(rows, -1, -2)).astype(np.float64)
    own = np.diagonal(cross, axis1=-2, axis2=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(cross / np.sqrt(own[..., :, None] * own[..., None, :]), -1, 1)
