"""The findings in sentences, each made of numbers of the record and pointing to where they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from roadworthy.labelfree.diagnosis import NOTHING
from roadworthy.labelfree.gates import CONCEPT, OF_PERTURBATION

Level: TypeAlias = Literal["good", "mixed", "bad"]


class Sentence(NamedTuple):
    """A sentence of the verdict.

    Attributes:
        text: what is said.
        section: of the report where its numbers stand.
    """

    text: str
    section: str


def sentences(record: Mapping[str, Any]) -> list[Sentence]:
    """Return the verdict: how accurate, how far to trust it, on how much of the data, what to do next.

    Args:
        record: of a :class:`~roadworthy.labelfree.LabelFree`.
    """
    found = [
        _accuracy(record),
        _audit(record),
        _spread(record),
        _gates(record),
        _stability(record),
        _diagnosis(record),
        _next(record),
        Sentence(CONCEPT, "gates"),
    ]
    return [sentence for sentence in found if sentence is not None]


def level(record: Mapping[str, Any]) -> Level:
    """Return how good the news is: whether there is a figure to believe, not whether the figure is high.

    "bad": no figure, a gate refuses, or the audit refutes it; "mixed": a gate warns, or there is no source; else
    "good".
    """
    statuses = {gate["status"] for gate in record["gates"]}
    live, audit = record["estimate"], record.get("audit")
    if "refuse" in statuses or (live is not None and live["reason"]) or (audit and audit["verdict"] == "refuted"):
        return "bad"
    return "mixed" if "warn" in statuses or live is None else "good"


def percent(share: float | None, digits: int = 0) -> str:
    """Return a share in per cent, or a dash where it is not known.

    Example:
        >>> percent(0.8761), percent(0.8761, 1), percent(None)
        ('88 %', '87.6 %', '–')
    """
    return "–" if share is None else f"{100 * share:.{digits}f} %"


def _accuracy(record: Mapping[str, Any]) -> Sentence:
    live, source, n = record["estimate"], record["source"], record["n"]
    if live is None:
        return Sentence(
            f"The accuracy on these {n:,} samples cannot be estimated: no labelled samples of the classifier's own "
            "domain were given." + (_FIRMNESS if record["consistency"] is not None else ""),
            "estimates",
        )
    known = f"on the {source['n']:,} labelled samples it is {percent(source['accuracy'], 1)}"
    if live["reason"]:
        return Sentence(f"No accuracy can be given for these {n:,} samples ({known}): {live['reason']}.", "estimates")
    return Sentence(
        f"Accuracy on these {n:,} samples is about {percent(live['accuracy'], 1)}, with {percent(live['level'])} "
        f"confidence between {percent(live['low'], 1)} and {percent(live['high'], 1)}; {known}. The estimator "
        f"{live['chosen']} was off by {100 * live['expected_error']:.1f} points on shifts like this one.",
        "estimates",
    )


def _audit(record: Mapping[str, Any]) -> Sentence | None:
    audit = record.get("audit")
    if not audit:
        return None
    best = audit["estimate"]["combined"]
    live = record["estimate"]
    off = ""
    if audit["verdict"] != "cannot tell" and live is not None and live["accuracy"] is not None:
        away = 100 * abs(live["accuracy"] - best["value"])
        off = f", its figure was off by {away:.1f} points"
    return Sentence(
        f"{audit['estimate']['n']} labels say that accuracy is {percent(best['value'], 1)} "
        f"({percent(best['low'], 1)} to {percent(best['high'], 1)}): {_AUDITED[audit['verdict']]}{off}.",
        "plan",
    )


_FIRMNESS = " What follows says how firmly predictions stand, not whether they are right."
_AUDITED = {
    "confirmed": "the interval that was given without labels is confirmed",
    "refuted": "the estimate without labels is refuted, believe the labels",
    "cannot tell": "they neither confirm nor refute what was said without them",
}


def _spread(record: Mapping[str, Any]) -> Sentence | None:
    live = record["estimate"]
    if live is None or live["lowest"] is None:
        return None
    said = "; ".join(live["notes"])
    return Sentence(
        f"The usual estimators say {percent(live['lowest'], 1)} to {percent(live['highest'], 1)}; on shifts of "
        f"a kind not seen before such a choice was at most {100 * live['worst_over']:.0f} points too high."
        + (f" {said[0].upper()}{said[1:]}." if said else ""),
        "estimates",
    )


def _gates(record: Mapping[str, Any]) -> Sentence:
    by = {status: [gate for gate in record["gates"] if gate["status"] == status] for status in _STATUSES}
    if by["refuse"] or by["warn"]:
        parts = [
            f"{verb}: {'; '.join(gate['why'] for gate in by[status])}"
            for status, verb in (("refuse", "Refused"), ("warn", "Warned"))
            if by[status]
        ]
        return Sentence(". ".join(parts) + ".", "gates")
    run = len(by["pass"])
    left = f"; {len(by['not run'])} could not be run" if by["not run"] else ""
    passed = f"All {run} gates that were run pass" if run > 1 else f"{run} gate was run, and passes"
    blind = any(gate["name"] == "mmd" and gate["status"] == "not run" for gate in record["gates"])
    unseen = " Without features of source and target nothing has looked at the samples themselves." if blind else ""
    return Sentence(f"{passed}{left}.{unseen}", "gates")


_STATUSES = ("pass", "warn", "refuse", "not run")


def _stability(record: Mapping[str, Any]) -> Sentence | None:
    found = record["threshold"]["agreement"]
    refused = any(gate["status"] == "refuse" and gate["name"] in OF_PERTURBATION for gate in record["gates"])
    if found is None or refused:
        return None
    under = f"Under the perturbation {record['consistency']['perturbation']}"
    wanted = f"{found['target']:g}"
    if not found["coverage"]:
        return Sentence(
            f"{under} {found['reason']}, of the reliability that is asked for.",
            "curve",
        )
    band = "" if found["low"] is None else f" ({percent(found['low'])} to {percent(found['high'])})"
    return Sentence(
        f"{under} predictions stand firm and sure, with a reliability of {wanted}, on {percent(found['coverage'])} "
        f"of the samples{band}: that says nothing of whether they are right.",
        "curve",
    )


def _diagnosis(record: Mapping[str, Any]) -> Sentence | None:
    if record["diagnosis"] is None or record["diagnosis"]["symptom"] == NOTHING:
        return None
    found = record["diagnosis"]["findings"][0]
    return Sentence(
        f"Symptom: {found['symptom']}. {_sentence(found['cause'])} {_sentence(found['next_step'])}", "diagnosis"
    )


def _next(record: Mapping[str, Any]) -> Sentence | None:
    plan = record.get("plan")
    if not plan or record.get("audit"):
        return None
    return Sentence(
        f"To check this, label the {plan['n']} samples of plan.csv: accuracy is then known within "
        f"{100 * plan['half_width']:.0f} points.",
        "plan",
    )


def _sentence(text: str) -> str:
    """Return text with a capital and a full stop."""
    return f"{text[0].upper()}{text[1:].rstrip('.')}." if text else ""
