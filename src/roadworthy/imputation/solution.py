"""What a solver returns: the fill, and for each channel a named outcome with advice."""

from __future__ import annotations

import enum
from dataclasses import dataclass

import numpy as np
import torch

from roadworthy.errors import SolverError
from roadworthy.imputation.operator import System


class Outcome(enum.IntEnum):
    """How the solution of one channel ended; :attr:`advice` says what to do about it."""

    SUCCESSFUL = 0
    MAX_CYCLES = 1
    SINGULAR = 2
    NONFINITE_INPUT = 3

    @property
    def advice(self) -> str:
        """What happened and the way out, as the error says it."""
        return _ADVICE[self]


_ADVICE = {
    Outcome.SUCCESSFUL: "solved",
    Outcome.MAX_CYCLES: (
        "the tolerance was not met within max_cycles; raise max_cycles or tolerance, or use solver='direct'"
    ),
    Outcome.SINGULAR: (
        "every unit is removed, so no kept value determines the fill; keep one, or use roadworthy.imputation.impute, "
        "which fills such an image with mean="
    ),
    Outcome.NONFINITE_INPUT: "a kept value is NaN or infinite; remove that unit too, or repair the image",
}


@dataclass(frozen=True)
class Solution:
    """The fill of a batch.

    Attributes:
        filled: (N, C, H, W) of the images' dtype; kept units are bit-equal to the input, and removed units of a
            channel that could not be solved are NaN (of one that ran out of cycles: the last iterate).
        outcomes: int (N, C), see :class:`Outcome`.
        cycles: int (N, C), multigrid cycles taken; 0 for the direct solver.
        corrections: float64 (N, C), largest value of the last correction, as a share of the range of the kept
            values: an estimate of the error before that correction.
    """

    filled: torch.Tensor
    outcomes: np.ndarray
    cycles: np.ndarray
    corrections: np.ndarray

    @classmethod
    def empty(cls, system: System) -> Solution:
        """Make room for the solution of ``system``."""
        shape = system.images.shape[:2]
        return cls(
            torch.empty_like(system.images), np.zeros(shape, int), np.zeros(shape, int), np.zeros(shape, float)
        )

    @property
    def solved(self) -> bool:
        """Whether every channel was solved."""
        return not self.outcomes.any()

    def require_solved(self) -> Solution:
        """Return the solution itself.

        Raises:
            SolverError: some channels were not solved; the message names the outcome, images and advice.
        """
        if self.solved:
            return self
        bad = np.flatnonzero(self.outcomes.any(axis=1))
        outcome = Outcome(self.outcomes[bad[0]].max())
        listed = ", ".join(str(i) for i in bad[:10]) + (", ..." if len(bad) > 10 else "")
        worst = self.corrections[bad[0]].max()
        seen = f" (after {self.cycles[bad[0]].max()} cycles the correction is {worst:.1e} of the range)"
        raise SolverError(
            f"noisy-linear: {outcome.name.lower()} in {len(bad)} of {len(self.outcomes)} images (index {listed})"
            f"{seen if outcome is Outcome.MAX_CYCLES else ''}: {outcome.advice}"
        )
