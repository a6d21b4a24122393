"""The front door: maps of several methods for the same samples, computed together where they share work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.attribution.explainer import Explained, Explainer
from roadworthy.attribution.maps import Maps
from roadworthy.attribution.requests import Methods
from roadworthy.attribution.samples import Images, blocks
from roadworthy.attribution.settings import Settings
from roadworthy.provenance import provenance
from roadworthy.types import Ids, Layout, Normalize, Output, Progress, Seed


def attribute(
    model: Callable[..., Any],
    images: Images,
    methods: Methods,
    *,
    labels: Any = None,
    target: Any = "predicted",
    seed: Seed = 0,
    max_batch: int = 256,
    normalize: Normalize | None = None,
    settings: str | Settings = "road",
    mean: Sequence[float] | float | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    ids: Ids | None = None,
    nonfinite: Literal["raise", "keep"] = "raise",
    progress: Progress | None = None,
) -> Maps:
    """Compute attribution maps of one or more methods for the same samples.

    Members of a family (``ig``, ``ig-sg``, ``ig-sq``, ``ig-var``) are computed in one pass over the same noisy
    copies, so all four cost little more than one ensemble. The model is left exactly as it was.

    Args:
        model: a ``torch.nn.Module``, or a callable from images to class scores.
        images: (N, C, H, W) in pixel units ([0, 1]), (N, C, T) series or (N, F) tables, as tensor or array in
            ``layout``; or a Split, a Batch, or batches, which are channels first and bring labels and ids.
        methods: names (:data:`roadworthy.attribution.methods` lists them), callables ``(model, images, targets)``
            that return an array (the model they get takes the images they get, in pixel units and channels first, and
            returns class scores), objects of ``captum.attr`` or Zennit, functions in the style of Quantus, or a
            mapping from names of one's own to these. ``"inverse:NAME"`` is minus NAME.
        labels: one class per sample, for ``target="label"``.
        target: the class to explain: ``"predicted"``, ``"label"``, or one class per sample.
        seed: keys all random draws, together with the sample ids.
        max_batch: images in one forward or backward pass; sets the memory needed, and changes maps by rounding only.
        normalize: ``(mean, std)`` per channel to apply before the model; maps are in pixel units either way.
        settings: ``"road"``, ``"road-code"``, ``"roar"``, ``"roar-code"``, or a :class:`Settings`.
        mean: the data's mean per channel in pixel units, for baselines.
        output: how to pick the scores from what the model returns: position, key or callable.
        layout: ``"NHWC"`` if the model, and images passed as an array, are channels last. Maps are channels first.
        device: where a callable without parameters runs; a module runs where it is.
        ids: sample ids, for arrays; positions by default.
        nonfinite: ``"raise"`` refuses maps with NaN or infinity, naming the samples; ``"keep"`` returns them.
        progress: called with the number of maps just finished; N x methods in all.

    Returns:
        :class:`Maps`: name -> float32 (N, C, H, W), or (N, H, W) for methods that have no channels; with ``.info``.

    Raises:
        AttributionError: a method has no meaning for the input or the model, or gives values that are not finite.
        InputError: arguments that cannot be used.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
        >>> maps = attribute(model, torch.rand(2, 1, 4, 4), ["ig", "inverse:ig", "random"])
        >>> {name: values.shape for name, values in maps.items()}
        {'ig': (2, 1, 4, 4), 'inverse:ig': (2, 1, 4, 4), 'random': (2, 4, 4)}
    """
    explainer = Explainer(
        model,
        methods,
        seed=seed,
        max_batch=max_batch,
        normalize=normalize,
        settings=settings,
        mean=mean,
        output=output,
        layout=layout,
        device=device,
        nonfinite=nonfinite,
        progress=progress,
    )
    parts: list[Explained] = []
    names: list[str] = []
    for samples in blocks(images, max_batch, labels=labels, target=target, ids=ids, layout=layout):
        parts.append(explainer.explain(samples))
        names += samples.ids
    maps, info = {}, {}
    for request in explainer.requests:
        name = request.name
        maps[name] = np.concatenate([part.maps.pop(name) for part in parts])
        gathered = {
            key: np.concatenate([p.per_sample[name][key] for p in parts]) for key in parts[0].per_sample[name]
        }
        info[name] = {**explainer.settings_of(request), **parts[-1].notes[name], **gathered}
    run = {
        **provenance(ids=names, seed=explainer.seed, device=str(explainer.classifier.device)),
        "target": target if isinstance(target, str) else "given",
        "settings": {} if explainer.values is None else explainer.values.describe(),
    }
    return Maps(maps, ids=names, targets=np.concatenate([part.targets for part in parts]), info=info, run=run)
