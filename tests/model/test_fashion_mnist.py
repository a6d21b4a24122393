"""The small network on real clothes: the data stage reads, this stage trains."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from roadworthy.data import load_data
from roadworthy.errors import InputError
from roadworthy.model import accuracy, load_model
from roadworthy.records import Data


@pytest.mark.slow
@pytest.mark.parametrize(("n", "reach"), [(6_000, 0.85), (60_000, 0.89)])
def test_small_cnn_reaches_what_it_should(tmp_path: Path, n: int, reach: float) -> None:
    try:
        data = load_data("fashion-mnist")
    except InputError as error:
        pytest.skip(f"Fashion-MNIST is not here: {error}")
    part = Data("fashion-mnist", data.train.take(n), data.test, data.classes, *data.normalize)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it will take a while
        model = load_model("small-cnn", part, cache=tmp_path)
    assert accuracy(model, data.test) >= reach
