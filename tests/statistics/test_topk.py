from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn.metrics import top_k_accuracy_score

from roadworthy.errors import InputError
from roadworthy.statistics import target_ranks, topk, topk_accuracy

SCORES = np.array([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.2, 0.3, 0.5]])


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_ranks_are_positions_in_a_stable_descending_sort(data: st.DataObject) -> None:
    n, classes = data.draw(st.integers(0, 7)), data.draw(st.integers(1, 6))
    scores = data.draw(
        hnp.arrays(np.float32, (n, classes), elements=st.sampled_from([-np.inf, -1, 0, 0.5, 2, np.inf]))
    )
    labels = data.draw(hnp.arrays(np.int16, n, elements=st.integers(0, classes - 1)))
    order = np.argsort(-scores, axis=1, kind="stable")  # ties: lower class first
    expected = [order[row].tolist().index(label) for row, label in enumerate(labels)]
    assert target_ranks(scores, labels).tolist() == expected


def test_rank_zero_is_what_argmax_picks() -> None:
    scores = np.random.default_rng(11).integers(0, 3, size=(200, 8))
    labels = scores.argmax(axis=1)
    assert (target_ranks(scores, labels) == 0).all()
    assert (target_ranks(torch.from_numpy(scores).float(), torch.from_numpy(labels)) == 0).all()


def test_ranks_do_not_depend_on_the_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(12)
    scores, labels = rng.normal(size=(101, 7)), rng.integers(7, size=101)
    whole = target_ranks(scores, labels)
    accuracy = topk_accuracy(scores.round(), labels, k=(1, 3))
    monkeypatch.setattr(topk, "_CELLS", 20)
    assert (target_ranks(scores, labels) == whole).all()
    assert topk_accuracy(scores.round(), labels, k=(1, 3)) == accuracy


def test_accuracy_equals_scikit_learn_without_ties() -> None:
    rng = np.random.default_rng(13)
    scores, labels = rng.normal(size=(300, 12)), rng.integers(12, size=300)
    found = topk_accuracy(scores, labels, k=(1, 3, 5))
    for k, accuracy in found.items():
        assert accuracy == pytest.approx(top_k_accuracy_score(labels, scores, k=k), abs=1e-15)
    assert (found.n, found.classes, found.absent_classes, found.average) == (300, 12, (), "micro")


def test_macro_is_the_mean_over_the_classes_that_occur() -> None:
    scores = [[0.9, 0.1, 0.0, 0.0], [0.1, 0.9, 0.0, 0.0], [0.9, 0.1, 0.0, 0.0], [0.0, 0.0, 0.1, 0.9]]
    found = topk_accuracy(scores, [0, 0, 0, 3], k=(1, 2), average="macro")
    assert dict(found) == pytest.approx({1: (2 / 3 + 1) / 2, 2: 1.0})
    assert found.absent_classes == (1, 2)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_accuracy_never_falls_with_k_when_classes_are_absent(average: str) -> None:
    rng = np.random.default_rng(14)
    for _ in range(1000):
        scores, labels = rng.random((50, 100)), rng.integers(100, size=50)
        found = topk_accuracy(scores, labels, k=(1, 2, 5, 100), average=average)  # type: ignore[arg-type]
        values = list(found.values())
        assert values == sorted(values)
        assert found[100] == 1.0
        assert set(found.absent_classes) == set(range(100)) - set(labels.tolist())


def test_all_classes_give_one_and_more_are_refused() -> None:
    assert dict(topk_accuracy(SCORES, [2, 1, 0], k=3)) == {3: 1.0}
    assert dict(topk_accuracy(SCORES, [1, 0, 2], k=1)) == {1: 1.0}
    with pytest.raises(InputError, match=r"k: 5, 1000 came for scores of 3 classes; pass k of at most 3"):
        topk_accuracy(SCORES, [2, 1, 0], k=(3, 5, 1000))
    with pytest.raises(InputError, match=r"k: 5 came for scores of 3 classes"):
        topk_accuracy(SCORES, [2, 1, 0])


def over_all_ways_to_break_ties(scores: np.ndarray, labels: np.ndarray, k: int, average: str) -> float:
    """Mean accuracy over every order of the classes, the first of equal scores taken first."""
    found = []
    for order in itertools.permutations(range(scores.shape[1])):
        first = np.array([sorted(order, key=lambda c: (-row[c], order.index(c)))[:k] for row in scores])
        hit = (first == labels[:, None]).any(axis=1)
        classes = [hit[labels == c].mean() for c in np.unique(labels)]
        found.append(hit.mean() if average == "micro" else np.mean(classes))
    return float(np.mean(found))


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_ties_get_their_expected_credit(average: str) -> None:
    rng = np.random.default_rng(15)
    scores, labels = rng.integers(0, 3, size=(12, 4)), rng.integers(3, size=12)
    found = topk_accuracy(scores, labels, k=(1, 2, 3, 4), average=average)  # type: ignore[arg-type]
    for k, accuracy in found.items():
        assert accuracy == pytest.approx(over_all_ways_to_break_ties(scores, labels, k, average), abs=1e-12)
    assert found[4] == 1.0


def test_a_model_without_an_opinion_scores_chance_whatever_the_labels() -> None:
    for label in range(5):
        found = topk_accuracy(np.full((3, 5), -np.inf), [label] * 3, k=(1, 2, 5))
        assert dict(found) == pytest.approx({1: 0.2, 2: 0.4, 5: 1.0}, abs=1e-15)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_neither_ties_nor_the_order_of_the_classes_make_it_fall(data: st.DataObject) -> None:
    n, classes = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 6))
    scores = data.draw(hnp.arrays(np.float32, (n, classes), elements=st.sampled_from([-np.inf, 0, 0.5, np.inf])))
    labels = data.draw(hnp.arrays(np.int16, n, elements=st.integers(0, classes - 1)))
    order = np.array(data.draw(st.permutations(range(classes))))
    for average in ("micro", "macro"):
        found = topk_accuracy(scores, labels, k=range(1, classes + 1), average=average)  # type: ignore[arg-type]
        values = list(found.values())
        assert values == sorted(values)
        assert values[-1] == 1.0
        turned = topk_accuracy(scores[:, order], np.argsort(order)[labels], k=range(1, classes + 1), average=average)  # type: ignore[arg-type]
        assert list(turned.values()) == pytest.approx(values, abs=1e-12)


@pytest.mark.parametrize(
    "labels",
    [
        [1, 0, 0],
        (1, 0, 0),
        np.array([1, 0, 0], np.uint8),
        np.array([1, 0, 0], np.int32),
        np.array([1, 0, 0], np.uint64),
        np.array([1, 0, 0], np.float32),
        np.array([[1], [0], [0]]),
        torch.tensor([1, 0, 0], dtype=torch.int16),
        torch.tensor([[1], [0], [0]]),
    ],
)
def test_labels_of_any_kind_give_the_same(labels: object) -> None:
    assert dict(topk_accuracy(SCORES, labels, k=(1, 2))) == {1: 2 / 3, 2: 2 / 3}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_may_be_tensors_that_need_gradients(dtype: torch.dtype) -> None:
    scores = torch.tensor(SCORES, dtype=dtype, requires_grad=True)
    assert dict(topk_accuracy(scores, [1, 0, 0], k=1)) == {1: 2 / 3}
    assert scores.requires_grad
    assert scores.grad is None


def test_nan_rows_are_named() -> None:
    scores = SCORES.copy()
    scores[[0, 2], 1] = np.nan
    with pytest.raises(InputError, match=r"2 of 3 rows hold NaN.*0, 2"):
        topk_accuracy(scores, [0, 1, 2], k=1)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3], r"labels: 3 came, expected 0 to 2.*count from 1: subtract 1"),
        ([0, -1, -1], r"labels: -1 came.*without a label"),
        ([0, 7, 9], r"labels: 7, 9 came, expected 0 to 2 for scores of 3 classes\.$"),
        ([0.5, 1.0, 2.0], r"labels: got 0\.5, expected whole numbers"),
        ([True, False, True], r"labels: got booleans \(True, False, True\)"),
        ([0, 1], r"labels: got shape \(2,\), expected one class per sample, \(3,\)"),
        ([[0, 1, 2]], r"got shape \(1, 3\), .*of one-hot labels take their argmax"),
    ],
)
def test_wrong_labels_are_refused_with_values_and_cause(labels: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        topk_accuracy(SCORES, labels, k=1)


@pytest.mark.parametrize("k", [0, -1, (1, 0), 1.5, True, (), ("1",)])
def test_wrong_k_is_refused(k: object) -> None:
    with pytest.raises(InputError, match="k: "):
        topk_accuracy(SCORES, [0, 1, 2], k=k)  # type: ignore[arg-type]


def test_wrong_scores_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(3,\) came, expected \(samples, classes\)"):
        topk_accuracy([1.0, 2.0, 3.0], [0, 1, 2])
    with pytest.raises(InputError, match="no samples"):
        topk_accuracy(np.zeros((0, 3)), np.zeros(0, dtype=int), k=1)
    with pytest.raises(InputError, match="real numbers"):
        topk_accuracy([["a", "b"]], [0])
    with pytest.raises(InputError, match="'weighted' came"):
        topk_accuracy(SCORES, [0, 1, 2], average="weighted")  # type: ignore[arg-type]
