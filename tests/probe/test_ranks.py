"""Rank-k with intervals: scikit-learn and SciPy agree; ties, NaN and k as in topk_accuracy."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import top_k_accuracy_score

from roadworthy.errors import InputError
from roadworthy.probe import rank_k
from roadworthy.statistics import topk_accuracy


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), classes=st.integers(2, 8), seed=st.integers(0, 99), level=st.sampled_from([0.9, 0.95]))
def test_shares_and_intervals_are_those_of_other_libraries(n: int, classes: int, seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    scores, labels = rng.normal(size=(n, classes)), rng.integers(classes, size=n)
    ks = sorted({1, 2, classes})
    found = rank_k(scores, labels, k=ks, level=level)
    for place, k in enumerate(found.k):
        if k < classes and classes > 2:
            expected = top_k_accuracy_score(labels, scores, k=k, labels=np.arange(classes))
            assert found.accuracy[place] == pytest.approx(expected)
        hits = round(found.accuracy[place] * n)
        interval = binomtest(hits, n).proportion_ci(level, method="wilson")
        assert (found.low[place], found.high[place]) == pytest.approx((interval.low, interval.high))
    for label in range(classes):
        rows = labels == label
        if not rows.any():
            assert np.isnan(found.class_accuracy[label]).all()
            assert np.isnan(found.class_low[label]).all()
            continue
        hits = (scores[rows].argmax(axis=1) == label).sum()
        interval = binomtest(int(hits), int(rows.sum())).proportion_ci(level, method="wilson")
        assert found.class_accuracy[label, 0] == pytest.approx(hits / rows.sum())
        assert found.class_high[label, 0] == pytest.approx(interval.high)
    assert found.class_n.tolist() == np.bincount(labels, minlength=classes).tolist()
    assert len(found.absent) == (found.class_n == 0).sum()


def test_the_interval_covers_a_planted_share() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        hits = rng.uniform(size=60) < 0.8
        scores = np.where(hits[:, None], [1.0, 0.0], [0.0, 1.0])
        found = rank_k(scores, np.zeros(60, int), k=1, level=0.9)
        covered += bool(found.low[0] <= 0.8 <= found.high[0])
    assert 0.86 <= covered / 400 <= 0.95


def test_ties_nan_and_k_are_those_of_topk_accuracy() -> None:
    scores, labels = np.zeros((7, 6)), np.arange(7) % 6
    found = rank_k(scores, labels, k=(1, 5, 6))
    assert found.accuracy.tolist() == list(topk_accuracy(scores, labels, (1, 5, 6)).values())
    assert found.accuracy.tolist() == pytest.approx([1 / 6, 5 / 6, 1])
    with pytest.raises(InputError, match="k: 7 came for scores of 6 classes"):
        rank_k(scores, labels, k=7)
    scores[3, 2] = np.nan
    with pytest.raises(InputError, match="1 of 7 rows hold NaN, so they have no order: 3"):
        rank_k(scores, labels)
    with pytest.raises(InputError, match="labels: 6 came"):
        rank_k(np.zeros((7, 6)), labels + 1)
    with pytest.raises(InputError, match="no samples came"):
        rank_k(np.zeros((0, 6)), [])


def test_defaults_fit_the_number_of_classes() -> None:
    assert rank_k(np.eye(6), np.arange(6)).k == (1, 5)
    assert rank_k(np.eye(5), np.arange(5)).k == (1, 5)
    few = rank_k(np.eye(3), np.arange(3))
    assert few.k == (1,)
    assert few.notes == ("rank-5 is left out: there are only 3 classes",)


def test_the_record() -> None:
    scores = torch.tensor([[0.1, 0.7, 0.2], [0.6, 0.3, 0.1]])
    found = rank_k(scores, torch.tensor([1, 1]), k=(1, 2), label_names=["a", "b", "c"])
    assert found.absent == ("a", "c")
    assert "no sample of 2 of 3 classes: 'a', 'c'" in found.notes[-1]
    assert found.table["accuracy"].tolist() == [0.5, 1.0]
    table = found.per_class
    assert table[(table["class"] == "b") & (table["rank"] == 2)]["accuracy"].item() == 1.0
    said = json.loads(json.dumps(found.as_dict(), allow_nan=False))
    assert said["class_accuracy"] == [[None, None], [0.5, 1.0], [None, None]]
    assert said["absent"] == ["a", "c"]
    with pytest.raises(InputError, match="2 names for scores of 3 classes"):
        rank_k(scores, [0, 1], label_names=["a", "b"], k=1)
    with pytest.raises(InputError, match=r"level: got 95"):
        rank_k(scores, [0, 1], level=95)
