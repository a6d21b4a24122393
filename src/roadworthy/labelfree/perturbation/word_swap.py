"""Pairs of words that change places."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.base import perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.words import WordPerturbation, how_many, in_random_order


@perturbations.register("word-swap", "some words change places with others")
@dataclass(frozen=True, eq=False)
class WordSwap(WordPerturbation):
    """Swap random pairs of words.

    Args:
        strength: share of the words that move, at least one pair.
    """

    name = "word-swap"
    unit = "share of the words"
    strength: float = 0.1

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Swap the drawn pairs."""
        words = self.words(values)
        order = in_random_order(words, draws.uniform(values.shape[1]))
        pairs = (how_many(strength, words) + 1) // 2
        pairs = torch.minimum(pairs, words.sum(1) // 2)
        even = order[:, 0 : order.shape[1] // 2 * 2 : 2]
        odd = order[:, 1::2]
        moves = torch.arange(odd.shape[1])[None] < pairs[:, None]
        source = torch.arange(values.shape[1]).repeat(len(values), 1)
        source.scatter_(1, even, torch.where(moves, odd, even))
        source.scatter_(1, odd, torch.where(moves, even, odd))
        return values.gather(1, source)
