"""The gradient of the target's logit, and its ensembles (Simonyan et al. 2014; Smilkov et al. 2017)."""

from __future__ import annotations

from collections.abc import Collection

from roadworthy.attribution.base import Block, Job
from roadworthy.attribution.ensemble import ONE, Path, ensemble, register_family


def gradient(job: Job, members: Collection[str]) -> Block:
    """Compute ``grad`` and its ensembles: signed, per channel, in logits per pixel unit."""
    path = Path(ONE, ONE, None, job.settings.samples, job.settings.noise)
    return ensemble(job, members, "grad", path)


register_family("grad", gradient, title="gradient of the target's logit")
