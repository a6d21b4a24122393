"""LIME (Ribeiro et al. 2016) and kernel SHAP (Lundberg and Lee 2017) by captum, over a grid of superpixels.

captum draws from the global generators; here each sample is explained alone with those seeded from its id and put
back after, so that batch size and order change nothing. LIME fits a ridge regression as its authors' code does:
captum's default, a lasso, gives empty maps where logits differ little.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from typing import Any

import torch

from roadworthy.attribution.base import Block, Family, Job, methods
from roadworthy.rng import seeded_globals


def lime(job: Job, members: Collection[str]) -> Block:
    """Compute ``lime``: a weight per superpixel, (n, H, W), (n, T) or (n, F)."""
    from captum._utils.models.linear_model import SkLearnRidge
    from captum.attr import Lime

    explainer = Lime(job.classifier.forward, interpretable_model=SkLearnRidge(alpha=1.0))
    return _explain(job, "lime", explainer, job.settings.lime_samples)


def kernel_shap(job: Job, members: Collection[str]) -> Block:
    """Compute ``kernel-shap``: a Shapley value per superpixel, (n, H, W), (n, T) or (n, F)."""
    from captum.attr import KernelShap

    return _explain(job, "kernel-shap", KernelShap(job.classifier.forward), job.settings.kernel_shap_samples)


def _explain(job: Job, name: str, explainer: Any, samples: int) -> Block:
    cells = grid(tuple(job.images.shape[1:]), job.settings.cells).to(job.images.device)
    start = job.values.start(job.images[0]).expand(job.images[0].shape)[None]
    rows = []
    for row, sample in enumerate(job.ids):
        with seeded_globals(job.seed, name, sample), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module="captum")
            found = explainer.attribute(
                job.images[row : row + 1],
                baselines=start,
                target=job.targets[row : row + 1],
                feature_mask=cells[None],
                n_samples=samples,
                perturbations_per_eval=job.classifier.max_batch,
                show_progress=False,
            )
        rows.append(found.detach().float())
    maps = torch.cat(rows)
    if job.kind != "tables":
        maps = maps[:, 0]
    return Block({name: maps}, notes={name: {"superpixels": int(cells.max()) + 1, "samples": samples}})


def grid(shape: tuple[int, ...], cells: int) -> torch.Tensor:
    """Number the superpixels of one sample: a grid over positions, shared by channels; features of a table singly.

    Args:
        shape: (C, H, W), (C, T) or (F,).
        cells: superpixels along a side, at most.

    Returns:
        int64 (1, H, W), (1, T) or (F,).

    Example:
        >>> grid((3, 2, 4), 2)[0].tolist()
        [[0, 0, 1, 1], [2, 2, 3, 3]]
    """
    if len(shape) == 1:
        return torch.arange(shape[0])
    number = torch.zeros((), dtype=torch.int64)
    for side in shape[1:]:
        along = min(cells, side)
        number = number[..., None] * along + torch.arange(side) * along // side
    return number[None]


_REASON = "it perturbs real numbers; use 'random', or pass a callable"
methods.add(
    "lime",
    Family("lime", lime, reason=_REASON, cost=lambda settings, members: settings.lime_samples),
    "LIME over a grid of superpixels (captum)",
)
methods.add(
    "kernel-shap",
    Family("kernel-shap", kernel_shap, reason=_REASON, cost=lambda settings, members: settings.kernel_shap_samples),
    "kernel SHAP over a grid of superpixels (captum)",
)
