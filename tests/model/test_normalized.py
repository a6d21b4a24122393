"""The normalisation as a first layer: what others do with a module must work with it too."""

from __future__ import annotations

import torch

from roadworthy.model import Normalized


def test_torch_fx_traces_it_and_computes_the_same() -> None:
    model = Normalized(torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU()), ([0.5, 0.4, 0.3], [0.2] * 3))
    images = torch.rand(2, 3, 6, 5)
    assert torch.equal(torch.fx.symbolic_trace(model)(images), model(images))
    assert model.normalize(images).is_contiguous()
