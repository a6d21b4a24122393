"""Guided backpropagation and its ensembles (Springenberg et al. 2015).

A ReLU is found where it cannot hide: in autograd's own graph of the forward pass. Whether it was a module, reused, in
place, a function or ``clamp(min=0)``, its node lets only positive gradients in. The model is not hooked or changed.
Where a graph hides operations (TorchScript, torch.compile, custom functions) or a gate cannot be told from other
arithmetic (``torch.where``, a product with a boolean mask), the method refuses; so it does where no ReLU is found.
On networks of ReLU modules it equals captum's GuidedBackprop.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import torch

from roadworthy.attribution.base import Block, Job, input_gradients
from roadworthy.attribution.ensemble import ONE, Path, ensemble, register_family
from roadworthy.errors import AttributionError

_OTHER = re.compile(
    "^(Gelu|Silu|Mish|Elu|Celu|LeakyRelu|PreluKernel|RreluWithNoise|Hardswish|Hardsigmoid|Sigmoid|Tanh|Softplus|"
    "LogSigmoid|Softshrink|Hardshrink|Glu|Hardtanh|Threshold|Clamp|Softmax|ScaledDotProduct.*)$"
)
_ALTERNATIVES = "Use 'grad', 'ig' or 'gradient-shap' instead."


class Guide:
    """Turns plain gradients into guided ones, and keeps count of the activations it met."""

    def __init__(self, model: Callable[..., Any]) -> None:
        self.model = model
        self.relus = 0
        self.others: Counter[str] = Counter()

    def __call__(self, job: Job, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Differentiate with every ReLU guided."""
        return input_gradients(job, images, targets, prepare_graph=self.prepare)

    def prepare(self, logits: torch.Tensor) -> None:
        """Put the rule on every ReLU node of the graph that ends in ``logits``.

        Raises:
            AttributionError: a part of the graph is hidden, or there is no ReLU in it.
        """
        refuse_compiled(self.model, "guided backpropagation")
        relus, others = 0, Counter[str]()
        for node in graph_nodes(logits):
            name = operation(node)
            _refuse_hidden(node, name)
            if _is_relu(node, name):
                node.register_prehook(_positive_only)
                relus += 1
            elif _OTHER.match(name):
                others[name] += 1
        self.relus, self.others = relus, others
        if not relus:
            raise AttributionError(
                "guided backpropagation: no ReLU runs in this model; its nonlinear operations are "
                f"{_listing(others)}{_activation_modules(self.model)}. Without a ReLU to guide, the map would be the "
                f"plain gradient. {_ALTERNATIVES}"
            )

    def notes(self) -> dict[str, Any]:
        """Return what a result should state: guided ReLUs, and activations that stay as they are."""
        return {"guided_relus": self.relus, "not_guided": dict(self.others)}


def graph_nodes(tensor: torch.Tensor) -> Iterator[Any]:
    """Yield every node of the autograd graph that ``tensor`` ends, each once."""
    waiting, seen = [tensor.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        yield node
        waiting.extend(parent for parent, _ in node.next_functions)


def operation(node: Any) -> str:
    """Return a node's operation without autograd's ending: ``ReluBackward0`` is ``Relu``."""
    return re.sub(r"Backward\d*$", "", node.name())


def refuse_compiled(model: Callable[..., Any], method: str) -> None:
    """Refuse models whose operations run where they cannot be seen, naming the part."""
    if not isinstance(model, torch.nn.Module):
        return
    for name, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "OptimizedModule":
            raise AttributionError(
                f"{method}: layer {name or '(the whole model)'!r} is a {type(module).__name__}, compiled code whose "
                f"operations cannot be seen. Pass the model from before compilation. {_ALTERNATIVES}"
            )


def _refuse_hidden(node: Any, name: str) -> None:
    compiled = any(part in node.name() for part in ("::jit::", "CppNode", "CompiledFunction"))
    if compiled or isinstance(node, torch.autograd.function.BackwardCFunction):
        raise AttributionError(
            f"guided backpropagation: the operation {node.name()!r} hides what it does (compiled code or a custom "
            f"autograd function), so a ReLU inside it could not be guided. {_ALTERNATIVES}"
        )
    if name == "Where" or (name == "Mul" and _has_boolean(node)):
        gate = "torch.where" if name == "Where" else "a product with a boolean mask"
        raise AttributionError(
            f"guided backpropagation: {gate} may be a ReLU in disguise and cannot be told from one; "
            f"write it as torch.relu. {_ALTERNATIVES}"
        )


def _has_boolean(node: Any) -> bool:
    for part in ("_saved_other", "_saved_self"):
        try:
            saved = getattr(node, part, None)
        except RuntimeError:  # overwritten in place, or freed
            continue
        if isinstance(saved, torch.Tensor) and saved.dtype == torch.bool:
            return True
    return False


def _is_relu(node: Any, name: str) -> bool:
    """Whether a node is max(x, 0), or ReLU6's min(max(x, 0), 6)."""
    if name == "Relu":
        return True
    if name == "Threshold":
        return float(node._saved_threshold) == 0
    if name == "ClampMin":
        return _is_zero(node._saved_min)
    if name in ("Clamp", "Hardtanh"):
        low, high = (getattr(node, key, None) for key in ("_saved_min", "_saved_max"))
        if name == "Hardtanh":
            low, high = node._saved_min_val, node._saved_max_val
        return _is_zero(low) and (high is None or float(high) == 6)
    if name == "Maximum":
        return any(_is_zero(getattr(node, part, None)) for part in ("_saved_other", "_saved_self"))
    return False


def _is_zero(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not bool(value.any())
    return value is not None and float(value) == 0


def _positive_only(gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    return tuple(None if gradient is None else gradient.clamp(min=0) for gradient in gradients)


def _listing(others: Counter[str]) -> str:
    return ", ".join(f"{name} ({count})" for name, count in sorted(others.items())) or "none that are known"


def _activation_modules(model: Callable[..., Any]) -> str:
    if not isinstance(model, torch.nn.Module):
        return ""
    found = [
        f"{name} ({type(module).__name__})"
        for name, module in model.named_modules()
        if type(module).__module__ == "torch.nn.modules.activation"
    ]
    return f" (layers {', '.join(found[:5])}{', ...' if len(found) > 5 else ''})" if found else ""


def guided(job: Job, members: Collection[str]) -> Block:
    """Compute ``gb`` and its ensembles; noted with them: the ReLUs guided, and activations that are not ReLUs."""
    settings = job.settings
    samples = settings.samples if settings.guided_samples is None else settings.guided_samples
    noise = settings.noise if settings.guided_noise is None else settings.guided_noise
    guide = Guide(job.model)
    block = ensemble(job, members, "gb", Path(ONE, ONE, None, samples, noise, guide))
    block.notes = {name: guide.notes() for name in members}
    return block


register_family("gb", guided, title="guided backpropagation")
