from __future__ import annotations

import base64
import io
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from roadworthy.evaluation import Result
from roadworthy.report.pictures import data_uri, image_array, map_array, most_bytes, resized, spread
from roadworthy.report.sheet import BUDGET, sheet_plan, sheet_section

Make = Callable[..., Result]


def decoded(uri: str) -> np.ndarray:
    data = base64.b64decode(uri.removeprefix("data:image/png;base64,"))
    with Image.open(io.BytesIO(data)) as image:
        return np.asarray(image.convert("RGB"))


def test_small_pictures_are_kept_exactly() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (32, 48, 3), dtype=np.uint8)
    assert np.array_equal(decoded(data_uri(picture, 96)), picture)
    grey = picture[..., 0]
    assert np.array_equal(decoded(data_uri(grey, 96))[..., 0], grey)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from([48, 80, 112]), st.booleans())
def test_the_bound_on_a_picture_holds_for_noise(height: int, width: int, side: int, colour: bool) -> None:
    shape = (height, width, 3) if colour else (height, width)
    uri = data_uri(np.random.default_rng(2).integers(0, 256, shape, dtype=np.uint8), side)
    assert len(uri) <= most_bytes(height, width, side)
    assert max(decoded(uri).shape[:2]) <= max(side, 1)


def test_channels_become_what_the_eye_expects() -> None:
    image = np.arange(5 * 2 * 3, dtype=np.uint8).reshape(5, 2, 3)
    assert image_array(image[:1]).shape == (2, 3)
    assert np.array_equal(image_array(image[:3])[..., 1], image[1])
    assert np.array_equal(image_array(image[:4]), image_array(image[:3]))
    assert np.array_equal(image_array(image), image.mean(axis=0))
    assert np.array_equal(image_array(image[:2]), np.round(image[:2].mean(axis=0)))


def test_maps_are_coloured_symmetrically() -> None:
    colours = map_array(np.array([[-2.0, 0.0, 2.0, 1.0]]))[0]
    assert colours.tolist()[:3] == [[33, 102, 172], [247, 247, 247], [178, 24, 43]]
    assert np.array_equal(map_array(np.zeros((2, 2))), np.full((2, 2, 3), 247))
    assert np.array_equal(map_array(np.array([[np.nan, np.inf]])), np.full((1, 2, 3), 247))
    values = np.random.default_rng(0).normal(size=(9, 9))
    assert np.array_equal(map_array(values), map_array(7 * values))


def test_one_outlier_does_not_hide_the_rest_of_a_map() -> None:
    values = np.full((40, 40), 1.0)
    values[0, 0] = 1e6
    assert map_array(values)[20, 20].tolist() == [178, 24, 43]


def test_pixels_that_grow_stay_sharp() -> None:
    picture = np.array([[0, 255]], dtype=np.uint8)
    assert np.array_equal(resized(picture, 2, 4), [[0, 0, 255, 255]] * 2)


def test_spread_takes_both_ends() -> None:
    assert spread(7, 3) == [0, 3, 6]
    assert spread(0, 3) == []


@pytest.mark.parametrize(("size", "methods"), [(8, 3), (32, 10), (224, 3), (160, 9)])
def test_pictures_stay_within_the_budget(make_result: Make, size: int, methods: int) -> None:
    planted = {f"m{i}": 0.1 * i for i in range(methods)}
    result = make_result(planted, n=20, size=size, channels=3, samples=2)
    assert result.sheet is not None
    result.sheet.copies[:] = np.random.default_rng(0).integers(0, 256, result.sheet.copies.shape, dtype=np.uint8)
    html = sheet_section(result, result.sheet)
    assert len(html) < BUDGET * 1.05
    assert html.count("<img") == 2 * (1 + methods * (1 + 2 * len(sheet_plan(result, result.sheet).shares)))


def test_a_large_sheet_is_thinned_and_says_so(make_result: Make) -> None:
    fractions = [0.0, *np.linspace(0.05, 0.95, 9).round(2).tolist()]
    result = make_result({f"m{i}": 0.1 for i in range(30)}, n=20, size=4, samples=15, fractions=fractions)
    assert result.sheet is not None
    plan = sheet_plan(result, result.sheet)
    assert (plan.samples, plan.methods, len(plan.shares)) == ([0, 1, 3, 4, 5, 6, 8, 9, 10, 11, 13, 14], 16, 5)
    assert plan.shares == [1, 3, 5, 7, 9]
    html = sheet_section(result, result.sheet)
    assert "Shown: 12 of 15 kept samples, 16 of 30 methods, 5 of 9 shares." in html


def test_answers_are_marked_by_word_and_sign_not_only_by_colour(make_result: Make) -> None:
    result = make_result({"ig": 1.0}, n=20, samples=1)
    assert result.sheet is not None
    result.sheet.answers[0, 0, 0] = [0, 0, 3, 3, 3, 3]
    html = sheet_section(result, result.sheet)
    assert '<span aria-hidden="true">✗</span><span class="sr">wrong:</span> <bdi>class 3</bdi>' in html
    assert '<span aria-hidden="true">✓</span><span class="sr">right:</span> <bdi>class 0</bdi>' in html
