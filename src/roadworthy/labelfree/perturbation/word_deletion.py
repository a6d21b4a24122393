"""Words taken out: their place is held by the mask token or by padding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import Facts, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.words import WordPerturbation, chosen, how_many


@perturbations.register("word-deletion", "some words replaced by the mask or padding token")
@dataclass(frozen=True, eq=False)
class WordDeletion(WordPerturbation):
    """Replace a share of the words by the mask token, or by padding where there is none.

    The length stays, so that attention masks still fit.

    Args:
        strength: share of the words that go, at least one.
        mask: the id that stands in their place; by default the model's mask token, else its padding.
    """

    name = "word-deletion"
    unit = "share of the words"
    strength: float = 0.1
    mask: int | None = None

    def fitted(self, facts: Facts) -> Self:
        """Find the id to put in."""
        whole = super().fitted(facts)
        known = [token for token in (self.mask, facts.mask, whole.pad) if token is not None]
        if not known:
            raise InputError("word-deletion: no mask or padding token is known; pass WordDeletion(mask=ID)")
        return replace(whole, mask=known[0])

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Put the mask in place of the drawn words."""
        words = self.words(values)
        gone = chosen(words, draws.uniform(values.shape[1]), how_many(strength, words))
        return values.masked_fill(gone, self.mask)  # type: ignore[arg-type]
