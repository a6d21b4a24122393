"""The rule of the gate: whether a retraining score on kept pixels may be shown; needs no torch, as reports do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roadworthy.evaluation.audit.recorded import number_of, rows_of, text_of

THRESHOLD = 0.10
"""Accuracy that the retrained network may be ahead of the judge, beyond what it is ahead of it on random masks."""


@dataclass(frozen=True)
class GateRow:
    """A network retrained on kept pixels against the fine-tuned judge on the same pixels: what the mask adds.

    Attributes:
        method: whose masks.
        keep: share of the units kept.
        kar: accuracy of the retrained network.
        judge: that of the judge.
        gap: the former minus the latter.
        control: the gap on random masks.
        beyond: ``gap`` minus ``control`` where that is above 0, with its interval ``beyond_low`` to ``beyond_high``.
        imputer: what filled the other units; empty where it was not recorded.
    """

    method: str
    keep: float
    kar: float
    judge: float
    gap: float
    control: float
    beyond: float
    beyond_low: float
    beyond_high: float
    imputer: str = ""


_NUMBERS = ("keep", "kar", "judge", "gap", "control", "beyond", "beyond_low", "beyond_high")


def gate_rows(found: Any) -> list[GateRow]:
    """Read the rows of a recorded gate; a number that is missing or damaged is NaN.

    Args:
        found: ``Result.audit.get("gate")``.

    Example:
        >>> gate_rows([{"method": "ig", "gap": 0.5}])[0].beyond
        nan
    """
    return [
        GateRow(
            method=text_of(row, "method"),
            imputer=text_of(row, "imputer"),
            **{name: number_of(row, name) for name in _NUMBERS},
        )
        for row in rows_of(found)
    ]


def gate_verdict(rows: Sequence[Mapping[str, Any]], *, threshold: float = THRESHOLD) -> list[dict[str, str]]:
    """Say for each method whether its retraining score on kept pixels may be shown.

    Args:
        rows: from :func:`~roadworthy.evaluation.audit.gate.encoding_gap`.
        threshold: the accuracy that the retrained network may be ahead of the judge, beyond the control.

    Returns:
        For each method ``{"method", "verdict", "why"}``. ``"withheld"``: its gap beyond that of random masks is above
        the threshold at some share kept. ``"cannot tell"``: it is not, but an interval reaches beyond, or a gap, that
        of random masks or the end of an interval is not known. ``"passes"``: every interval ends below.

    Example:
        >>> row = {"method": "ig", "keep": 0.06, "kar": 0.98, "judge": 0.4, "gap": 0.58, "control": 0.02}
        >>> gate_verdict([row | {"beyond": 0.56, "beyond_low": 0.49, "beyond_high": 0.63}])[0]["verdict"]
        'withheld'
    """
    found = []
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        verdict, why = _judged(own, threshold)
        found.append({"method": name, "verdict": verdict, "why": why})
    return found


def _judged(own: list[Mapping[str, Any]], threshold: float) -> tuple[str, str]:
    above = [row for row in own if row["beyond"] > threshold]
    if above:
        worst = max(above, key=lambda row: row["beyond"])
        return "withheld", (
            f"with {worst['keep']:.0%} kept, a retrained network is right for {worst['kar']:.0%} of the images and a "
            f"judge that cannot know the masks for {worst['judge']:.0%} of the same, a gap of {worst['gap']:.2f}, on "
            f"random masks {worst['control']:.2f}: the mask itself adds {worst['beyond']:.2f} "
            f"({worst['beyond_low']:.2f} to {worst['beyond_high']:.2f})"
        )
    unsure = [row for row in own if not (row["beyond"] <= threshold and row["beyond_high"] <= threshold)]
    if unsure:
        # what is not known comes before any number: it may be anything
        widest = max(unsure, key=lambda row: (row["beyond_high"] != row["beyond_high"], row["beyond_high"]))
        return "cannot tell", (
            f"the gap of {widest['beyond']:.2f} beyond random masks at {widest['keep']:.0%} kept may be as large as "
            f"{widest['beyond_high']:.2f}: more test samples would decide"
        )
    highest = max(row["beyond_high"] for row in own)
    return "passes", f"the mask adds at most {highest:.2f} to what the pixels show"
