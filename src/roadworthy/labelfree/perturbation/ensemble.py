"""Several models of one kind: where they disagree, none should be relied on."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import ModelPerturbation, perturbations
from roadworthy.labelfree.perturbation.draws import Draws


@perturbations.register("ensemble", "several models; each is one pass")
@dataclass(frozen=True, eq=False)
class Ensemble(ModelPerturbation):
    """Ask another model in each pass.

    Args:
        models: the members, each of which is one pass. By default the models that were given as ``model=[...]``; the
            clean prediction is then the mean of their probabilities.
    """

    name = "ensemble"
    models: Sequence[Callable[..., Any]] = ()

    @contextlib.contextmanager
    def during(self, model: Callable[..., Any], strength: torch.Tensor, draws: Draws) -> Iterator[None]:
        """Change nothing: the member that is asked is another model."""
        yield

    def settings(self) -> dict[str, Any]:
        """Return how many members were named here."""
        return {"members": len(self.models)} if self.models else {}

    def members(self, given: Sequence[Callable[..., Any]]) -> tuple[Callable[..., Any], ...]:
        """Return the models that are asked in turn.

        Raises:
            InputError: fewer than two.
        """
        members = tuple(self.models or given)
        if len(members) < 2 and not self.models:
            raise InputError(
                f"ensemble: got {len(members)} model, expected at least two; pass model=[one, another, ...] or "
                "perturbation=Ensemble([another, ...])"
            )
        return members
