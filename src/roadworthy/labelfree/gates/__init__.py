"""Checks of whether a label-free figure may be believed: each passes, warns or refuses, with its number."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from roadworthy.labelfree.consistency import Consistency

# each registers itself
from roadworthy.labelfree.gates import (  # noqa: F401
    calibration,
    class_shares,
    collapsed,
    domain_classifier,
    dropout,
    energy,
    entropy,
    mahalanobis,
    mmd,
    neighbour,
    passes,
    self_validation,
)
from roadworthy.labelfree.gates.base import Check, Evidence, Gate, gates
from roadworthy.labelfree.gates.mmd import MMD, mmd_test
from roadworthy.labelfree.live import LiveEstimate
from roadworthy.labelfree.outputs import Outputs
from roadworthy.rng import resolve_seed
from roadworthy.types import Seed

__all__ = ["CONCEPT", "MMD", "OF_PERTURBATION", "Check", "Evidence", "Gate", "gates", "mmd_test", "run_gates"]

OF_PERTURBATION = ("passes", "dropout")
"""Gates about the perturbation, which have no say in the accuracy."""
CONCEPT = (
    "No gate can see a change of concept: where the same samples now belong to other classes, nothing but labels "
    "shows it."
)


def run_gates(
    target: Outputs,
    *,
    source: Outputs | None = None,
    consistency: Consistency | None = None,
    live: LiveEstimate | None = None,
    names: Iterable[str] | None = None,
    seed: Seed = 0,
) -> list[Gate]:
    """Run the gates; one whose inputs are missing says what it needs.

    Args:
        target: what the classifier says of the unlabelled samples.
        source: labelled samples of the user's own domain.
        consistency: of the target under perturbation.
        live: the estimate for the target, by self-validation; see :class:`Evidence`.
        names: which gates; all by default.
        seed: of all draws.

    Returns:
        A finding for each gate.

    Raises:
        InputError: an unknown gate.

    Example:
        >>> said = Outputs.of([[0.9, 0.1]] * 30)
        >>> [gate.status for gate in run_gates(said, names=["collapsed"])]
        ['refuse']
    """
    # by name, so that draws of rows do not depend on the order the samples came in
    ordered = [None if part is None else part.take(np.argsort(part.ids, kind="stable")) for part in (target, source)]
    assert ordered[0] is not None
    evidence = Evidence(ordered[0], ordered[1], consistency, resolve_seed(seed), live)
    return [gates[name](evidence) for name in (gates if names is None else names)]
