"""A copy of a model that module-hooking methods can take: every operation that matters is a module of its own.

DeepLIFT and LRP put a rule on every layer: a functional ReLU would get the plain gradient, a reused one a mix, a
residual addition would count twice. The copy is traced with torch.fx; functional and reused activations and poolings
become fresh modules, in-place operations ordinary ones. Its logits must equal the model's. What has no exact form is
refused, naming the layer. The caller's model is copied first, so nothing of it is touched.
"""

from __future__ import annotations

import copy
import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from roadworthy.attribution.base import Job
from roadworthy.attribution.guided import refuse_compiled
from roadworthy.errors import AttributionError
from roadworthy.hints import wrapper_hint
from roadworthy.scores import extract_logits

ALTERNATIVES = "Use 'ig', 'gradient-shap' or 'occlusion' instead."

ACTIVATIONS: tuple[type[nn.Module], ...] = (
    *(
        nn.ReLU,
        nn.ReLU6,
        nn.Hardtanh,
        nn.Threshold,
        nn.LeakyReLU,
        nn.ELU,
        nn.SELU,
        nn.CELU,
        nn.GELU,
        nn.SiLU,
        nn.Mish,
    ),
    *(nn.Sigmoid, nn.Tanh, nn.Softplus, nn.Hardswish, nn.Hardsigmoid, nn.LogSigmoid),
)
POOLINGS: tuple[type[nn.Module], ...] = (nn.MaxPool1d, nn.MaxPool2d)

_MAX_POOL = ("kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices")

# functional form -> module, and the names of its arguments after the input, in order
_FUNCTIONS: dict[Any, tuple[type[nn.Module], tuple[str, ...]]] = {
    **dict.fromkeys((F.relu, F.relu_, torch.relu, torch.relu_, "relu", "relu_"), (nn.ReLU, ("inplace",))),
    **dict.fromkeys((F.sigmoid, torch.sigmoid, "sigmoid", "sigmoid_"), (nn.Sigmoid, ())),
    **dict.fromkeys((F.tanh, torch.tanh, "tanh", "tanh_"), (nn.Tanh, ())),
    **dict.fromkeys((F.max_pool1d, torch.max_pool1d), (nn.MaxPool1d, _MAX_POOL)),
    **dict.fromkeys((F.max_pool2d, torch.max_pool2d), (nn.MaxPool2d, _MAX_POOL)),
    F.relu6: (nn.ReLU6, ("inplace",)),
    F.hardtanh: (nn.Hardtanh, ("min_val", "max_val", "inplace")),
    F.threshold: (nn.Threshold, ("threshold", "value", "inplace")),
    F.leaky_relu: (nn.LeakyReLU, ("negative_slope", "inplace")),
    F.elu: (nn.ELU, ("alpha", "inplace")),
    F.selu: (nn.SELU, ("inplace",)),
    F.celu: (nn.CELU, ("alpha", "inplace")),
    F.gelu: (nn.GELU, ("approximate",)),
    F.silu: (nn.SiLU, ("inplace",)),
    F.mish: (nn.Mish, ("inplace",)),
    F.softplus: (nn.Softplus, ("beta", "threshold")),
    F.hardswish: (nn.Hardswish, ("inplace",)),
    F.hardsigmoid: (nn.Hardsigmoid, ("inplace",)),
    F.logsigmoid: (nn.LogSigmoid, ()),
    F.avg_pool2d: (
        nn.AvgPool2d,
        ("kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"),
    ),
    F.adaptive_avg_pool2d: (nn.AdaptiveAvgPool2d, ("output_size",)),
}
_ABOUT = ("shape", "ndim", "device", "dtype")  # attributes of a tensor that say nothing of its values
_IN_PLACE: dict[Any, Any] = {
    operator.iadd: operator.add,
    operator.isub: operator.sub,
    operator.imul: operator.mul,
    operator.itruediv: operator.truediv,
    "add_": "add",
    "sub_": "sub",
    "mul_": "mul",
    "div_": "div",
}


def canonical(job: Job, method: str, adapt: Callable[[torch.fx.GraphModule], None]) -> nn.Module:
    """Return the copy of the job's model for ``method``, made once for all blocks of a shape.

    Args:
        job: whose model is copied, and on whose images the copy is checked.
        method: for messages.
        adapt: changes the traced copy further, and refuses what the method cannot handle.

    Returns:
        A module from prepared (normalised) images to logits.

    Raises:
        AttributionError: the model cannot be traced, or the copy computes something else.
    """
    key = f"canonical:{method}"
    if key not in job.cache:
        job.cache[key] = _build(job, method, adapt)
    built: nn.Module = job.cache[key]
    return built


def _build(job: Job, method: str, adapt: Callable[[torch.fx.GraphModule], None]) -> nn.Module:
    if not isinstance(job.model, nn.Module):
        raise AttributionError(
            f"{method!r} follows the layers of a torch.nn.Module; the model is a {type(job.model).__name__}. "
            f"{ALTERNATIVES}"
        )
    refuse_compiled(job.model, method)
    try:
        with torch.no_grad():
            traced = torch.fx.symbolic_trace(copy.deepcopy(job.model).eval())
    except Exception as error:  # fx and the user's own forward raise anything
        cause = str(error).splitlines()[0].partition(". ")[0] if str(error) else type(error).__name__
        raise AttributionError(
            f"{method!r} needs the model's layers one by one, and torch.fx cannot trace {type(job.model).__name__}: "
            f"{cause}.{wrapper_hint(job.model)} {ALTERNATIVES}"
        ) from error
    for module in traced.modules():  # a user's hooks may write to the user's objects
        module._backward_hooks.clear()
        module._backward_pre_hooks.clear()
    _modularise(traced)
    adapt(traced)
    traced.graph.lint()
    traced.delete_all_unused_submodules()
    traced.recompile()
    wrapped = Logits(traced, job.classifier.output).eval()
    wrapped.requires_grad_(False)
    _compare(job, wrapped, method)
    return wrapped


class Logits(nn.Module):
    """A module whose output is the class scores alone."""

    def __init__(self, body: nn.Module, output: Any) -> None:
        super().__init__()
        self.body = body
        self.output = output

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, K) of prepared images."""
        return extract_logits(self.body(images), self.output)


def _compare(job: Job, wrapped: nn.Module, method: str) -> None:
    part = job.images[:1].repeat(2, *[1] * (job.images.ndim - 1))  # rules may want pairs
    with torch.no_grad():
        expected, found = job.classifier.forward(part), wrapped(job.classifier.prepare(part))
    if not torch.allclose(expected, found, rtol=1e-3, atol=1e-3 * float(expected.abs().max())):
        raise AttributionError(
            f"{method!r}: the copy of the model that torch.fx traced gives other scores than the model (by up to "
            f"{float((expected - found).abs().max()):.3g}); its forward depends on hooks or on its input's values. "
            f"{ALTERNATIVES}"
        )


def _modularise(traced: torch.fx.GraphModule) -> None:
    """Give every activation and pooling a module of its own, in graph order, and drop in-place operations."""
    modules: dict[str, nn.Module] = dict(traced.named_modules())
    calls = Counter(node.target for node in traced.graph.nodes if node.op == "call_module")
    for node in list(traced.graph.nodes):
        if node.op == "call_module":
            module = modules[node.target]
            if isinstance(module, (*ACTIVATIONS, *POOLINGS)) and calls[node.target] > 1:
                become_module(traced, node, copy.deepcopy(module))
        elif node.op in ("call_function", "call_method"):
            node.target = _IN_PLACE.get(node.target, node.target)
            replacement = _as_module(node) or _as_layer(traced, node)
            if replacement is not None:
                become_module(traced, node, replacement)
    for module in traced.modules():
        if getattr(module, "inplace", False):
            module.inplace = False  # type: ignore[assignment]


def _as_module(node: torch.fx.Node) -> nn.Module | None:
    """Return the module that a functional call equals, or None."""
    if node.target in ("clamp", "clamp_min", torch.clamp, torch.clamp_min):
        low = node.kwargs.get("min", node.args[1] if len(node.args) > 1 else None)
        high = node.kwargs.get("max", node.args[2] if len(node.args) > 2 else None)
        return nn.ReLU() if low == 0 and not isinstance(low, torch.fx.Node) and high is None else None
    if node.target not in _FUNCTIONS:
        return None
    kind, names = _FUNCTIONS[node.target]
    settings = {**dict(zip(names, node.args[1:], strict=False)), **node.kwargs}
    settings.pop("input", None)
    if any(isinstance(value, torch.fx.Node) for value in settings.values()):
        return None
    return kind(**{name: value for name, value in settings.items() if name in names})


def _as_layer(traced: torch.fx.GraphModule, node: torch.fx.Node) -> nn.Module | None:
    """Return the layer that a functional one with the model's own weights equals, or None."""
    if node.target not in _LAYERS:
        return None
    names, build = _LAYERS[node.target]
    given = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    for name, value in given.items():
        if isinstance(value, torch.fx.Node) and name != "input":
            if value.op != "get_attr":
                return None
            given[name] = operator.attrgetter(str(value.target))(traced)
    return build(given).eval()


def _convolution(given: dict[str, Any]) -> nn.Module:
    weight, bias = given["weight"], given.get("bias")
    kind = nn.Conv1d if weight.ndim == 3 else nn.Conv2d
    groups = given.get("groups", 1)
    options = {name: given[name] for name in ("stride", "padding", "dilation") if name in given}
    layer = kind(weight.shape[1] * groups, weight.shape[0], weight.shape[2:], groups=groups, device="meta", **options)
    layer.weight = nn.Parameter(weight.detach())
    layer.bias = None if bias is None else nn.Parameter(bias.detach())
    return layer


def _linear(given: dict[str, Any]) -> nn.Module:
    weight, bias = given["weight"], given.get("bias")
    layer = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    layer.weight = nn.Parameter(weight.detach())
    layer.bias = None if bias is None else nn.Parameter(bias.detach())  # type: ignore[assignment]
    return layer


def _batch_norm(given: dict[str, Any]) -> nn.Module:
    layer = nn.BatchNorm2d(len(given["running_mean"]), eps=given.get("eps", 1e-5), device="meta")
    layer.running_mean, layer.running_var = given["running_mean"], given["running_var"]
    for name, neutral in (("weight", torch.ones_like), ("bias", torch.zeros_like)):
        value = given.get(name)
        value = neutral(given["running_mean"]) if value is None else value.detach()
        setattr(layer, name, nn.Parameter(value))
    layer._check_input_dim = lambda input: None  # type: ignore[method-assign]  # one class for any number of axes
    return layer


_CONVOLUTION_NAMES = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_LAYERS: dict[Any, tuple[tuple[str, ...], Callable[[dict[str, Any]], nn.Module]]] = {
    F.conv1d: (_CONVOLUTION_NAMES, _convolution),
    F.conv2d: (_CONVOLUTION_NAMES, _convolution),
    F.linear: (("input", "weight", "bias"), _linear),
    F.batch_norm: (
        ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps"),
        _batch_norm,
    ),
}


def become_module(
    traced: torch.fx.GraphModule, node: torch.fx.Node, module: nn.Module, inputs: tuple[Any, ...] | None = None
) -> None:
    """Let ``node`` call a fresh submodule, on ``inputs`` or on its own first input, instead of what it calls."""
    name = f"canonical_{node.name}"
    traced.add_submodule(name, module.eval())
    source = node.kwargs["input"] if "input" in node.kwargs else node.args[0]
    node.op, node.target = "call_module", name
    node.args, node.kwargs = ((source,) if inputs is None else inputs), {}


def remove(node: torch.fx.Node) -> None:
    """Take a node that passes its first input on out of the graph."""
    node.replace_all_uses_with(node.args[0])  # type: ignore[arg-type]
    node.graph.erase_node(node)


def fixed_nodes(traced: torch.fx.GraphModule) -> set[torch.fx.Node]:
    """Return the nodes that do not depend on the images' values: constants, shapes, and what is made of these."""
    fixed: set[torch.fx.Node] = set()
    for node in traced.graph.nodes:
        sources = node.all_input_nodes
        is_shape = node.target in ("size", "dim") or (node.target is getattr and node.args[1] in _ABOUT)
        if node.op == "get_attr" or is_shape or (sources and all(part in fixed for part in sources)):
            fixed.add(node)
    return fixed


def refuse(method: str, node: torch.fx.Node, what: str, why: str) -> AttributionError:
    """Build the error for an operation that a method has no rule for."""
    stack = node.meta.get("nn_module_stack") or {}
    inside = next(reversed(stack.values()))[0] if stack else ""
    layer = str(node.target) if node.op == "call_module" else inside or node.name
    return AttributionError(f"{method!r}: layer {layer!r} ({what}) {why}. {ALTERNATIVES}")
