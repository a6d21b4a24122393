from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.errors import InputError
from roadworthy.statistics import concordance_p, kendall, kendall_matrix, kendalls_w, spearman, spearman_matrix
from roadworthy.statistics import rank_matrices as package_name

VALUES = hnp.arrays(
    np.float64, st.tuples(st.integers(2, 5), st.integers(2, 7)), elements=st.integers(-2, 2).map(float)
)


def scipys(values: np.ndarray, which: str) -> np.ndarray:
    """Oracle: SciPy, pair by pair; NaN where a row is constant."""
    function = {"spearman": scipy.stats.spearmanr, "kendall": scipy.stats.kendalltau}[which]
    out = np.full((len(values), len(values)), np.nan)
    for i, j in itertools.product(range(len(values)), repeat=2):
        if np.ptp(values[i]) and np.ptp(values[j]):
            out[i, j] = function(values[i], values[j]).statistic
    return out


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_every_pair_is_scipys(values: np.ndarray) -> None:
    assert spearman_matrix(values) == pytest.approx(scipys(values, "spearman"), abs=1e-12, nan_ok=True)
    assert kendall_matrix(values) == pytest.approx(scipys(values, "kendall"), abs=1e-12, nan_ok=True)


def test_leading_axes_and_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).integers(0, 4, (6, 3, 4, 8)).astype(float)
    whole = kendall_matrix(values)
    monkeypatch.setattr(package_name, "_CELLS", 100)
    assert np.array_equal(kendall_matrix(values), whole, equal_nan=True)
    for d, p in np.ndindex(6, 3):
        for i, j in np.ndindex(4, 4):
            assert whole[d, p, i, j] == pytest.approx(float(kendall(values[d, p, i], values[d, p, j])))
    assert spearman_matrix(values)[2, 1, 0, 3] == pytest.approx(float(spearman(values[2, 1, 0], values[2, 1, 3])))


def test_a_perfect_agreement_is_exactly_one() -> None:
    values = np.random.default_rng(2).random(200)
    for matrix in (spearman_matrix, kendall_matrix):
        assert matrix([values, np.exp(values), -values]).tolist() == [[1, 1, -1], [1, 1, -1], [-1, -1, 1]]


def test_what_is_undefined_is_nan_for_its_pairs_only() -> None:
    values = [[1.0, 2.0, 3.0], [1.0, np.nan, 3.0], [4.0, 4.0, 4.0], [3.0, 2.0, 1.0]]
    for matrix in (spearman_matrix, kendall_matrix):
        found = matrix(values)
        assert np.isnan(found[[1, 2]]).all()
        assert np.isnan(found[:, [1, 2]]).all()
        assert found[0, 3] == -1
        assert np.isnan(matrix([[1.0], [2.0]])).all()  # one method


def test_w_by_hand() -> None:
    ranks = np.array([[1, 2, 3, 4], [2, 1, 3, 4], [1, 3, 2, 4]])
    sums = ranks.sum(axis=0)  # 4, 6, 8, 12: squares of deviations from 7.5 are 12.25 + 2.25 + 0.25 + 20.25
    assert ((sums - 7.5) ** 2).sum() == 35
    assert float(kendalls_w(ranks)) == pytest.approx(12 * 35 / (9 * (64 - 4)))
    tied = np.array([[1, 2.5, 2.5, 4], [1, 2, 3, 4], [1.5, 1.5, 3, 4]])
    sums = tied.sum(axis=0)
    ties = (2**3 - 2) + 0 + (2**3 - 2)
    by_hand = (12 * (sums**2).sum() - 3 * 9 * 4 * 25) / (9 * 4 * 15 - 3 * ties)
    assert float(kendalls_w(tied)) == pytest.approx(by_hand)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 6), st.integers(2, 8), st.integers(0, 2**31))
def test_w_without_ties_follows_from_the_mean_spearman_and_from_friedmans_test(s: int, m: int, seed: int) -> None:
    values = np.random.default_rng(seed).random((s, m))
    w = float(kendalls_w(values))
    pairs = spearman_matrix(values)[np.triu_indices(s, 1)]
    assert (s * w - 1) / (s - 1) == pytest.approx(pairs.mean())
    if m > 2:
        friedman = scipy.stats.friedmanchisquare(*values.T).statistic if s > 2 else s * (m - 1) * w
        assert w == pytest.approx(friedman / (s * (m - 1)))


def test_w_of_ties_is_friedmans_too() -> None:
    values = np.random.default_rng(3).integers(0, 3, (7, 6)).astype(float)
    friedman = scipy.stats.friedmanchisquare(*values.T).statistic  # corrected for ties
    assert float(kendalls_w(values)) == pytest.approx(friedman / (7 * 5))


def test_w_undefined() -> None:
    assert np.isnan(kendalls_w([[1.0, 2.0]]))
    assert np.isnan(kendalls_w([[1.0, 1.0], [2.0, 2.0]]))
    assert np.isnan(kendalls_w([[1.0, 2.0], [np.nan, 2.0]]))
    assert np.isnan(concordance_p([[1.0, 1.0], [2.0, 2.0]], draws=10))
    assert kendalls_w(np.random.default_rng(4).random((3, 2, 4, 5))).shape == (3, 2)


def test_p_is_that_of_all_permutations() -> None:
    values = np.array([[1, 2, 3, 4], [2, 1, 3, 4], [1, 2, 4, 3]])
    seen = float(kendalls_w(values))
    every = [
        float(kendalls_w([values[0], values[1][list(a)], values[2][list(b)]]))
        for a in itertools.permutations(range(4))
        for b in itertools.permutations(range(4))
    ]
    exact = float((np.array(every) >= seen - 1e-12).mean())
    assert concordance_p(values, draws=20_000) == pytest.approx(exact, abs=4 * np.sqrt(exact / 20_000))


def test_p_is_even_for_unrelated_rankings_and_the_same_for_a_seed() -> None:
    rng = np.random.default_rng(5)
    found = [concordance_p(rng.random((4, 6)), draws=199, seed=i) for i in range(200)]
    assert scipy.stats.kstest(found, "uniform").pvalue > 0.001
    values = rng.random((4, 6))
    assert concordance_p(values, seed=1) == concordance_p(values, seed=1) != concordance_p(values, seed=2)


@pytest.mark.parametrize("values", [[1.0, 2.0], [["a", "b"]]])
def test_other_than_numbers_by_source_and_method_are_refused(values: object) -> None:
    with pytest.raises(InputError, match=r"expected numbers \(..., source, method\)"):
        spearman_matrix(values)
    with pytest.raises(InputError, match="expected 2 axes"):
        concordance_p(np.zeros((2, 2, 2)))
