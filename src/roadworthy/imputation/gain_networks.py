"""The two networks of GAIN: one that fills, and one that tells filled values from true ones.

Both are one shape: a 7 x 7 convolution, one halving, residual blocks, one doubling, a 7 x 7 convolution. Every
convolution has spectral normalisation, all but the last are followed by batch normalisation. Borders are padded with
zeros, and the doubling ends at the size it came from, so any height and width will do.

Source: Yoon et al., GAIN (ICML 2018), as a residual network by Rong et al. (ICML 2022), appendix B.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn
from torch.nn.utils import parametrizations

_Convolution = TypeVar("_Convolution", nn.Conv2d, nn.ConvTranspose2d)
INIT_SD = 0.02  # of the weights of every convolution


class GainNetwork(nn.Module):
    """A network from planes (N, inputs, H, W) to planes (N, outputs, H, W), without a last nonlinearity.

    Args:
        inputs: planes that come in.
        outputs: planes that go out.
        width: planes after the first convolution; twice as many at half the size.
        blocks: residual blocks at half the size.
        spectral: whether convolutions have spectral normalisation, as they must in training. A network without it has
            the weights that the other one computes, see :func:`plain_state`.

    Example:
        >>> GainNetwork(5, 3, width=4, blocks=1)(torch.zeros(2, 5, 7, 9)).shape
        torch.Size([2, 3, 7, 9])
    """

    def __init__(self, inputs: int, outputs: int, *, width: int, blocks: int, spectral: bool = True) -> None:
        super().__init__()
        self.enter = nn.Sequential(_conv(inputs, width, 7, spectral=spectral), nn.BatchNorm2d(width), nn.ReLU())
        self.halve = nn.Sequential(
            _conv(width, 2 * width, 3, stride=2, spectral=spectral), nn.BatchNorm2d(2 * width), nn.ReLU()
        )
        self.blocks = nn.Sequential(*(_Residual(2 * width, spectral) for _ in range(blocks)))
        self.enlarge = _initialised(nn.ConvTranspose2d(2 * width, width, 3, stride=2, padding=1), spectral)
        self.after = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU())
        self.leave = _conv(width, outputs, 7, spectral=spectral)

    def forward(self, planes: torch.Tensor) -> torch.Tensor:
        """Return planes of the same height and width."""
        inner = self.blocks(self.halve(self.enter(planes)))
        enlarged = self.enlarge(inner, output_size=list(planes.shape[2:]))
        left: torch.Tensor = self.leave(self.after(enlarged))
        return left


class _Residual(nn.Module):
    def __init__(self, planes: int, spectral: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(planes, planes, 3, spectral=spectral),
            nn.BatchNorm2d(planes),
            nn.ReLU(),
            _conv(planes, planes, 3, spectral=spectral),
            nn.BatchNorm2d(planes),
        )

    def forward(self, planes: torch.Tensor) -> torch.Tensor:
        added: torch.Tensor = planes + self.body(planes)
        return added


def _conv(inputs: int, outputs: int, size: int, *, stride: int = 1, spectral: bool) -> nn.Conv2d:
    return _initialised(nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2), spectral)


def _initialised(conv: _Convolution, spectral: bool) -> _Convolution:
    nn.init.normal_(conv.weight, 0.0, INIT_SD)
    if conv.bias is not None:
        nn.init.zeros_(conv.bias)
    if spectral:
        parametrizations.spectral_norm(conv)
    return conv


def plain_state(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return the state of a network with every convolution's weight as it is after spectral normalisation.

    Args:
        network: in evaluation mode, so that reading a weight does not change the estimate of its norm.

    Returns:
        Tensors on the CPU, for a network of the same shape with ``spectral=False``.
    """
    state = {name: value for name, value in network.state_dict().items() if ".parametrizations." not in name}
    for name, part in network.named_modules():
        if nn.utils.parametrize.is_parametrized(part, "weight"):
            state[f"{name}.weight"] = part.weight
    return {name: value.detach().cpu().contiguous().clone() for name, value in state.items()}
