"""Integrated gradients and its ensembles (Sundararajan et al. 2017); captum's IntegratedGradients, batched over
images, noisy copies and steps alike. The completeness gap is reported per image."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import torch

from roadworthy.attribution.base import Block, Job
from roadworthy.attribution.ensemble import Path, ensemble, register_family
from roadworthy.attribution.settings import Settings


def path_rule(settings: Settings) -> tuple[np.ndarray, np.ndarray]:
    """Return positions in [0, 1] and weights, (steps,) each.

    Example:
        >>> positions, weights = path_rule(Settings(ig_steps=3, ig_rule="uniform"))
        >>> positions.tolist(), bool(np.isclose(weights.sum(), 1))
        ([0.0, 0.5, 1.0], True)
    """
    steps = settings.ig_steps
    if settings.ig_rule == "uniform":
        return np.linspace(0, 1, steps), np.full(steps, 1 / steps)
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (1 + nodes) / 2, weights / 2


def integrated(job: Job, members: Collection[str]) -> Block:
    """Compute ``ig`` and its ensembles; ``ig`` comes with its completeness gap per image.

    The gap is the sum of the map minus (logit of the image - logit of the baseline).
    """
    positions, weights = path_rule(job.settings)
    block = ensemble(
        job, members, "ig", Path(positions, weights, "baseline", job.settings.samples, job.settings.noise)
    )
    if "ig" in members:
        difference = (job.scores.cpu() - _baseline_scores(job)).double().numpy()
        total = np.asarray(block.maps["ig"]).reshape(len(job.ids), -1).sum(1, dtype=np.float64)
        gap = total - difference
        scale = np.maximum(np.abs(difference), np.finfo(np.float32).tiny)
        block.per_sample["ig"] = {"completeness_gap": gap, "completeness_gap_relative": np.abs(gap) / scale}
    return block


def _baseline_scores(job: Job) -> torch.Tensor:
    if "baseline_logits" not in job.cache:
        start = job.values.start(job.images[0]).expand(job.images[0].shape)[None]
        job.cache["baseline_logits"] = job.classifier.logits(start)[0]
    found: torch.Tensor = job.cache["baseline_logits"]
    return found[job.targets.cpu()]


register_family("ig", integrated, title="integrated gradients", steps=lambda settings: settings.ig_steps)
