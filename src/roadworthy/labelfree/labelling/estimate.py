"""What labels of an audit plan say of the accuracy: of their own, and together with what the classifier says.

Together means the difference estimator of survey sampling, with a factor on the predictions that makes the variance
least: prediction-powered inference (Angelopoulos et al. 2023), power-tuned (PPI++: Angelopoulos, Duchi and Zrnic,
arXiv 2311.01453). It is right on average however wrong the predictions are, and gains as far as they go with what is
correct.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, listed
from roadworthy.labelfree.labelling.bands import Selection
from roadworthy.labelfree.labelling.intervals import Interval, Strata, share_interval
from roadworthy.labelfree.labelling.matching import class_numbers, labels_by_id
from roadworthy.labelfree.labelling.plan import AuditPlan
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain

_EQUAL = 1e-9  # scores that differ by less, of their size, do so by rounding


@dataclass(frozen=True, eq=False)
class AuditEstimate:
    """Accuracy as an audit found it.

    Attributes:
        alone: accuracy from the labels alone, with its interval.
        combined: from the labels and the classifier's confidence on all samples.
        power: factor on the confidence in ``combined``, in [0, 1]; 0 makes no use of it.
        correlation: of confidence and correctness among the labelled, within strata; NaN where one does not vary.
        strata: for each stratum its number, samples, labels and accuracy.
        n: labels.
        population: samples they were drawn from.
        level: of the intervals.
        notes: what the user should know.
    """

    alone: Interval
    combined: Interval
    power: float
    correlation: float
    strata: tuple[dict[str, float], ...]
    n: int
    population: int
    level: float
    notes: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN becomes None."""
        return plain(self)


def audit_estimate(
    plan: AuditPlan,
    labels: Mapping[Any, Any] | Sequence[Any] | np.ndarray | None,
    target: Outputs,
    *,
    level: float = 0.9,
    scores: ArrayLike | None = None,
    partial: bool = False,
) -> AuditEstimate:
    """Estimate accuracy from the labels of a plan.

    Args:
        plan: what was drawn.
        labels: ``{id: label}``, pairs, or labels in the order of the plan; class names, or numbers from 0. None takes
            those in the plan, see :func:`load_plan`.
        target: what the classifier says of the samples that the plan was drawn from.
        level: of the intervals.
        scores: (N,) chance of each prediction to be correct, see :func:`chance_correct`; the confidence by default.
        partial: take the first labels of the plan where the rest is not labelled yet.

    Returns:
        The accuracy of the target, from the labels alone and combined, for this very set of samples (a finite
        population: where all are labelled, nothing is left unsure).

    Raises:
        InputError: labels of samples that were not drawn, missing or repeated ones, classes out of range, another
            target, or a selection in place of a plan.

    Example:
        >>> from roadworthy.labelfree.labelling import audit_plan
        >>> target = Outputs.of(np.linspace(0.3, 0.99, 400))
        >>> found = audit_estimate(audit_plan(target, budget=40, strata=1), np.ones(40, int), target)
        >>> round(found.alone.value, 2), found.n
        (0.85, 40)
    """
    plan_rows = _checked(plan, target)
    if not 0 < level < 1:
        raise InputError(f"level: got {level}, expected a share between 0 and 1, such as 0.9")
    given = labels_by_id(plan.ids, _labels(plan, labels))
    kept = _complete(plan, given, partial)
    rows = plan_rows[:kept]
    correct = class_numbers(plan.ids[:kept], given[:kept], target) == target.predicted[rows]
    strata, notes = _strata(plan, kept)
    hits = correct.astype(np.float64)
    value = strata.mean(hits)
    alone = _interval(strata, value, strata.covariance(hits, hits), 0, level)
    combined, power, correlation = _combined(strata, hits, _scores(scores, target), rows, alone, level)
    counts = zip(strata.sizes.tolist(), strata.drawn.tolist(), strata.means(hits).tolist(), strict=True)
    table = [{"stratum": h, "samples": size, "labels": n, "accuracy": p} for h, (size, n, p) in enumerate(counts)]
    return AuditEstimate(
        alone, combined, power, correlation, tuple(table), kept, plan.population, level, tuple(notes)
    )


def _checked(plan: AuditPlan, target: Outputs) -> np.ndarray:
    if isinstance(plan, Selection):
        raise InputError(
            f"plan: got a selection for {plan.purpose}, whose samples were chosen, not drawn: their labels say "
            "nothing of the whole. Draw samples with audit_plan"
        )
    return plan.rows(target)


def _labels(plan: AuditPlan, labels: Any) -> Any:
    if labels is not None:
        return labels
    if not plan.labelled:
        raise InputError("labels: the plan has none; fill in its column 'label' and load it, or pass labels=")
    return plan.labels


def _complete(plan: AuditPlan, labels: list[Any], partial: bool) -> int:
    """Return how many of the first labels are used, or say which are missing."""
    missing = [name for name, label in zip(plan.ids, labels, strict=True) if label is None]
    if not missing:
        return plan.n
    kept = plan.n - len(missing)
    if not partial:
        raise InputError(
            f"labels: {listed(missing)} have none; label them too: what is left out is seldom left out by chance. "
            "Where the work stopped on the way, pass partial=True"
        )
    gaps = [name for name, label in zip(plan.ids[:kept], labels[:kept], strict=True) if label is None]
    if gaps or not kept:
        raise InputError(
            f"labels: {listed(gaps or missing)} have none, though later ones of the plan have; partial=True takes "
            "the first ones without a gap"
        )
    return kept


def _strata(plan: AuditPlan, kept: int) -> tuple[Strata, list[str]]:
    """Return the strata of the labelled samples; one without labels joins its neighbour."""
    group = np.arange(len(plan.sizes))
    seen = np.bincount(plan.stratum[:kept], minlength=len(plan.sizes)) > 0
    nearest = np.flatnonzero(seen)
    group = nearest[np.abs(nearest[None, :] - group[:, None]).argmin(axis=1)]
    _, place = np.unique(group, return_inverse=True)
    sizes = np.bincount(place, weights=plan.sizes).astype(np.int64)
    notes = [] if kept == plan.n else [f"the first {kept} of {plan.n} samples are labelled"]
    if not seen.all():
        notes.append(f"{int((~seen).sum())} strata without labels were joined to their neighbours")
    return Strata(place[plan.stratum[:kept]], sizes), notes


def _interval(strata: Strata, value: float, variance: float, lost: int, level: float) -> Interval:
    low, high = share_interval(strata, value, variance, lost, level)
    inside = min(max(value, 0.0), 1.0)
    return Interval(inside, min(low, inside), max(high, inside))


def _scores(scores: ArrayLike | None, target: Outputs) -> np.ndarray:
    values = target.confidence if scores is None else np.asarray(scores, dtype=np.float64)
    if values.shape != (len(target),) or not np.isfinite(values).all():
        raise InputError(f"scores: got shape {values.shape}, expected ({len(target)},) finite numbers")
    return values


def _combined(
    strata: Strata, hits: np.ndarray, scores: np.ndarray, rows: np.ndarray, alone: Interval, level: float
) -> tuple[Interval, float, float]:
    """Return the difference estimate, the factor on the scores, and their correlation with what is correct."""
    drawn = scores[rows]
    spread, shared, of_hits = (strata.covariance(*pair) for pair in ((drawn, drawn), (drawn, hits), (hits, hits)))
    if spread <= (_EQUAL * np.abs(scores).max()) ** 2 or of_hits <= 0:
        return alone, 0.0, float("nan")
    correlation = float(shared / np.sqrt(spread * of_hits))
    power = float(np.clip(shared / spread, 0, 1))
    left = hits - power * drawn
    variance = strata.covariance(left, left)
    if power == 0 or variance <= 0:
        return alone, 0.0, correlation
    value = strata.mean(left) + power * float(scores.mean())
    if not 0 < value < 1:  # no share: the labels alone are one
        return alone, 0.0, correlation
    return _interval(strata, value, variance, 1, level), power, correlation
