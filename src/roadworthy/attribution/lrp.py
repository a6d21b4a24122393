"""Layer-wise relevance propagation (Bach et al. 2015) on any network that torch.fx can trace.

Equals captum's LRP on plain networks of modules (epsilon and gamma rules), and goes on where that stops: reused and
functional layers have their rules, additions share relevance between branches rather than giving each all of it,
batch normalisation is folded into the layer before it. The default is a composite (Montavon et al. 2019): gamma, in
its form for inputs of either sign, for convolutions but the first, epsilon elsewhere. Shifts and scales by constants
(normalisation) pass relevance on.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Collection
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval

from roadworthy.attribution.base import Block, Family, Job, methods
from roadworthy.attribution.canonical import POOLINGS, become_module, canonical, fixed_nodes, refuse, remove

EPSILON = 1e-6
GAMMA = 0.25

_ACTIVATIONS: tuple[type[nn.Module], ...] = (
    *(nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.SELU, nn.CELU, nn.GELU, nn.SiLU, nn.Mish, nn.Hardswish, nn.Tanh),
)
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
_WEIGHTED: tuple[type[nn.Module], ...] = (
    *(*_CONVOLUTIONS, nn.Linear, *_NORMS, *POOLINGS, nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d),
    nn.modules.pooling._AdaptiveAvgPoolNd,
)
_UNTOUCHED: tuple[type[nn.Module], ...] = (
    *(nn.Identity, nn.modules.dropout._DropoutNd, nn.Flatten, nn.Unflatten),
    nn.modules.padding._ConstantPadNd,
)
_SUMS_OF_TWO = {operator.add, operator.sub, torch.add, torch.sub, "add", "sub"}
_SCALES = {operator.mul, operator.truediv, torch.mul, torch.div, "mul", "div"}
_SUMS = {torch.mean, torch.sum, "mean", "sum"}
_MOVES = {
    *(torch.flatten, torch.reshape, torch.cat, torch.permute, torch.transpose, torch.squeeze, torch.unsqueeze),
    *(torch.chunk, torch.split, torch.stack, "chunk", "split", "narrow"),
    *(operator.getitem, getattr, F.pad, F.dropout, F.dropout2d, "flatten", "view", "reshape", "permute", "transpose"),
    *("contiguous", "squeeze", "unsqueeze", "size", "dim", "to", "float", "movedim"),
}


def lrp(job: Job, members: Collection[str]) -> Block:
    """Compute ``lrp``: the relevance of each value of the image; what biases absorbed comes with it, per image."""
    rule = job.settings.lrp_rule
    model = canonical(job, "lrp", lambda traced: _put_rules(traced, rule))
    maps, lost = [], []
    for begin in range(0, len(job.images), job.classifier.max_batch):
        part = slice(begin, begin + job.classifier.max_batch)
        with torch.enable_grad():
            leaf = job.classifier.prepare(job.images[part]).detach().requires_grad_()
            scores = model(leaf).gather(1, job.targets[part][:, None])
            (relevance,) = torch.autograd.grad(scores, leaf, scores.detach())
        if job.classifier.layout == "NHWC" and relevance.ndim > 2:
            relevance = relevance.movedim(-1, 1)
        maps.append(relevance.float())
        lost.append(scores.detach()[:, 0].double() - maps[-1].flatten(1).double().sum(1))
    per_sample = {"lrp": {"relevance_absorbed": torch.cat(lost).cpu().numpy()}}
    return Block({"lrp": torch.cat(maps)}, per_sample, {"lrp": {"rule": rule}})


class Relevance(nn.Module):
    """A layer whose backward pass carries relevance: each input gets its share of the output it made (epsilon rule).

    Args:
        layer: what is computed.
        gamma: weight of the generalised gamma rule, which lets what agrees with the output's sign count more, for
            inputs of either sign; 0 is the epsilon rule.
    """

    def __init__(self, layer: nn.Module, gamma: float = 0.0) -> None:
        super().__init__()
        self.layer = layer
        self.agreeing = _favoured(layer, gamma, 1) if gamma else None
        self.opposing = _favoured(layer, gamma, -1) if gamma else None

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        result: torch.Tensor = _Shared.apply(self, *inputs)
        return result

    def shares(self, inputs: list[torch.Tensor], relevance: torch.Tensor) -> list[torch.Tensor]:
        """Distribute the output's relevance over the inputs."""
        if self.agreeing is None or self.opposing is None:
            out = self.layer(*inputs)
            found = torch.autograd.grad(out, inputs, _divided(relevance, out))
            return [x.detach() * share for x, share in zip(inputs, found, strict=True)]
        signs = (inputs[0] >= 0, inputs[0] < 0)
        parts = [(inputs[0].detach() * sign).requires_grad_() for sign in signs]
        risen = self.agreeing(parts[0]) + self.opposing(parts[1])
        fallen = self.opposing(parts[0]) + self.agreeing(parts[1])
        up = self.layer(inputs[0]).detach() >= 0
        weights = [_divided(relevance * up, risen), _divided(relevance * ~up, fallen)]
        found = torch.autograd.grad([risen, fallen], parts, weights)
        return [sum(part.detach() * share for part, share in zip(parts, found, strict=True))]  # type: ignore[list-item]


class _Shared(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rule: Relevance, *inputs: torch.Tensor) -> torch.Tensor:
        ctx.rule = rule
        ctx.save_for_backward(*inputs)
        result: torch.Tensor = rule.layer(*inputs)
        return result

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        with torch.enable_grad():
            inputs = [saved.detach().requires_grad_() for saved in ctx.saved_tensors]
            return None, *ctx.rule.shares(inputs, relevance[0])


def _divided(relevance: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    out = out.detach()
    return relevance / (out + torch.where(out >= 0, EPSILON, -EPSILON))


def _favoured(layer: nn.Module, gamma: float, sign: int) -> nn.Module:
    """Return a copy with weights w + gamma * (their part of this sign); the bias stays with the positive copy."""
    judged = copy.deepcopy(layer)
    weight = judged.weight
    assert isinstance(weight, torch.Tensor)
    with torch.no_grad():
        weight += gamma * (weight.clamp(min=0) if sign > 0 else weight.clamp(max=0))
    if sign < 0:
        judged.bias = None  # type: ignore[assignment]
    return judged


class Pass(nn.Module):
    """A layer whose backward pass hands relevance on unchanged."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, values: torch.Tensor, *constants: torch.Tensor) -> torch.Tensor:
        """Apply the layer."""
        return _Passed.apply(self.layer, values, *constants)


class _Passed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, layer: nn.Module, values: torch.Tensor, *constants: torch.Tensor) -> torch.Tensor:
        ctx.constants = len(constants)
        result: torch.Tensor = layer(values, *constants)
        return result

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return None, relevance[0], *(None for _ in range(ctx.constants))


class Call(nn.Module):
    """A functional call as a module: ``slots`` says which of its arguments are inputs, the rest are fixed."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], slots: tuple[int, ...]) -> None:
        super().__init__()
        self.function = getattr(torch.Tensor, function) if isinstance(function, str) else function
        self.fixed, self.keywords, self.slots = args, kwargs, slots

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        """Call with the inputs in their slots."""
        args = list(self.fixed)
        for slot, value in zip(self.slots, inputs, strict=True):
            args[slot] = value
        result: torch.Tensor = self.function(*args, **self.keywords)
        return result


def _put_rules(traced: torch.fx.GraphModule, rule: str) -> None:
    _fold_norms(traced)
    modules = dict(traced.named_modules())
    first, fixed = True, fixed_nodes(traced)
    for node in list(traced.graph.nodes):
        if node.op == "call_module":
            layer = modules[node.target]
            if isinstance(layer, _ACTIVATIONS):
                become_module(traced, node, Pass(layer))
            elif isinstance(layer, _WEIGHTED) and not getattr(layer, "return_indices", False):
                gamma = rule == "composite" and isinstance(layer, _CONVOLUTIONS) and not first
                become_module(traced, node, Relevance(layer, GAMMA if gamma else 0.0))
                first = first and not isinstance(layer, _CONVOLUTIONS)
            elif not isinstance(layer, _UNTOUCHED):
                raise refuse("lrp", node, type(layer).__name__, "has no propagation rule")
        elif node.op in ("call_function", "call_method"):
            _rule_for_function(traced, node, fixed)


def _rule_for_function(traced: torch.fx.GraphModule, node: torch.fx.Node, fixed: set[torch.fx.Node]) -> None:
    """Give a functional call its rule: sums share relevance, shifts and scales pass it on, moves need none."""
    if node in fixed:
        return
    inputs = [part for part in node.args if isinstance(part, torch.fx.Node)]
    varying = [part for part in inputs if part not in fixed]
    named = [part for part in node.kwargs.values() if isinstance(part, torch.fx.Node)]
    if node.target in _SUMS or (node.target in _SUMS_OF_TWO and len(varying) == 2 and not named):
        become_module(traced, node, Relevance(_call(node, varying)), tuple(varying))
    elif node.target in _SUMS_OF_TWO | _SCALES and len(varying) == 1 and not named:
        ordered = [*varying, *(part for part in inputs if part in fixed)]
        become_module(traced, node, Pass(_call(node, ordered)), tuple(ordered))
    elif node.target not in _MOVES:
        raise refuse("lrp", node, str(getattr(node.target, "__name__", node.target)), "has no propagation rule")


def _call(node: torch.fx.Node, inputs: list[torch.fx.Node]) -> Call:
    slots, free = [], [place for place, part in enumerate(node.args) if isinstance(part, torch.fx.Node)]
    for part in inputs:
        slots.append(next(place for place in free if node.args[place] is part))
        free.remove(slots[-1])
    fixed = tuple(None if isinstance(part, torch.fx.Node) else part for part in node.args)
    return Call(node.target, fixed, dict(node.kwargs), tuple(slots))


def _fold_norms(traced: torch.fx.GraphModule) -> None:
    """Fold batch normalisation into the convolution or linear layer that alone feeds it."""
    modules = dict(traced.named_modules())
    calls = Counter(node.target for node in traced.graph.nodes if node.op == "call_module")
    for node in list(traced.graph.nodes):
        if node.op != "call_module" or not isinstance(modules[node.target], _NORMS):
            continue
        before = node.args[0]
        if before.op != "call_module" or len(before.users) > 1 or calls[before.target] > 1:
            continue
        layer, norm = modules[before.target], modules[node.target]
        if norm.running_mean is None:
            continue
        if isinstance(layer, _CONVOLUTIONS):
            become_module(traced, before, fuse_conv_bn_eval(layer, norm))
        elif isinstance(layer, nn.Linear):
            become_module(traced, before, fuse_linear_bn_eval(layer, norm))
        else:
            continue
        modules[before.target] = traced.get_submodule(before.target)
        remove(node)


methods.add(
    "lrp",
    Family("lrp", lrp, cost=lambda settings, members: 4),
    "layer-wise relevance propagation, gamma and epsilon rules",
)
