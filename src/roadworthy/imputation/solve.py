"""One verb for the system of noisy linear imputation, with interchangeable solvers behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.direct import solve_direct
from roadworthy.imputation.multigrid_cpu import solve_multigrid_cpu
from roadworthy.imputation.multigrid_torch import solve_multigrid_torch
from roadworthy.imputation.operator import System, as_system
from roadworthy.imputation.solution import Outcome, Solution
from roadworthy.registry import Registry

TOLERANCE = 1e-4
MAX_CYCLES = 60


class Solver(Protocol):
    """What solves a system; failure is an outcome in the solution, not an exception."""

    def __call__(
        self, system: System, *, tolerance: float, max_cycles: int, previous: torch.Tensor | None = None
    ) -> Solution:
        """Return the solution of ``system``."""
        ...


def _solve_multigrid(system: System, **settings: Any) -> Solution:
    solver = solve_multigrid_cpu if system.images.device.type == "cpu" else solve_multigrid_torch
    return solver(system, **settings)


solvers: Registry[Callable[..., Solution]] = Registry("solver")
solvers.add("multigrid", _solve_multigrid, "the fast one: numba on the CPU, torch on other devices")
solvers.add("multigrid-torch", solve_multigrid_torch, "the fast one in torch, on any device")
solvers.add("direct", solve_direct, "sparse factorisation in float64 on the CPU: exact and slow, the reference")


def solve(
    images: torch.Tensor,
    removed: torch.Tensor,
    *,
    solver: str | Solver = "multigrid",
    tolerance: float = TOLERANCE,
    max_cycles: int = MAX_CYCLES,
    previous: torch.Tensor | None = None,
    throw: bool = True,
) -> Solution:
    """Fill removed units so that each is the weighted mean of its neighbours (1/6 direct, 1/12 diagonal).

    Args:
        images: floating (N, C, H, W), or (N, C, T) for series; only kept values are read.
        removed: bool, True = removed: (N, H, W) for all channels, or of the images' shape.
        solver: a name in ``solvers``, or a callable like them.
        tolerance: the largest error wanted, as a share of the range of a channel's kept values.
        max_cycles: multigrid cycles allowed; a channel takes 3 to 5 by default.
        previous: a start of the images' shape: the fill for a smaller, nested mask of the same images. The answer is
            the same within the tolerance. None starts from the coarse levels, which is as fast as a rule.
        throw: raise when a channel is not solved; False returns the solution with its outcomes.

    Returns:
        The solution; ``filled`` has the images' shape and dtype.

    Raises:
        InputError: images or masks of a wrong kind or shape.
        SolverError: a channel was not solved: its outcome, the images and the advice.

    Example:
        >>> images = torch.tensor([[[[0.0, 0.2, 0.4, 0.6]]]])
        >>> removed = torch.tensor([[[False, True, True, False]]])
        >>> [round(value, 4) for value in solve(images, removed).filled.flatten().tolist()]
        [0.0, 0.2, 0.4, 0.6]
    """
    if not tolerance > 0:
        raise InputError(f"tolerance: got {tolerance!r}, expected a positive number")
    if max_cycles < 1:
        raise InputError(f"max_cycles: got {max_cycles!r}, expected at least 1")
    if previous is not None and previous.shape != images.shape:
        raise InputError(f"previous: shape {tuple(previous.shape)}, expected the images' {tuple(images.shape)}")
    system = as_system(images, removed)
    start = None if previous is None else previous.detach().reshape(system.images.shape)
    chosen = solvers[solver] if isinstance(solver, str) else solver
    solution = chosen(system, tolerance=float(tolerance), max_cycles=int(max_cycles), previous=start)
    if throw:
        solution.require_solved()
    filled = solution.filled.reshape(images.shape).to(images.dtype)
    return Solution(filled, solution.outcomes, solution.cycles, solution.corrections)


__all__ = ["MAX_CYCLES", "TOLERANCE", "Outcome", "Solution", "Solver", "solve", "solvers"]
