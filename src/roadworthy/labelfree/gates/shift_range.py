"""Is the target shifted as far as nothing that self-validation has seen?"""

from __future__ import annotations

from roadworthy.labelfree.gates.base import Evidence, Gate, gates, judged, not_run


@gates.register("shift-range", "whether self-validation has seen shifts as large as this one")
def shift_range_gate(evidence: Evidence) -> Gate:
    """Refuse where the estimate gives no number, since the shift is beyond those it was tried on."""
    live = evidence.live
    if live is None:
        return not_run("shift-range", "needs self-validation, and so labelled source samples")
    return judged(
        "shift-range",
        float(bool(live.reason)),
        warn=False,
        refuse=bool(live.reason),
        expected="0: as large a shift was seen",
        why=live.reason or f"self-validation has seen such shifts; most like this one: {', '.join(live.similar[:3])}",
    )
