"""Maps with known answers for the known-answer model."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch


@pytest.fixture
def q4_maps() -> Callable[[torch.Tensor], dict[str, np.ndarray]]:
    """Return a function: images -> the oracle map, its inverse, and seeded noise."""

    def build(images: torch.Tensor) -> dict[str, np.ndarray]:
        oracle = images.mean(dim=1).numpy()
        noise = np.random.default_rng(11).random(oracle.shape, dtype=np.float32)
        return {"oracle": oracle, "inverse": oracle.max() - oracle, "random": noise}

    return build
