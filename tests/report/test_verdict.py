from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from roadworthy.errors import InputError
from roadworthy.evaluation import Result
from roadworthy.evaluation.standing import above_chance, chance, labelled
from roadworthy.report import verdict
from roadworthy.report.findings import Findings

Make = Callable[..., Result]


def sentences(result: Result) -> tuple[str, str]:
    found = verdict(result)
    return found.leads, found.trust


def test_the_planted_best_leads_and_its_numbers_are_those_of_the_ranking(make_result: Make) -> None:
    result = make_result({"weak": 0.4, "best": 1.6, "good": 0.9, "random": 0.0})
    found, ranking = verdict(result), result.ranking()
    assert found.leaders == ("best",)
    assert found.above_random == ("best", "good", "weak")
    assert found.level == "good"
    top = ranking.iloc[0]
    assert f"best (symmetric gain by top-1 accuracy {top['score']:.3f}" in found.leads
    assert f"interval {top['low']:.3f} to {top['high']:.3f}) leads, told apart from every other method" in found.leads
    assert "6 of 6 pairwise differences are real" in found.leads
    assert "every other method is better than random maps" in found.leads
    rho = result.agreement().spearman_mean
    assert rho > 0.9
    assert f"the two orders rank the methods alike (mean Spearman {rho:.2f})" in found.trust
    assert "intact accuracy is 96\u00a0% (chance 10\u00a0%)" in found.trust
    assert "there are 300 samples" in found.trust


def test_methods_that_are_alike_lead_together(make_result: Make) -> None:
    found = verdict(make_result({"a": 1.2, "b": 1.21, "weak": 0.3, "random": 0.0}))
    assert set(found.leaders) == {"a", "b"}
    assert "from which it is not told apart" in found.leads


def test_a_method_that_is_no_better_than_random_is_named(make_result: Make) -> None:
    found = verdict(make_result({"good": 1.5, "useless": 0.0, "inverse:good": -1.5, "random": 0.0}))
    assert found.above_random == ("good",)
    assert "1 of 3 methods are better than random maps, not useless and inverse:good" in found.leads


def test_no_ranking_where_nothing_is_told_apart(make_result: Make) -> None:
    found = verdict(make_result(dict.fromkeys(["a", "b", "c", "random"], 0.0)))
    assert found.leads.startswith("No ranking: none of the 6 pairs of methods can be told apart")
    assert found.leaders == ()
    assert found.level == "little"
    assert "chance alone could order the methods so" in found.trust


@pytest.mark.parametrize("strengths", [(0.0, 0.0, 0.0, 0.0), (1.5, 0.0, 0.0, 0.0), (0.9, 0.6, 0.3, 0.0)])
def test_the_sentence_follows_from_the_groups_of_the_ranking(make_result: Make, strengths: tuple[float, ...]) -> None:
    """The self-test counts a panel as silent where all maps share one group; there the page says the same."""
    result = make_result(dict(zip(["a", "b", "c", "random"], strengths, strict=True)))
    silent = bool((result.ranking()["group"] == "a").all())
    assert silent == (not any(strengths))
    assert verdict(result).leads.startswith("No ranking: none of the 6 pairs") == silent
    assert bool(verdict(result).leaders) != silent


def test_a_single_pair_is_spoken_of_as_one(make_result: Make) -> None:
    leads = verdict(make_result({"a": 0.0, "random": 0.0})).leads
    assert leads.startswith(
        "No ranking: the two methods cannot be told apart, so neither is shown to be better, not "
    )
    assert "pairs" not in leads
    assert "the one pairwise difference is real" in verdict(make_result({"a": 1.6, "b": 0.0})).leads


def test_two_methods_are_too_few_to_compare_the_orders(make_result: Make) -> None:
    found = verdict(make_result({"a": 1.6, "random": 0.0}))
    assert "there are too few methods to compare the two orders" in found.trust
    assert ("Spearman" in found.trust, found.level) == (False, "care")
    found = verdict(make_result({"a": (2.0, 0.2), "b": (0.2, 2.0)}))
    assert "the two orders rank the two methods against each other" in found.trust
    assert ("Spearman" in found.trust, found.level) == (False, "little")


def test_reasons_for_distrust_stand_before_what_speaks_for_it(make_result: Make) -> None:
    trust = verdict(make_result(n=20, warnings=["x"])).trust
    against, _, speaking_for = trust.partition(", although ")
    assert against.startswith("Trust this little: there are only 20 samples")
    assert against.endswith("there is 1 warning below")
    assert "intact accuracy is" in speaking_for


@pytest.mark.parametrize("control", ["random", "sobel", "center", "constant", "inverse:ig"])
def test_a_control_that_leads_is_said_plainly(make_result: Make, control: str) -> None:
    leads = verdict(make_result({"ig": 0.3, "grad": 0.2, control: 1.8})).leads
    assert leads.startswith(f"No method beats a control: the control {control} (")
    assert "ig (" in leads
    assert "is told apart below it" in leads


def test_a_method_not_told_apart_from_a_control_does_not_beat_it(make_result: Make) -> None:
    result = make_result({"ig": 1.22, "sobel": 1.2, "random": 0.0})
    found = Findings.of(result)
    assert not found.apart("ig", "sobel")
    assert verdict(result).leads.startswith("No method beats ")
    assert "the control" in verdict(result).leads


def test_only_controls(make_result: Make) -> None:
    assert verdict(make_result({"sobel": 1.0, "random": 0.0})).leads.startswith(
        "Only controls were compared; sobel ("
    )


def test_an_intact_accuracy_at_chance_forbids_a_ranking(make_result: Make) -> None:
    leads, trust = sentences(make_result(base=0.11))
    assert leads.startswith("No ranking can be read from this: with nothing removed the model is right for 11\u00a0%")
    assert trust.startswith("Do not trust this: ")
    assert "the intact accuracy of 11\u00a0% (chance 10\u00a0%) is not clearly above chance" in trust


def test_one_method_has_no_ranking_but_a_standing(make_result: Make) -> None:
    leads, _ = sentences(make_result({"ig": 1.5}))
    assert leads.startswith("There is no ranking with one method: ig (symmetric gain")
    assert leads.endswith("above 0, which a random map has.")
    assert sentences(make_result({"ig": -1.5}))[0].endswith("below 0, which a random map has.")
    assert "undefined" in sentences(make_result({"ig": 1.5}))[1]


def test_a_single_order_is_trusted_with_care(make_result: Make) -> None:
    leads, trust = sentences(make_result(orders=["morf"]))
    assert "area under the MoRF curve" in leads
    assert trust.startswith("Trust this with care: only the order MoRF was run")


def test_a_single_order_ranks_in_its_own_direction(make_result: Make) -> None:
    planted = {"best": 1.5, "weak": 0.3, "random": 0.0}
    for order in ("morf", "lerf"):
        assert verdict(make_result(planted, orders=[order])).leaders == ("best",)


def test_without_the_control_random_a_single_order_says_so(make_result: Make) -> None:
    found = verdict(make_result({"a": 1.5, "b": 0.3}, orders=["lerf"]))
    assert "without the control random nothing shows which methods are better than chance" in found.leads
    assert found.above_random == ()


def test_without_the_control_random_both_orders_compare_with_zero(make_result: Make) -> None:
    found = verdict(make_result({"a": 1.5, "b": 0.6, "c": -1.0}))
    assert found.above_random == ("a", "b")
    assert "2 of 3 methods are better than 0, which a random map has, not c" in found.leads


def test_orders_that_contradict_each_other(make_result: Make) -> None:
    trust = verdict(make_result({"a": (2.0, 0.2), "b": (1.0, 0.9), "c": (0.2, 2.0)})).trust
    assert trust.startswith("Trust this little: ")
    assert "the two orders rank the methods against each other (mean Spearman −1.00)" in trust


def test_an_agreement_that_is_undefined(make_result: Make) -> None:
    found = verdict(make_result({"a": 1.0, "b": 1.0, "c": 1.0}, jitter=0.0))
    assert "the agreement of the two orders is undefined" in found.trust
    assert found.leads.startswith("No ranking: none of the 3 pairs")


@pytest.mark.parametrize(("n", "level"), [(20, "little"), (60, "care"), (300, "good")])
def test_few_samples_lower_the_trust(make_result: Make, n: int, level: str) -> None:
    found = verdict(make_result({"best": 2.0, "weak": 0.5, "random": -0.5}, n=n, jitter=0.01))
    assert found.level == level
    assert f"{n} samples" in found.trust
    assert ("(below 50, a few rare hits can pass for a real difference)" in found.trust) == (n < 50)


@pytest.mark.parametrize(("n", "said"), [(1, False), (2, True), (49, True), (50, False)])
def test_below_fifty_samples_a_difference_may_be_a_rare_hit(make_result: Make, n: int, said: bool) -> None:
    assert ("a few rare hits can pass for a real difference" in verdict(make_result(n=n)).trust) == said


@pytest.mark.parametrize(
    ("planted", "below"),
    [
        ({"ig": 1.8, "gb": 0.4, "grad": 0.2, "sobel": 1.1, "random": 0.0}, ("gb", "grad")),
        ({"ig": 1.8, "gb": 0.4, "inverse:gb": 1.1, "random": 0.0}, ("gb",)),
        ({"ig": 0.3, "grad": 0.2, "center": 1.8}, ("ig", "grad")),
        ({"ig": 1.8, "gb": -1.2, "random": 0.0}, ()),
        ({"ig": 1.8, "grad": 1.1, "sobel": 1.12, "random": 0.0}, ()),
    ],
    ids=["sobel between", "an inverse", "a control leads", "random alone", "not told apart"],
)
def test_methods_below_a_control_are_named(make_result: Make, planted: dict, below: tuple[str, ...]) -> None:
    result = make_result(planted)
    found = verdict(result)
    assert found.below_control == below
    pairs = result.pairwise()
    for method in below:
        above = pairs[(pairs.other == method) & pairs.different].method
        assert set(above) & {"sobel", "center", "inverse:gb"}
    if below:
        assert found.leads.endswith(f"; below a control: {' and '.join(below)}.")
    else:
        assert "below a control" not in found.leads


def unlabelled(result: Result, **changes: object) -> Result:
    """The result as it is without labels: every intact answer is the reference."""
    result.scores.top1[:, :, 0] = 1
    return replace(result, **changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"settings": {"labels": "model"}},
        {"settings": {"labels": "none"}},
        {"warnings": ["no labels were given: top-1 and top-5 are agreement with the model's own intact answers"]},
    ],
    ids=["setting", "none", "warning"],
)
def test_without_labels_there_is_no_accuracy(make_result: Make, changes: dict) -> None:
    result = unlabelled(make_result({"best": 1.6, "random": 0.0}), **changes)
    found = verdict(result)
    assert "accuracy" not in str(found)
    assert "symmetric gain by top-1 agreement" in found.leads
    own = "hits are agreement with the model's own answers (100\u00a0% with nothing removed) for want of labels"
    assert own in found.trust
    assert found.level == "care"


def test_labels_that_were_given_are_an_accuracy_whatever_is_warned_of(make_result: Make) -> None:
    result = make_result(warnings=["no labels were given"])
    assert not labelled(result)
    assert labelled(replace(result, settings={"labels": "given"}))
    assert labelled(make_result(warnings=["labels look shifted: no labels were given"]))


def test_without_labels_few_samples_are_no_reason_to_call_agreement_chance(make_result: Make) -> None:
    result = unlabelled(make_result(n=3, classes=2), settings={"labels": "model"})
    assert not above_chance(replace(result, settings={}))
    assert above_chance(result)
    assert "chance (" not in verdict(result).leads


def test_one_sample_gives_no_ranking(make_result: Make) -> None:
    leads, trust = sentences(make_result(n=1, classes=100, base=1.0))
    assert leads.startswith("No ranking: a single sample shows no spread")
    assert trust.startswith("Do not trust this: ")
    assert "there is only 1 sample" in trust
    assert "nan" not in f"{leads}{trust}".lower()


def test_warnings_are_counted(make_result: Make) -> None:
    assert "there is 1 warning below" in verdict(make_result(warnings=["x"])).trust
    found = verdict(make_result(warnings=["x", "y"]))
    assert "there are 2 warnings below" in found.trust
    assert found.level == "care"


def test_names_that_would_hide_or_reorder_text_are_cleaned(make_result: Make) -> None:
    leads = verdict(make_result({"\u202egi\x00": 1.5, "random": 0.0})).leads
    assert leads.startswith("\ufffdgi\ufffd (")


def test_the_readout_of_the_strategy_headlines(make_result: Make) -> None:
    assert "by probability" in verdict(make_result(readout="probability")).leads


def test_an_empty_result_is_refused(make_result: Make) -> None:
    with pytest.raises(InputError, match="0 methods and 10 samples"):
        verdict(Result([], ["morf"], [0.0, 0.5], [0, 1], 1, ["x"] * 10, make_result(n=10).scores))


def test_twenty_five_methods_can_still_be_told_apart(make_result: Make) -> None:
    real, pairs = Findings.of(make_result({f"m{i}": i / 8 for i in range(25)}, samples=0)).pairs
    assert pairs == 300
    assert real > 200


@pytest.mark.parametrize("base", [0.1, 0.12, 0.13, 0.14, 0.16, 0.3])
def test_above_chance_is_the_exact_binomial_tail(make_result: Make, base: float) -> None:
    result = make_result({"a": 1.0}, base=base, samples=0)
    correct = int(result.scores.top1[0, 0, 0, 0].sum())
    assert above_chance(result) == bool(binom.sf(correct - 1, 300, 0.1) <= 0.05)


def test_chance_needs_no_class_names(make_result: Make) -> None:
    assert chance(make_result(class_names=[])) == pytest.approx(0.1)
    result = make_result(class_names=[])
    result.settings["classes"] = 1000
    assert chance(result) == pytest.approx(0.001)


def test_pairs_are_read_as_row_minus_column(make_result: Make) -> None:
    found = Findings.of(make_result({"a": 1.5, "random": 0.0}))
    difference, low, high, p = found.pair("a", "random")
    assert difference == pytest.approx(found.row("a")["score"] - found.row("random")["score"])
    assert low < difference < high
    assert p < 0.05
    assert np.allclose(found.pair("random", "a"), (-difference, -high, -low, p))
