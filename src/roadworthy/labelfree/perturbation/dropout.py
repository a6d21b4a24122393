"""Dropout at the time of prediction (MC dropout, Gal and Ghahramani 2016), of every kind, wherever it is written."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from roadworthy.errors import InputError
from roadworthy.forward import module_of
from roadworthy.labelfree.perturbation.base import ModelPerturbation, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.rows import spread


@perturbations.register("dropout", "the model's own dropout switched on, all else as in evaluation")
@dataclass(frozen=True, eq=False)
class Dropout(ModelPerturbation):
    """Switch on all dropout of a model for a pass.

    Every module is told that it is in training, but those with running statistics (batch normalisation) and RReLU. So
    dropout that is written as a function of ``self.training``, in attention, or between the layers of a recurrent
    network works too; switching dropout layers alone would miss these. What the model draws is replaced by draws from
    each sample's own stream. The rate is the model's own.
    """

    name = "dropout"

    @contextlib.contextmanager
    def during(self, model: Callable[..., Any], strength: torch.Tensor, draws: Draws) -> Iterator[None]:
        """Switch dropout on, and all flags back afterwards."""
        module = module_of(model)
        if module is None:
            raise InputError(
                f"dropout: the model is a {type(model).__name__}, whose dropout cannot be switched; pass a "
                "torch.nn.Module, or use another perturbation"
            )
        flags = [(part, part.training) for part in module.modules()]
        try:
            for part, _ in flags:
                part.training = not _stays_in_evaluation(part)
            with _OwnStreams(draws):
                yield
        finally:
            for part, training in flags:
                part.training = training


def _stays_in_evaluation(part: torch.nn.Module) -> bool:
    names = [name for name, _ in part.named_buffers(recurse=False)]
    keeps_statistics = any(name.startswith("running_") or name == "num_batches_tracked" for name in names)
    return keeps_statistics or isinstance(part, (torch.nn.modules.batchnorm._NormBase, torch.nn.RReLU))


class _OwnStreams(TorchDispatchMode):
    """Answers the random operations of dropout from the samples' own streams."""

    def __init__(self, draws: Draws) -> None:
        super().__init__()
        self.draws = draws

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        aten = torch.ops.aten
        if func is aten.bernoulli_.float:
            keep = args[1] if len(args) > 1 else (kwargs or {}).get("p", 0.5)
            return args[0].copy_(self._kept(args[0], keep))
        if func is aten.native_dropout.default and (len(args) < 3 or args[2] is not False):
            values, rate = args[0], args[1]
            kept = self._kept(values, 1 - rate)
            return values * kept.to(values.dtype) / (1 - rate if rate < 1 else 1), kept
        return func(*args, **(kwargs or {}))

    def _kept(self, like: torch.Tensor, keep: float) -> torch.Tensor:
        return (spread("uniform", tuple(like.shape), self.draws) < keep).to(like.device)
