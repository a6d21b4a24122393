"""Noise on what layers inside a model return, such as the hidden states of a transformer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.errors import InputError, ModelError, did_you_mean, listed
from roadworthy.forward import module_of
from roadworthy.labelfree.perturbation.base import ModelPerturbation, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.rows import spread


@perturbations.register("hidden-noise", "Gaussian noise on the hidden states of a transformer, or on named layers")
@dataclass(frozen=True, eq=False)
class HiddenNoise(ModelPerturbation):
    """Add Gaussian noise to what layers return.

    Args:
        strength: standard deviation of the noise, relative to that of the values of each sample in the layer.
        layers: names as in ``model.named_modules()``; by default the blocks of a transformer: modules that have
            attention among their own parts.
    """

    name = "hidden-noise"
    unit = "standard deviations of the hidden states"
    strength: float = 0.1
    layers: tuple[str, ...] = ()

    @contextlib.contextmanager
    def during(self, model: Callable[..., Any], strength: torch.Tensor, draws: Draws) -> Iterator[None]:
        """Put hooks on the layers, and take them off afterwards."""
        chosen = self._find(model)
        hooks = []
        fast = torch.backends.mha.get_fastpath_enabled()  # it works on nested tensors, to which no noise can be added
        before = draws.used
        try:
            torch.backends.mha.set_fastpath_enabled(False)
            for layer in chosen.values():
                hooks.append(layer.register_forward_hook(_adder(strength, draws)))
            yield
            if draws.used == before:
                raise ModelError(f"hidden-noise: none of the layers {listed(chosen)} was called; name others")
        finally:
            for hook in hooks:
                hook.remove()
            torch.backends.mha.set_fastpath_enabled(fast)

    def _find(self, model: Callable[..., Any]) -> dict[str, torch.nn.Module]:
        module = module_of(model)
        if module is None:
            raise InputError(f"hidden-noise: the model is a {type(model).__name__}; pass a torch.nn.Module")
        known = dict(module.named_modules())
        if self.layers:
            unknown = [name for name in self.layers if name not in known]
            if unknown:
                raise InputError(
                    f"hidden-noise: the model has no layer {unknown[0]!r}.{did_you_mean(unknown[0], known)} "
                    f"Layers: {listed([name for name in known if name])}"
                )
            return {name: known[name] for name in self.layers}
        blocks: dict[str, torch.nn.Module] = {}
        for name, part in known.items():
            inside = any(name.startswith(f"{outer}.") for outer in blocks)
            if name and not inside and any("attention" in type(child).__name__.lower() for child in part.children()):
                blocks[name] = part
        if not blocks:
            raise InputError(
                "hidden-noise: no part of the model looks like a block of a transformer; pass "
                f"HiddenNoise(layers=(...)). Layers: {listed([name for name in known if name])}"
            )
        return blocks


def _adder(strength: torch.Tensor, draws: Draws) -> Callable[..., Any]:
    def hook(layer: torch.nn.Module, inputs: Any, returned: Any) -> Any:
        if isinstance(returned, tuple) and returned and isinstance(returned[0], torch.Tensor):
            return (_noisy(returned[0], strength, draws), *returned[1:])
        if not isinstance(returned, torch.Tensor):
            raise ModelError(
                f"hidden-noise: a {type(layer).__name__} returned {type(returned).__name__}, expected a tensor or a "
                "tuple that starts with one; name other layers"
            )
        return _noisy(returned, strength, draws)

    return hook


def _noisy(values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
    n, shape = len(strength), tuple(values.shape)
    noise = spread("normal", shape, draws).to(values.device, values.dtype)
    axis = next((axis for axis, length in enumerate(shape) if length == n), None)
    if axis is None:
        raise ModelError(f"hidden-noise: a layer returned shape {shape}, of which no axis holds the {n} samples")
    others = tuple(a for a in range(len(shape)) if a != axis)
    sd = values.std(dim=others, keepdim=True, correction=0) if others else torch.ones_like(values)
    return values + noise * sd * strength.to(values.device, values.dtype).view(
        [n if a == axis else 1 for a in range(len(shape))]
    )
