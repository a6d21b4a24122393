"""Zennit's attributors and composites as methods: ``Gradient(net, EpsilonPlus())``, or ``EpsilonPlus()`` alone.

An attributor sees images in pixel units and the scores that are evaluated; its rules stay on the layers of the
network it was made for, and see what these layers see. Where rules share out relevance (LRP) it starts at the
target's score, as roadworthy's own LRP does, and passes a normalisation as it is; without such rules it is a
gradient, which starts at one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from roadworthy.attribution.base import Job
from roadworthy.attribution.outside import (
    Front,
    Outside,
    behind_normalization,
    check_takes_pixels,
    in_batches,
    is_a,
    is_class_of,
    is_part_of,
    undisturbed,
)
from roadworthy.errors import AttributionError, InputError
from roadworthy.forward import module_of, untouched

_ATTRIBUTOR = ("zennit.attribution", "Attributor")
_COMPOSITE = ("zennit.core", "Composite")


@dataclass(frozen=True)
class ZennitMethod(Outside):
    """An attributor, or a composite for the gradient."""

    given: Any

    @property
    def name(self) -> str:
        """The composite, or else the attributor."""
        return type(self.given if self.composite is None else self.composite).__name__

    @property
    def composite(self) -> Any:
        """The rules, or None."""
        return self.given if is_a(self.given, *_COMPOSITE) else self.given.composite

    def explain(self, job: Job, name: str) -> torch.Tensor:
        """Return the maps of a block."""
        from zennit.attribution import Gradient

        attributor = Gradient(job.model, self.given) if is_a(self.given, *_COMPOSITE) else copy.copy(self.given)
        network = attributor.model
        mine = is_part_of(job.model, network)
        if not mine:
            check_takes_pixels(job, network, f"{name!r} ({type(attributor).__name__})")
        with (
            untouched(network),
            undisturbed(network),
            _registered(self.composite, network, name) as relevance,
        ):
            if mine:
                entry = module_of(behind_normalization(network)) if relevance else None
                attributor.model = Front(job.classifier, None, entry)
            return in_batches(job, lambda images, targets: _ask(attributor, images, targets, relevance), name)


def recognise(source: Any, name: str) -> Outside | None:
    """Return the method that an attributor or composite stands for.

    Raises:
        InputError: a class in place of an object, or rules that are in force already.
    """
    for module, kind in (_ATTRIBUTOR, _COMPOSITE):
        if is_class_of(source, module, kind):
            example = f"{source.__name__}(model, composite)" if kind == "Attributor" else f"{source.__name__}()"
            raise InputError(f"methods: {name!r} is the class {source.__name__}; pass an object: {example}")
    return ZennitMethod(source) if is_a(source, *_ATTRIBUTOR) or is_a(source, *_COMPOSITE) else None


def _ask(attributor: Any, images: torch.Tensor, targets: torch.Tensor, relevance: bool) -> Any:
    from zennit.attribution import Gradient, identity

    start: Callable[[torch.Tensor], torch.Tensor] | None = None
    if attributor.attr_output_fn is identity:  # none was given

        def start(scores: torch.Tensor) -> torch.Tensor:
            chosen = torch.nn.functional.one_hot(targets, scores.shape[1]).to(scores)
            return chosen if isinstance(attributor, Gradient) and not relevance else chosen * scores

    return attributor(images, start)[1]


@contextmanager
def _registered(composite: Any, network: Any, name: str) -> Iterator[bool]:
    """Put the rules of a composite on a network for a while; yield whether they share out relevance.

    Raises:
        AttributionError: rules without layers to put them on, or that are in force already.
    """
    from zennit.core import BasicHook

    if composite is None:
        yield False
        return
    kind = type(composite).__name__
    if composite.handles:
        raise AttributionError(
            f"{name!r}: {kind} is registered on a network already, inside a with block; call this outside of it"
        )
    if not isinstance(network, torch.nn.Module):
        raise AttributionError(
            f"{name!r}: {kind} puts rules on the layers of a torch.nn.Module; the model is a "
            f"{type(network).__name__}. Use 'occlusion' or 'ig' instead."
        )
    try:
        try:
            composite.register(network)
        except Exception as error:
            raise AttributionError(
                f"{name!r}: {kind} does not fit the model: {type(error).__name__}: {error}"
            ) from error
        rules = list(composite.hook_refs)
        if not rules:
            layers = sorted({type(layer).__name__ for layer in network.modules() if not list(layer.children())})
            raise AttributionError(
                f"{name!r}: {kind} has no rule for any layer of the model ({', '.join(layers[:10])}), so its map "
                "would be the plain gradient. Use 'grad', 'ig' or 'occlusion' instead."
            )
        yield any(isinstance(rule, BasicHook) for rule in rules)
    finally:
        composite.remove()
