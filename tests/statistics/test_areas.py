from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.errors import InputError
from roadworthy.statistics import area, area_over_curve, symmetric_gain

trapezoid = getattr(np, "trapezoid", None) or np.trapz  # noqa: NPY201  (NumPy before 2.0)
SHARES = np.array([0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9])


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_area_is_numpys_trapezoid_over_the_span_along_any_axis(axis: int) -> None:
    values = np.random.default_rng(21).normal(size=(7, 7, 7))
    expected = trapezoid(values, SHARES, axis=axis) / 0.85
    assert area(SHARES, values, axis=axis) == pytest.approx(expected, abs=1e-14)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 1000), min_size=2, max_size=9, unique=True), st.floats(-5, 5), st.floats(-5, 5))
def test_area_of_a_line_is_its_mid_height(points: list[int], height: float, slope: float) -> None:
    shares = np.sort(np.array(points)) / 1000
    middle = height + slope * (shares[0] + shares[-1]) / 2
    assert float(area(shares, height + slope * shares)) == pytest.approx(middle, abs=1e-12)


def test_uneven_shares_are_not_taken_as_even() -> None:
    assert float(area([0.0, 0.1, 1.0], [1.0, 0.0, 0.0])) == pytest.approx(0.05)


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.float64, (2, 3, 7), elements=st.floats(-1e3, 1e3)))
def test_swapping_the_orders_changes_exactly_the_sign(curves: np.ndarray) -> None:
    gain = symmetric_gain(SHARES, curves[0], curves[1])
    assert (symmetric_gain(SHARES, curves[1], curves[0]) == -gain).all()
    assert gain == pytest.approx(area(SHARES, curves[1]) - area(SHARES, curves[0]), abs=1e-9)


def test_a_map_that_both_orders_treat_alike_gains_nothing() -> None:
    curve = np.random.default_rng(22).random((4, 7, 11)).astype(np.float32)
    assert (symmetric_gain(SHARES, curve, curve, axis=1) == 0).all()


def test_the_area_over_a_curve_is_the_mean_loss() -> None:
    shares = np.array([0.0, 0.1, 0.5, 0.9])
    values = np.random.default_rng(23).random((3, 4, 2))
    loss = trapezoid(values[:, :1] - values, shares, axis=1) / 0.9
    assert area_over_curve(shares, values, axis=1) == pytest.approx(loss, abs=1e-14)
    flat = np.full((2, 4), 0.7)
    assert area_over_curve(shares, flat) == pytest.approx([0, 0], abs=1e-15)
    assert area_over_curve(shares, [[0.5, 0.6, 0.6, 0.6]])[0] < 0
    assert area_over_curve([0.0, 0.5], np.array([1, 0], np.uint8)) == 0.5
    with pytest.raises(InputError, match=r"0\.1, 0\.5 came, expected 0 first"):
        area_over_curve([0.1, 0.5], [1.0, 0.5])


def test_small_integers_do_not_wrap_around() -> None:
    morf, lerf = np.array([[0, 1]], np.uint8).T, np.array([[1, 0]], np.uint8).T
    assert symmetric_gain([0.1, 0.3], morf, lerf, axis=0).tolist() == [0.0]
    assert symmetric_gain([0.1, 0.3], lerf * 0 + 1, lerf * 0, axis=0).tolist() == [-1.0]


def test_nan_stays_with_its_curve() -> None:
    found = area([0.0, 1.0], [[1.0, np.nan], [1.0, 1.0]])
    assert np.isnan(found[0])
    assert found[1] == 1


@pytest.mark.parametrize(
    ("fractions", "message"),
    [
        ([0.3], "at least two"),
        ([], "at least two"),
        ([[0.1, 0.2]], "at least two"),
        (["a", "b"], "at least two"),
        ([0.1, 0.1], r"0.1, 0.1 came, expected rising values, each once"),
        ([0.5, 0.1], r"0.5, 0.1 came, expected rising"),
        ([0.1, np.nan], "0.1, nan came, expected finite"),
        ([0.1, np.inf], "0.1, inf came, expected finite"),
    ],
)
def test_fractions_that_span_no_area_are_refused(fractions: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        area(fractions, np.zeros(np.size(fractions)))


def test_values_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(3, 4\) came, expected 2 entries along axis -1"):
        area([0.1, 0.2], np.zeros((3, 4)))
    with pytest.raises(InputError, match="along axis 5"):
        area([0.1, 0.2], np.zeros(2), axis=5)
    with pytest.raises(InputError, match=r"morf has shape \(2,\) and lerf \(3,\)"):
        symmetric_gain([0.1, 0.2], np.zeros(2), np.zeros(3))
