# mypy: disallow-untyped-defs=False, check-untyped-defs=False
"""Kernels of the CPU solver between levels: transfers, and the levels of one mask.

A level is a row (height, width, stride, offset, size) of an int64 table. A side of a coarse cell covers two units, or
one where the image is a single unit wide.
"""

from __future__ import annotations

import numpy as np
from numba import uint64

from roadworthy.imputation.kernels_stencil import BLOCK, FOUR, ONE, TWO, ZERO, flow_in, inlined, kernel

HEIGHT, WIDTH, STRIDE, OFFSET, SIZE = range(5)
_QUARTER, _THREE_QUARTERS = np.float32(0.25), np.float32(0.75)
_HUGE = np.float32(1e30)
TWICE = uint64(2)
# Where every cell is screened by half its diagonal or more, the smoother alone solves the level.
_ENOUGH = np.float32(12 * 0.5)


@inlined
def children(level):
    """Return how many units a coarse cell covers: 4, 2 or 1."""
    return np.float32((2 if level[HEIGHT] > 1 else 1) * (2 if level[WIDTH] > 1 else 1))


@kernel
def pool(out, source, row, fine, coarse, scale):
    """Sum the units of each coarse cell."""
    height, width, stride = fine[HEIGHT], fine[WIDTH], fine[STRIDE]
    for y in range(coarse[HEIGHT]):
        a = uint64(fine[OFFSET] + (2 * y + 1) * stride)
        if height == 1:
            for i in range(uint64(width)):
                row[i] = scale * source[a + i]
        else:
            b = a + uint64(stride)
            for i in range(uint64(width)):
                row[i] = scale * (source[a + i] + source[b + i])
        o = uint64(coarse[OFFSET] + (y + 1) * coarse[STRIDE])
        if width == 1:
            out[o] = row[0]
        else:
            row[width] = ZERO
            for j in range(uint64(coarse[WIDTH])):
                out[o + j] = row[TWICE * j] + row[TWICE * j + uint64(1)]


@kernel
def restrict(out, r, row, fine, coarse, scale):
    """Apply the transpose of the interpolation in :func:`prolong`."""
    height, width, stride = fine[HEIGHT], fine[WIDTH], fine[STRIDE]
    base = fine[OFFSET] + stride
    for y in range(coarse[HEIGHT]):
        if height == 1:
            for i in range(uint64(width)):
                row[i + TWICE] = scale * r[uint64(base) + i]
        else:
            y2, y3 = 2 * y + 1, 2 * y + 2
            if y2 >= height:  # the row below the image: zeros
                y2, y3 = height, height
            elif y3 >= height:  # beyond the border the last row is repeated, as the interpolation does
                y3 = height - 1
            a, b = uint64(base + max(2 * y - 1, 0) * stride), uint64(base + 2 * y * stride)
            c, d = uint64(base + y2 * stride), uint64(base + y3 * stride)
            for i in range(uint64(width)):
                outer, inner = r[a + i] + r[d + i], r[b + i] + r[c + i]
                row[i + TWICE] = scale * (_QUARTER * outer + _THREE_QUARTERS * inner)
        o = uint64(coarse[OFFSET] + (y + 1) * coarse[STRIDE])
        if width == 1:
            out[o] = row[2]
        else:
            row[1] = row[2]
            row[width + 2] = row[width + 1] if width % 2 == 0 else ZERO
            row[width + 3] = ZERO
            for j in range(uint64(coarse[WIDTH])):
                k = TWICE * j + uint64(1)
                outer, inner = row[k] + row[k + uint64(3)], row[k + uint64(1)] + row[k + TWICE]
                out[o + j] = _QUARTER * outer + _THREE_QUARTERS * inner


@kernel
def prolong(x, e, diag, keep, down, row, fine, coarse):
    """Add the bilinear interpolation of ``e`` to ``keep`` times the unknowns of ``x``; kept units stay."""
    height, width = fine[HEIGHT], fine[WIDTH]
    cells, base = coarse[WIDTH], coarse[OFFSET] + coarse[STRIDE]
    for y in range(height):
        if height == 1:
            for j in range(uint64(cells)):
                down[j + uint64(1)] = e[uint64(base) + j]
        else:
            near = y // 2
            far = min(max(near - 1 if y % 2 == 0 else near + 1, 0), coarse[HEIGHT] - 1)
            a, b = uint64(base + near * coarse[STRIDE]), uint64(base + far * coarse[STRIDE])
            for j in range(uint64(cells)):
                down[j + uint64(1)] = _THREE_QUARTERS * e[a + j] + _QUARTER * e[b + j]
        if width == 1:
            row[0] = down[1]
        else:
            down[0], down[cells + 1] = down[1], down[cells]
            for j in range(uint64(cells)):
                most = _THREE_QUARTERS * down[j + uint64(1)]
                row[TWICE * j] = most + _QUARTER * down[j]
                row[TWICE * j + uint64(1)] = most + _QUARTER * down[j + TWICE]
        o = uint64(fine[OFFSET] + (y + 1) * fine[STRIDE])
        for i in range(uint64(width)):
            x[o + i] = keep * x[o + i] + row[i] if diag[o + i] > ZERO else x[o + i]


@kernel
def _list_segments(diag, level, segments, k):
    """List the runs of blocks that hold an unknown, from position ``k`` on; return the position after them."""
    begin = level[OFFSET] + level[STRIDE]
    end = begin + level[HEIGHT] * level[STRIDE]
    end = begin + (end - begin + BLOCK - 1) // BLOCK * BLOCK
    inside = False
    for q in range(begin, end, BLOCK):
        total = ZERO
        for i in range(uint64(q), uint64(q + BLOCK)):
            total += diag[i]
        if total > ZERO:
            if not inside:
                segments[0, k] = q
                inside = True
            segments[1, k] = q + BLOCK
        elif inside:
            inside = False
            k += 1
    return k + 1 if inside else k


@kernel
def _complete_diagonal(diag, inverse, level):
    """Turn marks (-1 kept, else the screening of an unknown) into the diagonal and its reciprocal."""
    height, width = level[HEIGHT], level[WIDTH]
    for y in range(height):
        rows = np.float32(2 + (y > 0) + (y < height - 1))
        o = uint64(level[OFFSET] + (y + 1) * level[STRIDE])
        end = o + uint64(width - 1)
        left, right = diag[o], diag[end]
        middle, edge = rows * FOUR - FOUR, rows * np.float32(3 if width > 1 else 2) - FOUR
        for i in range(o, o + uint64(width)):
            diag[i] = diag[i] + middle if diag[i] >= ZERO else ZERO
        diag[o] = left + edge if left >= ZERO else ZERO
        diag[end] = right + edge if right >= ZERO else ZERO
        for i in range(o, o + uint64(width)):
            inverse[i] = ONE / diag[i] if diag[i] > ZERO else ZERO


@kernel
def _mark_hidden(hidden, diag, row, fine, coarse):
    """Mark kept units in coarse cells that hold an unknown; there ``diag`` of the coarse level is positive."""
    height, width = fine[HEIGHT], fine[WIDTH]
    for y in range(height):
        c = uint64(coarse[OFFSET] + ((y // 2 if height > 1 else 0) + 1) * coarse[STRIDE])
        if width == 1:
            row[0] = diag[c]
        else:
            for j in range(uint64(coarse[WIDTH])):
                row[TWICE * j] = diag[c + j]
                row[TWICE * j + uint64(1)] = diag[c + j]
        o = uint64(fine[OFFSET] + (y + 1) * fine[STRIDE])
        for i in range(uint64(width)):
            hidden[o + i] = ONE if diag[o + i] <= ZERO and row[i] > ZERO else ZERO


@kernel
def build(removed, w):
    """Build the levels of one mask in the workspace ``w``; return how many are needed.

    A coarse cell is unknown when any unit in it is. Its kept units act through ``screen``: the weight with which
    they pull on the unknowns of the cell.
    """
    levels, diag, screen, pointer = w.levels, w.diag, w.screen, w.pointer
    for y in range(levels[0, HEIGHT]):
        o = uint64(levels[0, OFFSET] + (y + 1) * levels[0, STRIDE])
        for i in range(uint64(levels[0, WIDTH])):
            diag[o + i] = ZERO if removed[y, i] else -ONE
    for n in range(levels.shape[0]):
        level = levels[n]
        _complete_diagonal(diag, w.inverse, level)
        pointer[n + 1] = _list_segments(diag, level, w.segments, pointer[n])
        if n + 1 == levels.shape[0]:
            break
        coarse = levels[n + 1]
        pool(diag, diag, w.row, level, coarse, ONE)
        _mark_hidden(w.hidden, diag, w.row, level, coarse)
        stride = uint64(level[STRIDE])
        flow_in(w.x, w.hidden, screen, diag, stride, w.tile, w.segments, pointer[n], pointer[n + 1])
        pool(screen, w.x, w.row, level, coarse, FOUR / children(level))
        weakest = _HUGE
        for y in range(coarse[HEIGHT]):
            o = uint64(coarse[OFFSET] + (y + 1) * coarse[STRIDE])
            for i in range(o, o + uint64(coarse[WIDTH])):
                weakest = min(weakest, screen[i] if diag[i] > ZERO else _HUGE)
                diag[i] = screen[i] if diag[i] > ZERO else -ONE
        if weakest > _ENOUGH:
            return n + 1
    return levels.shape[0]


@kernel
def coarse_values(n, w):
    """Hand kept values to level ``n + 1``: as values of kept cells, and as sources of the unknown ones."""
    level, coarse, value, x = w.levels[n], w.levels[n + 1], w.value, w.x
    pool(value, value, w.row, level, coarse, ONE / children(level))
    base = coarse[OFFSET] + coarse[STRIDE]
    if level[WIDTH] > 1 and level[WIDTH] % 2 == 1:  # the last cell has half as many units
        for y in range(coarse[HEIGHT]):
            value[base + y * coarse[STRIDE] + coarse[WIDTH] - 1] *= TWO
    if level[HEIGHT] > 1 and level[HEIGHT] % 2 == 1:
        for i in range(coarse[WIDTH]):
            value[base + (coarse[HEIGHT] - 1) * coarse[STRIDE] + i] *= TWO
    begin, end = uint64(level[OFFSET]), uint64(level[OFFSET] + level[SIZE])
    for i in range(begin, end):
        x[i] = w.hidden[i] * value[i]
    stride = uint64(level[STRIDE])
    flow_in(w.y, x, w.source, w.diag, stride, w.tile, w.segments, w.pointer[n], w.pointer[n + 1])
    pool(w.source, w.y, w.row, level, coarse, FOUR / children(level))
    for i in range(begin, end):
        x[i] = ZERO
