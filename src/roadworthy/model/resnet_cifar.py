"""ResNet-18 for CIFAR-size images: a 3x3 stem of stride 1 and no max-pooling (He et al., 2016, arXiv 1512.03385).

Parameter names equal those of torchvision's ``resnet18``. Unlike there, each ReLU is a module of its own and works
out of place, as attribution methods that replace its gradient need.
"""

from __future__ import annotations

import torch
from torch import nn

from roadworthy.model.base import Request, models
from roadworthy.model.own import OwnNetwork, load_own
from roadworthy.model.recipe_files import recipes
from roadworthy.types import Normalize


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut.

    Args:
        channels: channels that come in.
        wide: channels that go out.
        stride: of the first convolution.
    """

    def __init__(self, channels: int, wide: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, wide, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(wide)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(wide, wide, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(wide)
        self.downsample: nn.Module = nn.Identity()
        if stride != 1 or channels != wide:
            self.downsample = nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
        self.relu2 = nn.ReLU()

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return features (N, wide, H / stride, W / stride)."""
        inner = self.bn2(self.conv2(self.relu1(self.bn1(self.conv1(images)))))
        return self.relu2(inner + self.downsample(images))


class CifarResNet18(nn.Module):
    """ResNet-18 with a CIFAR stem.

    Args:
        channels: channels of the images.
        classes: number of classes.
    """

    def __init__(self, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 64, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU()
        self.layer1 = nn.Sequential(BasicBlock(64, 64, 1), BasicBlock(64, 64, 1))
        self.layer2 = nn.Sequential(BasicBlock(64, 128, 2), BasicBlock(128, 128, 1))
        self.layer3 = nn.Sequential(BasicBlock(128, 256, 2), BasicBlock(256, 256, 1))
        self.layer4 = nn.Sequential(BasicBlock(256, 512, 2), BasicBlock(512, 512, 1))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(512, classes)
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, K) of normalised images (N, C, H, W)."""
        features = self.relu(self.bn1(self.conv1(images)))
        features = self.layer4(self.layer3(self.layer2(self.layer1(features))))
        return self.fc(self.avgpool(features).flatten(1))


CIFAR = OwnNetwork(
    "resnet18-cifar",
    CifarResNet18,
    recipes["cifar10"],
    channels=3,
    classes=10,
)


@models.register(
    "resnet18-cifar", "ResNet-18 for CIFAR-size images; trained on the data at first use (long on a CPU)"
)
def _load(request: Request) -> tuple[nn.Module, Normalize | None]:
    return load_own(request, CIFAR)
