"""Do the logits answer to these samples as they do to the source's? Their energy."""

from __future__ import annotations

from roadworthy.labelfree.gates.base import FEW, Evidence, Gate, gates, not_run
from roadworthy.labelfree.gates.beyond import share_beyond


@gates.register("energy", "share of samples to which the logits answer less than to the source's")
def energy_gate(evidence: Evidence) -> Gate:
    """Judge the share of samples whose energy is beyond the source's (Liu et al. 2020)."""
    source, target = evidence.source, evidence.target
    if source is None or source.energy is None or target.energy is None:
        return not_run("energy", "needs the logits of source and target; probabilities do not hold it")
    if min(len(source), len(target)) < FEW:
        return not_run("energy", f"needs at least {FEW} samples on each side")
    return share_beyond(
        "energy", source.energy, target.energy, what="the energy of the logits", may_refuse=evidence.live is None
    )
