"""What label-free evaluation says of a live target: one number with its interval, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from roadworthy.labelfree.estimators import Estimate
from roadworthy.labelfree.plain import plain


@dataclass(frozen=True, eq=False)
class LiveEstimate:
    """Accuracy of unlabelled samples, with the error to expect.

    Attributes:
        chosen: the estimator with the least error on pseudo-targets of similar shift.
        accuracy: its estimate; NaN where no number is given.
        low: lower end of the interval; NaN where no number is given.
        high: upper end.
        level: of the interval.
        reason: why no number is given, or "".
        expected_error: mean absolute error of the chosen one on pseudo-targets of similar shift.
        worst_over: most by which such a choice over-estimated a pseudo-target, its kind left out.
        estimates: what every estimator says, the chosen one among them.
        lowest: the least of the usual estimators (AC, DoC, ATC, CBPE, COT): the pessimistic figure.
        highest: the largest of them.
        shift: the five numbers of ``SHIFT_NAMES``.
        similar: names of the five most similar pseudo-targets.
        n: samples.
        notes: what else to know.
    """

    chosen: str
    accuracy: float
    low: float
    high: float
    level: float
    reason: str
    expected_error: float
    worst_over: float
    estimates: tuple[Estimate, ...]
    lowest: float
    highest: float
    shift: dict[str, float]
    similar: tuple[str, ...]
    n: int
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        found = {entry.name: plain(getattr(self, entry.name)) for entry in fields(self)}
        return {**found, "estimates": [estimate.as_dict() for estimate in self.estimates]}
