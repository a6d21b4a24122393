"""What a gate is, what it may look at, and the table of gates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from roadworthy.labelfree.consistency import Consistency
from roadworthy.labelfree.live import LiveEstimate
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.registry import Registry

Status: TypeAlias = Literal["pass", "warn", "refuse", "not run"]


@dataclass(frozen=True)
class Gate:
    """One check of whether a label-free figure may be believed.

    Attributes:
        name: the check.
        status: ``"pass"``, ``"warn"``, ``"refuse"``, or ``"not run"`` where something it needs is missing.
        value: the number it looks at; NaN where it was not run.
        low: lower end of its interval; NaN where there is none.
        high: upper end.
        expected: the rule, such as ``"p at least 0.05"``.
        why: one sentence.
    """

    name: str
    status: Status
    value: float
    low: float
    high: float
    expected: str
    why: str

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return plain(self)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What gates look at.

    Attributes:
        target: what the classifier says of the unlabelled samples.
        source: labelled samples of the user's own domain, or None.
        consistency: of the target under perturbation, or None.
        seed: of all draws.
        live: the estimate for the target, by self-validation, or None. Where there is one, how far the target may be
            from the source is judged by the shifts seen there: gates about the distance alone warn then.
    """

    target: Outputs
    source: Outputs | None = None
    consistency: Consistency | None = None
    seed: int = 0
    live: LiveEstimate | None = None

    @property
    def features(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Features of source and target, float64, where both have some of the same width."""
        if self.source is None or self.source.features is None or self.target.features is None:
            return None
        if self.source.features.shape[1] != self.target.features.shape[1]:
            return None
        return self.source.features.astype(np.float64), self.target.features.astype(np.float64)


Check: TypeAlias = Callable[[Evidence], Gate]
gates: Registry[Check] = Registry("gate")


def not_run(name: str, why: str) -> Gate:
    """Return a gate that could not be run."""
    nan = float("nan")
    return Gate(name, "not run", nan, nan, nan, "", why)


def judged(
    name: str,
    value: float,
    *,
    warn: bool,
    refuse: bool = False,
    expected: str,
    why: str,
    low: Any = None,
    high: Any = None,
) -> Gate:
    """Return a gate that was run; refusing goes before warning."""
    ends = [float("nan") if end is None else float(end) for end in (low, high)]
    status: Status = "refuse" if refuse else "warn" if warn else "pass"
    return Gate(name, status, float(value), ends[0], ends[1], expected, why)


def feature_sides(name: str, evidence: Evidence, *, least: tuple[int, int]) -> tuple[np.ndarray, np.ndarray] | Gate:
    """Return the features of source and target, or the gate that says what is missing of them."""
    sides = evidence.features
    if sides is None:
        return not_run(name, NO_FEATURES)
    if len(sides[0]) < least[0] or len(sides[1]) < least[1]:
        return not_run(name, f"needs at least {least[0]} source and {least[1]} target samples")
    return sides


NO_FEATURES = "needs features of source and target, of the same width"
NO_SOURCE = "needs labelled samples of the classifier's own domain (source)"
FEW = 20
"""Samples on a side below which nothing is tested."""
