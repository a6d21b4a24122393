"""The accuracy with nothing removed: intervals and tests against SciPy and published examples."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
from planted_runs import planted

import roadworthy as rw
from roadworthy.comparison.intact import newcombe

SCORES = {"ig": np.full(100, 0.5)}


def run(hits: Any, n: int = 100, **options: Any) -> Any:
    return planted({"ig": np.full((np.atleast_2d(hits).shape[0], n), 0.5)}, hits=np.asarray(hits), **options)


def test_each_accuracy_has_wilsons_interval() -> None:
    hits = np.arange(100) < 83
    found = rw.compare([run(hits), run(hits)]).intact
    ends = scipy.stats.binomtest(83, 100).proportion_ci(method="wilson")
    assert (found["accuracy"][0], found["low"][0], found["high"][0]) == pytest.approx((0.83, ends.low, ends.high))


def test_on_the_same_samples_p_is_no_less_than_mcnemars() -> None:
    hits = np.arange(100) < 80
    better = hits | ((np.arange(100) >= 84) & (np.arange(100) < 96))
    better[:2] = False
    row = rw.compare({"old": run(hits), "new": run(better)}).intact.iloc[1]
    assert (row["only_run"], row["only_against"], row["difference"]) == (12, 2, pytest.approx(0.10))
    exact = scipy.stats.binomtest(12, 14).pvalue
    assert exact - 0.004 < row["p"] < 2 * exact
    assert row["difference_low"] < 0.10 < row["difference_high"]
    assert row["difference_low"] > 0


@pytest.mark.parametrize(
    ("one", "other", "ends"),  # Newcombe 1998, table II, method 10
    [
        ((56, 70), (48, 80), (0.0524, 0.3339)),
        ((9, 10), (3, 10), (0.1705, 0.8090)),
        ((6, 7), (2, 7), (0.0582, 0.8062)),
        ((5, 56), (0, 29), (-0.0381, 0.1926)),
        ((0, 10), (0, 10), (-0.2775, 0.2775)),
        ((10, 10), (0, 10), (0.6075, 1.0)),
    ],
)
def test_newcombes_interval_is_the_published_one(
    one: tuple[int, int], other: tuple[int, int], ends: tuple[float, float]
) -> None:
    shares = [(hits / n, n) for hits, n in (one, other)]
    assert newcombe(*shares, 0.95) == pytest.approx(ends, abs=6e-5)
    assert newcombe(*shares[::-1], 0.95) == pytest.approx((-ends[1], -ends[0]), abs=6e-5)


def test_on_other_samples_p_is_fishers() -> None:
    other = run(np.arange(80) < 48, n=80, ids=[f"t{i}" for i in range(80)])
    row = rw.compare({"old": other, "new": run(np.arange(70) < 56, n=70)}).intact.iloc[1]
    assert row["p"] == pytest.approx(scipy.stats.fisher_exact([[56, 14], [48, 32]]).pvalue)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((0.0524, 0.3339), abs=6e-5)
    assert not row["paired"]


def test_over_trainings_accuracies_are_those_of_the_t_test() -> None:
    hits = np.stack([np.arange(100) < count for count in (80, 82, 84, 79)])
    better = np.stack([np.arange(100) < count for count in (86, 87, 91, 84)])
    options = {"training": "retrain"}
    found = rw.compare({"old": run(hits, **options), "new": run(better, **options)}).intact
    test = scipy.stats.ttest_rel([0.86, 0.87, 0.91, 0.84], [0.80, 0.82, 0.84, 0.79])
    ends = test.confidence_interval()
    row = found.iloc[1]
    assert row["p"] == pytest.approx(test.pvalue)
    assert (row["difference_low"], row["difference_high"]) == pytest.approx((ends.low, ends.high))
    assert (row["unit"], row["n"]) == ("trainings", 4)
    apart = rw.compare({"old": run(hits, **options), "new": run(better, seed=1, **options)}).intact.iloc[1]
    welch = scipy.stats.ttest_ind([0.86, 0.87, 0.91, 0.84], [0.80, 0.82, 0.84, 0.79], equal_var=False)
    assert (apart["p"], apart["paired"]) == (pytest.approx(welch.pvalue), False)


def test_without_labels_there_is_no_accuracy() -> None:
    found = rw.compare([run(np.ones(100), labels="predicted"), run(np.ones(100))])
    assert np.isnan(found.intact.loc[0, ["accuracy", "difference"]].astype(float)).all()
    assert np.isnan(found.intact.loc[1, "difference"])


def test_a_better_model_is_said_to_have_more_to_lose() -> None:
    found = rw.compare({"old": run(np.arange(100) < 50), "new": run(np.arange(100) < 90)})
    assert any("more to lose" in warning for warning in found.warnings)
    assert any("new is more accurate than old, by 40.0 points" in sentence for sentence in found.verdict)


def test_an_end_that_is_0_is_exactly_0() -> None:
    hits = np.arange(150) < 148
    one = hits.copy()
    one[0] = False
    row = rw.compare({"old": run(hits, n=150), "new": run(one, n=150)}).intact.iloc[1]
    assert row["difference_high"] == 0.0
    assert row["difference"] == pytest.approx(-1 / 150)
