"""From logits to what is recorded of a copy."""

from __future__ import annotations

import numpy as np
import torch

from roadworthy.statistics import target_ranks


def read_out(logits: torch.Tensor, labels: np.ndarray, targets: np.ndarray) -> dict[str, np.ndarray]:
    """Return top-1 and top-5 hits on the labels, and probability and logit of the target class.

    Args:
        logits: float32 (N, K), finite.
        labels: int64 (N,).
        targets: int64 (N,).

    Returns:
        ``top1``, ``top5`` as uint8 (N,), ``probability``, ``logit`` as float32 (N,).
    """
    ranks = target_ranks(logits.numpy(), labels)
    chosen = torch.from_numpy(targets)[:, None]
    probability = torch.softmax(logits.double(), dim=1).gather(1, chosen)[:, 0]
    return {
        "top1": (ranks < 1).astype(np.uint8),
        "top5": (ranks < 5).astype(np.uint8),
        "probability": probability.numpy().astype(np.float32),
        "logit": logits.gather(1, chosen)[:, 0].numpy(),
    }
