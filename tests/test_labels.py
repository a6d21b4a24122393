"""Labels in any form; what has no meaning as a class is refused with the values."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import torch

from roadworthy.errors import InputError, listed
from roadworthy.labels import as_labels, label_array


@pytest.mark.parametrize(
    "labels",
    [
        [3, 0, 2],
        (3, 0, 2),
        range(3, 0, -1),
        [[3], [0], [2]],
        [3.0, 0.0, 2.0],
        [np.int32(3), torch.tensor(0), 2],
        *(np.array([3, 0, 2], kind) for kind in ("u1", "i2", "u8", "i8", "f2", "f4", "f8")),
        *(
            torch.tensor([[3], [0], [2]], dtype=kind)
            for kind in (torch.uint8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16)
        ),
    ],
)
def test_any_form_of_whole_numbers(labels: Any) -> None:
    expected = [3, 2, 1] if isinstance(labels, range) else [3, 0, 2]
    found = as_labels(labels, 3)
    assert found.tolist() == expected
    assert (found.dtype, found.shape, found.device.type) == (torch.int64, (3,), "cpu")
    assert label_array(labels).dtype == np.int64


def test_the_callers_labels_are_not_shared() -> None:
    labels = torch.tensor([1, 2])
    as_labels(labels)[0] = 9
    assert labels.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1], r"^target: got shape \(2,\), expected one class per sample, \(3,\)$"),
        (1, r"got shape \(\), expected one class per sample"),
        (np.eye(3), r"got shape \(3, 3\).*one-hot labels take their argmax\(1\)"),
        ([True, False, True], r"got booleans \(True, False, True\), expected whole numbers that count the classes"),
        (torch.tensor([True, False, True]), "got booleans"),
        (["cat", "dog", "cat"], r"got text \('cat', 'dog', 'cat'\)"),
        ([0, None, 2], r"values of type object \(0, None, 2\)"),
        ([0.5, 1, 2], r"got 0\.5, expected whole numbers"),
        ([np.nan, np.inf, 2], r"got nan, inf, expected whole numbers"),
        (np.array([1, 2**63, 2], np.uint64), r"got 9223372036854775808, expected"),
        ([1e300, 1, 2], r"got 1e\+300"),
        ([[1], [2, 3], [4]], "a list that is no array of classes"),
    ],
)
def test_what_is_refused(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_labels(labels, 3, "target")


def test_arrays_need_no_torch() -> None:
    code = "import sys; from roadworthy.labels import label_array; label_array([1]); print('torch' in sys.modules)"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    )


def test_long_lists_are_cut() -> None:
    assert listed(range(64), limit=3) == "0, 1, 2, ... (64 in all)"
    assert listed(["a"] * 10).count("'a'") == 10
    assert listed([]) == ""
