"""Was dropout asked for of a network that has none?"""

from __future__ import annotations

from roadworthy.labelfree.gates.base import Evidence, Gate, gates, judged, not_run

_NAME = "dropout"


@gates.register(_NAME, "whether dropout drew anything, where it was asked for")
def dropout_gate(evidence: Evidence) -> Gate:
    """Refuse agreement under dropout of a network without dropout: it is 1 whatever the network knows."""
    found = evidence.consistency
    if found is None or found.has_dropout is None:
        return not_run(_NAME, "dropout was not asked for")
    alone = found.perturbation == _NAME
    missing = not found.has_dropout
    if missing:
        rest = (
            "nothing was disturbed, so all agreement is 1"
            if alone
            else f"only the rest of {found.perturbation} disturbed it"
        )
        why = f"the network has no dropout layer that drew anything: {rest}; perturb the samples instead"
    else:
        why = "dropout drew in the network"
    return judged(
        _NAME,
        float(found.has_dropout),
        warn=missing,
        refuse=missing and alone,
        expected="1: at least one layer drew",
        why=why,
    )
