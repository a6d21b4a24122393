"""Samples chosen by score: which, and that ties and the order of rows decide nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling import confidence_bands, middle_band
from roadworthy.labelfree.outputs import Outputs


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=40), st.integers(0, 99), st.data())
def test_the_middle_has_as_many_above_as_below(values: list[int], seed: int, data: st.DataObject) -> None:
    scores = np.array(values, dtype=float)
    n = data.draw(st.integers(1, len(scores)))
    found = middle_band(scores, n, seed=seed)
    assert len(set(found.rows.tolist())) == n == len(found)
    rest = np.delete(scores, found.rows)
    start = (len(scores) - n) // 2
    assert (rest >= found.scores.max()).sum() >= start <= (rest <= found.scores.min()).sum()
    assert (found.scores == scores[found.rows]).all()
    assert found.fit_for_evaluation is False
    assert found.as_dict()["fit_for_evaluation"] is False
    turn = np.random.default_rng(seed).permutation(len(scores))
    names = [f"s{k}" for k in range(len(scores))]
    one = middle_band(scores, n, ids=names, seed=seed)
    other = middle_band(scores[turn], n, ids=[names[k] for k in turn], seed=seed)
    assert one.ids == other.ids


def test_bands_are_thirds_and_drawn() -> None:
    target = Outputs.of(np.linspace(0.5, 1, 90), ids=[f"s{k}" for k in range(90)])
    found = confidence_bands(target, 5)
    assert list(found) == ["high", "middle", "low"]
    for (low, high), rows in zip([(60, 90), (30, 60), (0, 30)], found.values(), strict=True):
        assert len(set(rows.tolist())) == 5
        assert ((rows >= low) & (rows < high)).all()
        assert (np.diff(target.confidence[rows]) <= 0).all()
    assert any((found[band] != confidence_bands(target, 5, seed=1)[band]).any() for band in found)
    turn = np.random.default_rng(0).permutation(90)
    turned = target.take(turn)
    for band, rows in confidence_bands(turned, 5).items():
        assert [turned.ids[row] for row in rows] == [target.ids[row] for row in found[band]]


def test_bands_by_other_scores_and_of_few_samples() -> None:
    target = Outputs.of([0.9, 0.8, 0.7])
    assert [rows.tolist() for rows in confidence_bands(target, 3, scores=[1, 2, 3]).values()] == [[2], [1], [0]]
    assert [len(rows) for rows in confidence_bands(Outputs.of([0.9]), 3).values()] == [1, 0, 0]
    assert [len(rows) for rows in confidence_bands(Outputs.of(np.full(8, 0.5)), 9).values()] == [3, 3, 2]


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="n: got 4, expected 1 to 3"):
        middle_band([0.1, 0.2, 0.3], 4)
    with pytest.raises(InputError, match="n: got 0"):
        middle_band([0.1], 0)
    with pytest.raises(InputError, match="finite numbers"):
        middle_band([0.1, np.nan], 1)
    with pytest.raises(InputError, match="ids: got 2 .1 of them different. for 2 scores"):
        middle_band([0.1, 0.2], 1, ids=["a", "a"])
    with pytest.raises(InputError, match="each: got 0"):
        confidence_bands(Outputs.of([0.1]), 0)
    with pytest.raises(InputError, match="ids: got 1"):
        confidence_bands(Outputs.of([0.1]), 1, scores=[0.1, 0.2])
