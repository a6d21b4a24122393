"""What the perturbations of token ids share: which positions hold words, and how many of them change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import Facts, InputPerturbation


@dataclass(frozen=True, eq=False, kw_only=True)
class WordPerturbation(InputPerturbation):
    """A perturbation of token ids (N, T) that leaves special tokens alone.

    Args:
        pad: the id of padding; by default what the model says of itself (its ``config`` or its embedding).
        special: ids that are never touched, such as those of begin, end and separator; the padding always counts
            among them. By default what the model's ``config`` names.
    """

    pad: int | None = None
    special: tuple[int, ...] = ()

    def check(self, values: torch.Tensor) -> None:
        """Refuse all but token ids."""
        if values.is_floating_point() or values.dtype == torch.bool or values.ndim != 2:
            raise InputError(
                f"{self.name}: got {values.dtype} values of shape {tuple(values.shape)}, expected token ids (N, T), "
                "whole numbers; for other data use gaussian"
            )

    def fitted(self, facts: Facts) -> Self:
        """Take padding and special ids from the model where they were left open."""
        pad = facts.pad if self.pad is None else self.pad
        special = set(self.special or facts.special) | (set() if pad is None else {pad})
        return replace(self, pad=pad, special=tuple(sorted(special)))

    def words(self, ids: torch.Tensor) -> torch.Tensor:
        """Tell which positions hold words, bool (N, T)."""
        if not self.special:
            return torch.ones_like(ids, dtype=torch.bool)
        return ~torch.isin(ids, torch.tensor(self.special, dtype=ids.dtype, device=ids.device))


def how_many(share: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """Return how many words are a share of each text: at least one unless the share is 0, int64 (N,)."""
    length = words.sum(1)
    wanted = (share.clamp(0, 1) * length).round().long().clamp(min=1)
    return torch.where(share > 0, torch.minimum(wanted, length), 0)


def in_random_order(words: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Return the positions of each text (N, T) in the order of their random keys, words before the rest."""
    return keys.masked_fill(~words, float("inf")).argsort(1)


def chosen(words: torch.Tensor, keys: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Choose ``count`` (N,) words of each text by their random keys, bool (N, T)."""
    first = torch.arange(words.shape[1])[None] < count[:, None]
    return torch.zeros_like(words).scatter(1, in_random_order(words, keys), first)
