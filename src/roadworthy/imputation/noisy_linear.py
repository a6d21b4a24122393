"""Noisy linear imputation: removed units are weighted means of their neighbours, and a little noise on top."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.imputer import NOISE, Imputer, channel_values, imputers, require_floating
from roadworthy.imputation.operator import over_channels
from roadworthy.imputation.solution import Solution
from roadworthy.imputation.solve import TOLERANCE, solve, solvers


class NoisyLinear(Imputer):
    """Fill by the solution of the neighbour system of ROAD.

    Without noise the fill lies between the least and the greatest kept value of its channel. A channel of which
    everything is removed gets the training-set mean, or, where none is known, its own mean.

    Source: Rong et al. (ICML 2022), section 5. Differs from the released code: any dtype and batch size, noise from
    a stream per sample, and a defined fill when everything is removed (there: zeros or NaN).

    Args:
        noise: standard deviation in pixel units.
        tolerance: largest error of the fill, as a share of the range of the kept values.
        solver: a name in ``solvers``, or a callable like them.
    """

    name = "noisy-linear"

    def __init__(
        self,
        *,
        noise: float = NOISE,
        tolerance: float = TOLERANCE,
        solver: str | Callable[..., Solution] = "multigrid",
    ) -> None:
        if isinstance(solver, str):
            solvers[solver]
        self.noise = noise
        self.tolerance = tolerance
        self.solver = solver

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse tables and token ids, which have no neighbours."""
        if len(shape) not in (3, 4):
            raise InputError(
                f"noisy-linear: input of shape {tuple(shape)} is a table or a batch of token ids, whose entries have "
                "no neighbours to be filled from. Use imputer='mean' or 'zero' or a callable for a table, "
                "MaskToken(id) for token ids"
            )

    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Solve the system; see :meth:`Imputer.fill`. Raises SolverError when a channel is not solved."""
        self.check(tuple(images.shape), "pixel")
        require_floating(self.name, images)
        mask = over_channels(images, removed)
        hollow = mask.flatten(2).all(2).expand(images.shape[:2])
        if not bool(hollow.any()):
            return self._solve(images, removed, previous)
        filled = images.clone()
        sound = ~hollow.any(1)
        if bool(sound.any()):
            warm = None if previous is None else previous[sound]
            filled[sound] = self._solve(images[sound], removed[sound], warm)
        mixed = torch.nonzero(hollow.any(1) & ~hollow.all(1)).flatten().tolist()
        for row in mixed:
            keep = ~hollow[row]
            filled[row, keep] = self._solve(images[row : row + 1, keep], mask[row : row + 1, keep], None)[0]
        own = images.flatten(2).mean(2).view(*images.shape[:2], *[1] * (images.ndim - 2))
        value = own if mean is None else channel_values(self.name, mean, images).expand_as(own)
        everything = hollow.view(*images.shape[:2], *[1] * (images.ndim - 2)).expand(images.shape)
        return torch.where(everything, value, filled)

    def _solve(self, images: torch.Tensor, removed: torch.Tensor, previous: torch.Tensor | None) -> torch.Tensor:
        return solve(images, removed, solver=self.solver, tolerance=self.tolerance, previous=previous).filled

    def settings(self) -> dict[str, Any]:
        """Return name, noise, tolerance and solver."""
        solver = self.solver if isinstance(self.solver, str) else getattr(self.solver, "__name__", "callable")
        return {"name": self.name, "noise": self.noise, "tolerance": self.tolerance, "solver": solver}


imputers.add("noisy-linear", NoisyLinear, "weighted mean of the neighbours, and noise (ROAD); images and series")
