from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.statistics import holm, paired_bootstrap, pairwise_table, rank_methods

NAMES = ["random", "ig", "ig-twin", "sobel", "inverse"]


def planted(n: int = 120, seed: int = 81) -> np.ndarray:
    """Scores of five methods: ig and its twin lead by far, random and sobel are alike, inverse is last."""
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(5, n)) * 0.3 + np.array([0, 0.8, 0, 0.02, -0.8])[:, None]
    scores[2] = scores[1]
    return scores


def test_the_planted_order_comes_out_with_its_groups() -> None:
    table = rank_methods(planted(), NAMES)
    assert list(table.columns) == ["method", "score", "low", "high", "rank", "group"]
    assert table["method"].tolist()[:2] == ["ig", "ig-twin"]
    assert set(table["method"][2:4]) == {"random", "sobel"}
    assert table["rank"].tolist() == [1, 1, 3, 4, 5]
    assert table["group"].tolist() == ["a", "a", "b", "b", "c"]
    assert (table["low"] < table["score"]).all()
    assert (table["score"] < table["high"]).all()


def test_direction_turns_the_order_and_nothing_else() -> None:
    high = rank_methods(planted(), NAMES)
    low = rank_methods(planted(), NAMES, higher_is_better=False)
    assert low["method"][0] == "inverse"
    assert low["rank"].tolist() == [1, 2, 3, 4, 4]
    assert low["group"].tolist() == ["a", "b", "b", "c", "c"]
    assert (high.attrs["direction"], low.attrs["direction"]) == ("higher is better", "lower is better")
    merged = high.merge(low, on="method")
    for column in ("score", "low", "high"):
        assert (merged[f"{column}_x"] == merged[f"{column}_y"]).all()
    mirrored = rank_methods(-planted(), NAMES, higher_is_better=False)
    assert mirrored["method"].tolist() == high["method"].tolist()
    assert mirrored["rank"].tolist() == high["rank"].tolist()


def test_the_table_carries_the_bootstrap_in_row_order() -> None:
    scores = planted()
    table = rank_methods(scores, NAMES, draws=3000, seed=7)
    found = paired_bootstrap(scores, draws=3000, seed=7)
    order = [NAMES.index(name) for name in table["method"]]
    for name in ("difference", "difference_low", "difference_high", "p"):
        assert (np.array(table.attrs[name]) == getattr(found, name)[np.ix_(order, order)]).all()
    assert table["score"].tolist() == found.mean[order].tolist()
    assert {k: table.attrs[k] for k in ("n", "draws", "level", "seed", "higher_is_better")} == {
        "n": 120, "draws": 3000, "level": 0.95, "seed": 7, "higher_is_better": True,
    }  # fmt: skip


def test_the_pairwise_table_has_a_row_per_pair() -> None:
    table = rank_methods(planted(), NAMES)
    pairs = pairwise_table(table)
    assert list(pairs.columns) == ["method", "other", "difference", "low", "high", "p", "p_holm", "different"]
    assert len(pairs) == 10
    assert (pairs["difference"] >= 0).all()
    assert pairs["p_holm"].tolist() == holm(pairs["p"].to_numpy()).tolist()
    assert (pairs["different"] == (pairs["p_holm"] <= 0.05)).all()
    twins = pairs[(pairs["method"] == "ig") & (pairs["other"] == "ig-twin")].iloc[0]
    assert (twins["difference"], twins["low"], twins["high"], twins["p_holm"], twins["different"]) == (
        0,
        0,
        0,
        1,
        False,
    )
    group = dict(zip(table["method"], table["group"], strict=True))
    for row in pairs.itertuples():
        assert row.different == (not set(group[row.method]) & set(group[row.other]))
    lower = pairwise_table(rank_methods(planted(), NAMES, higher_is_better=False))
    assert (lower["difference"] <= 0).all()


def test_the_order_of_methods_and_samples_changes_no_number() -> None:
    scores = planted()
    shuffled = np.random.default_rng(82).permutation(120)
    first = rank_methods(scores, NAMES)
    second = rank_methods(scores[::-1, shuffled], NAMES[::-1])
    pd.testing.assert_frame_equal(
        first.sort_values("method", ignore_index=True), second.sort_values("method", ignore_index=True)
    )


def test_attributes_survive_json_files_and_joins(tmp_path: Path) -> None:
    table = rank_methods(planted(), NAMES, draws=500)
    assert json.loads(json.dumps(table.attrs)) == table.attrs
    table.to_parquet(tmp_path / "ranking.parquet")
    again = pd.read_parquet(tmp_path / "ranking.parquet")
    pd.testing.assert_frame_equal(pairwise_table(again), pairwise_table(table))
    assert len(pd.concat([table, table])) == 10


def test_a_panel_without_any_order_is_not_ranked() -> None:
    """Ten maps without information: no pair told apart in at least 95 % of 20 panels."""
    rng = np.random.default_rng(83)
    ranked = 0
    for seed in range(20):
        difficulty = rng.normal(size=(1, 200, 1)) + np.linspace(1.5, -1.5, 7)
        hits = rng.normal(size=(2, 10, 200, 7)) * 0.7 + difficulty > 0
        gains = (hits[0].astype(float) - hits[1]).mean(axis=-1)
        table = rank_methods(gains, [str(i) for i in range(10)], seed=seed)
        ranked += set(table["group"]) != {"a"}
    assert ranked <= 1


@pytest.mark.parametrize("n", [1, 2])
def test_too_few_samples_tell_nothing_apart(n: int) -> None:
    table = rank_methods([[1.0] * n, [0.0] * n], ["x", "y"])
    assert table["group"].tolist() == ["a", "a"]
    assert table["rank"].tolist() == [1, 2]
    assert bool(table["low"].isna().all()) == (n == 1)


def test_one_method_is_a_ranking_of_one() -> None:
    table = rank_methods(np.random.default_rng(84).random((1, 30)), ["ig"])
    assert table[["method", "rank", "group"]].values.tolist() == [["ig", 1, "a"]]
    assert len(pairwise_table(table)) == 0


def test_draws_too_few_for_the_correction_are_warned_about() -> None:
    scores = np.random.default_rng(85).random((10, 30))
    names = [f"m{i}" for i in range(10)]
    with pytest.warns(RoadworthyWarning, match=r"draws=1000 is too few to tell any of 45 pairs apart.*at least 1800"):
        rank_methods(scores, names, draws=1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rank_methods(scores, names, draws=1800)


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match=r"names: 1 names for 2 rows"):
        rank_methods([[1.0, 2.0], [1.0, 2.0]], ["a"])
    with pytest.raises(InputError, match="names: a more than once came"):
        rank_methods([[1.0, 2.0], [1.0, 2.0]], ["a", "a"])
    with pytest.raises(InputError, match=r"1 of 4 values are NaN or infinite \(method 1; sample 0\)"):
        rank_methods([[1.0, 2.0], [np.nan, 2.0]], ["a", "b"])
    with pytest.raises(InputError, match="attrs lack difference"):
        pairwise_table(pd.DataFrame({"method": ["a"]}))
