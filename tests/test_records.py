"""Splits: what is read, left out, named and counted; the statistics of a data set."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from roadworthy import records
from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.records import Data, Split


class ListSource:
    """Images in a list; None is a broken one. Counts what is read."""

    def __init__(self, images: Sequence[torch.Tensor | None]) -> None:
        self.images = images
        self.labels = np.arange(len(images)) % 3
        self.ids = [f"i{row}" for row in range(len(images))]
        self.reads: list[int] = []

    def read(self, index: int) -> torch.Tensor:
        self.reads.append(index)
        image = self.images[index]
        if image is None:
            raise DataError(f"{self.where(index)}: torn")
        return image

    def where(self, index: int) -> str:
        return f"/somewhere/{self.ids[index]}"


class BulkSource(ListSource):
    def read_many(self, indices: np.ndarray) -> torch.Tensor:
        return torch.stack([self.read(int(index)) for index in indices])


def noise(n: int, shape: tuple[int, ...] = (1, 4, 6), seed: int = 0) -> list[torch.Tensor | None]:
    return list(torch.from_numpy(np.random.default_rng(seed).random((n, *shape), dtype=np.float32)))


@pytest.mark.parametrize("kind", [ListSource, BulkSource])
@pytest.mark.parametrize("size", [1, 3, 7, 50])
def test_batches_hold_every_sample_once_in_order(kind: type[ListSource], size: int) -> None:
    images = noise(7)
    split = Split(kind(images), "train")
    batches = list(split.batches(size))
    assert [len(batch.ids) for batch in batches[:-1]] == [size] * (len(batches) - 1)
    assert torch.equal(torch.cat([batch.images for batch in batches]), torch.stack(images))
    assert torch.cat([batch.labels for batch in batches]).tolist() == [0, 1, 2, 0, 1, 2, 0]
    assert [i for batch in batches for i in batch.ids] == [f"i{row}" for row in range(7)]
    assert batches[0].labels.dtype == torch.int64
    assert torch.equal(split.images, torch.stack(images))
    assert torch.equal(torch.cat([batch.images for batch in split.batches(size)]), split.images)


def test_nothing_is_read_before_it_is_asked_for() -> None:
    source = ListSource(noise(9))
    split = Split(source)
    assert (len(split), len(split.labels), len(split.ids)) == (9, 9, 9)
    assert source.reads == []
    assert split[4][1] == 1
    assert source.reads == [4]
    next(split.batches(2))
    assert source.reads == [4, 0, 1]


def test_broken_samples_are_left_out_counted_and_named_once() -> None:
    images = noise(6)
    images[0] = images[3] = None
    split = Split(ListSource(images), "test")
    assert split.shape == (1, 4, 6)  # meets the first broken one, the warning comes with the pass
    message = r"test: 2 of 6 samples could not be read and are left out; the first: /somewhere/i0: torn"
    with pytest.warns(RoadworthyWarning, match=message):
        batches = list(split.batches(4))
    assert [i for batch in batches for i in batch.ids] == ["i1", "i2", "i4", "i5"]
    assert split.broken == {"i0": "/somewhere/i0: torn", "i3": "/somewhere/i3: torn"}
    assert (len(split), split.labels.tolist(), split.ids) == (4, [1, 2, 1, 2], ["i1", "i2", "i4", "i5"])
    assert torch.equal(split[2][0], images[4])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sum(len(batch.ids) for batch in split.batches(2)) == 4
        assert split.images.shape[0] == 4


def test_the_map_style_access_names_a_broken_sample() -> None:
    split = Split(ListSource([None, *noise(2)]))
    with pytest.raises(DataError, match="/somewhere/i0: torn"):
        split[0]


def test_subsets_share_what_is_broken() -> None:
    images = noise(8)
    images[2] = None
    split = Split(ListSource(images))
    with pytest.warns(RoadworthyWarning, match="1 of 4 samples"):
        assert split.subset([0, 1, 2, 3]).images.shape[0] == 3
    assert list(split.broken) == ["i2"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert split.images.shape[0] == 7
    part = split.subset(np.array([6, 0]))
    assert part.ids == ["i7", "i0"]
    assert torch.equal(part.images, torch.stack([images[7], images[0]]))


def test_a_split_of_broken_samples_says_so() -> None:
    split = Split(ListSource([None, None]), "train")
    message = "train: none of 2 samples could be read; the first: /somewhere/i0: torn"
    with pytest.raises(DataError, match=message):
        _ = split.shape
    with pytest.raises(DataError, match=message), pytest.warns(RoadworthyWarning):
        _ = Split(ListSource([None, None]), "train").images
    with pytest.raises(DataError, match=message):
        Split(ListSource([None, None]), "train").statistics()
    with pytest.raises(DataError, match="none of 0 samples could be read$"):
        _ = Split(ListSource([])).images


@pytest.mark.parametrize(
    ("other", "advice"),
    [
        ((1, 6, 4), r"pass size=\(H, W\) \(--size HxW\) to"),
        ((3, 4, 6), r"pass channels=1 or channels=3 to"),
        ((3, 9, 9), r"pass channels=1 or channels=3 and size=\(H, W\) \(--size HxW\) to"),
    ],
)
def test_unequal_images_are_named_with_the_option(other: tuple[int, ...], advice: str) -> None:
    split = Split(ListSource([*noise(3), *noise(1, other)]), "train")
    with pytest.raises(DataError, match=advice) as caught:
        list(split.batches(2))  # the two lie in different batches
    assert "(1, 4, 6) at /somewhere/i0" in str(caught.value)
    assert f"{other} at /somewhere/i3" in str(caught.value)


@pytest.mark.parametrize("size", [0, -1])
def test_batch_size_is_checked(size: int) -> None:
    with pytest.raises(InputError, match=f"size is {size}, expected at least 1"):
        next(Split(ListSource(noise(2))).batches(size))


def test_take_draws_without_replacement_in_order() -> None:
    split = Split(ListSource(noise(40)), indices=np.arange(5, 40))
    drawn = split.take(10, seed=3)
    rows = [int(i[1:]) for i in drawn.ids]
    assert rows == sorted(set(rows))
    assert len(rows) == 10
    assert min(rows) >= 5
    assert drawn.ids == split.take(10, seed=3).ids != split.take(10, seed=4).ids
    assert split.take(35) is split.take(99) is split
    with pytest.raises(InputError, match="n is 0"):
        split.take(0)


def test_take_keeps_the_draw_when_a_sample_turns_out_broken() -> None:
    images = noise(30)
    before = Split(ListSource(images)).take(8, seed=1).ids
    images[int(before[2][1:])] = None
    split = Split(ListSource(images))
    split.broken[before[2]] = "torn"
    after = split.take(8, seed=1).ids
    assert len(after) == 8
    assert set(before) - set(after) == {before[2]}


@pytest.mark.parametrize("kind", [ListSource, BulkSource])
def test_statistics_of_a_small_split_are_exact(kind: type[ListSource]) -> None:
    images = noise(130, (3, 5, 4))
    mean, std = Split(kind(images)).statistics()
    values = np.stack([np.asarray(image, dtype=np.float64) for image in images])
    np.testing.assert_allclose(mean, values.mean(axis=(0, 2, 3)), rtol=1e-12)
    np.testing.assert_allclose(std, values.std(axis=(0, 2, 3)), rtol=1e-12)


def test_statistics_of_one_constant_image() -> None:
    mean, std = Split(ListSource([torch.full((2, 3, 3), 0.25)])).statistics()
    assert (mean, std) == ((0.25, 0.25), (0.0, 0.0))


def test_statistics_stream_what_would_lose_digits_in_float32() -> None:
    images: list[torch.Tensor | None] = [torch.full((1, 64, 64), 1000.0 + row) for row in range(200)]
    mean, std = Split(ListSource(images)).statistics()
    assert mean[0] == pytest.approx(1099.5, rel=1e-12)
    assert std[0] == pytest.approx(np.arange(200).std(), rel=1e-9)


@pytest.mark.parametrize("run", [1, 5])
def test_statistics_of_a_large_split_come_from_a_seeded_sample(monkeypatch: pytest.MonkeyPatch, run: int) -> None:
    monkeypatch.setattr(records, "STATISTICS_SAMPLE", 20)
    source = ListSource(noise(103, (1, 2, 2)))
    source.run = run  # type: ignore[attr-defined]
    first = Split(source).statistics(seed=1)
    read = sorted(source.reads[1:])  # the first is read once more for its shape
    assert 15 < len(read) <= 20
    assert len(set(read)) == len(read)
    assert len({row // run for row in read}) == 20 // run
    assert Split(source).statistics(seed=1) == first != Split(source).statistics(seed=2)


def test_the_statistics_sample_ignores_what_is_known_to_be_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "STATISTICS_SAMPLE", 20)
    images = noise(60)
    for row in range(0, 60, 4):
        images[row] = None
    fresh, seen = Split(ListSource(images)), Split(ListSource(images))
    with pytest.warns(RoadworthyWarning, match="15 of 60"):
        list(seen.batches())
    with pytest.warns(RoadworthyWarning):
        expected = fresh.statistics()
    assert seen.statistics() == expected


def test_data_takes_its_statistics_from_the_training_split_on_first_use() -> None:
    train, test = ListSource(noise(20, seed=1)), ListSource(noise(9, seed=2))
    data = Data("made", Split(train, "train"), Split(test, "test"), ["a", "b", "c"])
    assert train.reads == []
    assert data.normalize == (data.mean, data.std) == Split(train).statistics()
    assert test.reads == []
    assert len(train.reads) == 2 * (20 + 1)  # for the data and for the line above: all, and the first for its shape
    assert repr(data) == "Data('made', classes=3, train=20, test=9)"
    given = Data("made", data.train, data.test, ("a",), mean=(0.5,), std=(0.25,))
    assert given.normalize == ((0.5,), (0.25,))


def test_a_split_travels_to_a_worker_process() -> None:
    split = Split(ListSource(noise(3)))
    copy = pickle.loads(pickle.dumps(split))
    assert torch.equal(copy.images, split.images)
    loader = torch.utils.data.DataLoader(split, batch_size=2, num_workers=2)  # type: ignore[arg-type]
    images = torch.cat([batch for batch, _ in loader])
    assert torch.equal(images, split.images)
