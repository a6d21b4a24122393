"""The rule of the gate: whether a retraining score on kept pixels may be shown; needs no torch, as reports do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

THRESHOLD = 0.10
"""Accuracy that the retrained network may be ahead of the judge."""


def gate_verdict(rows: Sequence[Mapping[str, Any]], *, threshold: float = THRESHOLD) -> list[dict[str, str]]:
    """Say for each method whether its retraining score on kept pixels may be shown.

    Args:
        rows: from :func:`~roadworthy.evaluation.audit.gate.encoding_gap`.
        threshold: the accuracy that the retrained network may be ahead of the judge.

    Returns:
        For each method ``{"method", "verdict", "why"}``. ``"withheld"``: its largest gap is above the threshold.
        ``"cannot tell"``: it is not, but an interval reaches beyond, or a gap or the end of its interval is not
        known. ``"passes"``: every interval ends below.

    Example:
        >>> row = {"method": "ig", "keep": 0.06, "kar": 0.98, "judge": 0.4, "gap": 0.58, "gap_low": 0.5}
        >>> gate_verdict([row | {"gap_high": 0.65}])[0]["verdict"]
        'withheld'
    """
    found = []
    for name in dict.fromkeys(row["method"] for row in rows):
        own = [row for row in rows if row["method"] == name]
        verdict, why = _judged(own, threshold)
        found.append({"method": name, "verdict": verdict, "why": why})
    return found


def _judged(own: list[Mapping[str, Any]], threshold: float) -> tuple[str, str]:
    above = [row for row in own if row["gap"] > threshold]
    if above:
        worst = max(above, key=lambda row: row["gap"])
        return "withheld", (
            f"with {worst['keep']:.0%} kept, a retrained network is right for {worst['kar']:.0%} of the images "
            f"and a judge that cannot know the masks for {worst['judge']:.0%} of the same: the mask itself adds "
            f"{worst['gap']:.2f} ({worst['gap_low']:.2f} to {worst['gap_high']:.2f})"
        )
    unsure = [row for row in own if not (row["gap"] <= threshold and row["gap_high"] <= threshold)]
    if unsure:
        # what is not known comes before any number: it may be anything
        widest = max(unsure, key=lambda row: (row["gap_high"] != row["gap_high"], row["gap_high"]))
        return "cannot tell", (
            f"the gap of {widest['gap']:.2f} at {widest['keep']:.0%} kept may be as large as "
            f"{widest['gap_high']:.2f}: more test samples would decide"
        )
    highest = max(row["gap_high"] for row in own)
    return "passes", f"the mask adds at most {highest:.2f} to what the pixels show"
