"""Which axis of a tensor inside a model holds the samples."""

from __future__ import annotations

import torch

from roadworthy.labelfree.perturbation.draws import Draws


def spread(draw: str, shape: tuple[int, ...], draws: Draws) -> torch.Tensor:
    """Draw a tensor of this shape so that every sample's part comes from its own stream.

    The samples lie along the first axis whose length is their number N, or in runs along the first axis if that is a
    multiple of N (heads of attention). Where neither is so, the streams are laid out in turn over all values.

    Args:
        draw: ``"normal"`` or ``"uniform"``.
        shape: of the tensor.
        draws: a stream for each of the N samples.
    """
    n, drawn = len(draws), getattr(draws, draw)
    axis = next((axis for axis, length in enumerate(shape) if length == n), None)
    if axis is not None:
        return drawn(*shape[:axis], *shape[axis + 1 :]).movedim(0, axis)
    if shape and shape[0] % n == 0:
        return drawn(shape[0] // n, *shape[1:]).reshape(shape)
    size = 1
    for length in shape:
        size *= length
    return drawn(-(-size // n)).reshape(-1)[:size].reshape(shape)
