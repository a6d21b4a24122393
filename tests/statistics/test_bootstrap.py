from __future__ import annotations

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from roadworthy.errors import InputError
from roadworthy.statistics import PairedBootstrap, curve_bands, paired_bootstrap

TABLES = ("mean", "low", "high", "difference", "difference_low", "difference_high", "p")
GAINS = st.integers(2, 12).flatmap(lambda n: hnp.arrays(np.float64, (3, n), elements=st.integers(-7, 7).map(float)))


def drawn(methods: int = 4, n: int = 60, seed: int = 51) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(methods, n)) + np.arange(methods)[:, None] / 3


def equal(one: PairedBootstrap, other: PairedBootstrap) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name), equal_nan=True) for name in TABLES)


def expanded(resampled: np.ndarray, n: int, level: float = 0.95) -> np.ndarray:
    """Oracle: Hesterberg's adjusted level, by SciPy's distributions."""
    z = scipy.stats.t.ppf((1 - level) / 2, n - 1) * np.sqrt(n / (n - 1))
    return np.quantile(resampled, [scipy.stats.norm.cdf(z), scipy.stats.norm.sf(z)], axis=0)


def test_intervals_equal_plain_resampling() -> None:
    scores = drawn()
    found = paired_bootstrap(scores, draws=20_000, seed=1)
    picks = np.random.default_rng(52).integers(60, size=(20_000, 60))
    means = np.stack([row[picks].mean(axis=1) for row in scores], axis=1)
    assert found.mean == pytest.approx(scores.mean(axis=1), abs=1e-14)
    assert np.stack([found.low, found.high]) == pytest.approx(expanded(means, 60), abs=0.02)
    for i, j in itertools.permutations(range(4), 2):
        low, high = expanded(means[:, i] - means[:, j], 60)
        assert found.difference[i, j] == pytest.approx(scores[i].mean() - scores[j].mean(), abs=1e-14)
        assert [found.difference_low[i, j], found.difference_high[i, j]] == pytest.approx([low, high], abs=0.025)


def test_intervals_of_many_samples_equal_scipys_bootstrap_and_the_normal_interval() -> None:
    scores = np.random.default_rng(53).normal(size=(1, 5000)) ** 2
    found = paired_bootstrap(scores)
    reference = scipy.stats.bootstrap(
        (scores[0],), np.mean, n_resamples=5000, method="percentile", rng=np.random.default_rng(54), batch=100
    ).confidence_interval
    error = scores.std() / np.sqrt(5000)
    assert (found.low[0], found.high[0]) == pytest.approx(reference, abs=0.15 * error)
    normal = scores.mean() + np.array([-1.96, 1.96]) * error
    assert (found.low[0], found.high[0]) == pytest.approx(normal, abs=0.15 * error)


def test_intervals_of_few_normal_samples_are_as_wide_as_students() -> None:
    ratios = []
    for seed in range(30):
        scores = np.random.default_rng(seed).normal(size=(1, 12))
        found = paired_bootstrap(scores, draws=4000, seed=seed)
        student = 2 * scipy.stats.t.ppf(0.975, 11) * scores.std(ddof=1) / np.sqrt(12)
        ratios.append(float(found.high[0] - found.low[0]) / student)
    assert np.mean(ratios) == pytest.approx(1, abs=0.05)


def test_the_level_widens_the_interval() -> None:
    widths = [
        np.ptp([f.low, f.high], axis=0)[0] for f in (paired_bootstrap(drawn(), level=q) for q in (0.5, 0.9, 0.99))
    ]
    assert widths == sorted(widths)
    assert widths[0] < 0.6 * widths[1]


@settings(max_examples=15, deadline=None)
@given(hnp.arrays(np.float64, (2, 8), elements=st.integers(-7, 7).map(float)))
def test_p_is_at_least_that_of_every_sign_flip(scores: np.ndarray) -> None:
    differences = scores[0] - scores[1]
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    exact = float((np.abs(signs @ differences) >= abs(differences.sum()) - 1e-9).mean())
    found = paired_bootstrap(scores, draws=4000).p[0, 1]
    assert found >= exact - 4 * np.sqrt(exact * (1 - exact) / 4000) - 1e-3


def test_p_of_symmetric_differences_equals_scipys_paired_permutation_test() -> None:
    rng = np.random.default_rng(55)
    for shift in (0.0, 0.2, 0.4):
        half = rng.normal(size=25)
        differences = np.concatenate([half, -half]) + shift
        reference = scipy.stats.permutation_test(
            (differences, np.zeros(50)), lambda x, y, axis: (x - y).mean(axis=axis),
            permutation_type="samples", n_resamples=9999, vectorized=True, rng=np.random.default_rng(56),
        ).pvalue  # fmt: skip
        found = paired_bootstrap(np.stack([differences, np.zeros(50)])).p[0, 1]
        assert found == pytest.approx(reference, abs=0.025)


def test_few_samples_that_differ_give_no_small_p() -> None:
    scores = np.zeros((2, 100))
    scores[0, :5] = 1  # all five against one: the sign test gives 2 / 32, percentiles of resampled means 0.012
    found = paired_bootstrap(scores)
    assert found.p[0, 1] == pytest.approx(2 / 32, abs=0.01)
    scores[0, 1:5] = 0
    assert paired_bootstrap(scores).p[0, 1] == 1.0


def test_one_sample_that_differs_gives_p_1_beside_methods_of_another_scale() -> None:
    scores = np.random.default_rng(57).normal(size=(3, 500)) * 1e3
    scores[1] = scores[0]
    scores[1, 7] += 1e-7
    assert paired_bootstrap(scores, draws=500).p[0, 1] == 1.0


def test_clear_differences_are_found_with_twenty_samples() -> None:
    scores = np.random.default_rng(58).normal(size=(2, 20)) + np.array([[1.5], [0.0]])
    assert paired_bootstrap(scores).p[0, 1] < 0.05 / 45
    constant = paired_bootstrap(np.array([[1.0] * 20, [0.0] * 20]))
    assert constant.p[0, 1] == 2 / 10_001  # never 0
    assert constant.difference_low[0, 1] == constant.difference_high[0, 1] == 1


@settings(max_examples=12, deadline=None)
@given(GAINS)
def test_tables_are_antisymmetric_and_p_agrees_with_the_interval(scores: np.ndarray) -> None:
    found = paired_bootstrap(scores, draws=400)
    assert (found.difference == -found.difference.T).all()
    assert (found.difference_low == -found.difference_high.T).all()
    assert (found.p == found.p.T).all()
    assert ((found.p > 0) & (found.p <= 1)).all()
    assert (found.low <= found.mean + 1e-12).all()
    assert (found.mean <= found.high + 1e-12).all()
    apart = found.p <= 0.045  # clear of the level by what a quantile between two draws may miss
    inside = (found.difference_low < -1e-12) & (found.difference_high > 1e-12)
    assert not (apart & inside).any()


@settings(max_examples=12, deadline=None)
@given(GAINS, st.integers(0, 2**32))
def test_the_order_of_samples_and_methods_changes_nothing(scores: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores[:, 0] += [0, 0.25, 0.5]  # no two methods hold the same set of values
    methods, samples = rng.permutation(scores.shape[0]), rng.permutation(scores.shape[1])
    found = paired_bootstrap(scores, draws=300)
    other = paired_bootstrap(scores[methods][:, samples], draws=300)
    for name in TABLES:
        table = getattr(found, name)
        moved = table[methods] if table.ndim == 1 else table[np.ix_(methods, methods)]
        assert np.array_equal(getattr(other, name), moved), name


def test_equal_rows_differ_by_exactly_nothing() -> None:
    scores = np.random.default_rng(59).normal(size=(9, 333))[[0, 1, 0, 2, 3, 0, 4, 5, 1]]
    found = paired_bootstrap(scores, draws=500)
    for i, j in ((0, 2), (0, 5), (2, 5), (1, 8)):
        assert found.p[i, j] == 1
        assert found.difference[i, j] == found.difference_low[i, j] == found.difference_high[i, j] == 0
        assert (found.mean[i], found.low[i], found.high[i]) == (found.mean[j], found.low[j], found.high[j])


def test_rows_with_the_same_values_in_another_order_have_the_same_mean() -> None:
    row = np.random.default_rng(60).random(1000) / 7
    found = paired_bootstrap(np.stack([row, row[::-1], np.sort(row)]), draws=100)
    assert len(set(found.mean.tolist())) == 1
    assert (found.difference == 0).all()


def test_one_sample_has_no_interval_and_tells_nothing_apart() -> None:
    found = paired_bootstrap([[1.0], [0.0]], draws=100)
    assert found.mean.tolist() == [1, 0]
    assert found.difference[0, 1] == 1
    assert np.isnan([found.low, found.high]).all()
    assert np.isnan([found.difference_low[0, 1], found.difference_high[1, 0]]).all()
    assert (found.p == 1).all()


def test_the_same_seed_is_bit_equal_and_global_state_is_left_alone() -> None:
    scores = drawn(n=37)
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    first, again, other = (paired_bootstrap(scores, seed=seed) for seed in (3, 3, 4))
    assert equal(first, again)
    assert not equal(first, other)
    assert (first.seed, first.n, first.draws, first.level) == (3, 37, 10_000, 0.95)
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert (torch.get_rng_state() == torch_before).all()
    assert first.low == pytest.approx(other.low, abs=0.05)


def test_scores_of_any_kind_are_taken_and_left_unchanged() -> None:
    scores = np.random.default_rng(61).integers(0, 2, size=(3, 40))
    frozen = scores.copy()
    found = paired_bootstrap(scores, draws=200)
    assert (scores == frozen).all()
    assert equal(found, paired_bootstrap(scores.tolist(), draws=200))
    assert equal(found, paired_bootstrap(torch.from_numpy(scores), draws=200))
    assert equal(found, paired_bootstrap(scores.astype(bool), draws=200))


def test_memory_does_not_hold_draws_times_samples() -> None:
    scores = np.random.default_rng(62).random((2, 50_000))
    tracemalloc.start()
    paired_bootstrap(scores, draws=400)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 80e6  # all weights at once are 160 MB


def test_memory_does_not_hold_draws_times_pairs() -> None:
    scores = np.random.default_rng(65).random((80, 20))
    tracemalloc.start()
    found = paired_bootstrap(scores, draws=2000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20e6  # all draws of all pairs at once are 51 MB
    alone = paired_bootstrap(scores[[3, 77]], draws=2000)
    assert found.p[3, 77] == pytest.approx(alone.p[0, 1], abs=0.05)
    assert found.difference_low[3, 77] == pytest.approx(alone.difference_low[0, 1], abs=0.03)


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        ([[1.0, np.nan, 1.0], [1.0, 1.0, np.inf]], r"2 of 6 values are NaN or infinite \(method 0, 1; sample 1, 2\)"),
        ([1.0, 2.0], r"shape \(2,\) came, expected 2 axes"),
        (np.zeros((2, 0)), r"shape \(2, 0\) came"),
        ([["a"]], "real numbers"),
    ],
)
def test_scores_that_cannot_be_compared_are_refused(scores: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        paired_bootstrap(scores)


@pytest.mark.parametrize("settings_", [{"draws": 0}, {"draws": 2.5}, {"draws": True}, {"level": 1.0}, {"level": 95}])
def test_wrong_settings_are_refused(settings_: dict[str, object]) -> None:
    (name, value), *_ = settings_.items()
    with pytest.raises(InputError, match=f"{name}: {value} came"):
        paired_bootstrap([[1.0, 2.0]], **settings_)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=f"{name}: {value} came"):
        curve_bands([[[1.0, 2.0]]], **settings_)  # type: ignore[arg-type]


def test_bands_are_the_intervals_of_each_point() -> None:
    curves = np.random.default_rng(63).random((2, 3, 50))
    low, high = curve_bands(curves, draws=20_000, seed=5)
    assert low.shape == high.shape == (2, 3)
    for m, p in np.ndindex(2, 3):
        found = paired_bootstrap(curves[m, p][None], draws=20_000, seed=6)
        assert [low[m, p], high[m, p]] == pytest.approx([found.low[0], found.high[0]], abs=0.006)


def test_bands_share_their_resamples_and_do_not_depend_on_order() -> None:
    curves = np.random.default_rng(64).random((2, 3, 40))
    curves[1] = curves[0]
    low, high = curve_bands(curves, draws=300)
    assert (low[0] == low[1]).all()
    assert (high[0] == high[1]).all()
    moved = curve_bands(curves[::-1, :, ::-1], draws=300)
    assert (moved[0] == low).all()
    assert (moved[1] == high).all()


def test_bands_refuse_nan_and_leave_one_sample_undefined() -> None:
    curves = np.zeros((2, 3, 4))
    curves[1, 2, 3] = np.nan
    with pytest.raises(InputError, match=r"1 of 24 .*method 1; share 2; sample 3"):
        curve_bands(curves)
    assert np.isnan(curve_bands(np.zeros((1, 2, 1)), draws=10)).all()
    assert (np.array(curve_bands(np.ones((1, 2, 5)), draws=10)) == 1).all()
