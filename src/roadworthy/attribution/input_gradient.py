"""Input times gradient, and its ensembles (Shrikumar et al. 2016); captum's InputXGradient in pixel units."""

from __future__ import annotations

from collections.abc import Collection

from roadworthy.attribution.base import Block, Job
from roadworthy.attribution.ensemble import ONE, Path, ensemble, register_family


def input_gradient(job: Job, members: Collection[str]) -> Block:
    """Compute ``ixg`` and its ensembles: the (noisy) image in pixel units times the gradient there."""
    path = Path(ONE, ONE, "zero", job.settings.samples, job.settings.noise)
    return ensemble(job, members, "ixg", path)


register_family("ixg", input_gradient, title="input x gradient, in pixel units")
