from __future__ import annotations

import json
import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.errors import InputError
from roadworthy.statistics import (
    holm,
    least_difference,
    over_repeats,
    paired_repeats,
    pairwise_table,
    rank_methods,
    rank_methods_over_repeats,
)

NAMES = ["random", "ig", "twin", "grad"]


def planted(repeats: int = 5, seed: int = 3) -> np.ndarray:
    """Scores of four methods: ig and its twin lead by far, random is last; a shift shared by all methods."""
    rng = np.random.default_rng(seed)
    scores = np.array([[0.0], [0.5], [0.0], [0.2]]) + rng.normal(0, 0.01, (4, repeats)) + rng.normal(0, 0.6, repeats)
    scores[2] = scores[1]
    return scores


@pytest.mark.parametrize("repeats", [2, 3, 5, 10, 200])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_the_interval_is_that_of_students_t(repeats: int, level: float) -> None:
    values = np.random.default_rng(repeats).normal(5, 2, (3, 4, repeats))
    found = over_repeats(values, level=level)
    assert found.mean.shape == found.low.shape == (3, 4)
    assert (found.n, found.level) == (repeats, level)
    np.testing.assert_allclose(found.mean, values.mean(axis=-1), rtol=1e-14)
    np.testing.assert_allclose(found.sd, values.std(axis=-1, ddof=1), rtol=1e-14)
    error = values.std(axis=-1, ddof=1) / math.sqrt(repeats)
    low, high = scipy.stats.t.interval(level, repeats - 1, values.mean(axis=-1), error)
    np.testing.assert_allclose(found.low, low, rtol=1e-9)
    np.testing.assert_allclose(found.high, high, rtol=1e-9)


def test_two_repeats_in_closed_form() -> None:
    found = over_repeats([0.0, 1.0], level=0.5)  # one degree of freedom is Cauchy's law, whose quartile is 1
    assert float(found.mean) == 0.5
    assert float(found.sd) == pytest.approx(math.sqrt(0.5))
    assert (float(found.low), float(found.high)) == pytest.approx((0.0, 1.0))


def test_one_repeat_has_a_mean_and_no_spread() -> None:
    found = over_repeats([[0.25], [0.5]])
    assert found.mean.tolist() == [0.25, 0.5]
    assert np.isnan([found.sd, found.low, found.high]).all()
    pairs = paired_repeats([[0.25], [0.5]])
    assert pairs.difference.tolist() == [[0.0, -0.25], [0.25, 0.0]]
    assert np.isnan([pairs.difference_low[0, 1], pairs.difference_high[0, 1]]).all()
    assert pairs.p.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    table = rank_methods_over_repeats([[0.25], [0.5]], ["a", "b"])
    assert table[["method", "rank", "group", "n"]].values.tolist() == [["b", 1, "a", 1], ["a", 2, "a", 1]]
    assert table[["sd", "low", "high"]].isna().all(axis=None)


@pytest.mark.parametrize("repeats", [2, 3, 5, 30])
def test_pairs_are_those_of_ttest_rel(repeats: int) -> None:
    scores = planted(repeats)
    scores[2] += np.random.default_rng(4).normal(0, 0.1, repeats)
    found = paired_repeats(scores, level=0.9)
    for i in range(4):
        for j in range(4):
            if i == j:
                continue
            reference = scipy.stats.ttest_rel(scores[i], scores[j])
            interval = reference.confidence_interval(0.9)
            assert found.p[i, j] == pytest.approx(reference.pvalue, rel=1e-9)
            assert found.difference[i, j] == pytest.approx((scores[i] - scores[j]).mean(), rel=1e-12)
            assert (found.difference_low[i, j], found.difference_high[i, j]) == pytest.approx(
                tuple(interval), rel=1e-9
            )
            assert found.difference_low[i, j] == -found.difference_high[j, i]
    assert (found.p == found.p.T).all()
    assert (found.p.diagonal() == 1).all()


def test_pairing_takes_the_shared_part_out() -> None:
    scores = planted()
    unpaired = scipy.stats.ttest_ind(scores[1], scores[3]).pvalue
    assert unpaired > 0.05
    assert paired_repeats(scores).p[1, 3] < 1e-4


def test_equal_methods_differ_by_nothing() -> None:
    found = paired_repeats(planted())
    assert (found.difference[1, 2], found.p[1, 2]) == (0.0, 1.0)
    assert np.isnan([found.difference_low[1, 2], found.difference_high[1, 2]]).all()
    assert not found.difference_low.diagonal().any(), "a method's difference to itself is certain"
    many = paired_repeats(planted(6))
    assert many.difference_low[1, 2] == many.difference_high[1, 2] == 0.0


@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")
@pytest.mark.parametrize("repeats", [2, 3, 5, 8])
def test_a_difference_without_spread_is_judged_by_its_signs(repeats: int) -> None:
    """0.1 + 0.2 - 0.3 and the like leave a spread of rounding, which is none; scipy calls the difference certain."""
    base = np.random.default_rng(5).random(repeats)
    found = paired_repeats([base + 0.1, base])
    assert found.p[0, 1] == pytest.approx(2 * 0.5**repeats)
    ends = [found.difference_low[0, 1], found.difference_high[0, 1]]
    if found.p[0, 1] > 0.05:  # the same test excludes no difference at all
        assert np.isnan(ends).all()
    else:
        assert ends == pytest.approx([0.1, 0.1])
    flips = [
        np.mean([s * 0.1 for s in signs])
        for signs in np.ndindex(*[2] * repeats)
        for signs in [2 * np.array(signs) - 1]
    ]
    assert found.p[0, 1] == pytest.approx(np.mean(np.abs(flips) >= 0.1 - 1e-12))
    assert scipy.stats.ttest_rel(base + 0.1, base).pvalue < 1e-12


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
@pytest.mark.parametrize("repeats", [2, 3, 5, 6, 7, 8])
def test_a_mean_without_spread_has_an_interval_where_signs_could_exclude_something(
    repeats: int, level: float
) -> None:
    found = over_repeats([[0.1 + 0.2] * repeats, np.linspace(0, 1, repeats)], level=level)
    signs = 2 * np.array(list(np.ndindex(*[2] * repeats))) - 1
    p = np.mean(np.abs(signs.mean(axis=1)) >= 1 - 1e-12)  # of any other mean, by all flips of the signs
    assert float(found.sd[0]) == 0
    assert np.isnan([found.low[0], found.high[0]]).all() == (p > 1 - level)
    if p <= 1 - level:
        assert [found.low[0], found.high[0]] == pytest.approx([0.3, 0.3])
    assert found.low[1] < found.mean[1] < found.high[1]


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_neither_order_nor_shift_nor_scale_changes_what_is_real(data: st.DataObject) -> None:
    shape = data.draw(st.tuples(st.integers(1, 4), st.integers(1, 5)))
    scores = data.draw(hnp.arrays(np.float64, shape, elements=st.sampled_from([0.0, 0.1, 0.25, 0.7, 1.0])))
    found = paired_repeats(scores)
    order = np.array(data.draw(st.permutations(range(shape[1]))))
    again = paired_repeats(scores[:, order])
    assert (again.mean == found.mean).all()
    np.testing.assert_allclose(again.p, found.p, rtol=1e-6)
    np.testing.assert_allclose(paired_repeats(3 * scores + 2).p, found.p, rtol=1e-6)
    assert ((found.p > 0) & (found.p <= 1)).all()


def test_the_ranking_is_laid_out_as_that_over_samples() -> None:
    scores = planted()
    table = rank_methods_over_repeats(scores, NAMES)
    other = rank_methods(scores, NAMES, draws=500)
    assert list(table.columns) == [*other.columns, "sd", "n"]
    assert set(table.attrs) == set(other.attrs)
    assert json.dumps(json.loads(json.dumps(table.attrs))) == json.dumps(table.attrs)
    assert table.copy().attrs == table.attrs
    assert table["method"].tolist() == ["ig", "twin", "grad", "random"]
    assert table["rank"].tolist() == [1, 1, 3, 4]
    assert table["group"].tolist() == ["a", "a", "b", "c"]
    assert (table.attrs["n"], table["n"].tolist(), table.attrs["direction"]) == (5, [5] * 4, "higher is better")
    order = [NAMES.index(name) for name in table["method"]]
    np.testing.assert_allclose(table["sd"], scores[order].std(axis=1, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(table["score"], scores[order].mean(axis=1), rtol=1e-12)
    pairs = pairwise_table(table)
    assert pairs["p_holm"].tolist() == holm(pairs["p"].to_numpy()).tolist()
    assert (pairs["different"] == (pairs["p_holm"] <= 0.05)).all()
    for row in pairs.itertuples():
        first, second = (scores[NAMES.index(name)] for name in (row.method, row.other))
        assert row.difference == pytest.approx((first - second).mean(), abs=1e-12)
    low = rank_methods_over_repeats(scores, NAMES, higher_is_better=False)
    assert low["method"].tolist() == ["random", "grad", "ig", "twin"]
    assert low.attrs["direction"] == "lower is better"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_values_are_refused_by_name(value: float) -> None:
    scores = planted()
    scores[2, 3] = value
    with pytest.raises(InputError, match=r"1 of 20 values are NaN or infinite \(method 2; repeat 3\).*these repeats"):
        rank_methods_over_repeats(scores, NAMES)
    with pytest.raises(InputError, match=r"\(row 2; repeat 3\)"):
        over_repeats(scores)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match=r"shape \(\) came, expected one or more repeats"):
        over_repeats(3)
    with pytest.raises(InputError, match=r"shape \(2, 0\) came"):
        over_repeats(np.zeros((2, 0)))
    with pytest.raises(InputError, match=r"level: 95 came"):
        over_repeats([1.0, 2.0], level=95)
    with pytest.raises(InputError, match=r"scores: shape \(2,\) came"):
        paired_repeats([1.0, 2.0])
    with pytest.raises(InputError, match=r"names: 1 names for 2 rows"):
        rank_methods_over_repeats([[1.0, 2.0]] * 2, ["a"])


@pytest.mark.parametrize(("repeats", "methods"), [(2, 3), (3, 4), (5, 9), (10, 10)])
def test_the_least_difference_is_where_holm_turns(repeats: int, methods: int) -> None:
    """One method is moved by a little less and a little more than the bound, in a panel where all else is alike."""
    pairs = methods * (methods - 1) // 2
    bound = least_difference(repeats, pairs)
    noise = np.random.default_rng(6).normal(size=repeats)
    noise = (noise - noise.mean()) / noise.std(ddof=1)
    for size, real in ((0.999, False), (1.001, True)):
        scores = np.zeros((methods, repeats))
        scores[0] = noise + size * bound
        table = rank_methods_over_repeats(scores, [str(i) for i in range(methods)])
        assert bool(np.any(table.attrs["different"])) == real
    with pytest.raises(InputError, match="1 repeats and 3 pairs came"):
        least_difference(1, 3)


@pytest.mark.parametrize("repeats", [3, 5, 10])
def test_panels_without_any_order_are_seldom_ranked(repeats: int) -> None:
    """Null panels of hits on 100 test samples: the family-wise error of the docstring, with its sampling error."""
    rng = np.random.default_rng(7)
    wrong, panels = 0, 400
    for _ in range(panels):
        share = np.linspace(0.9, 0.3, 5) + rng.normal(0, 0.01, (6, 2, repeats, 5)) + rng.normal(0, 0.01, (repeats, 1))
        accuracy = rng.binomial(100, np.clip(share, 0, 1)) / 100
        found = paired_repeats((accuracy[:, 0] - accuracy[:, 1]).mean(axis=-1))
        wrong += bool(holm(found.p[np.triu_indices(6, 1)]).min() <= 0.05)
    assert wrong <= scipy.stats.binom.ppf(0.999, panels, 0.05)
