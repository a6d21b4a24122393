"""Rows in two parts: nothing lost, nothing twice, and a file sorted by class is known for one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.probe.parting import part_rows


@settings(max_examples=60, deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=4, max_size=60),
    share=st.floats(0.3, 0.7),
    order=st.sampled_from(["file", "stratified"]),
    seed=st.integers(0, 5),
)
def test_every_row_is_in_one_part(labels: list[int], share: float, order: str, seed: int) -> None:
    values = np.array(labels)
    wanted = [max(1, int(share * n + 0.5)) for n in np.bincount(values) if n]
    if order == "stratified" and sum(wanted) == len(values):
        with pytest.raises(InputError, match="leaves none to score"):
            part_rows(values, 6, share=share, order=order, seed=seed)
        return
    found = part_rows(values, 6, share=share, order=order, seed=seed)
    assert sorted([*found.train, *found.test]) == list(range(len(values)))
    assert (np.diff(found.train) > 0).all()
    assert (np.diff(found.test) > 0).all()
    in_train, in_test = set(values[found.train].tolist()), set(values[found.test].tolist())
    assert set(found.unseen) == in_test - in_train
    assert set(found.unscored) == set(range(6)) - in_test
    if order == "file":
        assert found.train.tolist() == list(range(int(share * len(values) + 1e-9)))
    else:
        assert not found.unseen
        for label, n in enumerate(np.bincount(values)):
            if n:
                assert (values[found.train] == label).sum() == max(1, int(share * n + 0.5))


def test_three_quarters_of_the_file() -> None:
    assert len(part_rows(np.zeros(1797, int), 1).train) == 1347
    assert len(part_rows(np.zeros(10, int), 1, share=0.1).train) == 1  # not 0, whatever 0.1 is in binary
    assert len(part_rows(np.zeros(10, int), 1, share=0.7).train) == 7


def test_the_draw_is_by_the_seed_and_by_class() -> None:
    labels = np.arange(90) % 3
    first, again, other = (part_rows(labels, 3, order="stratified", seed=seed).train.tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_sorted_files_are_known() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 30)
    assert part_rows(labels, 10).is_sorted
    assert part_rows(np.concatenate([labels, labels[::3]]), 10).is_sorted  # two splits, one after the other
    assert not any(part_rows(rng.permutation(labels), 10).is_sorted for _ in range(50))
    assert not part_rows(np.zeros(30, int), 1).is_sorted  # a single class has no order
    assert part_rows(labels, 10).unseen == (8, 9)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"share": 0.0}, "train_share: got 0.0"),
        ({"share": 1.0}, "train_share: got 1.0"),
        ({"share": 0.05}, "leaves none to fit"),
        ({"share": 0.99, "order": "stratified"}, "leaves none to score"),
        ({"order": "stratifed"}, "Did you mean 'stratified'"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        part_rows(np.arange(10) % 2, 2, **arguments)
