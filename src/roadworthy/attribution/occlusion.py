"""Occlusion (Zeiler and Fergus 2014) by captum: how much the score falls when a window shows the baseline."""

from __future__ import annotations

from collections.abc import Collection

import torch

from roadworthy.attribution.base import Block, Family, Job, methods


def occlusion(job: Job, members: Collection[str]) -> Block:
    """Compute ``occlusion``: (n, H, W), (n, T) or (n, F); all channels of a position are covered together."""
    from captum.attr import Occlusion

    window, stride = _window(job)
    size = min(len(job.images), job.classifier.max_batch)
    start = job.values.start(job.images[0]).expand(job.images[0].shape)[None]
    parts = []
    for begin in range(0, len(job.images), size):
        images = job.images[begin : begin + size]
        found = Occlusion(job.classifier.forward).attribute(
            images,
            sliding_window_shapes=window,
            strides=stride,
            baselines=start,
            target=job.targets[begin : begin + size],
            perturbations_per_eval=max(1, job.classifier.max_batch // len(images)),
        )
        parts.append(found.detach().float())
    maps = torch.cat(parts)
    if job.kind != "tables":
        maps = maps[:, 0]
    return Block({"occlusion": maps}, notes={"occlusion": {"window": list(window), "stride": list(stride)}})


def _window(job: Job) -> tuple[tuple[int, ...], tuple[int, ...]]:
    channels, *sides = job.images.shape[1:]
    if job.kind == "tables":
        return (1,), (1,)
    shortest = min(sides)
    side = min(job.settings.occlusion_window or max(1, round(shortest / 8)), shortest)
    step = min(job.settings.occlusion_stride or max(1, side // 2), side)
    return (channels, *[side] * len(sides)), (channels, *[step] * len(sides))


methods.add(
    "occlusion",
    Family("occlusion", occlusion, cost=lambda settings, members: 225),  # windows of the default size and step
    "occlusion by a sliding window (captum)",
)
