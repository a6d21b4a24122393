"""Small networks for the tests of attribution; weights are drawn once, so that variants agree."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

FORMS = ("module", "module-in-place", "reused", "reused-in-place", "function", "function-in-place", "method", "clamp")


class Forms(nn.Module):
    """Convolution, ReLU, convolution, ReLU, skip, pooling, linear: the ReLU written in one of FORMS."""

    def __init__(self, form: str = "module") -> None:
        super().__init__()
        self.form = form
        in_place = form.endswith("in-place")
        self.conv1 = nn.Conv2d(3, 6, 3, padding=1)
        self.conv2 = nn.Conv2d(6, 6, 3, padding=1)
        self.fc = nn.Linear(6, 4)
        if form.startswith("module"):
            self.relu1, self.relu2 = nn.ReLU(in_place), nn.ReLU(in_place)
        elif form.startswith("reused"):
            self.relu = nn.ReLU(in_place)

    def rectify(self, values: torch.Tensor, place: int) -> torch.Tensor:
        if self.form.startswith("module"):
            rectified: torch.Tensor = getattr(self, f"relu{place}")(values)
            return rectified
        if self.form.startswith("reused"):
            return self.relu(values)
        if self.form == "method":
            return values.relu_()
        if self.form == "clamp":
            return values.clamp(min=0)
        return F.relu(values, inplace=self.form == "function-in-place")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        first = self.rectify(self.conv1(images), 1)
        second = self.rectify(self.conv2(first), 2)
        return self.fc((first + second).mean((2, 3)))


def forms(form: str = "module") -> Forms:
    """Return the network in one form, always with the same weights."""
    generator = torch.Generator().manual_seed(5)
    model = Forms(form).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def plain(seed: int = 5) -> nn.Sequential:
    """Return a network of modules only, each used once: what captum handles exactly."""
    model = nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(5, 6, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(24, 4),
    ).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.4)
    return model


def some_images(n: int = 4, channels: int = 3, height: int = 8, width: int = 10, seed: int = 2) -> torch.Tensor:
    """Return images (n, channels, height, width) in [0, 1]."""
    return torch.rand(n, channels, height, width, generator=torch.Generator().manual_seed(seed))
