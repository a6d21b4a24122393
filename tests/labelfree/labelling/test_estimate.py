"""What labels of a plan say, against sums by hand; labels that are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling import audit_estimate, audit_plan, middle_band
from roadworthy.labelfree.labelling.planner import half_width_of
from roadworthy.labelfree.outputs import Outputs


def case(n: int = 400, *, seed: int = 0, accuracy: float = 0.7) -> tuple[Outputs, np.ndarray]:
    """Class 1 is always predicted; the more confident, the more often it is right."""
    rng = np.random.default_rng(seed)
    confidence = 0.5 + rng.random(n) / 2
    labels = (rng.random(n) < np.clip(accuracy + 1.2 * (confidence - 0.75), 0, 1)).astype(np.int64)
    return Outputs.of(confidence, ids=[f"s{k}" for k in range(n)]), labels


def test_one_stratum_of_a_large_population_is_wilson() -> None:
    target, labels = case(200_000)
    plan = audit_plan(target, budget=60, strata=1)
    given = labels[plan.rows(target)]
    found = audit_estimate(plan, given, target)
    oracle = binomtest(int(given.sum()), 60).proportion_ci(0.9, "wilson")
    assert found.alone.value == pytest.approx(given.mean())
    assert (found.alone.low, found.alone.high) == pytest.approx(tuple(oracle), abs=2e-4)
    assert (found.n, found.population, found.level) == (60, 200_000, 0.9)


@pytest.mark.parametrize("right", [0, 1])
def test_all_alike_is_exact(right: int) -> None:
    target, _ = case(200_000)
    plan = audit_plan(target, budget=60, strata=5)
    found = audit_estimate(plan, np.full(60, right), target)
    far = beta.ppf([0.05, 0.95], [60, 1], [1, 60])[1 - right]
    expected = (far, 1.0) if right else (0.0, far)
    assert (found.alone.low, found.alone.high) == pytest.approx(expected, abs=2e-3)
    assert found.combined == found.alone
    assert np.isnan(found.correlation)


def test_strata_are_weighted_by_the_population() -> None:
    target, labels = case(103)
    plan = audit_plan(target, budget=20, strata=4)
    rows = plan.rows(target)
    found = audit_estimate(plan, labels[rows], target)
    weighted = np.average(labels[rows], weights=1 / plan.probability)
    assert found.alone.value == pytest.approx(weighted)
    assert [row["samples"] for row in found.strata] == plan.sizes.tolist()
    assert sum(row["labels"] for row in found.strata) == 20
    assert found.strata[0]["accuracy"] == pytest.approx(labels[rows][plan.stratum == 0].mean())


def test_the_combined_estimate_is_the_difference_estimator() -> None:
    target, labels = case(500)
    plan = audit_plan(target, budget=80, strata=1)
    rows = plan.rows(target)
    found = audit_estimate(plan, labels[rows], target)
    drawn, hits = target.confidence[rows], labels[rows]
    power = np.cov(drawn, hits, bias=True)[0, 1] / drawn.var()
    assert found.power == pytest.approx(min(power, 1))
    by_hand = hits.mean() + found.power * (target.confidence.mean() - drawn.mean())
    assert found.combined.value == pytest.approx(by_hand)
    assert found.correlation == pytest.approx(np.corrcoef(drawn, hits)[0, 1])
    assert found.combined.high - found.combined.low < found.alone.high - found.alone.low


def test_scores_that_run_the_wrong_way_are_not_used() -> None:
    target, labels = case(500)
    plan = audit_plan(target, budget=80, strata=1)
    found = audit_estimate(plan, labels[plan.rows(target)], target, scores=1 - target.confidence)
    assert found.power == 0
    assert found.combined == found.alone
    flat = audit_estimate(plan, labels[plan.rows(target)], target, scores=np.full(500, 0.7))
    assert flat.combined == flat.alone
    assert np.isnan(flat.correlation)


def test_strata_that_are_each_alike_still_leave_doubt() -> None:
    target = Outputs.of(np.repeat([0.6, 0.9], 500))
    plan = audit_plan(target, budget=20, strata=2)
    found = audit_estimate(plan, plan.stratum, target)  # the unsure half is wrong, the sure one right
    assert found.alone.low < 0.4 < found.alone.value == 0.5 < 0.6 < found.alone.high
    assert found.combined == found.alone


def test_both_are_right_on_average() -> None:
    found = []
    for seed in range(300):
        target, labels = case(300, seed=1)
        plan = audit_plan(target, budget=40, strata=3, seed=seed)
        one = audit_estimate(plan, labels[plan.rows(target)], target, scores=target.confidence**8)
        found.append((one.alone.value, one.combined.value))
    assert np.mean(found, axis=0) == pytest.approx([labels.mean()] * 2, abs=0.012)


def test_the_plan_keeps_its_word_on_the_width() -> None:
    target, labels = case(2000, accuracy=0.5)
    plan = audit_plan(target, half_width=0.06, strata=1)
    found = audit_estimate(plan, labels[plan.rows(target)], target)
    assert (found.alone.high - found.alone.low) / 2 <= 0.0605
    assert plan.half_width == half_width_of(0.5, plan.n, population=2000)


def test_labels_in_any_form_say_the_same() -> None:
    target, labels = case(60)
    target = Outputs.of(target.probabilities, ids=target.ids, classes=("cat", "dog"))
    plan = audit_plan(target, budget=10)
    given = labels[plan.rows(target)]
    words = [target.classes[label] for label in given]
    whole = audit_estimate(plan, given, target).as_dict()
    pairs = list(zip(plan.ids, words, strict=True))
    for form in (given.tolist(), words, dict(pairs[::-1]), pairs[::-1], [str(label) for label in given]):
        assert audit_estimate(plan, form, target).as_dict() == whole
    assert audit_estimate(plan, given.astype(float), target).as_dict() == whole
    json.dumps(whole, allow_nan=False)


def test_names_go_before_numbers() -> None:
    target = Outputs.of([[0.8, 0.1, 0.1]] * 4, classes=("1", "2", "3"))
    plan = audit_plan(target, budget=4)
    assert audit_estimate(plan, ["1"] * 4, target).alone.value == 1  # the class named 1, which comes first
    assert audit_estimate(plan, [1] * 4, target).alone.value == 0  # the class numbered 1
    assert audit_estimate(plan, ["1.0"] * 4, target).alone.value == 1  # as a spreadsheet writes it
    with pytest.raises(InputError, match="Unknown class '0'"):  # one wrong label must not turn names into numbers
        audit_estimate(plan, ["0", "1", "2", "1"], target)


def test_a_name_of_two_classes_is_no_label() -> None:
    target = Outputs.of([[0.8, 0.1, 0.1]] * 4, classes=("crane", "crane", "cow"))
    plan = audit_plan(target, budget=4)
    with pytest.raises(InputError, match="'crane' name more than one class"):
        audit_estimate(plan, ["cow", "crane", "cow", "cow"], target)
    assert audit_estimate(plan, ["0", "1", "2", "1"], target).alone.value == 0.25


def test_part_of_the_labels() -> None:
    target, labels = case(200)
    plan = audit_plan(target, budget=30, strata=5)
    given = labels[plan.rows(target)].tolist()
    first = given[:20] + [None] * 10
    with pytest.raises(InputError, match=f"'{plan.ids[20]}', .* have none; label them too"):
        audit_estimate(plan, first, target)
    found = audit_estimate(plan, first, target, partial=True)
    assert found.n == 20
    assert found.notes == ("the first 20 of 30 samples are labelled",)
    assert sum(row["samples"] for row in found.strata) == 200
    gap = [None, *given[1:20], *[""] * 10]
    with pytest.raises(InputError, match=f"'{plan.ids[0]}' have none, though later ones of the plan have"):
        audit_estimate(plan, gap, target, partial=True)
    two = audit_estimate(plan, given[:2] + [float("nan")] * 28, target, partial=True)
    assert "strata without labels were joined to their neighbours" in two.notes[1]
    assert sum(row["samples"] for row in two.strata) == 200
    with pytest.raises(InputError, match="have none"):
        audit_estimate(plan, [None] * 30, target, partial=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda given, ids: {**given, "other": 1}, "'other' were not drawn by the plan. Samples chosen in another"),
        (lambda given, ids: {**given, ids[0]: 2}, r"hold 2, expected 0 to 1, or the names 'cat', 'dog'"),
        (lambda given, ids: {**given, ids[0]: -1}, "hold -1"),
        (lambda given, ids: {**given, ids[0]: "1e300"}, "Unknown class '1e300'"),
        (lambda given, ids: {**given, ids[0]: 0.5}, "Unknown class '0.5'"),
        (lambda given, ids: dict.fromkeys(ids, "dgo"), "Unknown class 'dgo'. Did you mean 'dog'"),
        (lambda given, ids: {name: given[name] for name in ids[1:]}, "have none; label them too"),
        (lambda given, ids: [*given.items(), (ids[0], 1)], "come more than once; keep one label for each"),
        (lambda given, ids: list(given.values())[1:], "got 9, the plan has 10; pass them by id"),
        (lambda given, ids: None, "the plan has none; fill in its column 'label'"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(change, message: str) -> None:
    target, labels = case(60)
    target = Outputs.of(target.probabilities, ids=target.ids, classes=("cat", "dog"))
    plan = audit_plan(target, budget=10)
    given = dict(zip(plan.ids, labels[plan.rows(target)].tolist(), strict=True))
    with pytest.raises(InputError, match=message):
        audit_estimate(plan, change(given, plan.ids), target)


def test_a_middle_band_is_no_audit() -> None:
    target, labels = case(60)
    chosen = middle_band(target.confidence, 10, ids=target.ids)
    with pytest.raises(InputError, match="got a selection for training, whose samples were chosen, not drawn"):
        audit_estimate(chosen, labels[chosen.rows], target)
    plan = audit_plan(target, budget=10)
    with pytest.raises(InputError, match="were not drawn by the plan"):
        audit_estimate(plan, dict(zip(chosen.ids, labels[chosen.rows], strict=True)), target)


def test_other_wrong_input() -> None:
    target, labels = case(60)
    plan = audit_plan(target, budget=10)
    given = labels[plan.rows(target)]
    with pytest.raises(InputError, match="level: got 90"):
        audit_estimate(plan, given, target, level=90)
    with pytest.raises(InputError, match=r"scores: got shape \(3,\), expected \(60,\)"):
        audit_estimate(plan, given, target, scores=np.ones(3))
    with pytest.raises(InputError, match="has 59 samples, the plan was drawn from 60"):
        audit_estimate(plan, given, target.take(range(59)))


def test_one_label_of_one_sample() -> None:
    target = Outputs.of([0.9])
    found = audit_estimate(audit_plan(target, budget=1), [1], target)
    assert (found.alone.value, found.alone.low, found.alone.high) == (1, 1, 1)
    many = Outputs.of(np.full(1000, 0.9))
    found = audit_estimate(audit_plan(many, budget=1), [1], many)
    assert found.alone.low == pytest.approx(0.05, abs=1e-3)
