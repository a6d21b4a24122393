"""Every sample once an epoch, in a seeded order, from memory and streamed; augmentation against a plain loop."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.model import Recipe
from roadworthy.model.feed import Feed
from roadworthy.records import Split
from roadworthy.rng import torch_generator

Make = Callable[..., Split]
RECIPE = Recipe(epochs=1, learning_rate=0.1, batch_size=8)


def numbered(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images that hold their own position, and it as their label."""
    return torch.arange(float(n)).view(n, 1, 1, 1).expand(n, 1, 2, 2), torch.arange(n)


class Numbered:
    """A plain object with batches, for data that is no Split."""

    def __init__(self, n: int) -> None:
        self.images, self.labels = numbered(n)

    def __len__(self) -> int:
        return len(self.labels)

    def batches(self, size: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        yield from zip(self.images.split(size), self.labels.split(size), strict=True)


def order(feed: Feed, recipe: Recipe = RECIPE, epoch: int = 0) -> list[int]:
    seen = []
    for images, labels in feed.epoch(recipe, torch_generator(0, "order", epoch)):
        if images.shape[1:] == (1, 2, 2):
            assert torch.equal(images[:, 0, 0, 0].long(), labels)
        seen += labels.tolist()
    return seen


@pytest.mark.parametrize("memory", [10**9, 1000, 0])
@pytest.mark.parametrize("n", [1, 8, 23, 600])
def test_each_sample_once_in_an_order_of_its_own_each_epoch(n: int, memory: int) -> None:
    recipe = Recipe(epochs=1, learning_rate=0.1, batch_size=7)
    for train in (numbered(n), Numbered(n)):
        feed = Feed(train, memory)
        first, again, second = order(feed, recipe), order(feed, recipe), order(feed, recipe, epoch=1)
        kept = n - (n > 1 and n % 7 == 1)  # a lone sample at the end is left out
        assert len(first) == len(set(first)) == kept
        assert first == again
        if n > 8:
            assert first != second
            assert first != sorted(first)


@pytest.mark.parametrize(("drop_last", "steps", "seen"), [(False, 3, 23), (True, 2, 16)])
def test_drop_last(drop_last: bool, steps: int, seen: int) -> None:
    recipe = Recipe(epochs=1, learning_rate=0.1, batch_size=8, drop_last=drop_last)
    feed = Feed(numbered(23), 10**9)
    assert recipe.timetable(len(feed)).steps == steps
    assert len(order(feed, recipe)) == seen
    wide = Recipe(epochs=1, learning_rate=0.1, batch_size=50, drop_last=True)
    assert wide.timetable(23).steps == 1


def test_a_split_is_held_where_it_fits_and_read_anew_where_not(make_split: Make) -> None:
    split = make_split(40, size=8)  # 40 x 64 pixels x 4 bytes = 10240
    assert Feed(split, 10_240).held is not None
    split = make_split(40, size=8)
    feed = Feed(split, 10_239)
    assert feed.held is None
    for epoch in range(2):
        order(feed, epoch=epoch)
    assert split.source.reads == 1 + 2 * 40  # type: ignore[attr-defined]


def test_a_streamed_split_is_shuffled_beyond_its_runs(make_split: Make) -> None:
    split = make_split(700, size=4)
    feed = Feed(split, 0)
    read: list[int] = []
    original = split.source.read
    split.source.read = lambda index: (read.append(index), original(index))[1]  # type: ignore[method-assign]
    order(feed)
    assert sorted(read) == list(range(700))
    assert read != list(range(700))
    assert sum(b - a == 1 for a, b in itertools.pairwise(read)) >= 696  # neighbours are read together


@pytest.mark.parametrize("memory", [10**9, 0])
def test_broken_samples_are_left_out_and_named_once(make_split: Make, memory: int) -> None:
    split = make_split(40, broken=[3, 17])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        feed = Feed(split, memory)
        known = order(feed)
        assert len(known) == 38
        assert order(feed) == known  # the order does not depend on what is known to be broken
    messages = [str(warning.message) for warning in caught if warning.category is RoadworthyWarning]
    assert len(messages) == 1
    assert "2 of 40 samples could not be read" in messages[0]
    assert set(split.broken) == {"3", "17"}
    assert Feed(make_split(40, broken=[3, 17]), 0).identity() == Feed(split, memory).identity()


def test_identity_tells_samples_apart() -> None:
    images, labels = numbered(6)
    same = Feed((images.clone(), labels.numpy()), 10**9).identity()
    assert Feed((images, labels), 10**9).identity() == same
    others = [(images + 1, labels), (images, labels.flip(0)), (images.double(), labels), (images[:5], labels[:5])]
    found = {Feed(other, 10**9).identity() for other in others}
    assert len(found | {same}) == 5


@pytest.mark.parametrize(
    ("train", "message"),
    [
        (torch.zeros(4, 1, 2, 2), "got Tensor, expected a Split such as data.train"),
        ((torch.zeros(4, 1), torch.zeros(3)), "4 images but 3 labels"),
        ((torch.zeros(0, 1), torch.zeros(0)), "no training samples"),
        ((torch.zeros(3, 1), torch.tensor([0, 1.5, 2])), r"labels: got 1\.5, expected whole numbers"),
        ((torch.zeros(3, 1), torch.eye(3)), r"labels: got shape \(3, 3\).*argmax"),
        ((torch.zeros(2, 1), [True, False]), "labels: got booleans"),
    ],
)
def test_unusable_data(train: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Feed(train, 10**9)


def test_negative_labels() -> None:
    with pytest.raises(DataError, match="labels go from -1"):
        Feed((torch.zeros(2, 1), torch.tensor([-1, 0])), 10**9)


def test_nothing_can_be_read(make_split: Make) -> None:
    with pytest.raises(DataError, match="none of 3 samples could be read"):
        Feed(make_split(3, broken=[0, 1, 2]), 10**9)
