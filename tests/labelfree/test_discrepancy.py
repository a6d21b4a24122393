"""Pseudo-label discrepancy against scikit-learn by hand, and where too little is known."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, precision_score, recall_score, roc_auc_score

from roadworthy.errors import InputError
from roadworthy.labelfree.discrepancy import pseudo_label_discrepancy
from roadworthy.labelfree.discrepancy_probes import Bench, metrics, probes
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.simulation import simulate

METRICS = {
    "auc": lambda y, s: roc_auc_score(y, s),
    "accuracy": lambda y, s: accuracy_score(y, s > 0),
    "precision": lambda y, s: precision_score(y, s > 0),
    "recall": lambda y, s: recall_score(y, s > 0),
}


def exhaustive(points: int = 12) -> tuple[Outputs, Outputs, Outputs]:
    """Source classes and intervals that hold just as many samples as are drawn: nothing is left to chance."""
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], points)
    train = Outputs.of(
        np.full(2 * points, 0.5), features=rng.normal(labels[:, None], 1, (2 * points, 2)), labels=labels
    )
    truth = np.repeat([0, 1], 30)
    test = Outputs.of(np.full(60, 0.5), features=rng.normal(truth[:, None], 1, (60, 2)), labels=truth)
    scores = np.repeat([0.1, 0.5, 0.9], points)
    target = Outputs.of(scores, features=rng.normal(2 * scores[:, None], 1, (3 * points, 2)))
    return train, test, target


@pytest.mark.parametrize("metric", list(METRICS))
def test_it_is_the_difference_of_two_probes(metric: str) -> None:
    train, test, target = exhaustive()
    found = pseudo_label_discrepancy(train, test, target, points=12, repeats=2, metric=metric, count=5).classes[0]
    x, y, z = (part.features.astype(float) for part in (train, test, target))
    centre, spread = x.mean(axis=0), x.std(axis=0)
    x, y, z = ((part - centre) / spread for part in (x, y, z))
    for k, interval in enumerate((0, 2, 4)):
        wild, said = z[12 * k : 12 * k + 12], []
        for label in (0, 1):
            other = x[train.labels == 1 - label]
            model = LogisticRegression(max_iter=1000)
            model.fit(np.concatenate([wild, other]), np.repeat([label, 1 - label], 12))
            said.append(METRICS[metric](test.labels, model.decision_function(y)))
        assert found.draws[interval] == pytest.approx(np.repeat(said[0] - said[1], 2), abs=1e-6)
    assert found.column("n").tolist() == [12, 0, 12, 0, 12]


@pytest.mark.parametrize("metric", list(METRICS))
def test_metrics_are_those_of_scikit_learn(metric: str) -> None:
    rng = np.random.default_rng(1)
    scores, positive = rng.integers(-3, 4, size=50) / 2, rng.random(50) < 0.4
    assert metrics[metric](scores, positive) == pytest.approx(METRICS[metric](positive, scores))


def test_metrics_without_a_denominator_are_undefined() -> None:
    assert np.isnan(metrics["auc"](np.arange(3.0), np.ones(3, bool)))
    assert np.isnan(metrics["recall"](np.arange(3.0), np.zeros(3, bool)))
    assert np.isnan(metrics["precision"](-np.ones(3), np.ones(3, bool)))


@pytest.mark.parametrize("probe", ["logistic", "random-forest", "linear-svc", "mlp"])
def test_every_probe_sees_which_side_is_which(probe: str) -> None:
    train, test, wild = simulate("base", seed=4)
    found = pseudo_label_discrepancy(train, test, wild, probe=probe, repeats=1, count=2, points=60).classes[0]
    low, high = found.column("discrepancy")
    assert low > 0.2 > -0.2 > high


def test_probes_that_draw_have_a_seed() -> None:
    for name in ("random-forest", "linear-svc", "mlp"):
        assert probes[name](3).random_state == 3


def test_the_order_of_rows_and_the_labels_of_the_target_change_nothing() -> None:
    train, test, wild = simulate("imbalance", seed=2)
    rng = np.random.default_rng(0)
    turned = [part.take(rng.permutation(len(part))) for part in (train, test, wild)]
    groups = np.where(np.arange(len(wild)) % 3, "a", "b")
    settings = {"repeats": 2, "count": 4}
    one = pseudo_label_discrepancy(train, test, wild, groups=groups, **settings)
    back = [groups[int(name)] for name in turned[2].ids]
    blind = Outputs.of(turned[2].probabilities, features=turned[2].features, ids=turned[2].ids)
    assert pseudo_label_discrepancy(turned[0], turned[1], blind, groups=back, **settings).as_dict() == one.as_dict()
    state = np.random.get_state()[1].copy()  # noqa: NPY002
    assert pseudo_label_discrepancy(train, test, wild, seed=1, **settings).as_dict() != one.as_dict()
    assert (np.random.get_state()[1] == state).all()  # noqa: NPY002


def test_too_few_samples_have_no_number_and_the_reason_is_given() -> None:
    train, test, wild = simulate("base", seed=0)
    few = wild.take(np.argsort(wild.probabilities[:, 1])[:25])
    found = pseudo_label_discrepancy(train, test, few, points=20, repeats=2).classes[0]
    counts = found.column("n")
    assert (np.isfinite(found.column("discrepancy")) == (counts >= 20)).all()
    assert counts.sum() == 25
    assert found.intervals[-1].note == "fewer than 20 samples"
    assert np.isnan([found.intervals[-1].discrepancy_low, found.intervals[-1].share]).all()
    alone = pseudo_label_discrepancy(train, test, few.take([0]), repeats=2).classes[0]
    assert np.isnan(alone.column("discrepancy")).all()
    assert np.isnan(alone.curve.area)
    assert np.isnan(alone.baseline_correlation)
    once = pseudo_label_discrepancy(train, test, few, repeats=1, points=20).classes[0]
    assert np.isnan(once.column("discrepancy_low")).all()  # one draw has no interval


def test_a_source_that_lacks_a_class_is_said() -> None:
    train, test, wild = simulate("base", seed=0)
    found = pseudo_label_discrepancy(train.take(train.labels == 0), test, wild).classes[0]
    assert np.isnan(found.column("discrepancy")).all()
    assert "train has 0 samples of class '1' and 500 others, fewer than 10 points" in found.notes
    assert "no map to shares" in found.notes[1]
    found = pseudo_label_discrepancy(train, test.take(test.labels == 0), wild, repeats=2).classes[0]
    assert found.notes[0] == "test holds no samples of class '1'"
    assert found.intervals[0].note == "the probe cannot be scored"


def test_held_out_samples_are_not_tried_on_where_they_were_drawn() -> None:
    train, test, _ = exhaustive()
    x, y = train.features.astype(float), test.features.astype(float)
    bench = Bench(x, train.labels == 1, y, test.labels == 1, "logistic", "accuracy", 12, 2, 0)
    assert np.isfinite(bench.discrepancies(y[:12], "a", np.arange(12))).all()
    both = replace(bench, test=y[20:40], test_positive=bench.test_positive[20:40], points=12)
    first = both.discrepancies(y[20:32], "a", np.arange(12))
    rest = replace(both, test=y[32:40], test_positive=both.test_positive[12:])
    assert first == pytest.approx(rest.discrepancies(y[20:32], "a"))
    alone = replace(both, test=y[20:32], test_positive=both.test_positive[:12])
    assert np.isnan(alone.discrepancies(y[20:32], "a", np.arange(12))).all()  # nothing is left to try it on


def test_more_classes_are_each_held_against_the_rest() -> None:
    rng = np.random.default_rng(3)
    labels = np.arange(240) % 3
    centres = np.array([[0.0, 0], [3, 0], [0, 3]])
    values = centres[labels] + rng.normal(size=(240, 2))
    model = LogisticRegression().fit(values[:100], labels[:100])
    names = ("a", "b", "c")
    parts = [
        Outputs.of(model.predict_proba(values[rows]), features=values[rows], labels=labels[rows], classes=names)
        for rows in (slice(0, 100), slice(100, 160), slice(160, 240))
    ]
    found = pseudo_label_discrepancy(*parts, count=4, repeats=2, points=8)
    assert [part.name for part in found.classes] == ["a", "b", "c"]
    for part in found.classes:
        assert part.column("discrepancy")[0] > 0.1 > -0.1 > part.column("discrepancy")[-1]
    alone = pseudo_label_discrepancy(*parts, classes=["b"], count=4, repeats=2, points=8)
    assert alone.classes[0].draws == pytest.approx(found.classes[1].draws, nan_ok=True)


def test_quantile_intervals_hold_equally_many_and_keep_equal_scores_together() -> None:
    train, test, wild = simulate("base", seed=0)
    found = pseudo_label_discrepancy(train, test, wild, intervals="quantile", count=5, repeats=2).classes[0]
    assert found.column("n").tolist() == [400] * 5
    same = Outputs.of(np.full(40, 0.3), features=wild.features[:40])
    one = pseudo_label_discrepancy(train, test, same, intervals="quantile", repeats=2).classes[0]
    assert [(part.low, part.high, part.n) for part in one.intervals] == [(0.3, 0.3, 40)]


def test_a_narrow_range_leaves_samples_out_and_says_so() -> None:
    train, test, wild = simulate("base", seed=0)
    found = pseudo_label_discrepancy(train, test, wild, within=(0.2, 0.8), count=3, repeats=2).classes[0]
    inside = ((wild.probabilities[:, 1] >= 0.2) & (wild.probabilities[:, 1] <= 0.8)).sum()
    assert found.column("n").sum() == inside
    assert f"{2000 - inside} target samples lie outside of all intervals" in found.notes


def test_groups_of_one_kind_have_no_gap_and_others_do() -> None:
    train, test, wild = simulate("base", seed=0)
    rng = np.random.default_rng(0)
    groups = np.where(rng.random(2000) < 0.5, "x", "y")
    settings = {"count": 2, "repeats": 5, "points": 50}
    (gap,) = pseudo_label_discrepancy(train, test, wild, groups=groups, **settings).classes[0].gaps
    assert gap.groups == ("x", "y")
    assert gap.n.sum() == 2000
    assert gap.gap == pytest.approx(gap.discrepancy[0] - gap.discrepancy[1])
    assert (gap.low <= gap.gap).all()
    assert gap.mean == pytest.approx(np.abs(gap.gap).mean())
    by_class = pseudo_label_discrepancy(train, test, wild, groups=wild.labels, **settings).classes[0].gaps[0]
    assert by_class.mean > 2 * gap.mean
    assert (by_class.low > 0).all()  # true negatives look more negative, in every interval
    tiny = np.where(np.arange(2000) < 3, "few", "many")
    lone = pseudo_label_discrepancy(train, test, wild, groups=tiny, **settings).classes[0].gaps[0]
    assert np.isnan(lone.gap).all()
    assert np.isnan(lone.mean)


def test_plain_values() -> None:
    train, test, wild = simulate("base", seed=0)
    few = wild.take(range(30))
    found = pseudo_label_discrepancy(train, test, few, repeats=2, groups=few.labels).as_dict()
    text = json.dumps(found, allow_nan=False)
    assert {"probe", "metric", "points", "seed", "classes"} <= set(json.loads(text))
    assert found["classes"][0]["intervals"][0]["midpoint"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"probe": "logistik"}, "Unknown probe 'logistik'. Did you mean 'logistic'"),
        ({"metric": "f1"}, "Unknown metric 'f1'"),
        ({"intervals": "equal"}, "Unknown intervals 'equal'"),
        ({"method": "z"}, "Unknown method 'z'"),
        ({"count": 0}, "count: got 0"),
        ({"points": 0}, "points: got 0"),
        ({"repeats": 0}, "repeats: got 0"),
        ({"level": 1.5}, "level: got 1.5"),
        ({"within": (0.5, 0.2)}, "within: got"),
        ({"classes": ["2"]}, "Unknown class '2'"),
        ({"groups": ["a"]}, r"groups: got shape \(1,\), expected \(2000,\)"),
    ],
)
def test_settings_that_cannot_be_used_are_refused(settings: dict, message: str) -> None:
    train, test, wild = simulate("base", seed=0)
    with pytest.raises(InputError, match=message):
        pseudo_label_discrepancy(train, test, wild, **settings)


def test_parts_that_do_not_fit_are_refused() -> None:
    train, test, wild = simulate("base", seed=0)
    bare = Outputs.of(wild.probabilities)
    with pytest.raises(InputError, match="pseudo-label discrepancy needs a feature vector"):
        pseudo_label_discrepancy(train, test, bare)
    with pytest.raises(InputError, match="needs the true classes"):
        pseudo_label_discrepancy(Outputs.of(wild.probabilities, features=wild.features), test, wild)
    wide = Outputs.of(wild.probabilities, features=np.zeros((2000, 3)))
    with pytest.raises(InputError, match="train: has 2 classes and 2 features, the target 2 and 3"):
        pseudo_label_discrepancy(train, test, wide)
    with pytest.raises(InputError, match="target: got no samples"):
        pseudo_label_discrepancy(train, test, wild.take([]))
    flat = Outputs.of(train.probabilities, features=np.ones((1000, 2)), labels=train.labels)
    with pytest.raises(InputError, match="all features are constant"):
        pseudo_label_discrepancy(flat, test, wild)
