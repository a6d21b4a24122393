"""Types that several stages share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import torch

    Seed: TypeAlias = int | np.random.Generator | torch.Generator
    Ids: TypeAlias = Sequence[str]
    Normalize: TypeAlias = tuple[Sequence[float], Sequence[float]]
    Output: TypeAlias = int | str | Callable[[Any], torch.Tensor] | None
else:
    Seed = Ids = Normalize = Output = Any

Order = Literal["morf", "lerf"]
Sign = Literal["signed", "abs", "positive", "squared"]
Reduction = Literal["sum", "abs-sum", "max-abs", "l2", "mean"]
Unit = Literal["pixel", "channel"]
Layout = Literal["NCHW", "NHWC"]


class Progress(Protocol):
    """What long loops report to: called with the number of items just finished."""

    def __call__(self, done: int, /) -> None:
        """Report ``done`` more items."""
        ...
