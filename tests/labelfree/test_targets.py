"""Pseudo-targets hold the samples they say, with class shares and blocks counted by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.errors import InputError
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.targets import (
    cluster_targets,
    corruption_targets,
    label_targets,
    subgroup_targets,
    tilt_targets,
    time_targets,
)


def source(n: int = 300, count: int = 3, seed: int = 0) -> Outputs:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.ones(count), n)
    return Outputs.of(table, labels=rng.integers(0, count, n), features=rng.normal(size=(n, 4)))


def test_groups_hold_their_samples() -> None:
    groups = np.array(["b"] * 100 + ["a"] * 180 + [None] * 20, dtype=object)
    found = subgroup_targets(source(), groups, name="site", least=50)
    assert [(t.name, t.kind, len(t.outputs)) for t in found] == [
        ("site a", "subgroup", 180),
        ("site b", "subgroup", 100),
    ]
    assert found[1].outputs.ids == tuple(map(str, range(100)))


def test_groups_that_are_small_everything_or_no_number_are_left_out() -> None:
    assert subgroup_targets(source(), ["all"] * 300) == []
    some = subgroup_targets(source(), [1.0] * 20 + [2.0] * 200 + [float("nan")] * 80)
    assert [t.name for t in some] == ["subgroup 2.0"]
    with pytest.raises(InputError, match=r"got shape \(2,\), expected \(300,\)"):
        subgroup_targets(source(), [1, 2])
    with pytest.raises(InputError, match="pass labels="):
        subgroup_targets(Outputs.of([0.5]), [1])


def test_blocks_of_time_are_in_order_and_equal_times_stay_together() -> None:
    times = np.arange(300)[::-1]
    found = time_targets(source(), times, blocks=3)
    assert [t.severity for t in found] == [0, 1, 2]
    assert [t.name for t in found] == ["0 to 99", "100 to 199", "200 to 299"]
    assert sorted(map(int, found[0].outputs.ids)) == list(range(200, 300))
    tied = time_targets(source(), [2015] * 200 + [2016] * 100, blocks=3)
    assert sorted(len(t.outputs) for t in tied) == [100, 200]
    assert time_targets(source(), [7] * 300) == []
    assert len(time_targets(source(), np.arange(300).astype("datetime64[D]"), blocks=2)) == 2


def test_times_may_be_text_but_must_have_an_order() -> None:
    found = time_targets(source(), ["2015"] * 150 + ["2016"] * 150, blocks=2)
    assert [t.name for t in found] == ["2015 to 2015", "2016 to 2016"]
    with pytest.raises(InputError, match="no order"):
        time_targets(source(), np.array([1, None] * 150, dtype=object))
    with pytest.raises(InputError, match=r"got shape \(1,\), expected \(300,\)"):
        time_targets(source(), [1])


def test_clusters_part_the_samples_whatever_the_order_of_rows() -> None:
    given_ = source()
    found = cluster_targets(given_, clusters=4)
    ids = [name for t in found for name in t.outputs.ids]
    assert len(ids) == len(set(ids))
    turned = cluster_targets(given_.take(np.random.default_rng(1).permutation(300)), clusters=4)
    assert [set(t.outputs.ids) for t in found] == [set(t.outputs.ids) for t in turned]
    assert cluster_targets(given_.take(range(40))) == []
    same = Outputs.of(np.full(100, 0.5), labels=[0] * 100)
    assert cluster_targets(same) == []  # one cluster is the source itself


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 6), st.floats(0.1, 0.95), st.integers(0, 1000))
def test_class_shares_are_those_asked_for(count: int, strength: float, seed: int) -> None:
    given_ = source(900, count, seed)
    labels = given_.labels
    assert labels is not None
    own = np.bincount(labels, minlength=count) / 900
    for target in label_targets(given_, strengths=[strength], seed=seed):
        assert len(set(target.outputs.ids)) == len(target.outputs)  # nothing twice
        shares = np.bincount(target.outputs.labels, minlength=count) / len(target.outputs)
        up = shares > own + 1e-9
        assert shares[up].sum() == pytest.approx(
            strength + (1 - strength) * own[up].sum(), abs=2 * count / len(target.outputs)
        )


def test_as_many_samples_are_kept_as_the_shares_allow() -> None:
    given_ = Outputs.of([0.5] * 400, labels=[0] * 200 + [1] * 200)
    sizes = [len(target.outputs) for target in label_targets(given_, strengths=[0.5])]
    assert sizes == [267, 267]  # 200 of one class are three quarters


def test_class_shares_of_one_class_and_wrong_strengths() -> None:
    assert label_targets(Outputs.of([0.5] * 50, labels=[1] * 50)) == []
    with pytest.raises(InputError, match=r"got 1.5, expected numbers in \[0, 1\]"):
        label_targets(source(), strengths=[1.5])
    alone = label_targets(source(), strengths=[1])
    assert all(len(set(target.outputs.labels)) < 3 for target in alone)


def test_corrupted_copies_are_asked_for_by_name_and_severity() -> None:
    asked = []

    def outputs_of(name: str, severity: int) -> Outputs:
        asked.append((name, severity))
        return source(40)

    found = corruption_targets(outputs_of, ["noise", "blur"], severities=(1, 5))
    assert asked == [("noise", 1), ("noise", 5), ("blur", 1), ("blur", 5)]
    assert [(t.kind, t.severity) for t in found] == [("noise", 1), ("noise", 5), ("blur", 1), ("blur", 5)]
    with pytest.raises(InputError, match="pass labels="):
        corruption_targets(lambda name, severity: Outputs.of([0.5]), ["noise"])


def test_tilts_move_along_a_direction_and_the_more_the_stronger() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2000, 1))
    source = Outputs.of(rng.random(2000), labels=rng.integers(2, size=2000), features=features)
    found = tilt_targets(source, strengths=[0.5, 2.0], directions=1)
    means = {(part.severity, part.name.split()[2]): float(part.outputs.features.mean()) for part in found}  # type: ignore[union-attr]
    for word in ("up", "down"):
        assert abs(means[2.0, word]) > abs(means[0.5, word]) > 0.1
    assert means[2.0, "up"] * means[2.0, "down"] < 0
    assert all(len(set(part.outputs.ids)) == len(part.outputs) == 1000 for part in found)  # none twice
    assert {part.kind for part in found} == {"tilt"}


def test_a_tilt_keeps_by_the_chances_it_states() -> None:
    """Of two equally common values the one that is e^2 times as likely is drawn first that much more often."""
    features = np.repeat([[0.0], [1.0]], 2000, axis=0)  # two standard deviations apart
    source = Outputs.of(np.full(4000, 0.5), labels=np.zeros(4000, int), features=features)
    up = tilt_targets(source, strengths=[0.5], directions=1)
    shares = sorted(float(part.outputs.features.mean()) for part in up)  # type: ignore[union-attr]
    # half of all are kept, drawn one by one with weights 1 and e: u and u^e of the two are left over, half in all
    from scipy.optimize import brentq

    y = float(brentq(lambda u: u + u**np.e - 1, 0.5, 1))
    assert shares == pytest.approx([1 - y, y], abs=0.03)


def test_no_tilt_of_few_samples_or_constant_features() -> None:
    few = Outputs.of([0.5] * 40, labels=[0] * 40, features=np.arange(40.0)[:, None])
    assert tilt_targets(few) == []
    constant = Outputs.of([0.5] * 200, labels=[0] * 200, features=np.ones((200, 2)))
    assert tilt_targets(constant) == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a third, three times, is constant but for rounding
        assert tilt_targets(Outputs.of(np.full((200, 3), 1 / 3), labels=[0] * 200)) == []
