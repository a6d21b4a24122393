"""Models on the same samples: planted differences are found, chance ones are not, other samples are refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ttest_rel

from roadworthy.errors import InputError
from roadworthy.labelfree.comparison import Comparison, compare_models, compare_ranked, compare_scores
from roadworthy.labelfree.consistency import Consistency
from roadworthy.labelfree.curve import reliability_curve
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.selective import ranked


def planted(firmness: float, *, n: int = 200, seed: int = 0, own: int = 0, first: int = 0) -> Consistency:
    """Two classes; the clean class keeps about ``firmness`` under perturbation. ``own`` seeds what is the model's."""
    rng, its = np.random.default_rng(seed), np.random.default_rng([own, 9])
    hard = rng.random(n)  # of the sample, shared by all models
    predicted = rng.integers(2, size=n)
    keep = np.clip(firmness + 0.2 * (0.5 - hard) + 0.05 * its.normal(size=n), 0, 1)
    confidence = 0.5 + keep / 2
    other = 1 - predicted
    rows = np.arange(n)
    clean, mean = np.empty((n, 2)), np.empty((n, 2))
    clean[rows, predicted], clean[rows, other] = confidence, 1 - confidence
    mean[rows, predicted], mean[rows, other] = keep, 1 - keep
    count = np.round(30 * keep).astype(int)
    return Consistency(
        clean=Outputs.of(clean, ids=[f"s{first + i}" for i in range(n)]),
        passes=30,
        perturbation="planted",
        strength=None,
        seed=0,
        agreement_count=count,
        mode_count=np.maximum(count, 30 - count),
        mode=np.where(count >= 15, predicted, other),
        mean_probabilities=mean.astype(np.float32),
        variance=keep * (1 - keep),
        entropy=1 - keep,
        confidence_mean=np.maximum(keep, 1 - keep),
        confidence_variance=np.zeros(n),
    )


def reordered(model: Consistency, rows: np.ndarray) -> Consistency:
    arrays = {
        name: value[rows] for name, value in vars(model).items() if isinstance(value, np.ndarray) and len(value)
    }
    return Consistency(
        **{
            **vars(model),
            **arrays,
            "clean": Outputs.of(model.clean.probabilities[rows], ids=[model.clean.ids[r] for r in rows]),
        }
    )


def test_a_planted_difference_is_found_and_a_tie_stays_one() -> None:
    models = {"old": planted(0.8), "new": planted(0.9), "newer": planted(0.9, own=1)}
    found = compare_models(models, draws=500)
    assert set(found.names[:2]) == {"new", "newer"}
    assert found.names[2] == "old"
    assert found.group == ("a", "a", "b")
    for name, score in zip(found.names, found.score, strict=True):
        assert score == pytest.approx(reliability_curve(models[name], draws=0).area)
    assert found.first.sum() == pytest.approx(1)
    assert found.first[2] < 0.05
    np.testing.assert_allclose(found.difference, -found.difference.T)
    assert found.as_dict()["group"] == ["a", "a", "b"]


def test_pairing_makes_differences_sharper_than_the_intervals_suggest() -> None:
    found = compare_models({"a": planted(0.8), "b": planted(0.82)}, draws=500)
    assert found.low[0] < found.high[1]  # the intervals overlap, and yet
    assert found.group == ("a", "b")


def test_equal_models_differ_by_nothing() -> None:
    found = compare_models({"one": planted(0.8), "same": planted(0.8)}, draws=100)
    assert found.difference[0, 1] == found.difference_low[0, 1] == found.difference_high[0, 1] == 0
    assert (found.p == 1).all()
    assert found.rank.tolist() == [1, 1]
    assert found.first.tolist() == [0.5, 0.5]


def test_rows_are_matched_by_their_ids() -> None:
    one, other = planted(0.8), planted(0.82, own=1)
    rows = np.random.default_rng(4).permutation(200)
    straight = compare_models({"a": one, "b": other}, draws=100)
    crossed = compare_models({"a": one, "b": reordered(other, rows)}, draws=100)
    np.testing.assert_allclose(straight.difference_low, crossed.difference_low, atol=1e-12)
    assert straight.as_dict()["p"] == crossed.as_dict()["p"]


def test_other_samples_are_refused() -> None:
    with pytest.raises(InputError, match=r"'a' has 200 samples and 'b' 200; 20 are of one alone: 's0', 's1'"):
        compare_models({"a": planted(0.8), "b": planted(0.8, first=10)})
    with pytest.raises(InputError, match="at least two to compare"):
        compare_models({"a": planted(0.8)})
    with pytest.raises(InputError, match=r"shapes \(2,\), \(3,\) came"):
        compare_scores({"a": [1.0, 2.0], "b": [1.0, 2.0, 3.0]})
    with pytest.raises(InputError, match="level: 95 came"):
        compare_models({"a": planted(0.8), "b": planted(0.9)}, level=95)


def test_scores_of_samples_agree_with_the_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    base = rng.normal(size=300)
    a, b = base + 0.1 * rng.normal(size=300), base + 0.02 + 0.1 * rng.normal(size=300)
    found = compare_scores({"a": a, "b": b}, draws=4000)
    assert found.p[0, 1] == pytest.approx(ttest_rel(a, b).pvalue, abs=0.02)
    ids = [str(i) for i in range(300)]
    rows = rng.permutation(300)
    crossed = compare_scores({"a": a, "b": b[rows]}, ids={"a": ids, "b": [ids[r] for r in rows]}, draws=4000)
    assert crossed.p[0, 1] == found.p[0, 1]


def false_alarms(runs: int, models: int, n: int) -> float:
    """How often models whose areas are equal in truth are told apart at all, at 5 %."""
    rng = np.random.default_rng(6)
    wrong = 0
    for run in range(runs):
        shared = rng.normal(size=n)
        curves = {}
        for model in range(models):
            values = 1 / (1 + np.exp(-shared - rng.normal(size=n)))
            curves[str(model)] = ranked(np.clip(values + 0.2 * rng.normal(size=n), 0, 1), values)
        found: Comparison = compare_ranked(
            curves, dict.fromkeys(curves, np.arange(n)), measure="x", draws=200, seed=run
        )
        wrong += set(found.group) != {"a"}
    return wrong / runs


def test_equal_models_are_seldom_told_apart() -> None:
    assert false_alarms(runs=80, models=4, n=80) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 80)
