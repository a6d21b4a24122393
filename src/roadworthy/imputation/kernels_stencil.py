# mypy: disallow-untyped-defs=False, check-untyped-defs=False
"""Vector kernels of the CPU solver: what happens on one plane of one level.

A plane holds one channel of one level: rows of ``stride`` values, one row of zeros above and below, and at least one
zero after each row, which is the neighbour to the right of this row and to the left of the next. So neighbours
outside the image add nothing, and no loop asks where the border is. All levels of a field lie in one array, one after
the other. Iterates are zero wherever a unit is kept. Loops run over *segments*, stretches that hold an unknown: those
in positions ``first`` to ``last`` of the lists ``segments[0]`` (starts) and ``segments[1]`` (ends).

Everything is scaled by 12, so that the weights are the integers 2 (direct) and 1 (diagonal).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit, uint64

from roadworthy.imputation.multigrid import HANDED_ON

BLOCK = 16  # a segment is a run of blocks of this many values
TILE = 1024
LEAD = 16  # values of a tile before its start
MARGIN = 64  # values before the first plane, so that tiles may start early

# Sums are reordered inside one plane only, the same way always, so no result depends on the batch or on threads.
FAST: dict[str, Any] = {
    "nogil": True,
    "error_model": "numpy",
    "fastmath": {"contract", "reassoc", "nsz", "nnan", "ninf", "arcp"},
}
_INNER: dict[str, Any] = {**FAST, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
kernel: Any = njit(**_INNER)
inlined: Any = njit(inline="always", **_INNER)
careful: Any = njit(**{**_INNER, "fastmath": {"contract", "reassoc"}})  # NaN and infinity keep their meaning

ZERO, ONE, TWO, FOUR = np.float32(0), np.float32(1), np.float32(2), np.float32(4)
_HANDED_ON = np.float32(HANDED_ON)


@inlined
def _columns(tile, x, stride, start, count):
    """Write (1, 2, 1) sums down the columns, from ``LEAD`` values before ``start`` on."""
    first = start - uint64(LEAD)
    for j in range(count + uint64(2 * LEAD)):
        i = first + j
        tile[j] = x[i - stride] + x[i + stride] + TWO * x[i]


@inlined
def _around(tile, j, centre):
    """Sum the 8 neighbours, weights 2 and 1, out of column sums."""
    k = j + uint64(LEAD)
    return tile[k - uint64(1)] + tile[k + uint64(1)] + TWO * tile[k] - FOUR * centre


@kernel
def relax_zero(out, rhs, inverse, step, segments, first, last):
    """Take one damped Jacobi step from zero."""
    for k in range(first, last):
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            out[i] = step * inverse[i] * rhs[i]


@kernel
def relax(out, x, rhs, inverse, step, stride, tile, segments, first, last):
    """Take one damped Jacobi step from ``x`` to ``out``."""
    rest = ONE - step
    for k in range(first, last):
        at, end = uint64(segments[0, k]), uint64(segments[1, k])
        while at < end:
            count = min(end - at, uint64(TILE))
            _columns(tile, x, stride, at, count)
            for j in range(count):
                i = at + j
                out[i] = rest * x[i] + step * inverse[i] * (rhs[i] + _around(tile, j, x[i]))
            at += count


@kernel
def residual(out, x, rhs, diag, stride, tile, segments, first, last):
    """Subtract the operator applied to ``x`` from ``rhs``; zero at kept units."""
    for k in range(first, last):
        at, end = uint64(segments[0, k]), uint64(segments[1, k])
        while at < end:
            count = min(end - at, uint64(TILE))
            _columns(tile, x, stride, at, count)
            for j in range(count):
                i = at + j
                value = rhs[i] + _around(tile, j, x[i]) - diag[i] * x[i]
                out[i] = value if diag[i] > ZERO else ZERO
            at += count


@kernel
def exact_residual(out, x, diag, stride, segments, first, last):
    """Residual of the image itself in float64: in float32 its rounding, amplified by a large hole, stalls."""
    wide, one = np.float64, uint64(1)
    for k in range(first, last):
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            up, down = i - stride, i + stride
            direct = wide(x[up]) + wide(x[down]) + wide(x[i - one]) + wide(x[i + one])
            diagonal = wide(x[up - one]) + wide(x[up + one]) + wide(x[down - one]) + wide(x[down + one])
            value = direct + direct + diagonal - wide(diag[i]) * wide(x[i])
            out[i] = np.float32(value) if diag[i] > ZERO else ZERO


@kernel
def flow_in(out, x, handed, diag, stride, tile, segments, first, last):
    """Sum what the kept units in ``x`` give to each unknown, and what was handed on from the finer level."""
    for k in range(first, last):
        at, end = uint64(segments[0, k]), uint64(segments[1, k])
        while at < end:
            count = min(end - at, uint64(TILE))
            _columns(tile, x, stride, at, count)
            for j in range(count):
                i = at + j
                value = _around(tile, j, x[i]) + _HANDED_ON * handed[i]
                out[i] = value if diag[i] > ZERO else ZERO
            at += count


@kernel
def add(x, e, segments, first, last):
    """Add ``e`` to ``x``."""
    for k in range(first, last):
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            x[i] += e[i]


@kernel
def products(r, q, z, segments, last):
    """Return r.z and q.z."""
    rz, qz = 0.0, 0.0
    for k in range(last):
        a, b = ZERO, ZERO
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            a += r[i] * z[i]
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            b += q[i] * z[i]
        rz += a
        qz += b
    return rz, qz


@kernel
def largest(z, tile, segments, last):
    """Return the largest magnitude; lane by lane, since LLVM does not vectorise a float maximum."""
    for j in range(uint64(BLOCK)):
        tile[j] = ZERO
    for k in range(last):
        for i in range(uint64(segments[0, k]), uint64(segments[1, k]), uint64(BLOCK)):
            for j in range(uint64(BLOCK)):
                size = abs(z[i + j])
                tile[j] = size if size > tile[j] else tile[j]
    top = ZERO
    for j in range(BLOCK):
        top = max(top, tile[j])
    return top


@kernel
def apply(q, p, z, beta, diag, stride, tile, segments, last):
    """Turn the search direction ``p`` by ``z``, apply the operator to it, and return p.q."""
    for k in range(last):
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            p[i] = z[i] + beta * p[i]
    pq = 0.0
    for k in range(last):
        at, end = uint64(segments[0, k]), uint64(segments[1, k])
        while at < end:
            count = min(end - at, uint64(TILE))
            _columns(tile, p, stride, at, count)
            total = ZERO
            for j in range(count):
                i = at + j
                value = diag[i] * p[i] - _around(tile, j, p[i])
                value = value if diag[i] > ZERO else ZERO
                q[i] = value
                total += value * p[i]
            pq += total
            at += count
    return pq


@kernel
def advance(x, r, p, q, alpha, segments, last):
    """Take one step of conjugate gradients."""
    for k in range(last):
        for i in range(uint64(segments[0, k]), uint64(segments[1, k])):
            x[i] += alpha * p[i]
            r[i] -= alpha * q[i]
