"""The fast solver in torch, for CUDA tensors: the same multigrid-preconditioned conjugate gradients, batch-wide.

Algorithm and constants are those of :mod:`roadworthy.imputation.multigrid_cpu`. All images of the batch go through
every cycle together, each with its own mask and its own step sizes; a channel that has met the tolerance is frozen,
so its result does not depend on its neighbours beyond the rounding of the device's reductions.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import NamedTuple

import torch
from torch.nn import functional

from roadworthy.imputation.multigrid import (
    ENDING,
    FEW_KEPT,
    GOAL,
    HANDED_ON,
    HIGH,
    HIGH_THIN,
    LEAST_RATE,
    LOW,
    LOW_ENDING,
    REFRESH_ABOVE,
    STRICT,
    SWEEPS,
    chebyshev_steps,
    is_long,
)
from roadworthy.imputation.operator import System
from roadworthy.imputation.scaling import Scale
from roadworthy.imputation.solution import Outcome, Solution

_AT_ONCE = 2**27  # values of a chunk: bounds memory and keeps within 32-bit indices


class _Level(NamedTuple):
    """One level of a batch of masks; float32, scaled by 12, shapes (N, 1 or C, H, W)."""

    gone: torch.Tensor  # bool: unknown
    diag: torch.Tensor
    inverse: torch.Tensor  # 0 at kept units
    screen: torch.Tensor
    hidden: torch.Tensor  # 1 at kept units inside coarse cells that hold an unknown; empty on the coarsest level
    steps: list[float]

    @property
    def cell(self) -> tuple[int, int]:
        """Rows and columns that one coarse cell covers."""
        return (2 if self.gone.shape[2] > 1 else 1, 2 if self.gone.shape[3] > 1 else 1)

    @property
    def scale(self) -> float:
        return 4 / (self.cell[0] * self.cell[1])


def solve_multigrid_torch(
    system: System, *, tolerance: float, max_cycles: int, previous: torch.Tensor | None = None
) -> Solution:
    """Solve on the device of the images, the whole batch at once.

    Args:
        system: images and masks.
        tolerance: the largest error wanted, as a share of the range of a channel's kept values.
        max_cycles: V-cycles allowed for a channel.
        previous: a start, (N, C, H, W); None starts from the coarse levels.

    Returns:
        The solution.
    """
    solution = Solution.empty(system)
    rows = max(1, _AT_ONCE // system.images[0].numel())
    # Autocast would turn the convolutions to half precision.
    with torch.no_grad(), torch.autocast(system.images.device.type, enabled=False):
        for first in range(0, len(system.images), rows):
            part = slice(first, first + rows)
            start = None if previous is None else previous[part]
            chunk = System(system.images[part], system.removed[part])
            solution.filled[part], *report = _solve_chunk(chunk, tolerance, max_cycles, start)
            for field, values in zip((solution.outcomes, solution.cycles, solution.corrections), report, strict=True):
                field[part] = values[..., 0, 0].cpu().numpy()
    return solution


def _solve_chunk(
    system: System, tolerance: float, max_cycles: int, previous: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the fill, outcomes, cycles and corrections."""
    scale = Scale.of(system)
    value = scale.shares(system.images).masked_fill(system.removed, 0.0)
    levels = _build(system.removed)
    if previous is None:
        value = _start(levels, value)
    else:
        value = torch.where(system.removed, scale.shares(previous.to(value.device)).clamp(0, 1), value)
    report = _descend(levels, value, scale.outcomes, tolerance, max_cycles)
    return scale.restore(value, system), *report


def _sums(x: torch.Tensor) -> torch.Tensor:
    """Sum the neighbours of each unit, weights 2 and 1; outside the image there is nothing."""
    # Only a depthwise convolution runs without reduced precision on every GPU, and it takes two planes at least.
    if x.is_cuda and x.shape[0] * x.shape[1] > 1:
        return _sums_by_convolution(x)
    rows = 2 * x
    rows[:, :, 1:] += x[:, :, :-1]
    rows[:, :, :-1] += x[:, :, 1:]
    total = torch.add(2 * rows, x, alpha=-4)
    total[..., 1:] += rows[..., :-1]
    total[..., :-1] += rows[..., 1:]
    return total


def _sums_by_convolution(x: torch.Tensor) -> torch.Tensor:
    planes = x.shape[0] * x.shape[1]
    flat = x.reshape(1, planes, *x.shape[2:])
    return functional.conv2d(flat, _weights(planes, x.device, x.dtype), padding=1, groups=planes).view(x.shape)


@lru_cache(maxsize=16)
def _weights(planes: int, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    stencil = torch.tensor([[1, 2, 1], [2, 0, 2], [1, 2, 1]], device=device, dtype=dtype)
    return stencil.repeat(planes, 1, 1, 1)


def _pool(x: torch.Tensor, cell: tuple[int, int]) -> torch.Tensor:
    """Sum the children of each coarse cell."""
    return functional.avg_pool2d(x, cell, ceil_mode=True, divisor_override=1)


def _fold(x: torch.Tensor) -> torch.Tensor:
    """Apply the transpose of linear interpolation to the last dimension."""
    if x.shape[-1] == 1:
        return x
    if x.shape[-1] % 2:
        x = functional.pad(x, (0, 1))
    left, right = x[..., ::2], x[..., 1::2]
    out = 0.75 * (left + right)
    out[..., 1:] += 0.25 * right[..., :-1]
    out[..., :-1] += 0.25 * left[..., 1:]
    out[..., :1] += 0.25 * left[..., :1]
    out[..., -1:] += 0.25 * right[..., -1:]
    return out


def _restrict(x: torch.Tensor, scale: float) -> torch.Tensor:
    return scale * _fold(_fold(x).transpose(2, 3)).transpose(2, 3)


def _prolong(e: torch.Tensor, fine: _Level) -> torch.Tensor:
    """Interpolate a coarse correction to the units of a finer level."""
    height, width = fine.gone.shape[2:]
    size = (e.shape[2] * fine.cell[0], e.shape[3] * fine.cell[1])
    return functional.interpolate(e, size=size, mode="bilinear", align_corners=False)[:, :, :height, :width]


def _build(gone: torch.Tensor) -> list[_Level]:
    """Build the levels of a batch of masks, down to two units a side."""
    thin = min(gone.shape[2:]) == 1
    high = HIGH_THIN if thin else HIGH
    levels: list[_Level] = []
    screen = torch.zeros(gone.shape, device=gone.device)
    while True:
        height, width = gone.shape[2:]
        base = _sums(torch.ones(1, 1, height, width, device=gone.device))
        diag = torch.where(gone, base + screen, 0.0)
        inverse = torch.where(diag > 0, 1 / diag, 0.0)
        ends = max(height, width) <= 2
        steps = chebyshev_steps(LOW_ENDING, high, ENDING) if ends else chebyshev_steps(LOW, high, SWEEPS)
        level = _Level(gone, diag, inverse, screen, torch.zeros(0, device=gone.device), steps.tolist())
        if ends:
            return [*levels, level]
        coarse = _pool(gone.float(), level.cell) > 0
        around = functional.interpolate(
            coarse.float(),
            size=(coarse.shape[2] * level.cell[0], coarse.shape[3] * level.cell[1]),
            mode="nearest",
        )[:, :, :height, :width]
        hidden = around.masked_fill(gone, 0.0)
        levels.append(level._replace(hidden=hidden))
        flow = torch.where(gone, _sums(hidden) + HANDED_ON * screen, 0.0)
        screen = level.scale * _pool(flow, level.cell)
        gone = coarse


def _relax(x: torch.Tensor | None, rhs: torch.Tensor, level: _Level, step: float) -> torch.Tensor:
    """Take one damped Jacobi step; ``x`` None starts from zero."""
    if x is None:
        return torch.mul(rhs, level.inverse).mul_(step)
    return torch.lerp(x, _sums(x).add_(rhs).mul_(level.inverse), step)


def _residual(x: torch.Tensor, rhs: torch.Tensor, level: _Level) -> torch.Tensor:
    return _sums(x).add_(rhs).addcmul_(level.diag, x, value=-1).masked_fill_(~level.gone, 0.0)


def _cycle(levels: list[_Level], rhs: torch.Tensor) -> torch.Tensor:
    """Run one symmetric V-cycle on ``rhs`` of the first of these levels; return the correction."""
    level, *rest = levels
    x: torch.Tensor | None = None
    for step in level.steps:
        x = _relax(x, rhs, level, step)
    assert x is not None
    if not rest:
        return x
    coarse = _cycle(rest, _restrict(_residual(x, rhs, level), level.scale))
    x = torch.where(level.gone, x + _prolong(coarse, level), 0.0)
    for step in reversed(level.steps):
        x = _relax(x, rhs, level, step)
    return x


def _start(levels: list[_Level], value: torch.Tensor) -> torch.Tensor:
    """Solve from the coarsest level up, one V-cycle a level, and interpolate to the image (full multigrid)."""
    values, sources = [value], [torch.zeros_like(value)]
    for level, below in itertools.pairwise(levels):
        flow = _sums(level.hidden * values[-1]).add_(sources[-1], alpha=HANDED_ON)
        sources.append(level.scale * _pool(torch.where(level.gone, flow, 0.0), level.cell))
        mean = functional.avg_pool2d(values[-1], level.cell, ceil_mode=True)
        values.append(mean.masked_fill(below.gone, 0.0))
    value = torch.where(levels[-1].gone, 0.5, values[-1])
    for n in range(len(levels) - 1, 0, -1):
        value = value + _cycle(levels[n:], _residual(value, sources[n], levels[n]))
        value = torch.where(levels[n - 1].gone, _prolong(value, levels[n - 1]), values[n - 1])
    return value


def _exact_residual(value: torch.Tensor, level: _Level) -> torch.Tensor:
    exact = value.double()
    return (_sums(exact) - level.diag.double() * exact).float().masked_fill_(~level.gone, 0.0)


def _dot(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.sum(a * b, dim=(2, 3), keepdim=True, dtype=torch.float64)


def _descend(
    levels: list[_Level],
    value: torch.Tensor,
    outcomes: torch.Tensor,
    tolerance: float,
    max_cycles: int,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Run conjugate gradients on ``value`` in place; return outcomes, cycles and corrections."""
    level = levels[0]
    done = (outcomes != Outcome.SUCCESSFUL) | ~level.gone.any(3, keepdim=True).any(2, keepdim=True)
    rhs = _exact_residual(value, level)
    height, width = value.shape[2:]
    strip = is_long(height, width)
    refresh = strip or height * width > REFRESH_ABOVE
    kept = (~level.gone).sum((2, 3), keepdim=True)
    strict = (kept * FEW_KEPT < height * width) | strip
    goal = torch.where(strict, STRICT, 1.0).double() * (GOAL * tolerance)
    p = q = torch.zeros_like(value)
    alpha, rz_before = torch.zeros_like(done, dtype=torch.float64), torch.ones_like(done, dtype=torch.float64)
    before, last = torch.full_like(alpha, 1e30), torch.zeros_like(alpha)
    cycles = torch.zeros_like(outcomes)
    for _ in range(max_cycles):
        if bool(done.all()):
            break
        y = _cycle(levels, rhs)
        size = y.abs().amax((2, 3), keepdim=True).double()
        met = size * (size / before).clamp_min(LEAST_RATE) <= goal
        cycles, last = cycles + (~done).int(), torch.where(done, last, size)
        before = size.clamp_min(1e-30)
        rz = _dot(rhs, y)
        beta = torch.where(rz_before > 0, -alpha * _dot(q, y) / rz_before, 0.0)
        p = torch.addcmul(y, p, beta.float())
        q = torch.addcmul(_sums(p), level.diag, p, value=-1).neg_().masked_fill_(~level.gone, 0.0)
        pq = _dot(p, q)
        alpha = torch.where((pq > 0) & ~done & ~met, rz / pq, 0.0)
        value.addcmul_(y, (met & ~done).float()).addcmul_(p, alpha.float())
        rhs = _exact_residual(value, level) if refresh else torch.addcmul(rhs, q, alpha.float(), value=-1)
        rz_before, done = rz, done | met
    return outcomes.masked_fill(~done, int(Outcome.MAX_CYCLES)), cycles, last
