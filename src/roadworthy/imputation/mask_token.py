"""Mask token: removed token ids become the id that the tokenizer keeps for "nothing here"."""

from __future__ import annotations

from typing import Any

import torch

from roadworthy.errors import InputError
from roadworthy.imputation.imputer import Imputer
from roadworthy.imputation.operator import over_channels


class MaskToken(Imputer):
    """Replace removed tokens by one id.

    Args:
        id: the mask (or padding, or unknown) id of the tokenizer.

    Example:
        >>> tokens, removed = torch.tensor([[5, 6, 7]]), torch.tensor([[False, True, False]])
        >>> MaskToken(103).fill(tokens, removed).tolist()
        [[5, 103, 7]]
    """

    name = "mask-token"

    def __init__(self, id: int) -> None:
        if isinstance(id, bool) or not isinstance(id, int) or id < 0:
            raise InputError(f"MaskToken: id is {id!r}, expected a token id, an integer of at least 0")
        self.id = id

    def check(self, shape: tuple[int, ...], unit: str) -> None:
        """Refuse what is not (N, T)."""
        if len(shape) != 2:
            raise InputError(
                f"MaskToken: input has shape {tuple(shape)}, expected token ids (N, T); images take a named imputer"
            )

    def fill(
        self,
        images: torch.Tensor,
        removed: torch.Tensor,
        *,
        mean: torch.Tensor | None = None,
        previous: torch.Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> torch.Tensor:
        """Replace removed ids; see :meth:`Imputer.fill`. Raises InputError on floating input."""
        self.check(tuple(images.shape), "pixel")
        if images.is_floating_point() or images.dtype == torch.bool:
            raise InputError(f"MaskToken: got {images.dtype}, expected integer token ids (N, T)")
        return images.masked_fill(over_channels(images, removed), self.id)

    def settings(self) -> dict[str, Any]:
        """Return name and id."""
        return {"name": self.name, "id": self.id}
