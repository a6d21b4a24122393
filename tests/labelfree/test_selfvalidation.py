"""Self-validation on planted classifiers: no leak, honest errors, intervals that hold, no number too far out."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import expit

from roadworthy.errors import InputError
from roadworthy.labelfree.estimators import Estimate
from roadworthy.labelfree.estimators.base import accuracy_alone
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.selfvalidation import SelfValidation, self_validate
from roadworthy.labelfree.targets import PseudoTarget, cluster_targets, label_targets, subgroup_targets
from roadworthy.labelfree.trials import MEDIAN


def planted(n: int, mean: float, seed: int, start: int = 0, *, fade: float = 1.0) -> Outputs:
    """P(1 | x) = expit(3 fade x), which the model knows: the less there is to see, the less it errs in confidence."""
    rng = np.random.default_rng(seed)
    x = rng.normal(mean, 1, n)
    p = expit(3 * fade * x)
    labels = (rng.uniform(size=n) < p).astype(int)
    return Outputs.of(p, features=fade * x, labels=labels, ids=range(start, start + n))


def fading(source: Outputs, kinds: tuple[str, ...] = ("a", "b", "c")) -> list[PseudoTarget]:
    """Three kinds of the same sort, five steps each, down to nothing that can be seen."""
    return [
        PseudoTarget(f"{kind} {step}", kind, step, replace(found, ids=source.ids))
        for k, kind in enumerate(kinds)
        for step in (1, 2, 3, 4, 5)
        for found in [planted(len(source), 0, 50 + 10 * k + step, fade=1 - step / 5)]
    ]


@pytest.fixture(scope="module")
def source() -> Outputs:
    return planted(600, 0, 0)


@pytest.fixture(scope="module")
def validated(source: Outputs) -> SelfValidation:
    targets = fading(source) + cluster_targets(source) + label_targets(source)
    return self_validate(source, targets, use=["source", "ac", "doc", "atc", "cbpe", "cot"])


@dataclass(frozen=True, eq=False)
class Spy:
    """Remembers what it has learnt from, and complains where it is asked about the same samples."""

    name: str = "spy"
    needs: frozenset[str] = frozenset()
    learnt: frozenset[str] = frozenset()

    def fit(self, source: Outputs, *, seed: int = 0) -> Spy:
        return replace(self, learnt=frozenset(source.ids))

    def estimate(self, target: Outputs) -> Estimate:
        assert not self.learnt & set(target.ids)
        return accuracy_alone(self.name, 0.5, target)


def test_nobody_judges_samples_that_it_has_learnt_from(source: Outputs) -> None:
    other = PseudoTarget("elsewhere", "other", 0, planted(60, 1, 9, 10**6))
    targets = [*label_targets(source), *cluster_targets(source), other]
    found = self_validate(source, targets, use=[Spy()])
    assert found.names == ("spy",)
    np.testing.assert_allclose(found.estimates, 0.5)
    assert found.truth[-1] == pytest.approx(other.outputs.accuracy)  # samples of elsewhere are judged whole


def test_errors_are_estimates_less_truths_and_kinds_count_alike(validated: SelfValidation) -> None:
    table = validated.table()
    assert len(table) == len(validated.targets) * len(validated.names)
    summary = {row["estimator"]: row for row in validated.summary()}
    for name, row in summary.items():
        by_kind = {}
        for kind in set(validated.kinds):
            errors = [entry["error"] for entry in table if entry["estimator"] == name and entry["kind"] == kind]
            by_kind[kind] = np.mean(np.abs(errors))
        assert row["by_kind"] == pytest.approx(by_kind)
        assert row["mae"] == pytest.approx(np.mean(list(by_kind.values())))
        every = [entry["error"] for entry in table if entry["estimator"] == name]
        assert abs(row["worst"]) == pytest.approx(np.abs(every).max())
    assert validated.chosen == validated.summary()[0]["estimator"]
    assert MEDIAN in summary
    assert summary["doc"]["rank_correlation"] > 0.8 * summary["ac"]["rank_correlation"] > 0
    assert summary["source"]["mae"] > 2 * summary["ac"]["mae"]


def test_the_choice_is_judged_without_the_kind_it_is_judged_on(validated: SelfValidation) -> None:
    """The errors of the choice, found again by leaving out a kind and asking what would have been chosen."""
    errors = np.full(len(validated.targets), np.nan)
    for kind in set(validated.kinds):
        rest = validated.without([kind])
        for row, its in enumerate(validated.kinds):
            if its == kind:
                expected = rest._experience.expected_errors(validated.shifts[row])
                errors[row] = validated.estimates[row, expected.argmin()] - validated.truth[row]
    choice = validated.choice_summary()
    kinds = np.array(validated.kinds)
    assert choice["by_kind"] == pytest.approx({kind: np.abs(errors[kinds == kind]).mean() for kind in set(kinds)})
    assert validated.left_out_error == choice["mae"] == pytest.approx(np.mean(list(choice["by_kind"].values())))


def test_truth_of_a_pseudo_target_is_its_accuracy(source: Outputs, validated: SelfValidation) -> None:
    for target, truth in zip(fading(source), validated.truth[:15], strict=True):
        assert target.outputs.accuracy == pytest.approx(truth, abs=1e-9)


def test_a_live_estimate_is_near_and_its_interval_holds(validated: SelfValidation) -> None:
    held, errors = [], []
    for seed in range(16):
        target = planted(400, 0, 1000 + seed, 10**5, fade=1 - seed / 16)
        live = validated.estimate(target)
        assert live.reason == ""
        assert live.low <= live.accuracy <= live.high
        errors.append(abs(live.accuracy - target.accuracy))
        held.append(live.low <= target.accuracy <= live.high)
    assert np.mean(held) >= 0.85
    assert np.mean(errors) < 0.05
    assert validated.left_out_error < 0.1


def test_what_the_live_estimate_says(validated: SelfValidation) -> None:
    target = planted(400, 0, 5, 10**5, fade=0.5)
    live = validated.estimate(target)
    said = {estimate.name: estimate.accuracy for estimate in live.estimates}
    assert said[live.chosen] == live.accuracy
    five = [said[name] for name in ("ac", "doc", "atc", "cbpe", "cot")]
    assert said[MEDIAN] == np.median(five)
    assert (live.lowest, live.highest) == (min(five), max(five))
    assert set(live.similar) <= set(validated.targets)
    assert 0 < live.expected_error < 0.2
    record = json.loads(json.dumps(live.as_dict()))
    assert record["accuracy"] == live.accuracy
    assert record["estimates"][0]["name"] == "source"
    unlabelled = replace(target, labels=None)
    assert validated.estimate(unlabelled).as_dict() == live.as_dict()  # labels are not read; the same again
    assert (
        validated.estimate(target, level=0.8).high - validated.estimate(target, level=0.8).low < live.high - live.low
    )


def test_beyond_the_shift_seen_there_is_no_number(validated: SelfValidation) -> None:
    live = validated.estimate(planted(400, 9, 6, 10**5))
    assert np.isnan([live.accuracy, live.low, live.high]).all()
    assert live.reason.startswith("cannot tell: the shift is beyond what self-validation has seen: ")
    assert "distance" in live.reason
    assert len(live.estimates) == len(validated.names)  # still shown
    assert live.as_dict()["accuracy"] is None


def test_an_interval_for_one_estimator(validated: SelfValidation) -> None:
    target = planted(700, 0, 7, 10**5, fade=0.5)
    estimates = {estimate.name: estimate for estimate in validated.estimate(target).estimates}
    widths = {}
    for name in ("source", "doc"):
        found, reason = validated.interval(target, estimates[name])
        assert found is not None
        assert reason == ""
        assert found[0] <= target.accuracy <= found[1]
        widths[name] = found[1] - found[0]
    assert widths["doc"] < widths["source"]
    assert validated.interval(planted(400, 9, 6, 10**5), estimates["doc"])[0] is None
    with pytest.raises(InputError, match="'gde' was not validated"):
        validated.interval(target, replace(estimates["doc"], name="gde"))
    with pytest.raises(InputError, match="level: got 90"):
        validated.interval(target, estimates["doc"], 90)


def test_kinds_can_be_left_out_afterwards(validated: SelfValidation) -> None:
    fewer = validated.without(["a", "labels"])
    assert set(fewer.kinds) == {"b", "c", "cluster"}
    assert len(fewer.truth) == len(fewer.targets) < len(validated.targets)
    with pytest.raises(InputError, match="no pseudo-target would be left"):
        validated.without(validated.kinds)


def test_too_few_pseudo_targets_give_no_interval(source: Outputs) -> None:
    few = self_validate(source, fading(source, ("a",)), use=["doc"])
    live = few.estimate(planted(400, 0, 8, 10**5, fade=0.5))
    assert "needs more than the 5 pseudo-targets" in live.reason
    assert any("1 kind(s) of shift" in note for note in live.notes)


def test_what_cannot_be_run_is_named(source: Outputs) -> None:
    bare = replace(source, features=None)
    found = self_validate(bare, label_targets(bare))
    assert {entry.split(":")[0] for entry in found.left_away} == {"gde", "importance-weighted", "pape"}
    assert "nuclear-norm" in found.names
    assert {row["estimator"]: row["can_be_chosen"] for row in found.summary()}["nuclear-norm"] is False
    json.dumps(found.as_dict())


def test_the_order_of_rows_changes_nothing(source: Outputs) -> None:
    groups = np.array(source.ids, dtype=int) % 3
    turned = np.random.default_rng(0).permutation(len(source))
    use = ["doc", "atc", "cot"]
    first = self_validate(source, subgroup_targets(source, groups), use=use)
    second = self_validate(source.take(turned), subgroup_targets(source.take(turned), groups[turned]), use=use)
    np.testing.assert_allclose(first.estimates, second.estimates, atol=1e-9)
    np.testing.assert_allclose(first.shifts, second.shifts, atol=1e-9)


def test_what_is_refused(source: Outputs) -> None:
    targets = label_targets(source)
    with pytest.raises(InputError, match="pass labels="):
        self_validate(replace(source, labels=None), targets)
    with pytest.raises(InputError, match="pseudo_targets: got none"):
        self_validate(source, [])
    with pytest.raises(InputError, match="got 3 samples"):
        self_validate(source.take([0, 1, 2]), targets)
    with pytest.raises(
        InputError, match="no estimator can be chosen .gde: there is no second; nuclear-norm: it only ranks"
    ):
        self_validate(source, targets, use=["gde", "nuclear-norm"])
    with pytest.raises(InputError, match="fewer than two samples"):
        self_validate(source, [PseudoTarget("x", "x", 0, source.take([0]))], use=["doc"])
