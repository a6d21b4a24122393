from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.statistics import Concordance, Source, concordance, kendalls_w, rank_agreement
from roadworthy.statistics.concordance import _interval

# Accuracies of eight methods on CIFAR-10 at seven shares, read off published plots (mean of 5 trainings, +-.002).
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 0.9)
METHODS = ("IG", "IG-SG", "IG-SQ", "IG-Var", "GB", "GB-SG", "GB-SQ", "GB-Var")
MORF_RETRAIN_LINEAR = [
    [0.712, 0.692, 0.682, 0.670, 0.662, 0.640, 0.551],
    [0.697, 0.682, 0.674, 0.674, 0.675, 0.665, 0.605],
    [0.729, 0.709, 0.689, 0.677, 0.660, 0.623, 0.524],
    [0.734, 0.712, 0.699, 0.684, 0.672, 0.630, 0.536],
    [0.728, 0.717, 0.714, 0.709, 0.702, 0.682, 0.598],
    [0.726, 0.719, 0.716, 0.711, 0.704, 0.679, 0.596],
    [0.709, 0.674, 0.652, 0.635, 0.616, 0.564, 0.469],
    [0.719, 0.687, 0.658, 0.642, 0.623, 0.569, 0.470],
]
MORF_NO_RETRAIN_LINEAR = [
    [0.713, 0.662, 0.614, 0.571, 0.538, 0.448, 0.291],
    [0.677, 0.602, 0.541, 0.493, 0.457, 0.370, 0.246],
    [0.749, 0.683, 0.600, 0.511, 0.427, 0.287, 0.213],
    [0.746, 0.671, 0.588, 0.493, 0.406, 0.288, 0.213],
    [0.750, 0.716, 0.698, 0.680, 0.665, 0.602, 0.354],
    [0.749, 0.713, 0.689, 0.674, 0.650, 0.576, 0.333],
    [0.698, 0.599, 0.513, 0.421, 0.345, 0.252, 0.210],
    [0.730, 0.635, 0.535, 0.436, 0.360, 0.258, 0.207],
]
LERF_RETRAIN_LINEAR_BY_SHARE_KEPT = [
    [0.671, 0.744, 0.776, 0.797, 0.802, 0.812, 0.807],
    [0.729, 0.776, 0.794, 0.807, 0.812, 0.818, 0.815],
    [0.582, 0.656, 0.697, 0.724, 0.737, 0.759, 0.767],
    [0.553, 0.627, 0.674, 0.710, 0.731, 0.758, 0.767],
    [0.608, 0.663, 0.682, 0.690, 0.697, 0.705, 0.724],
    [0.591, 0.656, 0.679, 0.687, 0.695, 0.700, 0.721],
    [0.666, 0.718, 0.739, 0.750, 0.758, 0.763, 0.770],
    [0.652, 0.708, 0.731, 0.744, 0.755, 0.763, 0.768],
]
UNITS = ("samples", "trainings")


def published(pairing: Any) -> Concordance:
    removed = [1 - share for share in reversed(SHARES)]
    sources = [
        Source("m-re", np.array(MORF_RETRAIN_LINEAR)[..., None], SHARES, "morf"),
        Source("m-non", np.array(MORF_NO_RETRAIN_LINEAR)[..., None], SHARES, "morf"),
        Source("l-re", np.array(LERF_RETRAIN_LINEAR_BY_SHARE_KEPT)[:, ::-1, None], removed, "lerf"),
    ]
    return concordance(sources, METHODS, pairing=pairing, draws=50)


def test_the_papers_pairing_gives_the_papers_agreement_of_the_orders() -> None:
    found = published("kept")
    assert found.shares.tolist() == list(SHARES)
    assert found.spearman_shares[0, 2].round(2).tolist() == [0.95, 0.73, 0.74, 0.79, 0.5, 0.37, 0.06]
    assert found.spearman.value[0, 2] == pytest.approx(0.591, abs=5e-4)  # 0.61 published
    assert found.used[0, 2] == 7
    assert np.array_equal(found.spearman.value, found.spearman.value.T)


def test_equal_shares_removed_give_another_agreement() -> None:
    found = published("removed")
    assert found.shares.tolist() == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert found.spearman.value[0, 2] == pytest.approx(0.411, abs=5e-4)
    assert found.used.tolist() == [[7, 7, 5], [7, 7, 5], [5, 5, 7]]
    assert np.isnan(found.spearman_shares[0, 2][[1, 3, 5, 7]]).all()
    assert np.array_equal(np.isnan(found.w_shares), np.isnan(found.spearman_shares[0, 2]))


@pytest.mark.parametrize("pairing", ["removed", "kept"])
def test_retrained_and_not_agree_as_published_whatever_the_pairing(pairing: str) -> None:
    assert published(pairing).spearman.value[0, 1] == pytest.approx(0.871, abs=5e-4)  # 0.84 published


def test_raw_scores_have_the_other_sign() -> None:
    raw = [
        scipy.stats.spearmanr(np.array(MORF_RETRAIN_LINEAR)[:, p], np.array(LERF_RETRAIN_LINEAR_BY_SHARE_KEPT)[:, p])
        for p in range(7)
    ]
    assert published("kept").spearman.value[0, 2] == pytest.approx(-np.mean([found.statistic for found in raw]))


def drawn(units: int = 30, methods: int = 5, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 2, (methods, 4, units)) + np.arange(methods)[:, None, None] / 4


def two(a: np.ndarray, b: np.ndarray, unit: str = "samples") -> list[Source]:
    shares = [0.0, 0.2, 0.5, 0.8]
    return [Source("m", a, shares, "morf", unit=unit), Source("l", b, shares, "lerf", unit=unit)]


def test_every_number_is_scipys() -> None:
    a, b = drawn(), -drawn(seed=2)
    found = concordance(two(a, b), draws=20)
    low, high = -a.mean(axis=2), b.mean(axis=2)
    for p in range(1, 4):  # nothing is removed at share 0
        assert found.spearman_shares[0, 1, p - 1] == pytest.approx(scipy.stats.spearmanr(low[:, p], high[:, p])[0])
        assert found.kendall_shares[0, 1, p - 1] == pytest.approx(scipy.stats.kendalltau(low[:, p], high[:, p])[0])
    assert found.spearman.value[0, 1] == pytest.approx(found.spearman_shares[0, 1].mean())
    assert found.kendall.value[0, 1] == pytest.approx(found.kendall_shares[0, 1].mean())
    areas = np.trapezoid(low, [0, 0.2, 0.5, 0.8]), np.trapezoid(high, [0, 0.2, 0.5, 0.8])
    assert found.spearman_area.value[0, 1] == pytest.approx(scipy.stats.spearmanr(*areas)[0])
    assert found.kendall_area.value[0, 1] == pytest.approx(scipy.stats.kendalltau(*areas)[0])
    assert found.w == pytest.approx(float(kendalls_w(np.stack(areas))))
    assert found.ranks == pytest.approx(scipy.stats.rankdata(-np.stack(areas), axis=1))
    assert found.shares.tolist() == [0.2, 0.5, 0.8]


def test_two_orders_agree_as_rank_agreement_says() -> None:
    a, b = drawn(), drawn(seed=3)
    found = concordance(two(a, b), draws=20)
    plain = rank_agreement([0, 0.2, 0.5, 0.8], a.mean(axis=2), b.mean(axis=2))
    assert found.spearman.value[0, 1] == pytest.approx(np.nanmean(plain.spearman[1:]))
    assert found.spearman_area.value[0, 1] == pytest.approx(plain.spearman_area)
    assert found.kendall_area.value[0, 1] == pytest.approx(plain.kendall_area)


def looped(sources: list[Source], draws: int, seed: int) -> np.ndarray:
    """Oracle: a plain loop over resamples, SciPy for each share."""
    rng, out = np.random.default_rng(seed), []
    (a, b), shares = [source.scores for source in sources], range(1, 4)
    for _ in range(draws):
        picks = rng.integers(a.shape[2], size=a.shape[2])
        low, high = -a[..., picks].mean(axis=2), b[..., picks].mean(axis=2)
        out.append(np.mean([scipy.stats.spearmanr(low[:, p], high[:, p])[0] for p in shares]))
    return np.array(out)


def test_standard_error_and_interval_are_those_of_a_loop_over_resamples() -> None:
    rng = np.random.default_rng(4)
    a = rng.normal(size=(6, 4, 50)) - np.arange(6)[:, None, None] / 6
    b = rng.normal(size=(6, 4, 50)) + np.arange(6)[:, None, None] / 6
    sources = two(a, b)
    found = concordance(sources, draws=4000)
    expected = looped(sources, 500, 5)
    assert found.spearman.se[0, 1] == pytest.approx(expected.std(), rel=0.12)
    value = found.spearman.value[0, 1]
    tail = scipy.stats.norm.cdf(scipy.stats.t.ppf(0.025, 49) * np.sqrt(50 / 49))
    half = max(np.abs(np.quantile(expected, [tail, 1 - tail]) - value))
    assert found.spearman.low[0, 1] == pytest.approx(value - half, abs=0.06)
    assert found.spearman.high[0, 1] == pytest.approx(min(1, value + half), abs=0.06)
    assert found.n == 50


def test_the_interval_holds_the_agreement_of_the_noiseless_curves() -> None:
    shares, inside = [0.1, 0.3, 0.5], []
    for panel in range(60):
        rng = np.random.default_rng(panel)
        true = [rng.normal(size=(7, 1)) + rng.normal(0, 0.3, (7, 3)) for _ in range(2)]
        true[1] += true[0]
        noisy = [curves[..., None] + rng.normal(0, 4, (7, 3, 100)) for curves in true]
        found = concordance([Source("a", noisy[0], shares), Source("b", noisy[1], shares)], draws=300, seed=panel)
        rho = np.mean([scipy.stats.spearmanr(true[0][:, p], true[1][:, p])[0] for p in range(3)])
        inside.append(found.spearman.low[0, 1] <= rho <= found.spearman.high[0, 1])
    assert np.mean(inside) >= 0.85


def test_the_standard_error_over_trainings_is_the_published_one() -> None:
    a, b = drawn(units=5), drawn(units=5, seed=6)
    a, b = a + np.random.default_rng(7).random(a.shape), b + np.random.default_rng(8).random(b.shape)
    found = concordance(two(a, b, "trainings"), draws=30)
    single = [np.mean([scipy.stats.spearmanr(-a[:, p, r], b[:, p, r])[0] for p in range(1, 4)]) for r in range(5)]
    assert found.single[0, 1] == pytest.approx(np.mean(single))
    assert found.spearman.se[0, 1] == pytest.approx(np.std(single, ddof=1) / np.sqrt(5))
    assert found.trainings.tolist() == [[5, 5], [5, 5]]
    assert found.n == 0
    fewer = concordance([two(a, b, "trainings")[0], two(a, b[..., :3], "trainings")[1]], draws=30)
    assert fewer.trainings[0, 1] == 3
    assert fewer.single[0, 1] == pytest.approx(np.mean(single[:3]))


def test_trainings_beside_samples_are_both_resampled() -> None:
    a, b = drawn(units=5), drawn(units=40, seed=9)
    sources = [two(-a, a, "trainings")[0], two(b, b)[1]]
    found = concordance(sources, draws=400)
    assert found.trainings[0, 1] == 0
    assert np.isnan(found.single[0, 1])
    assert found.spearman.se[0, 1] > 0
    assert found.spearman.low[0, 1] < found.spearman.value[0, 1]
    assert found.n == 40


def test_a_single_unit_has_no_error_and_no_interval() -> None:
    for unit in UNITS:
        found = concordance(two(drawn(1), drawn(1, seed=2), unit), draws=20)
        assert not np.isnan(found.spearman.value[0, 1])
        for matrix in (found.spearman, found.kendall, found.spearman_area, found.kendall_area):
            assert np.isnan([matrix.se[0, 1], matrix.low[0, 1], matrix.high[0, 1]]).all()
        assert np.isnan([found.w_low, found.w_high]).all()


def test_undefined_is_nan_neither_0_nor_1() -> None:
    flat, real = np.ones((4, 4, 6)), drawn(6, 4)
    found = concordance([*two(flat, real), Source("other", real + 1, [0, 0.2, 0.5, 0.8])], draws=20)
    for matrix in (found.spearman, found.kendall, found.spearman_area, found.kendall_area):
        assert np.isnan(matrix.value[0]).all()
        assert np.isnan([matrix.se[0], matrix.low[0], matrix.high[0]]).all()
        assert matrix.value[1, 2] == 1
    assert found.used[0].tolist() == [0, 0, 0]
    assert found.used[1, 2] == 3
    one = concordance(two(drawn(6, 1), drawn(6, 1, seed=2)), draws=20)
    assert np.isnan(one.spearman.value).all()
    assert np.isnan([one.w, one.w_p, one.w_low]).all()
    apart = concordance([Source("a", real[:, :1], [0.2]), Source("b", real[:, :1], [0.4])], draws=20)
    assert np.isnan(apart.spearman.value[0, 1])
    assert np.isnan(apart.spearman_area.value).all()
    assert apart.spearman.value[0, 0] == 1


def test_a_source_that_ranks_nothing_does_not_count_in_w() -> None:
    a, b = drawn(seed=1), drawn(seed=2)
    flat = np.ones_like(a)
    alone = concordance(two(a, b), draws=30)
    found = concordance([*two(a, b), Source("flat", flat, [0.0, 0.2, 0.5, 0.8])], draws=30)
    assert found.unranked == ("flat",)
    assert alone.unranked == ()
    assert (found.w, found.w_low, found.w_high, found.w_p) == (alone.w, alone.w_low, alone.w_high, alone.w_p)
    assert np.array_equal(found.w_shares, alone.w_shares)
    one = concordance(two(flat, a), draws=30)
    assert np.isnan([one.w, one.w_p, one.w_low]).all()


def test_sources_that_are_one_thing_are_named() -> None:
    a, b = drawn(seed=1), drawn(seed=2)
    shares = [0.0, 0.2, 0.5, 0.8]
    made = [Source(name, scores, shares) for name, scores in (("a", a), ("b", b), ("again", a.copy()))]
    assert concordance(made, draws=10).twins == (("a", "again"),)
    turned = Source("turned", 0.0 - a, shares, higher_is_better=False)  # whose zeros turn negative
    assert concordance([made[0], turned], draws=10).twins == (("a", "turned"),)
    near = a.copy()
    near[0, 0, 0] += 1e-6
    assert concordance([made[0], Source("near", near, shares)], draws=10).twins == ()
    flat = np.ones_like(a)
    assert concordance([made[1], *two(flat, flat)], draws=10).twins == ()


def test_a_share_with_equal_scores_is_left_out_of_the_mean() -> None:
    a, b = drawn(), drawn(seed=2)
    a[:, 2] = 1
    found = concordance(two(a, b), draws=20)
    assert np.isnan(found.spearman_shares[0, 1]).tolist() == [False, True, False]
    assert found.used[0, 1] == 2
    assert found.spearman.value[0, 1] == pytest.approx(found.spearman_shares[0, 1][[0, 2]].mean())


def test_resamples_without_a_value_are_left_out_up_to_a_share() -> None:
    moved = np.linspace(0, 0.8, 100)[:, None].repeat(2, axis=1)
    moved[:4, 0], moved[:6, 1] = np.nan, np.nan
    low, high = _interval(np.array([0.5, 0.5]), moved, 1000, 0.95)
    assert 0 < low[0] < 0.5 < high[0] <= 1
    assert np.isnan([low[1], high[1]]).all()


def test_the_interval_reaches_as_far_to_both_sides() -> None:
    for moved in (np.linspace(0.1, 0.6, 101), np.linspace(0.4, 0.9, 101)):
        low, high = _interval(np.array([0.5]), moved[:, None], 10**6, 0.9)
        assert [float(low[0]), float(high[0])] == pytest.approx([0.125, 0.875], abs=1e-3)
    low, high = _interval(np.array([0.9]), np.linspace(0, 0.9, 101)[:, None], 10**6, 0.9)
    assert [float(low[0]), float(high[0])] == pytest.approx([0.045, 1], abs=1e-3)


def test_equal_means_of_different_samples_share_their_rank() -> None:
    rng = np.random.default_rng(11)
    row = rng.random(50)
    values = np.stack([row, rng.permutation(row), rng.permutation(row), row + 1])[:, None].repeat(2, axis=1)
    assert len(set(values[:, 0].mean(axis=-1).tolist())) > 2  # sums in another order differ by their rounding
    found = concordance([Source("a", values, [0.2, 0.4]), Source("b", np.round(values), [0.2, 0.4])], draws=50)
    assert found.ranks.tolist() == [[3, 3, 3, 1], [3, 3, 3, 1]]
    assert found.spearman.value[0, 1] == 1
    assert found.w == 1


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31))
def test_the_order_of_samples_changes_nothing_and_that_of_sources_moves_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random((4, 4, 12)), rng.random((4, 4, 12))
    samples = rng.permutation(12)
    found = concordance(two(a, b), draws=40)
    moved = concordance(two(a[..., samples], b[..., samples]), draws=40)
    swapped = concordance(two(a, b)[::-1], draws=40)
    for part in ("value", "se", "low", "high"):
        table = getattr(found.spearman, part)
        assert np.array_equal(table, getattr(moved.spearman, part))
        assert table == pytest.approx(getattr(swapped.spearman, part)[::-1, ::-1], abs=1e-12)
        assert np.array_equal(table, table.T)
    assert (np.abs(found.spearman.value) <= 1).all()
    assert (found.spearman.low <= found.spearman.value).all()
    assert (found.spearman.value <= found.spearman.high).all()
    assert 0 < found.w_p <= 1


def test_monotone_scales_of_a_source_change_only_areas() -> None:
    a, b = np.random.default_rng(10).random((2, 5, 4, 1))
    plain, cubed = concordance(two(a, b), draws=5), concordance(two(a**3, 1e6 * b), draws=5)
    assert np.array_equal(plain.spearman_shares, cubed.spearman_shares)
    assert np.array_equal(plain.kendall_shares, cubed.kendall_shares)


def test_the_same_seed_is_bit_equal_and_inputs_and_global_state_are_left_alone() -> None:
    a, b = drawn(), drawn(seed=2)
    copies, state = (a.copy(), b.copy()), np.random.get_state()[1].copy()  # noqa: NPY002
    first, again, other = (concordance(two(a, b), draws=60, seed=seed) for seed in (3, 3, 4))
    assert np.array_equal(first.spearman.low, again.spearman.low)
    assert first.w_p == again.w_p
    assert not np.array_equal(first.spearman.se, other.spearman.se)
    assert (first.seed, first.draws, first.level) == (3, 60, 0.95)
    assert np.array_equal(a, copies[0])
    assert np.array_equal(b, copies[1])
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_chunks_of_draws_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    whole = concordance(two(drawn(), drawn(seed=2)), draws=50)
    monkeypatch.setattr(sys.modules["roadworthy.statistics.concordance"], "_CELLS", 200)
    parts = concordance(two(drawn(), drawn(seed=2)), draws=50)
    assert np.array_equal(whole.spearman.se, parts.spearman.se)
    assert whole.w_low == parts.w_low


def test_the_table_of_pairs_holds_the_matrices() -> None:
    found = published("kept")
    pairs = found.pairs()
    assert pairs[["source", "other"]].values.tolist() == [["m-re", "m-non"], ["m-re", "l-re"], ["m-non", "l-re"]]
    assert pairs["spearman"].tolist() == [found.spearman.value[i, j] for i, j in itertools.combinations(range(3), 2)]
    assert pairs["shares"].tolist() == [7, 7, 7]
    assert (pairs["methods"] == 8).all()
    assert {"spearman_se", "kendall_low", "spearman_area_high", "kendall_area"} <= set(pairs.columns)


def test_direction_is_told_or_follows_from_the_order() -> None:
    a = drawn()
    shares = [0, 0.2, 0.5, 0.8]
    same = [Source("x", a, shares), Source("y", -a, shares, higher_is_better=False), Source("z", a, shares, "lerf")]
    assert (concordance(same, draws=5).spearman.value == 1).all()
    against = concordance([same[0], Source("m", a, shares, "morf")], draws=5)
    assert against.spearman.value[0, 1] == -1
    assert against.w == 0


GOOD = Source("a", drawn(), [0, 0.2, 0.5, 0.8])


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ([GOOD], "1 source came, expected two or more"),
        ([GOOD, GOOD], "a more than once came"),
        ([GOOD, Source("b", drawn(methods=4), [0, 0.2, 0.5, 0.8])], r"\{'a': 5, 'b': 4\} methods"),
        ([GOOD, Source("b", drawn(7), [0, 0.2, 0.5, 0.8])], r"\{'a': 30, 'b': 7\} samples"),
        ([GOOD, Source("b", drawn(), [0.2, 0.5])], "source 'b': 4 shares of scores came for 2 shares"),
        ([GOOD, Source("b", drawn(), [0, 0.5, 0.2, 0.8])], "source 'b': fractions: .* expected rising"),
        ([GOOD, Source("b", drawn(), [0, 20, 50, 80])], "source 'b': shares 0.0, 20.0, .* between 0 and 1"),
        (
            [GOOD, Source("b", drawn() * np.nan, [0, 0.2, 0.5, 0.8])],
            "scores of source 'b': 600 of 600 values are NaN",
        ),
        ([GOOD, Source("b", drawn()[0], [0.2])], r"scores of source 'b': shape \(4, 30\) came, expected 3 axes"),
        ([GOOD, Source("b", drawn(), [0, 0.2, 0.5, 0.8], "MoRF")], "order 'MoRF' and unit 'samples' came"),
    ],
)
def test_sources_that_do_not_fit_are_refused(sources: list[Source], message: str) -> None:
    with pytest.raises(InputError, match=message):
        concordance(sources, draws=5)


def test_wrong_settings_are_refused() -> None:
    sources = two(drawn(), drawn())
    with pytest.raises(InputError, match="pairing: 'kep' came"):
        concordance(sources, pairing="kep")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="draws: 0 came"):
        concordance(sources, draws=0)
    with pytest.raises(InputError, match="level: 95 came"):
        concordance(sources, level=95)
    with pytest.raises(InputError, match="methods: 2 names came for 5 methods"):
        concordance(sources, ["a", "b"])
