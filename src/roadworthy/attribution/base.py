"""What a family of attribution methods is given, what it returns, and the table of their names."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.attribution.names import ELSEWHERE
from roadworthy.attribution.settings import Resolved, Settings
from roadworthy.errors import AttributionError, ModelError
from roadworthy.forward import Classifier
from roadworthy.registry import Registry

Kind = Literal["images", "series", "tables", "tokens"]

SHAPES: dict[Kind, str] = {"images": "(N,C,H,W)", "series": "(N,C,T)", "tables": "(N,F)", "tokens": "(N,T)"}


Reduce = Callable[[np.ndarray], np.ndarray]


def channel_sum(maps: np.ndarray) -> np.ndarray:
    """Sum maps (n, c, ...) over their channels."""
    summed: np.ndarray = maps.sum(axis=1)
    return summed


@dataclass(frozen=True)
class Job:
    """A block of samples to explain.

    Attributes:
        model: the caller's own model.
        classifier: the same from pixel units to logits.
        images: float32 (n, C, H, W), (n, C, T) or (n, F), or int64 (n, T), in pixel units, on the model's device.
        targets: int64 (n,), the class that each sample is explained for.
        logits: float32 (n, K) of the images.
        ids: n sample ids, which key every random draw.
        seed: the run's seed.
        values: resolved settings.
        cache: kept for all blocks of this shape, for what is found out once (a traced copy, a layer).
        reduce: brings maps (n, c, ...) of a layer to (n, ...).
    """

    model: Callable[..., Any]
    classifier: Classifier
    images: torch.Tensor
    targets: torch.Tensor
    logits: torch.Tensor
    ids: list[str]
    seed: int
    values: Resolved
    cache: dict[str, Any] = field(default_factory=dict)
    reduce: Reduce = channel_sum

    @property
    def settings(self) -> Settings:
        """The settings as given."""
        return self.values.settings

    @property
    def kind(self) -> Kind:
        """What the samples are, told from the shape."""
        return kind_of(self.images)

    @property
    def scores(self) -> torch.Tensor:
        """The target's logit of each sample, (n,)."""
        return self.logits.gather(1, self.targets.to(self.logits.device)[:, None])[:, 0]


def kind_of(images: torch.Tensor) -> Kind:
    """Tell images, series, tables and token ids apart by shape and dtype."""
    if images.ndim == 2:
        return "tables" if images.is_floating_point() else "tokens"
    return "images" if images.ndim == 4 else "series"


@dataclass
class Block:
    """What a family returns for a job.

    Attributes:
        maps: for each member asked for, float (n, C, H, W) or (n, H, W), or the like for other kinds.
        per_sample: for a member, further numbers per sample, each (n,).
        notes: for a member, what a result should state, as JSON types.
    """

    maps: dict[str, np.ndarray | torch.Tensor]
    per_sample: dict[str, dict[str, np.ndarray]] = field(default_factory=dict)
    notes: dict[str, dict[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True)
class Family:
    """Methods that share their computation.

    Attributes:
        name: as messages and info name it.
        compute: ``compute(job, members)`` returns a :class:`Block` with a map for each of ``members``.
        kinds: what it has a meaning for.
        reason: why not for the others, and what to use there.
        cost: forward passes for one sample and these members, about; so that parts take seconds, not minutes.
    """

    name: str
    compute: Callable[[Job, Collection[str]], Block]
    kinds: frozenset[Kind] = frozenset(("images", "series", "tables"))
    reason: str = "it needs gradients with respect to real numbers; use 'random' or 'constant', or pass a callable"
    cost: Callable[[Settings, Collection[str]], int] = lambda settings, members: 1

    def check(self, kind: Kind, method: str) -> None:
        """Refuse a kind of input that the method has no meaning for."""
        if kind not in self.kinds:
            raise AttributionError(f"{method!r} has no meaning for {kind} {SHAPES[kind]}: {self.reason}")


methods: Registry[Family] = Registry("attribution method", elsewhere=ELSEWHERE)


def input_gradients(
    job: Job,
    images: torch.Tensor,
    targets: torch.Tensor,
    *,
    prepare_graph: Callable[[torch.Tensor], None] | None = None,
) -> torch.Tensor:
    """Differentiate each image's target logit with respect to the image, in pixel units.

    Args:
        job: whose classifier is asked.
        images: (b, ...), at most ``max_batch`` of them.
        targets: int64 (b,).
        prepare_graph: called with the logits before the backward pass.

    Returns:
        A tensor of the images' shape.

    Raises:
        AttributionError: the logits do not depend on the images in a way that autograd can follow.
    """
    with torch.enable_grad():
        leaf = images.detach().requires_grad_()
        logits = job.classifier.forward(leaf)
        if not logits.requires_grad:
            raise _no_gradient()
        if prepare_graph is not None:
            prepare_graph(logits)
        total = logits.gather(1, targets.to(logits.device)[:, None]).sum()
        try:
            (gradient,) = torch.autograd.grad(total, leaf, allow_unused=True)
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"The backward pass ran out of memory on a batch {tuple(images.shape)}; pass a smaller max_batch "
                f"(it is {job.classifier.max_batch})"
            ) from error
    if gradient is None:
        raise _no_gradient()
    return gradient.detach()


def _no_gradient() -> AttributionError:
    return AttributionError(
        "The model's scores carry no gradient with respect to the images (does its forward run under no_grad, detach "
        "them, or leave torch?). Methods that only ask for scores work: 'occlusion', 'kernel-shap', 'lime'."
    )
