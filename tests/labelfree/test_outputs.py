"""Arrays in: what is taken, and what is refused with the way out."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import logsumexp, softmax

from roadworthy.errors import InputError
from roadworthy.labelfree import Outputs


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, (5, 3), elements=st.floats(-700, 700)))
def test_logits_become_scipys_softmax(logits: np.ndarray) -> None:
    kept = logits.copy()
    np.testing.assert_allclose(Outputs.of(logits=logits).probabilities, softmax(logits, axis=1), atol=1e-15)
    np.testing.assert_array_equal(logits, kept)
    np.testing.assert_allclose(Outputs.of(logits=logits).energy, -logsumexp(logits, axis=1), atol=1e-12)


def test_one_column_is_the_probability_of_the_second_class() -> None:
    for form in ([0.25, 1.0], [[0.25], [1.0]]):
        np.testing.assert_array_equal(Outputs.of(form).probabilities, [[0.75, 0.25], [0, 1]])


def test_no_samples_are_outputs_too() -> None:
    none = Outputs.of(np.zeros((0, 3)), features=np.zeros((0, 2)), labels=[])
    assert (len(none), none.class_count) == (0, 3)
    assert len(Outputs.of(logits=np.zeros((0, 3)))) == 0


def test_rows_of_float16_are_taken_and_made_to_add_up() -> None:
    table = softmax(np.random.default_rng(0).normal(size=(50, 10)), axis=1).astype(np.float16)
    np.testing.assert_allclose(Outputs.of(table).probabilities.sum(axis=1), 1, atol=1e-15)


def test_bfloat16_is_taken() -> None:
    table = torch.tensor([[0.25, 0.75]])
    np.testing.assert_array_equal(Outputs.of(table.bfloat16()).probabilities, table.numpy())


def test_what_follows_from_the_arrays() -> None:
    said = Outputs.of([[0.5, 0.5, 0], [0, 0.1, 0.9]], labels=[1, 2], features=np.ones((2, 2, 3)), ids=["a", "b"])
    assert said.predicted.tolist() == [0, 2]  # the first of equals
    assert said.confidence.tolist() == [0.5, 0.9]
    assert (said.accuracy, said.class_count, len(said)) == (0.5, 3, 2)
    assert said.energy is None
    assert said.features is not None
    assert said.features.shape == (2, 6)
    again = said.take([1, 1, 0])
    assert again.ids == ("b", "b", "a")
    assert again.labels is not None
    assert again.labels.tolist() == [2, 2, 1]
    assert said.take(np.array([False, True])).ids == ("b",)
    assert np.isnan(said.take([]).accuracy)
    with pytest.raises(InputError, match=r"a mask of shape \(1,\), expected \(2,\)"):
        said.take([True])


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"probabilities": [[0.5, 0.6]]}, r"rows 0 do not add up to 1 \(the first: 1.1\)"),
        (
            {"probabilities": [[3.0, -2.0]]},
            "outside .0, 1.; if these are scores before the softmax, pass them as log",
        ),
        ({"probabilities": [[np.nan, 1.0]]}, "rows 0 have values that are not finite"),
        ({"logits": [[np.inf, 1.0]]}, "logits: rows 0"),
        ({"logits": [[1.0], [2.0]]}, "at least two classes"),
        ({}, "either probabilities or logits"),
        ({"probabilities": 0.4}, "a single number"),
        ({"probabilities": ["a"]}, "no array of numbers"),
        ({"probabilities": [0.5], "labels": [2]}, "counted from 0"),
        ({"probabilities": [0.5], "labels": [0.5]}, "whole numbers"),
        ({"probabilities": [0.5], "labels": [0, 1]}, r"expected \(1,\)"),
        ({"probabilities": [0.5], "features": [[1.0], [2.0]]}, "2 rows for 1 samples"),
        ({"probabilities": [0.5, 0.6], "ids": ["a", "a"]}, "1 of them different"),
        ({"probabilities": [0.5], "second": [0.5, 0.6]}, "second: got shape"),
        ({"probabilities": [0.5], "energy": [0.5, 0.6]}, "energy: got shape"),
        ({"probabilities": [0.5], "classes": ["a"]}, "1 names, the probabilities have 2"),
        ({"probabilities": [0.5], "classes": np.array("a")}, "classes: got array.*a list of names"),
        ({"probabilities": [0.5], "ids": np.array(5)}, "ids: got array.*a list of names"),
        ({"probabilities": [0.5, 0.6], "ids": ["a", ""]}, "sample 1 has an empty name"),
        ({"probabilities": np.zeros((1, 1000))}, "rows 0 do not add up to 1"),
        ({"probabilities": np.full((1, 1000), 0.0015)}, r"the first: 1.5\)"),
        ({"probabilities": [0.5 + 0.1j]}, "complex"),
        ({"probabilities": np.ma.array([0.5, 0.6], mask=[False, True])}, "masked"),
        ({"probabilities": [0.5], "features": np.zeros((1, 0))}, "at least one value a sample"),
        ({"probabilities": [0.5, 0.6], "features": [[1.0], [1e300]]}, "rows 1 have values beyond"),
    ],
)
def test_bad_input_is_named(given_: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Outputs.of(**given_)


def test_what_needs_labels_or_features_says_so() -> None:
    with pytest.raises(InputError, match="pass labels="):
        _ = Outputs.of([0.4]).accuracy
    with pytest.raises(InputError, match="the gate needs a feature vector"):
        Outputs.of([0.4]).known_features("the gate")
