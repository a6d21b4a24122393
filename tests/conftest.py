"""Shared fixtures: one thread, the field reports' test model, and the optional folder of shared files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

torch.set_num_threads(1)


def _seed_torch() -> None:
    # networks made in tests draw their weights from there; a test must not depend on which ran before it
    torch.manual_seed(2026)


@pytest.fixture(scope="module", autouse=True)
def _module_begins_seeded() -> None:
    _seed_torch()


@pytest.fixture(autouse=True)
def _test_begins_seeded(_module_begins_seeded: None) -> None:
    _seed_torch()


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder of shared files, or skip."""
    path = Path(os.environ.get("ROADWORTHY_SHARED", Path(__file__).resolve().parents[1].parent / "shared"))
    if not (path / "data").is_dir():
        pytest.skip("the folder of shared files is not here (set ROADWORTHY_SHARED)")
    return path


class Q4(torch.nn.Module):
    """The four logits are 20 x the mean brightness of the four quadrants; no weights, so answers are known."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        height, width = images.shape[2] // 2, images.shape[3] // 2
        quadrants = [
            images[:, :, rows, columns].mean(dim=(1, 2, 3))
            for rows in (slice(None, height), slice(height, None))
            for columns in (slice(None, width), slice(width, None))
        ]
        return 20 * torch.stack(quadrants, dim=1)


@pytest.fixture
def q4() -> Q4:
    return Q4()


@pytest.fixture
def q4_data() -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    """Return a function that draws images (0.2 x uniform noise, quadrant y raised by 0.8) and labels."""

    def draw(
        n: int = 8, channels: int = 3, height: int = 16, width: int = 16, seed: int = 3
    ) -> tuple[torch.Tensor, torch.Tensor]:
        noise = np.random.default_rng(seed).random((n, channels, height, width), dtype=np.float32)
        images, labels = torch.from_numpy(0.2 * noise), torch.arange(n) % 4
        for row, label in enumerate(labels.tolist()):
            top, left = (label // 2) * (height // 2), (label % 2) * (width // 2)
            images[row, :, top : top + height // 2, left : left + width // 2] += 0.8
        return images, labels

    return draw
