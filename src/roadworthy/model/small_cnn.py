"""Small convolutional networks for digits and other small images; every layer is one that explainers know."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn

from roadworthy.model.base import Request, models
from roadworthy.model.own import OwnNetwork, load_own
from roadworthy.model.recipe_files import recipes
from roadworthy.types import Normalize


class SmallCNN(nn.Module):
    """Blocks of convolution, batch normalisation and ReLU, with max-pooling between, then the spatial mean.

    Each ReLU is a module of its own and works out of place, as attribution methods that replace its gradient need.

    Args:
        channels: channels of the images.
        classes: number of classes.
        widths: channels of the blocks.
    """

    def __init__(self, channels: int, classes: int, widths: tuple[int, ...]) -> None:
        super().__init__()
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        for number, wide in enumerate(widths, start=1):
            if number > 1:
                # the last row and column of an odd side count as well, and a side of 1 stays
                layers[f"pool{number}"] = nn.MaxPool2d(2, ceil_mode=True)
            layers[f"conv{number}"] = nn.Conv2d(channels, wide, 3, padding=1, bias=False)
            layers[f"norm{number}"] = nn.BatchNorm2d(wide)
            layers[f"relu{number}"] = nn.ReLU()
            channels = wide
        self.features = nn.Sequential(layers)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.classify = nn.Linear(channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, K) of normalised images (N, C, H, W)."""
        return self.classify(self.mean(self.features(images)).flatten(1))


DIGITS = OwnNetwork(
    "digits-cnn",
    lambda channels, classes: SmallCNN(channels, classes, (32, 64, 64)),
    recipes["digits"],
    channels=1,
    classes=10,
)
SMALL = OwnNetwork(
    "small-cnn",
    lambda channels, classes: SmallCNN(channels, classes, (16, 32, 64)),
    recipes["small"],
    channels=1,
    classes=10,
    samples=60_000,
)


@models.register("digits-cnn", "a small network for 8x8 digits; trained on the data in seconds, at first use")
def _load_digits(request: Request) -> tuple[nn.Module, Normalize | None]:
    return load_own(request, DIGITS)


@models.register("small-cnn", "a small network for images of any size; trained on the data at first use")
def _load_small(request: Request) -> tuple[nn.Module, Normalize | None]:
    return load_own(request, SMALL)
