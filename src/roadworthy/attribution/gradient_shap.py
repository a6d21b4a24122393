"""Gradient SHAP (Lundberg and Lee 2017; Erion et al. 2021): expected gradients between the baseline and noisy copies.

Equals captum's GradientShap in expectation. Noise and path positions come from the sample's own stream instead of the
global generators, and copies are batched under ``max_batch``, so that the batch size changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from roadworthy.attribution.base import Block, Family, Job, methods
from roadworthy.attribution.ensemble import ONE, Path, ensemble


def gradient_shap(job: Job, members: Collection[str]) -> Block:
    """Compute ``gradient-shap``: mean of (copy - baseline) x gradient at a random point between the two."""
    path = Path(None, ONE, "baseline", job.settings.shap_samples, job.settings.shap_noise)
    block = ensemble(job, ["gradient-shap-sg"], "gradient-shap", path)
    return Block({"gradient-shap": block.maps["gradient-shap-sg"]})


methods.add(
    "gradient-shap",
    Family("gradient-shap", gradient_shap, cost=lambda settings, members: settings.shap_samples),
    "gradient SHAP: expected gradients from the baseline",
)
