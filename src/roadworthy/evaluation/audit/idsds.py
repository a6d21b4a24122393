"""IDSDS: does a map rank the patches of an image as the model's own reaction to losing each of them does?

The in-domain single-deletion score of Hesse et al., "Benchmarking the Attribution Quality of Vision Models" (NeurIPS
Datasets and Benchmarks 2024). One patch of a grid is removed at a time, and the model has been fine-tuned with one
patch removed, so what it is shown lies in its domain and no mask can tell the class. It is a second view for coarse
methods: what a map says below the size of a patch is not seen.

Two departures. Patches of unequal size (sides that the grid does not divide) are compared per pixel, the map by its
mean and the model by its drop a pixel; for equal patches that is the published score. And where a map has no order of
the patches, the published code leaves the image out in silence, which rewards a method for saying nothing on hard
images; here the image counts as 0, what a random order has on average, and is told.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from roadworthy.errors import AttributionError, InputError, listed
from roadworthy.evaluation.checks import check_images, check_labels, check_logits
from roadworthy.evaluation.finetune import cells_of
from roadworthy.forward import Classifier, untouched
from roadworthy.imputation import Mean
from roadworthy.records import Batch
from roadworthy.removal import constant_maps, nonfinite_rows, unit_values
from roadworthy.statistics import paired_bootstrap, spearman
from roadworthy.types import Normalize, Output, Reduction, Seed


def idsds(
    model: Callable[..., Any],
    images: torch.Tensor,
    targets: torch.Tensor | np.ndarray | Sequence[int],
    maps: Mapping[str, np.ndarray],
    *,
    mean: Sequence[float] | torch.Tensor,
    grid: int = 4,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
    max_batch: int = 256,
    reduction: Reduction = "sum",
    level: float = 0.95,
    draws: int = 2000,
    seed: Seed = 0,
) -> dict[str, Any]:
    """Score maps by Spearman's correlation of patch attribution and logit drop, the mean over images.

    Args:
        model: fine-tuned with single patches removed; it takes images in pixel units, or ``normalize`` is set.
        images: float (N, C, H, W), in pixel units, finite.
        targets: int (N,), the class of each image whose logit is read.
        maps: (N, H, W) or (N, C, H, W) for each method, finite, signed: larger is more relevant.
        mean: what a removed patch is filled with, per channel, in pixel units: that of the fine-tuning.
        grid: patches a side, at least 2; each patch has a side of H / grid by W / grid pixels, up to rounding.
        normalize: ``(mean, std)`` put in front of a model that does not normalise by itself.
        output: how to pick the class scores from what the model returns.
        device: for a model without parameters.
        max_batch: images in one forward pass.
        reduction: how the channels of a map are reduced.
        level: confidence level of each interval.
        draws: bootstrap draws, over images and the same for all methods.
        seed: of the bootstrap.

    Returns:
        ``{"grid", "n", "unmoved", "scores": {method: {"score", "low", "high", "undefined"}}}``. ``score`` lies in
        [-1, 1], 0 for a random map; ``undefined`` counts images for which the map has no order of the patches, which
        count as 0. ``unmoved`` counts images whose logit no patch changes: they are left out for all methods alike,
        and ``n`` is the number of the others.

    Raises:
        InputError: no images, a grid that does not fit, targets out of range, or a model that no patch moves.
        AttributionError: maps of a wrong shape or number, or not finite.
        ModelError: logits that are not finite.

    Example:
        >>> def model(x):  # the first logit is the brightness of the left half
        ...     return torch.stack([x[..., :2].sum((1, 2, 3)), x[..., 2:].sum((1, 2, 3))], 1)
        >>> images = torch.rand(5, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> left = images[:, 0].numpy() * [1, 1, 0, 0]
        >>> maps = {"left": left, "nothing": 0 * left}
        >>> found = idsds(model, images, [0] * 5, maps, mean=[0.0], draws=100)["scores"]
        >>> found["left"]["score"], found["nothing"]["score"], found["nothing"]["undefined"]
        (1.0, 0.0, 5)
    """
    classifier = Classifier(model, normalize=normalize, output=output, device=device, max_batch=max_batch)
    found, moved = correlations(classifier, images, targets, maps, mean=mean, grid=grid, reduction=reduction)
    if not moved.any():
        raise InputError(
            f"idsds: no patch of a {grid} x {grid} grid changes the target's logit in any of {len(images)} images; "
            "check the fill (mean=), or whether the model reads the images at all"
        )
    kept = {name: values[moved] for name, values in found.items()}
    return {
        "grid": grid,
        "n": int(moved.sum()),
        "unmoved": int((~moved).sum()),
        "scores": _summaries(kept, level=level, draws=draws, seed=seed),
    }


def correlations(
    classifier: Classifier,
    images: torch.Tensor,
    targets: torch.Tensor | np.ndarray | Sequence[int],
    maps: Mapping[str, np.ndarray],
    *,
    mean: Sequence[float] | torch.Tensor,
    grid: int = 4,
    reduction: Reduction = "sum",
) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Correlate patch attribution and logit drop image by image; arguments and errors are those of :func:`idsds`.

    Returns:
        For each method, float64 (N,): Spearman's correlation, NaN where the map has no order of the patches or no
        patch moves the logit; and bool (N,): where some patch does.

    Example:
        >>> images = torch.rand(3, 1, 4, 4, generator=torch.Generator().manual_seed(0))
        >>> model = Classifier(lambda x: torch.stack([x.sum((1, 2, 3)), 0 * x.sum((1, 2, 3))], 1))
        >>> found, moved = correlations(model, images, [0] * 3, {"image": images[:, 0].numpy()}, mean=[0.0])
        >>> found["image"].tolist(), moved.tolist()
        ([1.0, 1.0, 1.0], [True, True, True])
    """
    cells = _cells(images, grid)
    _check_maps(maps)
    ids = [str(number) for number in range(len(images))]
    check_images(Batch(images, torch.zeros(len(images)), ids))
    chosen = torch.as_tensor(targets).flatten().to("cpu", torch.int64)
    if len(chosen) != len(images):
        raise InputError(f"targets: {len(chosen)} classes for {len(images)} images; give one class per image")
    values = {name: _patch_means(name, array, images, cells, reduction) for name, array in maps.items()}
    with untouched(classifier.model):
        drops = _drops(classifier, images, chosen, cells, torch.as_tensor(mean))
    moved = (drops != drops[:, :1]).any(axis=1)
    return {name: spearman(part, drops) for name, part in values.items()}, moved


def _cells(images: torch.Tensor, grid: int) -> np.ndarray:
    """Return the number of the patch that each pixel belongs to, (H, W)."""
    if images.ndim != 4 or not images.is_floating_point():
        raise InputError(
            f"idsds: got {images.dtype} of shape {tuple(images.shape)}; patches are parts of a picture, so it takes "
            "floating images (N, C, H, W) only. For series, tables and token ids, 'road' and 'symmetric' remove "
            "single units"
        )
    if len(images) == 0:
        raise InputError("idsds: no images were given")
    if isinstance(grid, bool) or not isinstance(grid, (int, np.integer)) or grid < 2:
        raise InputError(f"idsds: grid is {grid!r}, expected a whole number of patches a side, at least 2")
    return cells_of(tuple(images.shape[2:]), grid)


def _check_maps(maps: Mapping[str, np.ndarray]) -> None:
    if not maps:
        raise InputError("idsds: no maps were given; pass {name: array (N, H, W)}")
    for name, array in maps.items():
        bad = np.flatnonzero(nonfinite_rows(array))
        if len(bad):
            raise AttributionError(
                f"{name}: maps with NaN or infinite values for {len(bad)} of {len(array)} images: "
                f"{listed(bad.tolist())}; mend them, or leave these images out for all methods"
            )


def _patch_means(
    name: str, array: np.ndarray, images: torch.Tensor, cells: np.ndarray, reduction: Reduction
) -> np.ndarray:
    """Return the mean of a map over each patch, (N, patches); NaN where the map is constant."""
    if len(array) != len(images):
        raise AttributionError(f"{name}: {len(array)} maps for {len(images)} images")
    values = unit_values(np.asarray(array), tuple(images.shape[1:]), reduction=reduction, name=name)
    means = np.stack([values[:, cells == cell].mean(axis=1) for cell in np.unique(cells)], axis=1)
    means[constant_maps(values)] = np.nan  # means of patches of unequal size may differ by rounding
    return means


def _drops(
    classifier: Classifier, images: torch.Tensor, targets: torch.Tensor, cells: np.ndarray, mean: torch.Tensor
) -> np.ndarray:
    """Return how much the target's logit falls without each patch, per pixel of the patch: float64 (N, patches)."""
    parts, fill = [], Mean()
    patches = [torch.from_numpy(cells == cell).to(images.device) for cell in np.unique(cells)]
    for start in range(0, len(images), classifier.max_batch):
        block = images[start : start + classifier.max_batch]
        intact = _target_logits(classifier, block, targets[start:], start)
        drops = []
        for patch in patches:
            without = fill.fill(block, patch.expand(len(block), -1, -1), mean=mean)
            drop = intact - _target_logits(classifier, without, targets[start:], start)
            drops.append(drop / int(patch.sum()))
        parts.append(np.stack(drops, axis=1))
    return np.concatenate(parts)


def _target_logits(classifier: Classifier, block: torch.Tensor, targets: torch.Tensor, start: int) -> np.ndarray:
    logits = classifier.logits(block)
    check_logits(logits, [str(start + row) for row in range(len(block))], "images")
    chosen = targets[: len(block)]
    check_labels(chosen, logits.shape[1], "targets")
    return logits.gather(1, chosen[:, None])[:, 0].double().numpy()


def _summaries(correlations: Mapping[str, np.ndarray], *, level: float, draws: int, seed: Seed) -> dict[str, Any]:
    undefined = {name: np.isnan(found) for name, found in correlations.items()}
    scores = np.stack([np.where(undefined[name], 0.0, found) for name, found in correlations.items()])
    found = paired_bootstrap(scores, level=level, draws=draws, seed=seed)
    return {
        name: {
            "score": float(found.mean[row]),
            "low": float(found.low[row]),
            "high": float(found.high[row]),
            "undefined": int(undefined[name].sum()),
        }
        for row, name in enumerate(correlations)
    }
