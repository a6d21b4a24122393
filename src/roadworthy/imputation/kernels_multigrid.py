# mypy: disallow-untyped-defs=False, check-untyped-defs=False
"""The compiled CPU solver: V-cycle, full multigrid start, conjugate gradients, and the loop over a batch.

See :mod:`roadworthy.imputation.multigrid_cpu` for the method, and the two other kernel modules for its parts.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numba import njit, uint64

from roadworthy.imputation import kernels_grid, kernels_stencil, multigrid
from roadworthy.imputation.kernels_grid import (
    HEIGHT,
    OFFSET,
    SIZE,
    STRIDE,
    WIDTH,
    build,
    children,
    coarse_values,
    prolong,
    restrict,
)
from roadworthy.imputation.kernels_stencil import (
    FAST,
    FOUR,
    ONE,
    ZERO,
    add,
    advance,
    apply,
    careful,
    exact_residual,
    kernel,
    largest,
    products,
    relax,
    relax_zero,
    residual,
)

SUCCESSFUL, MAX_CYCLES, SINGULAR, NONFINITE_INPUT = range(4)  # as in solution.Outcome
_HALF, _HUGE = np.float32(0.5), np.float32(1e30)
_GOAL, _STRICT, _LEAST_RATE = (np.float32(v) for v in (multigrid.GOAL, multigrid.STRICT, multigrid.LEAST_RATE))
_FEW_KEPT, _REFRESH_ABOVE = multigrid.FEW_KEPT, multigrid.REFRESH_ABOVE


class Workspace(NamedTuple):
    """What one thread works in. Fields are float32, flat, all levels one after the other."""

    levels: np.ndarray  # int64, a row (height, width, stride, offset, size) a level
    steps: np.ndarray  # of the smoother
    ending: np.ndarray  # of the smoother on the last level of the grid
    diag: np.ndarray  # the diagonal at unknowns, 0 elsewhere
    inverse: np.ndarray  # its reciprocal, 0 elsewhere
    screen: np.ndarray  # the part of the diagonal that hidden kept units add
    hidden: np.ndarray  # 1 at kept units inside coarse cells that hold an unknown
    source: np.ndarray  # the right-hand side that hidden kept units give
    value: np.ndarray  # the solution, with the kept values
    rhs: np.ndarray  # the residual
    x: np.ndarray  # two buffers of the correction; a V-cycle leaves it in y
    y: np.ndarray
    p: np.ndarray  # search direction, and the operator applied to it
    q: np.ndarray
    tile: np.ndarray
    row: np.ndarray
    down: np.ndarray
    lanes: np.ndarray  # (3, width)
    segments: np.ndarray  # int64 (2, capacity)
    pointer: np.ndarray  # int64 (levels + 1,): where the segments of a level begin


@kernel
def _cycle(top, depth, w):
    """Run one symmetric V-cycle on the residual of level ``top``; the correction is left in ``y``."""
    levels, pointer, segments, rhs, tile, inverse = w.levels, w.pointer, w.segments, w.rhs, w.tile, w.inverse
    for n in range(top, depth):
        # Where the grid has further levels this last one was found to be so well screened that smoothing solves it.
        steps = w.ending if n == levels.shape[0] - 1 else w.steps
        stride, first, last = uint64(levels[n, STRIDE]), pointer[n], pointer[n + 1]
        final = n == depth - 1
        now, other = (w.y, w.x) if final and steps.size % 2 == 1 else (w.x, w.y)
        relax_zero(now, rhs, inverse, steps[0], segments, first, last)
        for s in range(1, steps.size):
            relax(other, now, rhs, inverse, steps[s], stride, tile, segments, first, last)
            now, other = other, now
        if not final:
            residual(other, now, rhs, w.diag, stride, tile, segments, first, last)
            restrict(rhs, other, w.row, levels[n], levels[n + 1], FOUR / children(levels[n]))
    steps = w.steps
    for n in range(depth - 2, top - 1, -1):
        stride, first, last = uint64(levels[n, STRIDE]), pointer[n], pointer[n + 1]
        now, other = (w.x, w.y) if steps.size % 2 == 1 else (w.y, w.x)
        prolong(now, w.y, w.diag, ONE, w.down, w.row, levels[n], levels[n + 1])
        for s in range(steps.size):
            relax(other, now, rhs, inverse, steps[steps.size - 1 - s], stride, tile, segments, first, last)
            now, other = other, now


@kernel
def _start(depth, w):
    """Solve from the coarsest level up, one V-cycle a level, and interpolate to the image (full multigrid)."""
    for n in range(depth - 1):
        coarse_values(n, w)
    level = w.levels[depth - 1]
    for i in range(uint64(level[OFFSET]), uint64(level[OFFSET] + level[SIZE])):
        w.value[i] = _HALF if w.diag[i] > ZERO else w.value[i]
    for n in range(depth - 1, 0, -1):
        level, first, last = w.levels[n], w.pointer[n], w.pointer[n + 1]
        residual(w.rhs, w.value, w.source, w.diag, uint64(level[STRIDE]), w.tile, w.segments, first, last)
        _cycle(n, depth, w)
        add(w.value, w.y, w.segments, first, last)
        prolong(w.value, w.value, w.diag, ZERO, w.down, w.row, w.levels[n - 1], level)


@kernel
def _descend(goal, max_cycles, refresh, depth, w):
    """Run preconditioned conjugate gradients; return the cycles taken and the size of the last correction.

    The number of cycles is negative if the goal was not met.
    """
    segments, last, diag, rhs, value, tile = w.segments, w.pointer[1], w.diag, w.rhs, w.value, w.tile
    stride = uint64(w.levels[0, STRIDE])
    exact_residual(rhs, value, diag, stride, segments, 0, last)
    rz_before, alpha, before, size = 1.0, 0.0, _HUGE, ZERO
    for cycle in range(max_cycles):
        _cycle(0, depth, w)
        size = largest(w.y, tile, segments, last)
        # The correction is the error that it removes; what remains is smaller by the rate of convergence, of which
        # the ratio to the correction before is an estimate.
        if size * max(size / before, _LEAST_RATE) <= goal:
            add(value, w.y, segments, 0, last)
            return cycle + 1, size
        before = size
        rz, qz = products(rhs, w.q, w.y, segments, last)
        beta = np.float32(-alpha * qz / rz_before) if cycle > 0 else ZERO
        pq = apply(w.q, w.p, w.y, beta, diag, stride, tile, segments, last)
        alpha, rz_before = rz / pq, rz
        advance(value, rhs, w.p, w.q, np.float32(alpha), segments, last)
        if refresh:
            exact_residual(rhs, value, diag, stride, segments, 0, last)
    return -max_cycles, size


@careful
def _extremes(image, removed, lanes):
    """Return the least and greatest kept value, and whether all kept values are finite; column by column."""
    width, infinity = uint64(image.shape[1]), np.float32(np.inf)
    for i in range(width):
        lanes[0, i], lanes[1, i], lanes[2, i] = infinity, -infinity, ZERO
    for y in range(image.shape[0]):
        for i in range(width):
            value, gone = image[y, i], removed[y, i]
            low = infinity if gone else value
            high = -infinity if gone else value
            lanes[0, i] = low if low < lanes[0, i] else lanes[0, i]
            lanes[1, i] = high if high > lanes[1, i] else lanes[1, i]
            lanes[2, i] += ZERO if gone else value - value
    low, high, bad = np.float64(lanes[0, 0]), np.float64(lanes[1, 0]), lanes[2, 0]
    for i in range(uint64(1), width):
        low, high, bad = min(low, lanes[0, i]), max(high, lanes[1, i]), bad + lanes[2, i]
    return low, high, bad == ZERO


@kernel
def _load(value, image, removed, low, inverse, level):
    """Scale kept values to [0, 1]."""
    for y in range(level[HEIGHT]):
        o = uint64(level[OFFSET] + (y + 1) * level[STRIDE])
        for i in range(uint64(level[WIDTH])):
            scaled = (np.float64(image[y, i]) - low) * inverse
            value[o + i] = ZERO if removed[y, i] else np.float32(scaled)


@kernel
def _load_previous(value, previous, removed, low, inverse, level):
    """Start from an earlier fill instead of from the coarse levels."""
    for y in range(level[HEIGHT]):
        o = uint64(level[OFFSET] + (y + 1) * level[STRIDE])
        for i in range(uint64(level[WIDTH])):
            scaled = (np.float64(previous[y, i]) - low) * inverse
            value[o + i] = np.float32(min(max(scaled, 0.0), 1.0)) if removed[y, i] else value[o + i]


@kernel
def _store(out, image, removed, value, low, high, level):
    for y in range(level[HEIGHT]):
        o = uint64(level[OFFSET] + (y + 1) * level[STRIDE])
        for i in range(uint64(level[WIDTH])):
            share = np.float64(value[o + i])
            fill = min(max(low * (1.0 - share) + high * share, low), high)
            out[y, i] = fill if removed[y, i] else image[y, i]


@kernel
def _prepare(mask, w):
    """Build the levels of a mask with all iterates at zero; return their number."""
    for i in range(uint64(w.p.size)):
        w.p[i] = ZERO
        w.q[i] = ZERO
    for i in range(uint64(w.x.size)):
        w.x[i] = ZERO
        w.y[i] = ZERO
    depth = build(mask, w)
    for i in range(uint64(w.x.size)):
        w.x[i] = ZERO
    return depth


@kernel
def _count(mask):
    total = 0
    for y in range(mask.shape[0]):
        for i in range(uint64(mask.shape[1])):
            total += mask[y, i]
    return total


def _entry(stamp: int) -> Any:
    """Return the loop over a batch; ``stamp`` becomes part of the key of the on-disk cache of compiled code."""

    def solve_batch(images, removed, previous, out, report, tolerance, max_cycles, strip, w):
        """Fill each channel of each image; ``report`` gets outcome, cycles and the size of the last correction."""
        depth, gone, units = 0, stamp, images.shape[2] * images.shape[3]
        for n in range(images.shape[0]):
            for c in range(images.shape[1]):
                image, mask = images[n, c], removed[n, min(c, removed.shape[1] - 1)]
                if c == 0 or removed.shape[1] > 1:
                    gone = _count(mask)
                    if 0 < gone < units:
                        depth = _prepare(mask, w)
                low, high, finite = _extremes(image, mask, w.lanes)
                if gone == 0:
                    _store(out[n, c], image, mask, w.value, low, high, w.levels[0])
                if gone == units or not finite:
                    report[n, c, 0] = SINGULAR if gone == units else NONFINITE_INPUT
                elif gone > 0:
                    inverse = 1.0 / (high - low) if high > low else 0.0
                    _load(w.value, image, mask, low, inverse, w.levels[0])
                    if previous.shape[0] > 0:
                        _load_previous(w.value, previous[n, c], mask, low, inverse, w.levels[0])
                    else:
                        _start(depth, w)
                    strict = strip or (units - gone) * _FEW_KEPT < units
                    goal = tolerance * _GOAL * (_STRICT if strict else ONE)
                    cycles, size = _descend(goal, max_cycles, strip or units > _REFRESH_ABOVE, depth, w)
                    report[n, c, 0] = SUCCESSFUL if cycles > 0 else MAX_CYCLES
                    report[n, c, 1], report[n, c, 2] = abs(cycles), size
                    _store(out[n, c], image, mask, w.value, low, high, w.levels[0])

    return solve_batch


_PARTS = (kernels_grid, kernels_stencil, multigrid)


def _compile() -> Any:
    """Compile with an on-disk cache, or without where no cache directory can be written.

    numba looks for changes in the file of the entry alone, so the key gets the content of its parts.
    """
    sources = (Path(str(module.__file__)).read_bytes() for module in _PARTS)
    entry = _entry(zlib.crc32(b"".join(sources)))
    try:
        return njit(cache=True, **FAST)(entry)
    except RuntimeError:
        return njit(**FAST)(entry)


solve_batch = _compile()
