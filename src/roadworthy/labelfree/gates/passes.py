"""Are there enough passes for the agreement of a sample to mean something?"""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.gates.base import Evidence, Gate, gates, judged, not_run

_UNSURE, _LEAST = 0.1, 5


@gates.register("passes", "how sure the agreement of one sample is after so many passes")
def passes_gate(evidence: Evidence) -> Gate:
    """Warn where the agreement of a sample has a standard error above .1, refuse below five passes."""
    found = evidence.consistency
    if found is None:
        return not_run("passes", "nothing was perturbed")
    # the Jeffreys mean: counts of none or all leave some doubt when passes are few
    share = (found.agreement_count + 0.5) / (found.passes + 1)
    error = float(np.sqrt(np.mean(share * (1 - share) / found.passes)))
    return judged(
        "passes",
        error,
        warn=error > _UNSURE,
        refuse=found.passes < _LEAST,
        expected=f"standard error at most {_UNSURE}, passes at least {_LEAST}",
        why=f"after {found.passes} passes the agreement of a sample has a standard error of {error:.3f} on average",
    )
