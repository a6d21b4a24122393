"""DeepLIFT with the rescale rule (Shrikumar et al. 2017).

Equals captum's DeepLift where that is exact, and differs where it is not: functional, in-place and reused activations
count like any other, any elementwise activation has its rule, max-pooling is complete (captum's sums miss the
difference of the scores there, measured), and a map never depends on the batch.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from roadworthy.attribution.base import Block, Family, Job, methods
from roadworthy.attribution.canonical import ACTIVATIONS, POOLINGS, become_module, canonical, fixed_nodes, refuse
from roadworthy.errors import RoadworthyWarning

_FLAT = 1e-6  # below this relative difference between image and baseline a unit's multiplier is its gradient

_LINEAR: tuple[type[nn.Module], ...] = (
    nn.modules.conv._ConvNd,
    nn.Linear,
    nn.modules.batchnorm._BatchNorm,
    nn.AvgPool1d,
    nn.AvgPool2d,
    nn.AvgPool3d,
    nn.modules.pooling._AdaptiveAvgPoolNd,
    nn.modules.dropout._DropoutNd,
    nn.Identity,
    nn.Flatten,
    nn.Unflatten,
    nn.modules.padding._ConstantPadNd,
    nn.modules.padding._ReflectionPadNd,
    nn.modules.padding._ReplicationPadNd,
    nn.Upsample,
    nn.PixelShuffle,
)
_LINEAR_FUNCTIONS = {
    *(operator.add, operator.sub, operator.neg, operator.getitem, torch.add, torch.sub, torch.neg),
    *(torch.flatten, torch.cat, torch.stack, torch.mean, torch.sum, torch.reshape, torch.permute, torch.transpose),
    *(torch.squeeze, torch.unsqueeze, torch.chunk, torch.split, torch.narrow),
    *(F.pad, F.dropout, F.dropout2d, F.avg_pool1d, F.avg_pool2d, F.avg_pool3d, F.adaptive_avg_pool1d),
    *(F.adaptive_avg_pool2d, F.interpolate, F.conv1d, F.conv2d, F.linear, F.batch_norm),
}
_LINEAR_METHODS = {
    *(
        "add",
        "sub",
        "neg",
        "mean",
        "sum",
        "to",
        "float",
        "contiguous",
        "size",
        "view",
        "view_as",
        "reshape",
        "flatten",
    ),
    *("unflatten", "permute", "transpose", "t", "movedim", "squeeze", "unsqueeze", "expand", "expand_as"),
    *("chunk", "split", "narrow"),
}
_SCALINGS = {operator.mul, operator.truediv, torch.mul, torch.div, "mul", "div"}
_DIVISIONS = {operator.truediv, torch.div, "div"}


def deeplift(job: Job, members: Collection[str]) -> Block:
    """Compute ``deeplift``: multiplier x (image - baseline); its completeness gap per image comes with it."""
    model = canonical(job, "deeplift", _put_rules)
    size = max(1, job.classifier.max_batch // 2)  # images and baselines go through together
    start = job.values.start(job.images[0]).expand(job.images[0].shape)
    maps, gaps, differences = [], [], []
    for begin in range(0, len(job.images), size):
        images, targets = job.images[begin : begin + size], job.targets[begin : begin + size]
        with torch.enable_grad():
            leaf = images.detach().requires_grad_()
            both = torch.cat([leaf, start.expand(images.shape)])
            scores = model(job.classifier.prepare(both)).gather(1, targets.repeat(2)[:, None])[:, 0]
            (multipliers,) = torch.autograd.grad(scores[: len(images)].sum(), leaf)
        maps.append(multipliers.detach() * (images - start))
        found, reference = scores.detach().double().chunk(2)
        differences.append(found - reference)
        gaps.append(maps[-1].flatten(1).double().sum(1) - differences[-1])
    gap = torch.cat(gaps).cpu()
    _warn_incomplete(gap, torch.cat(differences).cpu(), float(job.scores.abs().max()))
    return Block({"deeplift": torch.cat(maps)}, {"deeplift": {"completeness_gap": gap.numpy()}})


def _warn_incomplete(gap: torch.Tensor, differences: torch.Tensor, scores: float) -> None:
    """Maps that do not sum to the difference of the scores were computed past a nonlinearity, as in ``output=``."""
    largest = float(gap.abs().max())
    rounding = 1e-5 * scores
    if largest > 1e-2 * float(differences.abs().max()) + rounding:
        warnings.warn(
            f"deeplift: maps miss the difference of the scores by up to {largest:.3g}; a nonlinear operation has no "
            "rule (a softmax in output=?). Prefer 'ig' here, or return the scores before it.",
            RoadworthyWarning,
            stacklevel=2,
        )


class Rescale(nn.Module):
    """An elementwise activation whose backward pass multiplies by difference out over difference in."""

    def __init__(self, activation: nn.Module) -> None:
        super().__init__()
        self.activation = activation

    def forward(self, both: torch.Tensor) -> torch.Tensor:
        """Apply the activation to images and baselines (2n, ...), stacked in this order."""
        return _Rescaled.apply(both, self.activation)


class _Rescaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: torch.Tensor, activation: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        with torch.enable_grad():
            inner = both.detach().requires_grad_()
            outer = activation(inner)
            (slope,) = torch.autograd.grad(outer.sum(), inner)
        (x, reference), (y, y_reference) = inner.detach().chunk(2), outer.detach().chunk(2)
        difference = x - reference
        flat = difference.abs() <= _FLAT * torch.maximum(x.abs(), reference.abs())
        ratio = (y - y_reference) / torch.where(flat, torch.ones_like(difference), difference)
        ctx.save_for_backward(torch.where(flat, slope[: len(x)], ratio))
        return outer.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        (multipliers,) = ctx.saved_tensors
        return gradients[0] * torch.cat([multipliers, multipliers]), None


class RescaleMax(nn.Module):
    """Max-pooling with the rescale rule: windows are laid out, so that overlapping ones keep their own share."""

    def __init__(self, pooling: nn.Module) -> None:
        super().__init__()
        self.pool: Callable[..., Any] = F.max_pool1d if isinstance(pooling, nn.MaxPool1d) else F.max_pool2d
        names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
        self.settings = {name: getattr(pooling, name) for name in names}

    def forward(self, both: torch.Tensor) -> torch.Tensor:
        """Pool images and baselines (2n, ...), stacked in this order."""
        with torch.no_grad():
            values, indices = self.pool(both, **self.settings, return_indices=True)
        return _RescaledMax.apply(both, values, indices)


class _RescaledMax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, both: torch.Tensor, values: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
        x, reference = both.flatten(2).chunk(2)
        (y, y_reference), (at, at_reference) = values.flatten(2).chunk(2), indices.flatten(2).chunk(2)
        difference = x - reference
        higher = torch.maximum(y, y_reference)
        ctx.shape = both.shape
        ctx.save_for_backward(
            at,
            at_reference,
            _ratio(higher - y_reference, difference, at),
            _ratio(y - higher, difference, at_reference),
        )
        return values

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        at, at_reference, up, down = ctx.saved_tensors
        incoming = gradients[0].flatten(2)[: len(at)]
        given = incoming.new_zeros(len(at), ctx.shape[1], ctx.shape[2:].numel())
        given.scatter_add_(2, at, incoming * up).scatter_add_(2, at_reference, incoming * down)
        given = given.view(len(at), *ctx.shape[1:])
        return torch.cat([given, torch.zeros_like(given)]), None, None


def _ratio(out: torch.Tensor, difference: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    """Return output over input difference at the positions that made the maximum; 0 where nothing changed."""
    change = difference.gather(2, at)
    return torch.where(
        out == 0, torch.zeros_like(out), out / torch.where(change == 0, torch.ones_like(change), change)
    )


def _put_rules(traced: torch.fx.GraphModule) -> None:
    """Put the rules on activations and poolings; refuse what is neither these nor linear.

    There a plain gradient would stand for a multiplier.
    """
    modules = dict(traced.named_modules())
    fixed = fixed_nodes(traced)
    for node in list(traced.graph.nodes):
        if node.op == "call_module":
            module = modules[node.target]
            if isinstance(module, ACTIVATIONS):
                become_module(traced, node, Rescale(module))
            elif isinstance(module, POOLINGS) and not module.return_indices:
                become_module(traced, node, RescaleMax(module))
            elif not isinstance(module, _LINEAR):
                raise refuse("deeplift", node, type(module).__name__, "has no rescale rule")
        elif node.op in ("call_function", "call_method"):
            _check_function(node, fixed)


def _check_function(node: torch.fx.Node, fixed: set[torch.fx.Node]) -> None:
    """Refuse a function that is not linear in the image."""
    if node in fixed:
        return
    varying = [part for part in node.all_input_nodes if part not in fixed]
    if node.target in _SCALINGS:
        divides = node.target in _DIVISIONS and len(node.args) > 1 and node.args[1] in varying
        squares = sum(part in varying for part in node.args) > 1
        if not divides and not squares:
            return
        why = "multiplies or divides two results, which DeepLIFT has no rule for"
    elif node.target in _LINEAR_FUNCTIONS or node.target in _LINEAR_METHODS:
        return
    else:
        why = "has no rescale rule"
    raise refuse("deeplift", node, str(getattr(node.target, "__name__", node.target)), why)


methods.add(
    "deeplift",
    Family("deeplift", deeplift, cost=lambda settings, members: 4),
    "DeepLIFT, rescale rule, from the baseline",
)
