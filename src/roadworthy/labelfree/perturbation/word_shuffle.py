"""The order of words lightly shuffled: no word goes far."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from roadworthy.labelfree.perturbation.base import perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.words import WordPerturbation


@perturbations.register("word-shuffle", "the order of words lightly shuffled")
@dataclass(frozen=True, eq=False)
class WordShuffle(WordPerturbation):
    """Sort words by their place plus a random number from [0, strength + 1), so that none goes far.

    No word moves more than ``strength`` places. Special tokens keep their places; places are counted over words
    alone.

    Args:
        strength: how many places a word can move.
    """

    name = "word-shuffle"
    unit = "places"
    strength: float = 2.0

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Shuffle each text."""
        words = self.words(values)
        far = words.shape[1] + float(strength.max()) + 2
        place = torch.arange(words.shape[1], dtype=torch.float32)[None].expand(words.shape)
        rank = words.cumsum(1) - 1
        jitter = draws.uniform(words.shape[1]) * (strength[:, None] + 1)
        keys = (rank + torch.where((strength > 0)[:, None], jitter, 0)).masked_fill(~words, far)
        # the n-th word in the new order goes to where the n-th word stood
        taken_from = keys.argsort(dim=1, stable=True)
        goes_to = place.masked_fill(~words, far).argsort(dim=1, stable=True)
        source = torch.arange(words.shape[1]).repeat(len(words), 1)
        within = torch.arange(words.shape[1])[None] < words.sum(1, keepdim=True)
        source.scatter_(1, goes_to, torch.where(within, taken_from, goes_to))
        return values.gather(1, source)
