"""Are the features of source and target draws of one distribution? Maximum mean discrepancy with permutations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError
from roadworthy.labelfree.gates.base import FEW, Evidence, Gate, feature_sides, gates, judged
from roadworthy.rng import numpy_generator

_MOST = 500
_PERMUTATIONS = 500
_BATCH = 100  # permutations multiplied at a time
_ALPHA = 0.05


@dataclass(frozen=True)
class MMD:
    """A two-sample test.

    Attributes:
        squared: unbiased estimate of the squared discrepancy; may be below 0.
        p: share of permutations that reach it, itself counted.
        bandwidth: of the kernel.
        n: rows of each side that were used.
    """

    squared: float
    p: float
    bandwidth: float
    n: tuple[int, int]


def mmd_test(
    one: ArrayLike, other: ArrayLike, *, permutations: int = _PERMUTATIONS, most: int = _MOST, seed: int = 0
) -> MMD:
    """Test whether two sets of feature vectors come from one distribution (Gretton et al. 2012).

    Gaussian kernel exp(-d^2 / (2 b^2)) on features brought to unit variance, with b the median distance of the rows
    used. Memory is (2 ``most``)^2 numbers, whatever the size of the sets.

    Args:
        one: (N, D) finite.
        other: (M, D) finite.
        permutations: how often the sides are drawn anew.
        most: rows of each side at most, drawn by the seed.
        seed: of the draws.

    Returns:
        The discrepancy and its p-value, at least 1 / (permutations + 1).

    Raises:
        InputError: other widths, or fewer than two rows on a side.

    Example:
        >>> far = np.arange(60.0)[:, None]
        >>> mmd_test(far, far + 1000).p < 0.01
        True
    """
    tables = [np.asarray(side, dtype=np.float64) for side in (one, other)]
    if any(side.ndim != 2 for side in tables) or tables[0].shape[1] != tables[1].shape[1]:
        raise InputError(
            f"mmd: got shapes {tables[0].shape} and {tables[1].shape}, expected (N, D) and (M, D) of one width"
        )
    if min(map(len, tables)) < 2:
        raise InputError(f"mmd: got {len(tables[0])} and {len(tables[1])} rows, expected at least 2 each")
    generator = numpy_generator(seed, "mmd")
    used = [side if len(side) <= most else side[generator.choice(len(side), most, replace=False)] for side in tables]
    kernel, bandwidth = _kernel(np.concatenate(used))
    n, total = len(used[0]), len(kernel)
    observed = float(_squared(kernel, _sides(np.arange(total)[None], n), n)[0])
    reached = 0
    for start in range(0, permutations, _BATCH):
        count = min(_BATCH, permutations - start)
        orders = np.stack([generator.permutation(total) for _ in range(count)])
        # equal data give equal sums up to rounding: those count as reached
        reached += int((_squared(kernel, _sides(orders, n), n) >= observed - 1e-12).sum())
    return MMD(observed, (1 + reached) / (1 + permutations), bandwidth, (n, total - n))


def _kernel(values: np.ndarray) -> tuple[np.ndarray, float]:
    spread = values.std(axis=0)
    values = (values - values.mean(axis=0)) / np.where(spread > 0, spread, 1)
    squares = (values**2).sum(axis=1)
    apart = np.maximum(squares[:, None] + squares[None] - 2 * values @ values.T, 0)
    middle = float(np.median(apart[np.triu_indices(len(values), 1)]))
    width = middle if middle > 0 else 1.0
    kernel = np.exp(-apart / (2 * width))
    np.fill_diagonal(kernel, 0)
    return kernel, float(np.sqrt(width))


def _sides(orders: np.ndarray, n: int) -> np.ndarray:
    """Return (P, N + M) with 1 where a row is on the first side."""
    first = np.zeros(orders.shape)
    np.put_along_axis(first, orders[:, :n], 1, axis=1)
    return first


def _squared(kernel: np.ndarray, first: np.ndarray, n: int) -> np.ndarray:
    m = len(kernel) - n
    product = first @ kernel
    within = (product * first).sum(axis=1)
    across = (product * (1 - first)).sum(axis=1)
    others = kernel.sum() - within - 2 * across
    return np.asarray(within / (n * (n - 1)) + others / (m * (m - 1)) - 2 * across / (n * m))


@gates.register("mmd", "features of source and target against each other, by permutation")
def mmd_gate(evidence: Evidence) -> Gate:
    """Warn where the features have changed; whether that harms, it does not say."""
    sides = feature_sides("mmd", evidence, least=(FEW, FEW))
    if isinstance(sides, Gate):
        return sides
    found = mmd_test(*sides, seed=evidence.seed)
    changed = found.p < _ALPHA
    return judged(
        "mmd",
        found.p,
        warn=changed,
        expected=f"p at least {_ALPHA}",
        why=(
            f"the features of these samples {'differ' if changed else 'do not clearly differ'} from the source's "
            f"(squared discrepancy {found.squared:.4f}, p = {found.p:.3f})"
        ),
    )
