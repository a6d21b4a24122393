"""The draw: its chances, its strata, and what changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling import audit_plan, chance_correct
from roadworthy.labelfree.labelling.draws import allocation, strata_of
from roadworthy.labelfree.outputs import Outputs


def outputs(n: int, seed: int = 0) -> Outputs:
    return Outputs.of(np.random.default_rng(seed).random(n), ids=[f"s{k}" for k in range(n)])


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 80), st.integers(1, 8), st.integers(1, 6), st.integers(0, 1000), st.data())
def test_every_sample_has_a_known_chance(n: int, levels: int, strata: int, seed: int, data: st.DataObject) -> None:
    budget = data.draw(st.integers(1, n))
    target = Outputs.of(np.random.default_rng(seed).integers(levels, size=n) / levels)
    plan = audit_plan(target, budget=budget, strata=strata, seed=seed)
    assert plan.n == budget == len(set(plan.ids))
    assert plan.population == n
    assert (plan.sizes > 0).all()
    drawn = np.bincount(plan.stratum, minlength=len(plan.sizes))
    assert (drawn >= np.minimum(plan.sizes, 1)).all()
    assert plan.probability == pytest.approx((drawn / plan.sizes)[plan.stratum])
    assert (1 / plan.probability).sum() == pytest.approx(n)  # weights add up to the population


def test_chances_are_those_of_many_draws() -> None:
    target, counts = outputs(30), np.zeros(30)
    for seed in range(2000):
        plan = audit_plan(target, budget=9, strata=3, seed=seed)
        counts[plan.rows(target)] += 1
    assert counts / 2000 == pytest.approx(np.full(30, 0.3), abs=0.05)


def test_the_first_labels_are_a_fair_draw_too() -> None:
    target, first = outputs(20), np.zeros(20)
    for seed in range(2000):
        plan = audit_plan(target, budget=10, strata=2, seed=seed)
        first[plan.rows(target)[:2]] += 1
    assert first / 2000 == pytest.approx(np.full(20, 0.1), abs=0.03)


def test_the_order_of_rows_changes_nothing() -> None:
    target = outputs(50)
    turned = target.take(np.random.default_rng(1).permutation(50))
    assert audit_plan(target, budget=12).ids == audit_plan(turned, budget=12).ids
    assert audit_plan(target, budget=12, seed=1).ids != audit_plan(target, budget=12).ids


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=60), st.integers(1, 6))
def test_equal_scores_stay_together_and_strata_follow_the_score(values: list[int], wanted: int) -> None:
    scores = np.array(values, dtype=float)
    found = strata_of(scores, wanted)
    assert set(found) == set(range(found.max() + 1))
    assert found.max() < wanted
    order = np.argsort(scores, kind="stable")
    assert (np.diff(found[order]) >= 0).all()
    assert all(len(set(found[scores == value])) == 1 for value in set(values))


def test_strata_of_different_scores_are_equally_large() -> None:
    assert np.bincount(strata_of(np.random.default_rng(0).random(103), 5)).tolist() == [21, 20, 21, 20, 21]
    assert strata_of(np.full(9, 0.5), 5).tolist() == [0] * 9


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=6), st.data())
def test_draws_are_shared_out_whole(sizes: list[int], data: st.DataObject) -> None:
    n = data.draw(st.integers(min(2 * len(sizes), sum(sizes)), sum(sizes)))
    drawn = allocation(np.array(sizes), n)
    assert (drawn <= sizes).all()
    assert drawn.sum() == max(n, np.minimum(sizes, 2).sum())


def test_a_plan_for_a_width_and_what_it_says() -> None:
    plan = audit_plan(outputs(1000), half_width=0.05)
    assert plan.n == 212
    assert plan.half_width <= 0.05
    assert audit_plan(outputs(1000)).n == 212
    assert audit_plan(outputs(1000), expected=0.95).n < 60
    said = plan.as_dict()
    assert (said["n"], said["population"], said["labelled"]) == (212, 1000, 0)
    assert said["ids"] == list(plan.ids)
    few = audit_plan(outputs(100), budget=6)
    assert few.notes == ("3 strata instead of 5: 6 labels are few",)
    same = audit_plan(Outputs.of(np.full(100, 0.7)), budget=20)
    assert same.notes == ("1 strata instead of 5: confidences are equal",)
    assert plan.notes == ()


def test_the_chance_to_be_correct_is_calibrated_on_the_source() -> None:
    source = Outputs.of([0.9] * 10, labels=[1] * 6 + [0] * 4)
    assert chance_correct(Outputs.of([0.9, 0.1]), source) == pytest.approx([0.6, 0.6], abs=1e-3)
    assert chance_correct(Outputs.of([0.9, 0.1])).tolist() == [0.9, 0.9]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"budget": 0}, "budget: got 0, expected 1 to 10"),
        ({"budget": 11}, "budget: got 11, expected 1 to 10"),
        ({"budget": 5, "half_width": 0.1}, "budget: got half_width too"),
        ({"strata": 0}, "strata: got 0"),
        ({"scores": [0.1]}, r"scores: got shape \(1,\), expected \(10,\)"),
        ({"scores": [np.nan] * 10}, "finite"),
    ],
)
def test_impossible_plans_are_refused(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        audit_plan(outputs(10), **settings)


def test_no_samples_are_refused() -> None:
    with pytest.raises(InputError, match="got no samples"):
        audit_plan(outputs(3).take([]), budget=1)


def test_another_target_is_refused() -> None:
    plan = audit_plan(outputs(10), budget=4)
    with pytest.raises(InputError, match="has 9 samples, the plan was drawn from 10"):
        plan.rows(outputs(10).take(range(9)))
    with pytest.raises(InputError, match="of the plan are not in the target"):
        plan.rows(Outputs.of(np.full(10, 0.5)))
