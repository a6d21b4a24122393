"""Has self-validation seen such shifts, and were estimates good enough there for a number to say something?"""

from __future__ import annotations

from roadworthy.labelfree.gates.base import Evidence, Gate, gates, judged, not_run

_NAME = "self-validation"


@gates.register(_NAME, "whether estimates were tried on shifts like this one, and good enough there")
def self_validation_gate(evidence: Evidence) -> Gate:
    """Refuse where no number is given: the shift is beyond those seen, or the interval would say nothing."""
    live = evidence.live
    if live is None:
        return not_run(_NAME, "needs labelled source samples")
    return judged(
        _NAME,
        float(bool(live.reason)),
        warn=False,
        refuse=bool(live.reason),
        expected="0: a number can be given",
        why=live.reason or f"such shifts were seen; most like this one: {', '.join(live.similar[:3])}",
    )
