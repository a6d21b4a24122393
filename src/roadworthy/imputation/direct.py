"""The direct solver: a sparse factorisation per mask in float64; the reference that the fast ones are held against.

It equals the published way of computing the fill (SciPy sparse matrix and ``spsolve``), assembled at once.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import sparse
from scipy.sparse import linalg

from roadworthy.imputation.operator import DIAGONAL, DIRECT, System
from roadworthy.imputation.solution import Outcome, Solution

_NEIGHBOURS = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if (dy, dx) != (0, 0)]


def assemble(removed: np.ndarray) -> tuple[sparse.csc_matrix, sparse.csc_matrix]:
    """Build the matrices of one mask.

    Args:
        removed: bool (H, W).

    Returns:
        ``A`` (n, n) over the removed units in row-major order, and ``B`` (n, H * W), such that the fill solves
        ``A fill = B image``.
    """
    height, width = removed.shape
    y, x = np.nonzero(removed)
    n = len(y)
    number = np.full(removed.shape, -1)
    number[y, x] = np.arange(n)
    diagonal = np.zeros(n)
    entries: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    known: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for dy, dx in _NEIGHBOURS:
        weight = DIAGONAL if dy and dx else DIRECT
        inside = np.flatnonzero((y + dy >= 0) & (y + dy < height) & (x + dx >= 0) & (x + dx < width))
        diagonal[inside] += weight
        ny, nx = y[inside] + dy, x[inside] + dx
        unknown = removed[ny, nx]
        entries.append((inside[unknown], number[ny, nx][unknown], np.full(unknown.sum(), -weight)))
        known.append((inside[~unknown], (ny * width + nx)[~unknown], np.full((~unknown).sum(), weight)))
    entries.append((np.arange(n), np.arange(n), diagonal))
    return _gather(entries, (n, n)), _gather(known, (n, height * width))


def _gather(parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]], shape: tuple[int, int]) -> sparse.csc_matrix:
    rows, columns, values = (np.concatenate(field) for field in zip(*parts, strict=True))
    return sparse.csc_matrix((values, (rows, columns)), shape=shape)


def solve_direct(
    system: System, *, tolerance: float, max_cycles: int, previous: torch.Tensor | None = None
) -> Solution:
    """Solve each image's system by sparse LU; ``tolerance``, ``max_cycles`` and ``previous`` play no part."""
    images = system.images.cpu().double().numpy()
    removed = system.removed.cpu().numpy()
    filled = images.copy()
    solution = Solution.empty(system)
    for n in range(images.shape[0]):
        for m in range(removed.shape[1]):
            channels = slice(None) if removed.shape[1] == 1 else slice(m, m + 1)
            filled[n, channels], solution.outcomes[n, channels] = _fill(images[n, channels], removed[n, m])
    solution.filled.copy_(torch.from_numpy(filled))
    solution.filled.copy_(torch.where(system.removed, solution.filled, system.images))
    return solution


def _fill(image: np.ndarray, removed: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Fill the channels that share a mask; return them with their outcomes."""
    filled = image.copy()
    sound = np.isfinite(image[:, ~removed]).all(axis=1)
    outcomes = np.where(sound, Outcome.SUCCESSFUL, Outcome.NONFINITE_INPUT)
    filled[:, removed] = np.nan
    if removed.all():
        outcomes[:] = Outcome.SINGULAR
    elif removed.any() and sound.any():
        matrix, known = assemble(removed)
        right = known @ np.where(removed, 0, image[sound]).reshape(int(sound.sum()), -1).T
        filled.reshape(len(image), -1)[np.ix_(sound, removed.ravel())] = linalg.splu(matrix).solve(right).T
    return filled, outcomes
