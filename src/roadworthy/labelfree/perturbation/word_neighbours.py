"""Words replaced by words of near meaning: neighbours by the cosine of their vectors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation.base import Facts, perturbations
from roadworthy.labelfree.perturbation.draws import Draws
from roadworthy.labelfree.perturbation.words import WordPerturbation, chosen, how_many


@perturbations.register("word-neighbours", "some words replaced by near ones, by word vectors")
@dataclass(frozen=True, eq=False)
class WordNeighbours(WordPerturbation):
    """Replace a share of the words, each by one of its nearest neighbours.

    Args:
        strength: share of the words that are replaced, at least one.
        vectors: (V, D), a vector for every token id; by default the model's own embedding table.
        neighbours: how many of the nearest are drawn from; special tokens are none.
    """

    name = "word-neighbours"
    unit = "share of the words"
    strength: float = 0.1
    vectors: Any = None
    neighbours: int = 5

    def fitted(self, facts: Facts) -> Self:
        """Take vectors from the model where none were given, and bring them to length 1."""
        vectors = facts.vectors if self.vectors is None else torch.as_tensor(self.vectors)
        if vectors is None:
            raise InputError(
                "word-neighbours: the model has no nn.Embedding to take word vectors from; pass "
                "WordNeighbours(vectors=...), an array (V, D) with a row for every token id"
            )
        others = len(vectors) - 1
        if vectors.ndim != 2 or not 1 <= self.neighbours <= others:
            raise InputError(
                f"word-neighbours: vectors {tuple(vectors.shape)} and {self.neighbours} neighbours; expected (V, D) "
                f"and from 1 to V - 1 neighbours"
            )
        whole = torch.nn.functional.normalize(vectors.detach().float().cpu(), dim=1)
        return replace(super().fitted(facts), vectors=whole)

    def disturb(self, values: torch.Tensor, strength: torch.Tensor, draws: Draws) -> torch.Tensor:
        """Replace the drawn words."""
        words = self.words(values)
        picks = chosen(words, draws.uniform(values.shape[1]), how_many(strength, words))
        which = (draws.uniform(values.shape[1]) * self.neighbours).long()
        out = values.clone()
        if bool(picks.any()):
            ids, places = values[picks].unique(return_inverse=True)
            out[picks] = self._nearest(ids)[places, which[picks]].to(out.dtype)
        return out

    def _nearest(self, ids: torch.Tensor) -> torch.Tensor:
        vectors: torch.Tensor = self.vectors
        if int(ids.max()) >= len(vectors) or int(ids.min()) < 0:
            raise InputError(f"word-neighbours: token id {int(ids.max())}, but there are {len(vectors)} vectors")
        near = vectors[ids] @ vectors.T
        near[torch.arange(len(ids)), ids] = -2  # below every cosine
        near[:, [special for special in self.special if special < len(vectors)]] = -2
        return near.topk(self.neighbours, dim=1).indices
