"""Explain functions as Quantus calls them, on arrays: ``explain(model, inputs, targets, **kwargs)``.

They are told by the names of their parameters: ``inputs`` and ``targets``, and settings beside them. A function of
``(model, inputs, targets)`` alone is called with tensors, like any other callable.
"""

from __future__ import annotations

import functools
import inspect
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from roadworthy.attribution.base import Job
from roadworthy.attribution.outside import Front, Outside, in_batches
from roadworthy.errors import InputError

_THREE = ("model", "inputs", "targets")


@dataclass(frozen=True)
class QuantusMethod(Outside):
    """A function ``(model, inputs, targets, **kwargs)`` that takes and returns arrays."""

    given: Any

    @property
    def name(self) -> str:
        """The name of the function, or of the method that it is told to use."""
        function, settings = _unwrapped(self.given)
        chosen = settings.get("method")
        return chosen if isinstance(chosen, str) else getattr(function, "__name__", type(function).__name__)

    def explain(self, job: Job, name: str) -> torch.Tensor:
        """Return the maps of a block."""
        model = job.classifier.as_model(job.images[:1])
        if not isinstance(model, torch.nn.Module):
            model = Front(job.classifier, None)
        function, settings = _unwrapped(self.given)
        accepted = inspect.signature(function).parameters
        takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
        if "device" in accepted or takes_any:
            settings = {"device": str(job.classifier.device)} | settings

        def ask(images: torch.Tensor, targets: torch.Tensor) -> Any:
            # quantus writes into the settings that it hands on
            own = {key: dict(value) if isinstance(value, dict) else value for key, value in settings.items()}
            return function(model, images.cpu().numpy(), targets.cpu().numpy().astype(np.int64), **own)

        return in_batches(job, ask, name)


def recognise(source: Any, name: str) -> Outside | None:
    """Return the method that a function in the style of Quantus stands for.

    Raises:
        InputError: ``quantus.explain`` without the method that it shall use.
    """
    if not callable(source) or isinstance(source, type):
        return None
    function, settings = _unwrapped(source)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):  # of some built-in functions nothing is known
        return None
    if not {"inputs", "targets"} <= parameters.keys() or not parameters.keys() - set(_THREE):
        return None
    module = getattr(function, "__module__", None) or ""
    if module.partition(".")[0] == "quantus" and not settings.keys() & {"method", "attributor"}:
        raise InputError(
            f"methods: {name!r}: quantus.explain is told its method by keyword; pass "
            'functools.partial(quantus.explain, method="Saliency"), or attributor= for Zennit'
        )
    if getattr(source, "args", ()):
        raise InputError(f"methods: {name!r}: give the settings of {getattr(function, '__name__', name)} by keyword")
    return QuantusMethod(source)


def _unwrapped(source: Any) -> tuple[Any, dict[str, Any]]:
    """Return the function behind a partial, and what the partial gives it by keyword."""
    if isinstance(source, functools.partial):
        return source.func, dict(source.keywords)
    return source, {}
