"""Evaluations side by side: differences against closed forms and SciPy, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from planted_runs import planted

import roadworthy as rw
from roadworthy.comparison import Comparison
from roadworthy.errors import InputError
from roadworthy.statistics import holm

NAMES = ["grad", "ig", "random"]


def noise(n: int = 200, seed: int = 3) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shared = rng.normal(0, 0.1, n)
    return {name: 0.5 + 0.1 * k + shared + rng.normal(0, 0.05, n) for k, name in enumerate(NAMES)}


def moved(scores: dict[str, np.ndarray], **by: float) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(4)
    return {name: values + by.get(name, 0.0) + rng.normal(0, 0.02, len(values)) for name, values in scores.items()}


def rows(found: Comparison) -> dict[str, Any]:
    return {row["method"]: row for row in found.differences.to_dict("records")}


def test_differences_on_the_same_samples_are_those_of_the_paired_t_test() -> None:
    old, new = noise(), moved(noise(), ig=0.02)
    found = rw.compare({"old": planted(old), "new": planted(new)})
    for method, row in rows(found).items():
        own = new[method].astype(np.float32).astype(float) - old[method].astype(np.float32).astype(float)
        low, high = scipy.stats.t.interval(0.95, 199, own.mean(), scipy.stats.sem(own))
        assert row["difference"] == pytest.approx(own.mean(), abs=1e-12)
        assert (row["low"], row["high"]) == pytest.approx((low, high), abs=0.05 * (high - low))
        assert row["p"] >= scipy.stats.ttest_rel(new[method], old[method]).pvalue * 0.9
        assert (row["run"], row["against"], row["paired"], row["unit"]) == ("new", "old", True, "samples")
        assert (row["n"], row["n_against"]) == (200, 200)
    assert found.differences["p_holm"].tolist() == pytest.approx(holm(found.differences["p"].to_numpy()).tolist())
    assert found.differences.set_index("method")["different"].to_dict() == {
        "grad": False, "ig": True, "random": False,
    }  # fmt: skip
    assert (found.higher_is_better, found.readout) == (True, "probability")


def test_a_run_against_itself_differs_by_exactly_nothing() -> None:
    result = planted(noise())
    found = rw.compare([result, result])
    numbers = found.differences[["difference", "low", "high"]].to_numpy()
    assert (numbers == 0).all()
    assert (found.differences["p"] == 1).all()
    assert not found.differences["different"].any()
    assert found.runs == ("run 1", "run 2")
    assert found.intact.loc[1, ["difference", "difference_low", "difference_high"]].tolist() == [0, 0, 0]
    assert any("the very same" in warning for warning in found.warnings)
    assert "score exactly alike with grad, ig and random" in " ".join(found.verdict)


def test_the_same_seed_is_bit_equal_and_the_order_of_samples_is_moot() -> None:
    old, new = noise(), moved(noise(), ig=0.004)
    place = np.random.default_rng(0).permutation(200)
    shuffled = planted({name: values[place] for name, values in new.items()}, ids=[f"s{i}" for i in place],
                       classes=(np.arange(200) % 4)[place])  # fmt: skip
    first, again, third = (
        rw.compare({"old": planted(old), "new": run}, seed=seed).differences
        for run, seed in ((planted(new), 5), (planted(new), 5), (shuffled, 5))
    )
    pd.testing.assert_frame_equal(first, again, check_exact=True)
    numbers = ["difference", "low", "high", "p"]
    np.testing.assert_allclose(first[numbers].to_numpy(dtype=float), third[numbers].to_numpy(dtype=float), atol=1e-12)


def test_partly_the_same_samples_are_compared_on_those() -> None:
    old, new = noise(), moved(noise(), ig=0.02)
    part = planted({name: values[120:] for name, values in new.items()}, ids=[f"s{i}" for i in range(120, 200)])
    found = rw.compare({"old": planted(old), "new": part})
    row = rows(found)["ig"]
    assert (row["n"], row["paired"]) == (80, True)
    assert row["difference"] == pytest.approx(float((new["ig"] - old["ig"])[120:].mean()), abs=1e-7)
    assert "differences are over the 80 samples that both have, of 80 and 200" in found.warnings[0]


@pytest.mark.parametrize("shared", [0, 49])
def test_other_samples_are_compared_by_welch(shared: int) -> None:
    old, new = noise(), noise(150, seed=8)
    other = planted(new, ids=[f"s{i}" for i in range(200 - shared, 350 - shared)])
    found = rw.compare({"old": planted(old), "new": other})
    for method, row in rows(found).items():
        one, base = new[method].astype(np.float32), old[method].astype(np.float32)
        test = scipy.stats.ttest_ind(one.astype(float), base.astype(float), equal_var=False)
        ends = test.confidence_interval()
        assert (row["low"], row["high"]) == pytest.approx((ends.low, ends.high), abs=1e-9)
        assert row["p"] == pytest.approx(test.pvalue, rel=1e-6)
        assert (row["paired"], row["n"], row["n_against"]) == (False, 150, 200)
    assert ("as if all were others" if shared else "no sample in common") in found.warnings[0]


def test_without_labels_samples_known_by_place_alone_are_taken_for_the_same_with_a_warning() -> None:
    places = [str(i) for i in range(60)]
    runs = {
        labels: rw.compare([planted({"ig": np.ones(60)}, ids=places, labels=labels) for _ in range(2)])
        for labels in ("given", "predicted")
    }
    assert all(found.differences["paired"].all() for found in runs.values())
    told = {labels: [w for w in found.warnings if "places alone" in w] for labels, found in runs.items()}
    assert not told["given"]
    assert told["predicted"][0].startswith("run 2 and run 1: samples are known by their places alone")


def test_the_same_ids_with_other_labels_are_other_samples() -> None:
    found = rw.compare([planted(noise()), planted(noise(), classes=(np.arange(200) + 1) % 4)])
    assert not found.differences["paired"].any()
    assert "200 samples have the same id but another label" in found.warnings[0]


@pytest.mark.parametrize(
    ("numbers", "names", "paired"), [([3, 2, 1, 0], "dcba", True), ([0, 1, 2, 3], "dcba", False)]
)
def test_labels_are_the_names_of_classes_whatever_their_numbers(numbers: list, names: str, paired: bool) -> None:
    runs = [planted(noise()), planted(noise(), classes=np.array(numbers)[np.arange(200) % 4])]
    found = rw.compare([replace(run, classes=list(own)) for run, own in zip(runs, ("abcd", names), strict=True)])
    assert found.differences["paired"].all() == paired
    assert ("another label" in " ".join(found.warnings)) != paired


def test_ids_that_occur_twice_pair_nothing() -> None:
    twice = ["s0", "s0", *(f"s{i}" for i in range(2, 200))]
    found = rw.compare([planted(noise(), ids=twice, classes=np.zeros(200, dtype=int)) for _ in range(2)])
    assert not found.differences["paired"].any()
    assert "ids occur more than once" in found.warnings[0]


def trained(seed: int = 0, repeats: int = 5, shift: float = 0.0, draw: int = 0, **options: Any) -> Any:
    rng = np.random.default_rng([9, draw])
    own = {name: 0.5 + 0.1 * k + shift + rng.normal(0, 0.02, (repeats, 1)) for k, name in enumerate(NAMES)}
    spread = np.random.default_rng(1).normal(0, 0.1, (1, 60))
    values = {name: value + spread for name, value in own.items()}
    return planted(values, seed=seed, training="retrain", **options)


def means(result: Any, method: str) -> np.ndarray:
    return result.scores.probability[result.methods.index(method), 0, 1].mean(axis=-1, dtype=float)


def test_trainings_of_one_seed_are_paired() -> None:
    old, new = trained(), trained(shift=0.05, draw=1)
    found = rw.compare({"old": old, "new": new})
    for method, row in rows(found).items():
        test = scipy.stats.ttest_rel(means(new, method), means(old, method))
        ends = test.confidence_interval()
        assert (row["low"], row["high"]) == pytest.approx((ends.low, ends.high), abs=1e-9)
        assert row["p"] == pytest.approx(test.pvalue, rel=1e-6)
        assert (row["unit"], row["n"], row["paired"]) == ("trainings", 5, True)


def test_trainings_of_other_seeds_are_not() -> None:
    old, new = trained(), trained(seed=1, shift=0.05, draw=1, repeats=4)
    found = rw.compare({"old": old, "new": new})
    for method, row in rows(found).items():
        test = scipy.stats.ttest_ind(means(new, method), means(old, method), equal_var=False)
        assert row["p"] == pytest.approx(test.pvalue, rel=1e-6)
        assert (row["unit"], row["n"], row["n_against"], row["paired"]) == ("trainings", 4, 5, False)
    assert any("share no seeds" in warning for warning in found.warnings)


def test_of_a_sweep_that_lacks_repeats_the_shared_ones_are_paired() -> None:
    old, new = trained(), trained(repeats=4, draw=1)
    new.settings["repeats"] = [0, 7, 2, 4]
    row = rows(rw.compare({"old": old, "new": new}))["ig"]
    test = scipy.stats.ttest_rel(means(new, "ig")[[0, 2, 3]], means(old, "ig")[[0, 2, 4]])
    assert (row["n"], row["p"]) == (3, pytest.approx(test.pvalue, rel=1e-6))


def test_the_very_same_trainings_have_no_width() -> None:
    found = rw.compare([trained(), trained()])
    assert (found.differences[["difference", "low", "high"]].to_numpy() == 0).all()
    assert (found.differences["p"] == 1).all()


def test_one_training_beside_several_is_compared_over_samples() -> None:
    found = rw.compare([trained(), trained(repeats=1, draw=1)])
    assert set(found.differences["unit"]) == {"samples"}
    assert any("a single training" in warning for warning in found.warnings)


def test_methods_of_one_run_alone_are_shown_and_not_compared() -> None:
    old, new = noise(), moved(noise())
    new["mine"] = new.pop("random")
    found = rw.compare({"old": planted(old), "new": planted(new)})
    assert found.differences["method"].tolist() == ["grad", "ig"]
    assert set(found.table["method"]) == {*NAMES, "mine"}
    assert "new and old: not in both, so not compared: mine, random" in found.warnings


REFUSED = {
    "strategy": ({"training": "retrain"}, "networks were retrained"),
    "average": ({"average": "area"}, "averaged by shares and by area"),
    "fill": ({"imputer": "zero"}, "judges and fills are untouched with mean and untouched with zero"),
    "unit": ({"unit": "channel"}, "what is removed together differs"),
    "target": ({"target": "label"}, "the class that is scored is None and label"),
    "order": ({"order": "morf"}, "orders are LeRF and MoRF"),
    "readout": ({"readout": "logit"}, "name one readout for both"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_scores_that_mean_other_things_are_refused_and_rankings_compared_still(what: str) -> None:
    changes, message = REFUSED[what]
    found = rw.compare({"old": planted(noise()), "new": planted(moved(noise()), **changes)})
    assert message in found.refused["new"]
    assert not len(found.differences)
    expected = -1.0 if what == "order" else 1.0
    assert found.agreement["spearman"].tolist() == [expected]
    assert "mean different things" in found.verdict[0]
    assert len(found.table) == 6


def test_other_shares_are_refused() -> None:
    new = planted(noise())
    new.fractions[1] = 0.4
    found = rw.compare([planted(noise()), new])
    assert found.refused == {"run 2": "shares removed are 0.5 and 0.4"}


def test_a_readout_that_is_named_serves_all() -> None:
    found = rw.compare([planted(noise()), planted(noise(), readout="logit")], readout="probability")
    assert (found.refused, found.readout) == ({}, "probability")


def test_the_agreement_is_the_rank_correlation_of_the_scores() -> None:
    scores = {f"m{k}": 0.1 * k + values for k, values in enumerate(np.random.default_rng(2).normal(0, 1, (6, 80)))}
    more = np.random.default_rng(7).normal(0, 2, (6, 80))
    other = {name: values + added for (name, values), added in zip(scores.items(), more, strict=True)}
    found = rw.compare([planted(scores), planted(other), planted(scores)])
    ranks = [[np.float32(values).mean(dtype=float) for values in run.values()] for run in (scores, other)]
    assert found.agreement[["run", "against"]].values.tolist() == [
        ["run 2", "run 1"], ["run 3", "run 1"], ["run 3", "run 2"],
    ]  # fmt: skip
    assert found.agreement["spearman"][0] == pytest.approx(scipy.stats.spearmanr(*ranks).statistic, abs=1e-12)
    assert found.agreement["kendall"][0] == pytest.approx(scipy.stats.kendalltau(*ranks).statistic, abs=1e-12)
    assert found.agreement["low"][0] < found.agreement["spearman"][0] <= found.agreement["high"][0]
    assert found.agreement["spearman"][1] == 1.0


def test_of_three_runs_each_is_held_against_the_first_and_all_are_corrected_together() -> None:
    runs = {name: planted(moved(noise(), ig=by)) for name, by in (("a", 0.0), ("b", 0.01), ("c", -0.03))}
    found = rw.compare(runs)
    assert found.differences[["run", "against"]].drop_duplicates().values.tolist() == [["b", "a"], ["c", "a"]]
    assert found.differences["p_holm"].tolist() == pytest.approx(holm(found.differences["p"].to_numpy()).tolist())
    assert len(found.intact) == 3


def test_what_the_gate_withholds_stays_withheld() -> None:
    gate = {
        "method": "ig", "keep": 0.5, "imputer": "mean", "judge": 0.4, "kar": 0.9, "gap": 0.5, "control": 0.0,
        "beyond": 0.5, "beyond_low": 0.45, "beyond_high": 0.55,
    }  # fmt: skip
    old, new = trained(), trained(draw=1, audit={"gate": [gate]})
    found = rw.compare({"old": old, "new": new})
    row = rows(found)["ig"]
    assert np.isnan([row[key] for key in ("difference", "low", "high", "p", "p_holm")]).all()
    assert row["withheld"].startswith("new: ")
    shown = found.table[(found.table["run"] == "new") & (found.table["method"] == "ig")].iloc[0]
    assert pd.isna(shown["rank"])
    assert np.isnan(shown["score"])
    assert found.agreement["methods"].tolist() == [2]


def test_where_lower_is_better_the_lower_run_is() -> None:
    old, new = noise(), moved(noise(), ig=0.02)
    found = rw.compare({"old": planted(old, order="morf"), "new": planted(new, order="morf")})
    assert not found.higher_is_better
    assert found.verdict[0].startswith("old is better than new with ig by 0.0")
    assert rows(found)["ig"]["difference"] > 0


def test_a_model_at_chance_and_a_run_that_is_not_complete_are_warned_of() -> None:
    poor, part = planted(noise(), hits=np.arange(200) % 4 == 0), planted(noise())
    part.missing.append("2 of 15 trainings not done yet: ig")
    found = rw.compare({"poor": poor, "part": part})
    assert found.warnings[0].startswith("poor: its accuracy with nothing removed is not clearly above chance")
    assert found.warnings[1] == "part: it is not complete: 2 of 15 trainings not done yet"


def test_few_samples_are_warned_of() -> None:
    found = rw.compare([planted(noise(20)), planted(moved(noise(20)))])
    assert any("20 samples are few" in warning for warning in found.warnings)


@pytest.mark.parametrize("n", [1, 2])
def test_next_to_no_samples_tell_nothing_apart(n: int) -> None:
    found = rw.compare([planted(noise(n)), planted(moved(noise(n), ig=1.0))])
    assert not found.differences["different"].any()


def test_scores_without_any_spread_are_compared_as_they_are() -> None:
    flat = {"a": np.zeros(60), "b": np.ones(60)}
    found = rw.compare([planted(flat), planted({"a": np.ones(60), "b": np.ones(60)})])
    assert found.differences["difference"].tolist() == [1.0, 0.0]
    assert found.differences["different"].tolist() == [True, False]


@pytest.mark.slow
def test_the_interval_holds_the_planted_difference_as_often_as_it_says() -> None:
    """250 panels of either kind: the share that holds it must lie within 4 standard errors of 95 %."""
    rng = np.random.default_rng(12)
    inside = {True: 0, False: 0}
    for _ in range(250):
        base = rng.beta(2, 2, 120)
        one = np.clip(base + rng.normal(0, 0.1, 120), 0, 1)
        own = {"m": 0.5 * base + 0.2}, {"m": 0.5 * one + 0.25}
        for paired in (True, False):
            ids = None if paired else [f"t{i}" for i in range(120)]
            other = own[1] if paired else {"m": 0.5 * np.clip(rng.beta(2, 2, 120), 0, 1) + 0.25}
            row = rw.compare([planted(own[0]), planted(other, ids=ids)]).differences.iloc[0]
            inside[paired] += row["low"] <= 0.05 <= row["high"]
    for count in inside.values():
        assert abs(count / 250 - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 250)


def test_an_empty_result_is_refused() -> None:
    result = planted({"a": np.ones(3)})
    result.methods.clear()
    with pytest.raises(InputError, match="it has 0 methods and 3 samples"):
        rw.compare([result, planted({"a": np.ones(3)})])
