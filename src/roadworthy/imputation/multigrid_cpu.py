"""The fast solver on the CPU: conjugate gradients with a multigrid V-cycle, compiled by numba.

Geometric multigrid on the mask: a coarse cell is unknown when any unit in it is, and the kept units that hide in
such a cell pull on it through an extra diagonal (a screened operator), which keeps the coarse correction honest for
scattered masks and thin kept lines alike. Bilinear interpolation and its transpose; a Chebyshev-Jacobi smoother, so
that the cycle is symmetric; a full multigrid start. Compares with ``scipy.sparse.linalg.cg`` with a multigrid
preconditioner (Trottenberg et al., Multigrid, 2001), but needs neither a matrix nor a set-up beyond the masks.
Each channel of each image is computed by itself: the result does not depend on the batch or on threads.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from roadworthy.imputation.multigrid import (
    ENDING,
    HIGH,
    HIGH_THIN,
    LOW,
    LOW_ENDING,
    SWEEPS,
    chebyshev_steps,
    is_long,
)
from roadworthy.imputation.operator import System
from roadworthy.imputation.scaling import Scale
from roadworthy.imputation.solution import Outcome, Solution

if TYPE_CHECKING:
    from roadworthy.imputation.kernels_multigrid import Workspace

_ROUND = 16  # rows of wide levels start at multiples of this, for aligned vector loads


def solve_multigrid_cpu(
    system: System, *, tolerance: float, max_cycles: int, previous: torch.Tensor | None = None
) -> Solution:
    """Solve on the CPU, images spread over torch's number of threads.

    Args:
        system: images and masks.
        tolerance: the largest error wanted, as a share of the range of a channel's kept values.
        max_cycles: V-cycles allowed for a channel.
        previous: a start, (N, C, H, W); None starts from the coarse levels.

    Returns:
        The solution.
    """
    if system.images.dtype == torch.float32:
        return _solve_float32(system, tolerance, max_cycles, previous)
    # In the range of the kept values float32 is exact enough; so one compiled version serves all dtypes.
    scale = Scale.of(system)
    start = None if previous is None else scale.shares(previous)
    shares = _solve_float32(System(scale.shares(system.images), system.removed), tolerance, max_cycles, start)
    filled = scale.restore(shares.filled, system)
    outcomes = np.maximum(shares.outcomes, scale.outcomes[..., 0, 0].numpy())
    return Solution(filled, outcomes, shares.cycles, shares.corrections)


def _solve_float32(system: System, tolerance: float, max_cycles: int, previous: torch.Tensor | None) -> Solution:
    solution = Solution.empty(system)
    images, removed = system.images.numpy(), system.removed.numpy()
    start = images[:0] if previous is None else previous.float().contiguous().numpy()
    filled = solution.filled.numpy()
    report = np.zeros((*images.shape[:2], 3))
    count = len(images)
    threads = max(1, min(torch.get_num_threads(), count))
    bounds = np.linspace(0, count, threads + 1).astype(int)

    def work(part: int) -> None:
        rows = slice(bounds[part], bounds[part + 1])
        _fill(images[rows], removed[rows], start[rows], filled[rows], report[rows], tolerance, max_cycles)

    if threads == 1:
        work(0)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))
    solution.outcomes[:] = report[..., 0]
    solution.cycles[:] = report[..., 1]
    solution.corrections[:] = report[..., 2]
    for n, c in np.argwhere(solution.outcomes >= Outcome.SINGULAR):
        filled[n, c] = np.where(removed[n, min(c, removed.shape[1] - 1)], np.nan, images[n, c])
    return solution


def _fill(
    images: np.ndarray,
    removed: np.ndarray,
    start: np.ndarray,
    filled: np.ndarray,
    report: np.ndarray,
    tolerance: float,
    max_cycles: int,
) -> None:
    from roadworthy.imputation import kernels_multigrid as kernels

    workspace = _workspace(*images.shape[2:])
    arguments: tuple[Any, ...] = (
        images,
        removed,
        start,
        filled,
        report,
        np.float32(tolerance),
        max_cycles,
        is_long(*images.shape[2:]),
        workspace,
    )
    try:
        kernels.solve_batch(*arguments)
    except OSError:
        # The compiled code could not be written to the cache directory; it is in memory, so call again.
        kernels.solve_batch(*arguments)


def _workspace(height: int, width: int) -> Workspace:
    from roadworthy.imputation.kernels_multigrid import Workspace
    from roadworthy.imputation.kernels_stencil import BLOCK, LEAD, TILE

    levels, total = _geometry(height, width)
    high = HIGH if min(height, width) > 1 else HIGH_THIN
    diag, inverse, screen, hidden, source, value, rhs, x, y = _aligned(9, total)
    p, q = _aligned(2, int(levels[1, 3]) if len(levels) > 1 else total)
    tile, row, down = _aligned(3, max(TILE + 2 * LEAD, 2 * width + 16))
    capacity = total // (2 * BLOCK) + 2 * len(levels)
    return Workspace(
        levels=levels,
        steps=chebyshev_steps(LOW, high, SWEEPS),
        ending=chebyshev_steps(LOW_ENDING, high, ENDING),
        diag=diag,
        inverse=inverse,
        screen=screen,
        hidden=hidden,
        source=source,
        value=value,
        rhs=rhs,
        x=x,
        y=y,
        p=p,
        q=q,
        tile=tile,
        row=row,
        down=down,
        lanes=np.empty((3, width), np.float32),
        segments=np.empty((2, capacity), np.int64),
        pointer=np.zeros(len(levels) + 1, np.int64),
    )


@lru_cache(maxsize=16)
def _geometry(height: int, width: int) -> tuple[np.ndarray, int]:
    """Lay out the levels of one image size: rows of (height, width, stride, offset, size), and the total size."""
    from roadworthy.imputation.kernels_stencil import BLOCK, MARGIN

    rows: list[tuple[int, int, int, int, int]] = []
    offset = MARGIN
    while True:
        stride = width + 1 if width < 48 else (width // _ROUND + 1) * _ROUND
        rows.append((height, width, stride, offset, (height + 2) * stride + BLOCK))  # the last block may overhang
        offset += rows[-1][-1]
        if max(height, width) <= 2:
            return np.array(rows, dtype=np.int64), offset + MARGIN
        height, width = (height + 1) // 2, (width + 1) // 2


def _aligned(rows: int, columns: int) -> np.ndarray:
    """Return float32 zeros whose rows start on cache lines."""
    columns = -(-columns // _ROUND) * _ROUND
    buffer = np.zeros(rows * columns + _ROUND, np.float32)
    skip = -buffer.ctypes.data % 64 // 4
    return buffer[skip : skip + rows * columns].reshape(rows, columns)
