"""A user's function as an imputer: what it returns is checked, and what it must not touch is protected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.imputer import Imputer
from roadworthy.imputation.operator import over_channels


class FunctionImputer(Imputer):
    """Fill with what a function returns.

    The function gets copies, so the caller's arrays stay as they are, and only removed units are taken from its
    result, so kept units are bit-equal whatever it does to them.

    Args:
        function: ``(images, removed, generator) -> images``; a tensor or array of the images' shape.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__name__", type(function).__name__)

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Accept everything: what has a meaning is the function's to say."""

    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Call the function and check its result; see :meth:`Imputer.fill`."""
        mask = over_channels(images, removed)
        returned = self.function(images.detach().clone(), removed.clone(), generator)
        try:
            result = torch.as_tensor(returned, device=images.device).detach()
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(
                f"imputer {self.name}: returned {type(returned).__name__}, expected images of shape "
                f"{tuple(images.shape)}"
            ) from error
        if result.shape != images.shape:
            raise InputError(
                f"imputer {self.name}: returned shape {tuple(result.shape)}, expected the images' "
                f"{tuple(images.shape)}"
            )
        if result.is_floating_point() != images.is_floating_point() or result.is_complex():
            raise InputError(f"imputer {self.name}: returned {result.dtype}, expected the images' {images.dtype}")
        filled = torch.where(mask, result.to(images.dtype), images)
        bad = (~filled.isfinite() & mask).flatten(1).any(1).nonzero().flatten().tolist()
        if bad:
            raise InputError(f"imputer {self.name}: returned NaN or infinite values in images {bad[:10]}")
        return filled

    def settings(self) -> dict[str, Any]:
        """Return the function's name."""
        return {"name": self.name, "callable": True}
