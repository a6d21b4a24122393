"""Order, ties, counts and nesting, against definitions written out plainly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.errors import AttributionError, InputError
from roadworthy.removal import (
    constant_maps,
    nonfinite_rows,
    ranks_without_ties,
    reduce_channels,
    removal_ranks,
    removed_at,
    tie_draw,
    tied_share,
    unit_values,
    units_removed,
)

maps = hnp.arrays(
    np.float64, st.tuples(st.integers(1, 3), st.integers(1, 30)), elements=st.integers(-4, 4).map(float)
)
IDS = ["a", "b", "c"]


def draw_for(values: np.ndarray, seed: int = 0) -> np.ndarray:
    return tie_draw(seed, IDS[: len(values)], values.shape[1])


@given(
    values=maps,
    order=st.sampled_from(["morf", "lerf"]),
    sign=st.sampled_from(["signed", "abs", "positive", "squared"]),
)
@settings(max_examples=60)
def test_ranks_follow_a_plain_sort_with_the_draw_breaking_ties(values: np.ndarray, order: str, sign: str) -> None:
    draw = draw_for(values)
    ranks = removal_ranks(values, draw, order, sign)
    key = {"signed": values, "abs": abs(values), "positive": np.maximum(values, 0), "squared": values**2}[sign]
    key = key if order == "morf" else -key
    for row in range(len(values)):
        place = {unit: position for position, unit in enumerate(draw[row].tolist())}
        expected = sorted(range(values.shape[1]), key=lambda unit: (-key[row, unit], place[unit]))
        assert np.argsort(ranks[row]).tolist() == expected


@given(values=maps, fractions=st.lists(st.floats(0, 1), min_size=2, max_size=5))
@settings(max_examples=60)
def test_masks_are_nested_and_exact(values: np.ndarray, fractions: list[float]) -> None:
    ranks = removal_ranks(values, draw_for(values))
    before = np.zeros(values.shape, dtype=bool)
    for fraction in sorted(fractions):
        mask = removed_at(ranks, fraction)
        assert (mask.sum(axis=1) == units_removed(values.shape[1], fraction)).all()
        assert (mask >= before).all()
        before = mask


@given(values=maps)
@settings(max_examples=40)
def test_monotone_transforms_change_nothing(values: np.ndarray) -> None:
    draw = draw_for(values)
    ranks = removal_ranks(values, draw)
    for transformed in (values * 10, values + 5, np.exp(values)):
        assert (removal_ranks(transformed, draw) == ranks).all()


@given(values=maps)
@settings(max_examples=40)
def test_the_inverse_map_swaps_the_orders(values: np.ndarray) -> None:
    draw = draw_for(values)
    assert (removal_ranks(-values, draw, "morf") == removal_ranks(values, draw, "lerf")).all()


def test_a_constant_map_goes_in_one_random_order_both_ways() -> None:
    values = np.zeros((2, 50))
    draw = tie_draw(0, ["a", "b"], 50)
    morf, lerf = removal_ranks(values, draw), removal_ranks(values, draw, "lerf")
    assert (morf == lerf).all()
    assert (morf[0] != morf[1]).any(), "two images must not share one tie-break"


def test_the_tie_draw_belongs_to_the_image_alone() -> None:
    together = tie_draw(5, ["a", "b", "c"], 20)
    assert (tie_draw(5, ["c"], 20)[0] == together[2]).all()
    assert (tie_draw(6, ["c"], 20)[0] != together[2]).any()
    assert (tie_draw(5, ["c"], 20, repeat=1)[0] != together[2]).any()


def test_heavy_tails_and_large_maps_keep_their_order() -> None:
    values = np.random.default_rng(1).lognormal(sigma=9, size=(1, 100_000))
    ranks = removal_ranks(values, tie_draw(0, ["a"], 100_000), sign="squared")
    assert (np.argsort(ranks[0]) == np.argsort(-values[0])).all()


@pytest.mark.parametrize(
    ("units", "fraction", "count"),
    [(10, 0.1, 1), (10, 0.3, 3), (1024, 0.7, 716), (9, 0.999, 8), (1, 1.0, 1), (5, 0.0, 0)],
)
def test_counts(units: int, fraction: float, count: int) -> None:
    assert units_removed(units, fraction) == count


def test_the_guard_against_rounding_below_a_whole_number() -> None:
    assert 0.29 * 100 < 29  # what the guard is for
    assert units_removed(100, 0.29) == 29


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_shares_outside_are_refused(fraction: float) -> None:
    with pytest.raises(InputError, match=f"got {fraction}.*between 0 and 1"):
        units_removed(10, fraction)


def test_reductions_against_plain_numpy() -> None:
    values = np.random.default_rng(0).normal(size=(2, 3, 4, 5)).astype(np.float32)
    wide = values.astype(np.float64)
    for name, expected in {
        "sum": wide.sum(1),
        "abs-sum": abs(wide).sum(1),
        "max-abs": abs(wide).max(1),
        "l2": np.linalg.norm(wide, axis=1),
        "mean": wide.mean(1),
    }.items():
        np.testing.assert_allclose(reduce_channels(values, name), expected, rtol=1e-14)
    with pytest.raises(InputError, match="'median'.*abs-sum"):
        reduce_channels(values, "median")


def test_one_red_plane_removes_whole_pixels() -> None:
    attribution = np.zeros((1, 3, 4, 4))
    attribution[0, 0, 0] = 1
    values = unit_values(attribution, (3, 4, 4))
    mask = removed_at(removal_ranks(values, tie_draw(0, ["a"], 16)), 0.25)
    assert mask.shape == (1, 4, 4)
    assert mask[0, 0].all()
    assert mask.sum() == 4
    channels = unit_values(attribution, (3, 4, 4), unit="channel")
    mask = removed_at(removal_ranks(channels, tie_draw(0, ["a"], 48)), 4 / 48)
    assert mask[0, 0, 0].all()
    assert mask.sum() == 4


@pytest.mark.parametrize(
    ("shape", "image", "hint"),
    [
        ((2, 24, 16), (3, 16, 24), "swapped"),
        ((2, 16, 24, 3), (3, 16, 24), "channels last"),
        ((2, 7, 7), (3, 16, 24), "Resize"),
        ((2, 5), (4,), "Resize"),
    ],
)
def test_wrong_shapes_name_both(shape: tuple[int, ...], image: tuple[int, ...], hint: str) -> None:
    with pytest.raises(AttributionError, match=hint) as caught:
        unit_values(np.zeros(shape), image, name="mine")
    assert str(shape[1:]) in str(caught.value)
    assert str(image) in str(caught.value)


def test_shapes_that_fit() -> None:
    assert unit_values(np.zeros((2, 4, 5)), (3, 4, 5)).shape == (2, 4, 5)
    assert unit_values(np.zeros((2, 1, 4, 5)), (3, 4, 5)).shape == (2, 4, 5)
    assert unit_values(np.zeros((2, 3, 4, 5)), (3, 4, 5), unit="channel").shape == (2, 3, 4, 5)
    assert unit_values(np.zeros((2, 4, 5)), (1, 4, 5), unit="channel").shape == (2, 1, 4, 5)
    assert unit_values(np.zeros((2, 30)), (2, 30)).shape == (2, 30)
    assert unit_values(np.zeros((2, 7)), (7,)).shape == (2, 7)


def test_channels_share_the_value_of_their_position_where_a_map_has_no_channels() -> None:
    maps = np.arange(40.0).reshape(2, 4, 5)
    for shaped in (maps, maps[:, None]):
        values = unit_values(shaped, (3, 4, 5), unit="channel")
        assert values.shape == (2, 3, 4, 5)
        assert (values == maps[:, None]).all()


def test_ties_constants_and_nonfinite() -> None:
    values = np.array([[1.0, 1, 2, 3], [5, 5, 5, 5], [1, 2, np.nan, 4], [1, np.inf, 2, 3]])
    assert tied_share(values[:2]).tolist() == [0.5, 1.0]
    assert tied_share(np.zeros((1, 1))).tolist() == [0.0]
    assert constant_maps(values).tolist() == [False, True, False, False]
    assert nonfinite_rows(values).tolist() == [False, False, True, True]


@pytest.mark.parametrize("order", ["morf", "lerf"])
@pytest.mark.parametrize("sign", ["signed", "abs", "positive", "squared"])
def test_ranks_without_ties_are_those_of_any_draw(order: str, sign: str) -> None:
    generator = np.random.default_rng(0)
    values = generator.normal(size=(40, 6, 5))
    values[::3] = generator.integers(0, 4, size=values[::3].shape)  # tied
    values[1] = 0.0
    values[1].flat[0] = -0.0
    ranks, tied = ranks_without_ties(values, order, sign)
    for seed in (0, 1):
        drawn = removal_ranks(values, tie_draw(seed, [str(row) for row in range(40)], 30), order, sign)
        assert (ranks[~tied] == drawn[~tied]).all()
    flat = np.abs(values) if sign in ("abs", "squared") else np.maximum(values, 0) if sign == "positive" else values
    expected = [len(np.unique(row)) < 30 for row in flat.reshape(40, -1)]
    assert tied.tolist() == expected
    one, alone = ranks_without_ties(np.zeros((2, 1)), order, sign)
    assert one.tolist() == [[0], [0]]
    assert not alone.any()
