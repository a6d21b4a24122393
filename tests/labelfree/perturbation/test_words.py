from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.labelfree.asking import model_facts
from roadworthy.labelfree.perturbation import (
    Draws,
    Facts,
    InputPerturbation,
    WordDeletion,
    WordNeighbours,
    WordShuffle,
    WordSwap,
)

VECTORS = torch.randn(60, 8, generator=torch.Generator().manual_seed(0))
FACTS = Facts(vectors=VECTORS, pad=0, special=(1, 2), mask=3)
KINDS = [WordNeighbours, WordDeletion, WordSwap, WordShuffle]


def draws(n: int, seed: int = 0) -> Draws:
    return Draws(seed, "test", [str(row) for row in range(n)])


@st.composite
def texts(draw: st.DrawFn) -> torch.Tensor:
    """Texts of different lengths with a begin (1), an end (2) and padding (0); a text may hold no word."""
    lengths = draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    rows = torch.zeros(len(lengths), 11, dtype=torch.long)
    for row, length in enumerate(lengths):
        words = draw(st.lists(st.integers(4, 59), min_size=length, max_size=length))
        rows[row, : length + 2] = torch.tensor([1, *words, 2])
    return rows


@settings(max_examples=40, deadline=None)
@given(ids=texts(), share=st.sampled_from([0.0, 0.1, 0.5, 1.0]), seed=st.integers(0, 5))
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_special_tokens_stay_and_as_many_words_change_as_asked(
    kind: type[InputPerturbation], ids: torch.Tensor, share: float, seed: int
) -> None:
    kept = ids.clone()
    found = kind().fitted(FACTS).disturb(ids, torch.full((len(ids),), share), draws(len(ids), seed))
    assert torch.equal(ids, kept)
    special = ids <= 2
    assert torch.equal(found[special], ids[special])
    length = (~special).sum(1)
    changed = (found != ids).sum(1)
    if share == 0:
        assert torch.equal(found, ids)
    wanted = ((share * length).round().clamp(min=1) if share else 0 * length).minimum(length)
    if kind is WordDeletion:
        assert torch.equal(changed, wanted.long())
        assert bool((found[found != ids] == 3).all())
    elif kind is WordNeighbours:
        assert torch.equal(changed, wanted.long())  # a neighbour is never the word itself
    else:  # the same words in another order
        assert torch.equal(found.sort(1).values, ids.sort(1).values)


def test_neighbours_are_the_nearest_by_cosine() -> None:
    ids = torch.arange(4, 60).reshape(14, 4)
    found = WordNeighbours(neighbours=3).fitted(FACTS).disturb(ids, torch.ones(14), draws(14))
    unit = VECTORS.numpy() / np.linalg.norm(VECTORS.numpy(), axis=1, keepdims=True)
    near = unit @ unit.T
    near[:, :3] = -9  # special tokens
    np.fill_diagonal(near, -9)
    best = np.argsort(-near, axis=1)[:, :3]
    seen = set()
    for word, put in zip(ids.flatten().tolist(), found.flatten().tolist(), strict=True):
        assert put in best[word]
        seen.add(best[word].tolist().index(put))
    assert seen == {0, 1, 2}


def test_swapped_words_change_places_in_pairs() -> None:
    ids = torch.arange(4, 24)[None].repeat(50, 1)
    found = WordSwap(special=(0,)).disturb(ids, torch.full((50,), 0.1), draws(50))
    assert (found != ids).sum(1).tolist() == [2] * 50  # a tenth of twenty
    assert len({tuple(row) for row in found.tolist()}) > 20
    everything = WordSwap(special=(0,)).disturb(ids, torch.ones(50), draws(50))
    assert (everything != ids).sum(1).tolist() == [20] * 50


@pytest.mark.parametrize("far", [1, 2, 5])
def test_no_word_is_shuffled_further_than_asked(far: int) -> None:
    ids = torch.arange(4, 34)[None].repeat(80, 1)
    found = WordShuffle(special=(0,)).disturb(ids, torch.full((80,), float(far)), draws(80))
    moved = (found.argsort(1) - torch.arange(30)[None]).abs()
    assert int(moved.max()) == far
    assert float((moved > 0).float().mean()) > 0.2


def test_what_is_open_comes_from_the_model() -> None:
    fitted = WordDeletion().fitted(FACTS)
    assert (fitted.mask, fitted.pad, fitted.special) == (3, 0, (0, 1, 2))
    assert WordDeletion(mask=7).fitted(FACTS).mask == 7
    assert WordDeletion().fitted(Facts(pad=0)).mask == 0
    assert WordSwap(pad=5, special=(8,)).fitted(FACTS).special == (5, 8)


class Told(torch.nn.Module):
    """Says of itself what transformers say: special ids in a config, a small table of places beside that of words."""

    def __init__(self) -> None:
        super().__init__()
        self.places, self.table = torch.nn.Embedding(12, 4), torch.nn.Embedding(60, 4, padding_idx=9)
        self.config = SimpleNamespace(
            pad_token_id=0, cls_token_id=1, sep_token_id=2, mask_token_id=3, eos_token_id=None
        )


def test_what_a_model_says_of_itself_is_taken() -> None:
    model = Told()
    facts = model_facts(model)
    assert (facts.pad, facts.mask, facts.special) == (0, 3, (0, 1, 2, 3))
    assert facts.vectors is not None
    assert torch.equal(facts.vectors, model.table.weight)
    del model.config
    facts = model_facts(model)
    assert (facts.pad, facts.mask, facts.special) == (9, None, ())
    assert model_facts(lambda x: x).vectors is None


def test_what_is_missing_or_wrong_is_named() -> None:
    with pytest.raises(InputError, match=r"no mask or padding token is known; pass WordDeletion\(mask=ID\)"):
        WordDeletion().fitted(Facts())
    with pytest.raises(InputError, match=r"no nn.Embedding.*vectors="):
        WordNeighbours().fitted(Facts())
    with pytest.raises(InputError, match=r"60 neighbours; expected .* from 1 to V - 1"):
        WordNeighbours(neighbours=60).fitted(FACTS)
    with pytest.raises(InputError, match=r"token id 99, but there are 60 vectors"):
        WordNeighbours().fitted(FACTS).disturb(torch.tensor([[99]]), torch.ones(1), draws(1))
    for kind in KINDS:
        with pytest.raises(InputError, match=r"expected token ids \(N, T\)"):
            kind().check(torch.rand(2, 3))
