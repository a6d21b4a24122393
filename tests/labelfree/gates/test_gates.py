"""Every gate on a case that must trip it and on one that must not; what it needs is said where it is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from roadworthy.errors import InputError
from roadworthy.labelfree import Outputs
from roadworthy.labelfree.consistency import Consistency
from roadworthy.labelfree.gates import Gate, gates, run_gates


def drawn(
    seed: int, n: int = 400, *, moved: float = 0.0, sharp: float = 2.0, shares: Any = (0.5, 0.3, 0.2)
) -> Outputs:
    """Three classes in a plane; the classifier is calibrated where ``sharp`` is 2 and nothing moved."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size=n, p=shares)
    centres = np.array([[0.0, 0.0], [2.0, 0.0], [0.0, 2.0]])
    features = centres[labels] + rng.normal(size=(n, 2)) + moved
    prior = np.log([0.5, 0.3, 0.2])
    logits = prior - ((features[:, None] - centres) ** 2).sum(axis=2) / 2
    return Outputs.of(logits=logits * sharp / 2, labels=labels, features=features)


def only(name: str, target: Outputs, **more: Any) -> Gate:
    return run_gates(target, names=[name], **more)[0]


def passes(agreement: Any, count: int, **more: Any) -> Consistency:
    n = len(agreement)
    clean = Outputs.of(np.full(n, 0.6))
    zeros = np.zeros(n)
    return Consistency(
        clean,
        count,
        more.pop("perturbation", "gaussian"),
        0.05,
        0,
        np.asarray(agreement),
        np.asarray(agreement),
        clean.predicted,
        clean.probabilities,
        zeros,
        zeros,
        zeros,
        zeros,
        **more,
    )


def test_a_target_like_the_source_passes_everything() -> None:
    found = run_gates(drawn(1), source=drawn(0), consistency=passes([30] * 400, 30), seed=3)
    assert [gate.name for gate in found] == list(gates)
    assert {gate.name: gate.status for gate in found if gate.status != "pass"} == {
        "dropout": "not run",
        "self-validation": "not run",
    }
    assert all(gate.why and gate.expected for gate in found if gate.status != "not run")


@pytest.mark.parametrize("name", ["mmd", "domain-classifier", "mahalanobis", "neighbour"])
def test_a_moved_target_trips_what_looks_at_features(name: str) -> None:
    assert only(name, drawn(1, moved=6.0), source=drawn(0)).status in ("warn", "refuse")


def test_a_target_with_nothing_in_common_is_refused() -> None:
    assert only("domain-classifier", drawn(1, moved=50.0), source=drawn(0)).status == "refuse"
    assert only("neighbour", drawn(1, moved=50.0), source=drawn(0)).status == "refuse"


def test_a_mild_move_is_seen_by_the_tests_yet_not_refused() -> None:
    found = only("mmd", drawn(1, moved=1.0), source=drawn(0))
    assert (found.status, found.value < 0.05) == ("warn", True)


@pytest.mark.parametrize(("name", "sharp"), [("entropy", 0.1), ("energy", 0.1)])
def test_an_unsure_classifier_trips_what_looks_at_its_answers(name: str, sharp: float) -> None:
    source = drawn(0, sharp=20.0)
    assert only(name, drawn(1, sharp=20.0), source=source).status == "pass"
    target = drawn(1, sharp=sharp)
    if name == "energy":
        assert source.energy is not None
        target = Outputs.of(target.probabilities, energy=source.energy + 100)
    assert only(name, target, source=source).status == "refuse"


def test_over_confidence_on_the_source_is_seen() -> None:
    found = only("calibration", drawn(1), source=drawn(0, sharp=20.0))
    assert (found.status, found.value > 0.05) == ("warn", True)
    wrong = drawn(0, sharp=20.0)
    assert wrong.labels is not None
    turned = Outputs.of(wrong.probabilities, labels=(wrong.labels + 1) % 3)
    assert only("calibration", drawn(1), source=turned).status == "refuse"


def test_classes_that_became_common_are_seen() -> None:
    found = [only("class-shares", drawn(2 * k + 1, shares=(0.1, 0.1, 0.8)), source=drawn(2 * k)) for k in range(10)]
    assert {gate.status for gate in found} <= {"warn", "refuse"}
    assert sum(gate.low <= 0.6 <= gate.high for gate in found) >= 8  # the shares truly moved by .6


def test_a_classifier_of_one_class_is_refused_and_one_of_few_is_warned_of() -> None:
    assert only("collapsed", Outputs.of([[0.9, 0.05, 0.05]] * 50)).status == "refuse"
    few = Outputs.of([[0.9, 0.1, 0, 0]] * 45 + [[0.1, 0.9, 0, 0]] * 5)
    many = Outputs.of(np.eye(4).repeat(20, axis=0), labels=np.arange(80) % 4)
    assert only("collapsed", few, source=many).status == "warn"
    assert only("collapsed", few).status == "pass"  # nothing to hold it against


@pytest.mark.parametrize(
    ("agreement", "count", "status"),
    [([30] * 50, 30, "pass"), ([15] * 50, 30, "pass"), ([6] * 50, 12, "warn"), ([3] * 50, 3, "refuse")],
)
def test_too_few_passes(agreement: list[int], count: int, status: str) -> None:
    assert only("passes", Outputs.of([0.5]), consistency=passes(agreement, count)).status == status


def test_dropout_that_is_not_there() -> None:
    target = Outputs.of([0.5])
    for perturbation, has, status in (
        ("dropout", True, "pass"),
        ("dropout", False, "refuse"),
        ("gaussian+dropout", False, "warn"),
        ("gaussian", None, "not run"),
    ):
        found = passes([3] * 5, 30, perturbation=perturbation, has_dropout=has)
        assert only("dropout", target, consistency=found).status == status


def test_what_is_missing_is_named() -> None:
    bare = Outputs.of(np.full(50, 0.6))
    said = {gate.name: gate for gate in run_gates(bare)}
    assert {name for name, gate in said.items() if gate.status != "not run"} == {"collapsed"}
    assert "source" in said["domain-classifier"].why
    assert "features" in said["mmd"].why
    tiny = drawn(0, n=3)
    assert {gate.status for gate in run_gates(tiny, source=tiny)} == {"not run"}
    with pytest.raises(InputError, match="did you mean|Did you mean"):
        run_gates(bare, names=["mmdd"])


def test_without_features_the_domain_classifier_goes_by_probabilities() -> None:
    sure, unsure = Outputs.of(np.full(60, 0.99), labels=[1] * 60), Outputs.of(np.full(60, 0.51))
    found = only("domain-classifier", unsure, source=sure)
    assert (found.status, found.value) == ("warn", 1.0)  # 60 samples cannot show that it is surely above .99
    assert found.low < 0.99
    assert "for want of features" in found.why


@pytest.mark.parametrize("kind", ["constant", "wide", "identical"])
def test_degenerate_features(kind: str) -> None:
    rng = np.random.default_rng(2)
    values = {"constant": np.ones((60, 3)), "wide": rng.normal(size=(60, 400)), "identical": rng.normal(size=(60, 3))}
    sides = values[kind], (rng.normal(size=(60, 400)) if kind == "wide" else values[kind].copy())
    source = Outputs.of(np.full(60, 0.5), labels=[0, 1] * 30, features=sides[0])
    target = Outputs.of(np.full(60, 0.5), features=sides[1])
    for name in ("mmd", "mahalanobis", "neighbour"):
        found = only(name, target, source=source)
        assert found.status == "pass", (name, found)
        assert np.isfinite(found.value)


def test_the_same_seed_gives_the_same_numbers() -> None:
    one, two = (run_gates(drawn(1), source=drawn(0), seed=5) for _ in range(2))
    assert [gate.as_dict() for gate in one] == [gate.as_dict() for gate in two]


def test_where_self_validation_has_seen_the_shift_distance_alone_does_not_refuse() -> None:
    from roadworthy.labelfree.selfvalidation import self_validate
    from roadworthy.labelfree.targets import PseudoTarget, label_targets

    def marked(seed: int, mark: float) -> Outputs:
        """Samples that a feature without meaning sets apart; the classifier does as well as ever."""
        said = drawn(seed)
        assert said.features is not None
        jitter = np.random.default_rng(seed).normal(size=(len(said), 1)) + mark
        ids = [f"{seed} {k}" for k in range(len(said))]
        held = np.concatenate([said.features, jitter], axis=1)
        return Outputs.of(said.probabilities, labels=said.labels, features=held, ids=ids)

    source, far = marked(0, 0.0), marked(1, 50.0)
    parts = [PseudoTarget(f"far {k}", f"far {k}", 1.0, marked(k, 50.0)) for k in range(2, 16)]
    seen = self_validate(source, [*label_targets(source), *parts], use=["source", "ac"])
    unseen = self_validate(source, label_targets(source), use=["source", "ac"])
    for validation, told in ((seen, "pass"), (unseen, "refuse")):
        live = validation.estimate(far)
        found = {gate.name: gate.status for gate in run_gates(far, source=source, live=live)}
        assert (found["domain-classifier"], found["self-validation"]) == ("warn", told), live.reason


def test_the_order_of_rows_changes_nothing() -> None:
    target, source = drawn(1, moved=0.5), drawn(0)
    turned = target.take(np.random.default_rng(0).permutation(len(target)))
    one, other = (run_gates(part, source=source, seed=3) for part in (target, turned))
    assert [gate.as_dict() for gate in one] == [gate.as_dict() for gate in other]
