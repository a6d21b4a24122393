"""What is wrong with a reliability curve, the likely cause, and what to do next.

Each symptom is a rule on numbers that are returned with it, so that it can be checked and argued with. The rules are
of thumb: they say where to look, not what is true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.curve import ReliabilityCurve, reliability_curve
from roadworthy.labelfree.plain import plain

if TYPE_CHECKING:
    from roadworthy.labelfree.consistency import Consistency

TOP = 0.1  # share of samples that stands for the best part
LOW = 0.3  # reliability below this in the best part is flat low
DROP = 0.8  # a part that keeps this much of the best part's reliability has not collapsed
EARLY = 0.3  # collapsed before this coverage: unsure on most of the data
BUNCHED = 0.1  # range of the middle 80 % of scores below this does not tell samples apart
FIRM = 0.9  # mean agreement above this moves hardly any sample

NOTHING = "nothing wrong found"
DISAGREEMENT = "disagreement with the audit"


@dataclass(frozen=True)
class Finding:
    """A symptom, its likely cause and the next step.

    Attributes:
        symptom: what the numbers show.
        cause: what usually lies behind it.
        next_step: what to do.
        rule: the rule that was met, with its numbers.
    """

    symptom: str
    cause: str
    next_step: str
    rule: str


@dataclass(frozen=True)
class Diagnosis:
    """What was found, the gravest first.

    Attributes:
        findings: at least one; ``"nothing wrong found"`` stands alone.
        numbers: what the rules looked at.
    """

    findings: tuple[Finding, ...]
    numbers: dict[str, float]

    @property
    def symptom(self) -> str:
        """The gravest symptom."""
        return self.findings[0].symptom

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; NaN is None."""
        return {**plain(self), "symptom": self.symptom}


def diagnose(
    consistency: Consistency,
    *,
    curve: ReliabilityCurve | None = None,
    audit: tuple[float, float] | None = None,
    estimate: float | None = None,
) -> Diagnosis:
    """Look at a model's consistency and its ranked curve for what is known to go wrong.

    Args:
        consistency: what :func:`perturbation_consistency` returned.
        curve: its ranked curve; drawn here by default.
        audit: interval of the accuracy from samples that people have labelled.
        estimate: the accuracy that was estimated without labels; the mean agreement by default, which is what a
            reader would take from the curve.

    Returns:
        The findings with the numbers they rest on.

    Raises:
        InputError: a curve of another form, or an audit that is no interval in [0, 1].

    Example:
        >>> diagnose(consistency, audit=(0.5, 0.6)).symptom  # doctest: +SKIP
        'disagreement with the audit'
    """
    drawn = reliability_curve(consistency, draws=0) if curve is None else curve
    if drawn.form != "ranked":
        raise InputError(f"curve: its form is {drawn.form!r}, expected the ranked one, of reliability_curve")
    if audit is not None and not 0 <= audit[0] <= audit[1] <= 1:
        raise InputError(f"audit: {audit} came, expected (low, high) with 0 <= low <= high <= 1")
    numbers = _numbers(consistency, drawn)
    said = numbers["agreement"] if estimate is None else float(estimate)
    found = [
        *_audit((said, said), audit, numbers),
        *_one_class(numbers),
        *_flat(numbers),
        *_collapse(numbers),
        *_bunched(numbers, consistency.passes),
    ]
    return Diagnosis(tuple(found) or (_nothing(numbers, audit),), numbers)


def with_audit(
    record: Mapping[str, Any], audit: tuple[float, float], claim: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Return the record of a diagnosis as it is once samples have been labelled.

    Args:
        record: what :meth:`Diagnosis.as_dict` returned; what it says of an earlier audit is left out.
        audit: interval of the accuracy from the labels.
        claim: interval that was given without labels; the mean agreement by default, as in :func:`diagnose`.

    Returns:
        A record of the same form.

    Example:
        >>> numbers = {"agreement": 0.9, "top_reliability": 0.9, "lasting_coverage": 1.0, "score_spread": 0.4}
        >>> with_audit({"findings": [], "numbers": numbers}, (0.5, 0.6))["symptom"]
        'disagreement with the audit'
    """
    numbers = dict(record["numbers"])
    agreement = numbers["agreement"]
    found = [*plain(_audit((agreement, agreement) if claim is None else claim, audit, numbers))]
    found += [finding for finding in record["findings"] if finding["symptom"] not in (NOTHING, DISAGREEMENT)]
    findings = found or [plain(_nothing(numbers, audit))]
    return {"findings": findings, "numbers": numbers, "symptom": findings[0]["symptom"]}


def _numbers(consistency: Consistency, curve: ReliabilityCurve) -> dict[str, float]:
    clean = consistency.clean
    counts = np.bincount(clean.predicted, minlength=clean.class_count)
    low, high = np.quantile(consistency.scores("soft-agreement"), [0.1, 0.9])
    top = float(curve.reliability[np.searchsorted(curve.coverage, TOP - 1e-9)])
    lasting = curve.coverage[curve.reliability >= DROP * top - 1e-9]
    return {
        "largest_class_share": float(counts.max() / counts.sum()),
        "classes_seen": float((counts > 0).sum()),
        "agreement": float(consistency.scores("agreement").mean()),
        "soft_agreement": float(consistency.scores("soft-agreement").mean()),
        "score_spread": float(high - low),
        "top_reliability": top,
        "whole_reliability": float(curve.reliability[-1]),
        "lasting_coverage": float(lasting.max()) if top > 0 and len(lasting) else 0.0,
        "area": curve.area,
    }


def _audit(claim: tuple[float, float], audit: tuple[float, float] | None, numbers: dict[str, float]) -> list[Finding]:
    """Hold what was claimed against what the labels say: they disagree where the two do not meet."""
    if audit is None:
        return []
    low, high = claim
    numbers.update(estimate=(low + high) / 2, audit_low=float(audit[0]), audit_high=float(audit[1]))
    if low <= audit[1] and audit[0] <= high:
        return []
    where = "above" if low > audit[1] else "below"
    said = f"{low:.3f}" if low == high else f"{low:.3f} to {high:.3f}"
    return [
        Finding(
            DISAGREEMENT,
            "The model is stable where it is wrong (miscalibrated, or the data differ from its training data)."
            if where == "above"
            else "The model is right but unsure, or the perturbation is stronger than what the data bring.",
            "Trust the audit. See the gates for how far the data differ from the source; judge clusters in features "
            "of another origin; take the estimate that self-validation chose, or label more.",
            f"the estimate {said} lies {where} the audit's interval, {audit[0]:.3f} to {audit[1]:.3f}",
        )
    ]


def _one_class(numbers: dict[str, float]) -> list[Finding]:
    if numbers["classes_seen"] > 1:
        return []
    return [
        Finding(
            "one class",
            "The model has collapsed to one class, or the set holds one class only; without labels they look alike.",
            "Label a few samples drawn at random; compare the predicted classes with those of the source.",
            "every sample is predicted to be of one class",
        )
    ]


def _flat(numbers: dict[str, float]) -> list[Finding]:
    if numbers["classes_seen"] == 1 or numbers["top_reliability"] >= LOW:
        return []
    return [
        Finding(
            "flat low",
            "A model that knows little, or whose probabilities are nearly equal; or a perturbation that destroys the "
            "samples.",
            "Look at perturbed samples; lower the strength; label a few samples to see whether the model is above "
            "guessing.",
            f"even the surest {TOP:.0%} have reliability {numbers['top_reliability']:.3f}, below {LOW}",
        )
    ]


def _collapse(numbers: dict[str, float]) -> list[Finding]:
    if numbers["top_reliability"] < LOW or numbers["lasting_coverage"] >= EARLY:
        return []
    return [
        Finding(
            "early collapse",
            "The model is unsure on most of the data: it was trained too little, or most of the data are unlike its "
            "training data.",
            "Use it on the surest part alone; see the gates for how far the data differ; label from the middle band.",
            f"reliability falls below {DROP:.0%} of that of the surest {TOP:.0%} beyond coverage "
            f"{numbers['lasting_coverage']:.3f}, before {EARLY}",
        )
    ]


def _bunched(numbers: dict[str, float], passes: int) -> list[Finding]:
    if numbers["score_spread"] >= BUNCHED:
        return []
    firm = numbers["agreement"] >= FIRM
    return [
        Finding(
            "bunched scores",
            "The perturbation hardly moves the predictions: it is too weak to tell samples apart, or the model is "
            "firm on all of them."
            if firm
            else "Samples are moved alike: the model is over-smoothed, or has too much dropout.",
            f"Raise the strength until some samples move, or combine kinds of perturbation; more than {passes} "
            "passes make the scores finer."
            if firm
            else f"Vary the kinds of perturbation; take more than {passes} passes; see whether the model was trained "
            "to the end.",
            f"the middle 80% of soft agreement spans {numbers['score_spread']:.3f}, less than {BUNCHED}; mean "
            f"agreement {numbers['agreement']:.3f}",
        )
    ]


def _nothing(numbers: dict[str, float], audit: tuple[float, float] | None) -> Finding:
    return Finding(
        NOTHING,
        "None of the rules was met. A model can still be firm where it is wrong.",
        "Label a small random sample and compare." if audit is None else "Watch for change in the data.",
        f"surest {TOP:.0%} {numbers['top_reliability']:.3f}, lasting to coverage {numbers['lasting_coverage']:.3f}, "
        f"scores span {numbers['score_spread']:.3f}",
    )
