"""Every corruption changes more at every step, keeps its input, and is the same again for the same seed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from roadworthy.errors import InputError
from roadworthy.labelfree.corruptions import corrupt, corruptions, names_for

RNG = np.random.default_rng(0)
DATA: dict[str, Any] = {
    "image": np.clip(0.5 + 3 * gaussian_filter(RNG.normal(size=(12, 3, 16, 16)), (0, 0, 4, 4)), 0, 1).astype(
        np.float32
    ),
    "series": RNG.normal(size=(12, 2, 60)).cumsum(axis=2).astype(np.float32),
    "table": RNG.normal(size=(200, 5)).astype(np.float32),
    "text": ["the quick brown fox jumps over the lazy dog near the river"] * 40,
}


def difference(a: Any, b: Any) -> float:
    if isinstance(a, list):
        return sum(x != y for x, y in zip(a, b, strict=True)) + sum(
            len(x) - len(y) for x, y in zip(a, b, strict=True)
        )
    return float(np.abs(np.asarray(a) - b).mean())


@pytest.mark.parametrize("name", list(corruptions))
def test_steps_grow_and_nothing_of_the_input_changes(name: str) -> None:
    values = DATA[corruptions[name].modality]
    kept = list(values) if isinstance(values, list) else values.copy()
    found = [corrupt(values, name, severity=severity, seed=1) for severity in (1, 2, 3, 4, 5)]
    steps = [difference(values, changed) for changed in found]
    assert steps == sorted(steps)
    assert steps[0] > 0
    assert difference(values, kept) == 0
    if not isinstance(values, list):
        assert all(changed.shape == values.shape and changed.dtype == np.float32 for changed in found)
        assert all(np.isfinite(changed).all() for changed in found)
    if corruptions[name].modality == "image":
        assert all(changed.min() >= 0 and changed.max() <= 1 for changed in found)


@pytest.mark.parametrize("name", list(corruptions))
def test_the_same_seed_is_the_same_again_and_the_global_generator_is_left_alone(name: str) -> None:
    values = DATA[corruptions[name].modality]
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    first, second = corrupt(values, name, severity=4, seed=2), corrupt(values, name, severity=4, seed=2)
    assert difference(first, second) == 0
    np.testing.assert_array_equal(np.random.get_state()[1], state)  # noqa: NPY002


@pytest.mark.parametrize("name", list(corruptions))
def test_no_samples_and_one(name: str) -> None:
    values = DATA[corruptions[name].modality]
    assert len(corrupt(values[:1], name)) == 1
    if corruptions[name].modality in ("image", "text"):
        assert len(corrupt(values[:0], name)) == 0


def test_exact_ones() -> None:
    ramp = np.linspace(0, 1, 64, dtype=np.float32).reshape(1, 1, 8, 8)
    np.testing.assert_allclose(corrupt(ramp, "contrast", severity=2), 0.5 + 0.55 * (ramp - 0.5), atol=1e-6)
    np.testing.assert_allclose(corrupt(ramp, "brightness", severity=3), np.minimum(ramp + 0.2, 1), atol=1e-6)
    line = np.arange(50, dtype=np.float32).reshape(1, 1, 50)
    np.testing.assert_allclose(corrupt(line, "amplitude", severity=4), 24.5 + 0.5 * (line - 24.5))
    late = corrupt(line, "delay", severity=5)[0, 0] - line[0, 0]
    assert set(np.abs(late[15:35]).round(4)) == {10.0}  # a fifth of 50, early or late
    stuck = corrupt(line, "gap", severity=1)[0, 0]
    assert (np.diff(stuck) == 0).sum() in (4, 5)
    missing = corrupt(DATA["table"], "missing", severity=5)
    assert (missing == np.median(DATA["table"], axis=0)).mean() == pytest.approx(0.5, abs=0.04)
    noisy = corrupt(np.zeros((1, 1, 4, 4)) + 0.5, "noise", severity=1, seed=3)
    assert 0 < np.abs(noisy - 0.5).max() < 0.3


def test_words_that_stay_are_the_same_and_typos_keep_the_letters() -> None:
    text = DATA["text"][0]
    for dropped in corrupt(DATA["text"], "word-drop", severity=3):
        words = iter(text.split())
        assert all(word in words for word in dropped.split())  # a part, in order
    for wrong in corrupt(DATA["text"], "typos", severity=5):
        assert [sorted(word) for word in wrong.split()] == [sorted(word) for word in text.split()]


def test_what_is_refused() -> None:
    with pytest.raises(InputError, match="Did you mean 'rotation'"):
        corrupt(DATA["image"], "rotatoin")
    with pytest.raises(InputError, match="got 6, expected a whole number from 1 to 5"):
        corrupt(DATA["image"], "noise", severity=6)
    with pytest.raises(InputError, match=r"got shape \(200, 5\).*takes image data with 4 axes"):
        corrupt(DATA["table"], "noise")
    assert names_for("text") == ["word-drop", "typos"]
