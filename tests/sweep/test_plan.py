"""Plans: what is shared is planned once, and a change touches only what follows from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy.errors import DataError, InputError
from roadworthy.evaluation.audit.gate import KEEPS
from roadworthy.evaluation.epochs import GATE, GATE_JUDGE
from roadworthy.evaluation.finetune import judge_recipe
from roadworthy.sweep.experiment import load_experiment
from roadworthy.sweep.plan import Plan, gate_images, judge_images, plan
from roadworthy.sweep.subject import content_hash, identity, open_data

BASE = {
    "methods": ["grad", "ig", "ig-sg", "random"],
    "fractions": [0.3, 0.7],
    "order": "both",
    "repeats": 2,
    "data.train": 100,
    "data.test": 40,
}


def planned(**changes: Any) -> Plan:
    experiment = load_experiment(None, {**BASE, **{key.replace("__", "."): value for key, value in changes.items()}})
    return plan(experiment, open_data(experiment.data.model_dump(mode="json")))


def keys(found: Plan, kind: str) -> set[str]:
    return {job.key for job in found.of_kind(kind)}


def test_every_point_has_a_job_and_shared_ones_have_one() -> None:
    found = planned()
    # 2 repeats x (unmodified + random at 2 shares + 3 methods x 2 orders x 2 shares)
    assert len(keys(found, "train")) == 2 * (1 + 2 + 3 * 2 * 2)
    # families grad and ig, for either split: ig and ig-sg are made together
    assert len(keys(found, "maps")) == 2 * 2
    assert len(keys(found, "road")) == 4
    assert len(keys(found, "audit")) == 3  # random masks are the control inside each
    assert len(keys(found, "fill")) == len(keys(found, "judge")) == 1  # shared by the audits of all methods
    for job in found.of_kind("audit"):
        assert keys(found, "fill") | keys(found, "judge") < set(job.needs)
    assert len({job.key for job in found.jobs}) == len(found.jobs)
    assert set(found.points) == {"mean"}
    assert {row[-1] for row in found.points["mean"]} == keys(found, "train")


def test_jobs_come_after_what_they_need() -> None:
    found = planned()
    done: set[str] = set()
    for job in found.jobs:
        assert set(job.needs) <= done
        done.add(job.key)
    base = found.jobs[0]
    assert base.spec["treatment"] == {"kind": "unmodified"}
    assert base.spec["repeat"] == 0
    for job in found.of_kind("maps"):
        assert job.needs == (base.key,)
    random = [job for job in found.of_kind("train") if job.spec["treatment"]["kind"] == "random"]
    assert all(job.needs == () for job in random)


def test_a_plan_survives_being_written() -> None:
    found = planned()
    again = Plan.from_json(found.to_json())
    assert [job.key for job in again.jobs] == [job.key for job in found.jobs]
    assert (again.points, again.runtime) == (found.points, found.runtime)
    with pytest.raises(DataError, match="plan: cannot be read"):
        Plan.from_json("{}")
    for text in ('{"format": 99, "digest": ""}', found.to_json().replace("unmodified", "anything"), "[]", "x"):
        with pytest.raises(DataError, match=r"plan: .*run the experiment again"):
            Plan.from_json(text)


@pytest.mark.parametrize(
    ("change", "kept"),
    [
        ({"methods": ["grad", "ig", "ig-sg", "random", "sobel"]}, "all"),
        ({"fractions": [0.3, 0.5, 0.7]}, "all"),
        ({"repeats": 3}, "all"),
        ({"max_batch": 17}, "all"),
        ({"memory": "1MB"}, "all"),
        ({"memory": 1000}, "nothing"),  # does not hold the images: they are shuffled in parts
        ({"maps__max_batch": 17}, "all"),
        ({"snapshots": 1}, "all"),
        ({"keep_weights": True}, "all"),
        ({"compare_road": False}, "all"),
        ({"maps__settings": {"base": "road", "samples": 9}}, "without maps"),
        ({"maps__settings": {"base": "road", "ig_steps": 9}}, "all but ig"),
        ({"maps__settings": {"base": "road", "lrp_rule": "epsilon"}}, "all"),
        ({"maps__target": "label"}, "without maps"),
        ({"sign": "abs"}, "without maps"),
        ({"reduction": "l2"}, "without maps"),
        ({"unit": "channel"}, "unmodified"),
        ({"imputers": ["image-mean"]}, "unmodified"),
        ({"random_masks": "redrawn"}, "all but random"),
        ({"recipe__epochs": 3}, "nothing"),
        ({"seed": 1}, "nothing"),
        ({"data__train": 90}, "nothing"),
        ({"model": "small-cnn", "recipe": "digits"}, "nothing"),
    ],
)
def test_a_change_runs_again_only_what_follows_from_it(change: dict[str, Any], kept: str) -> None:
    before, after = planned(), planned(**change)
    still = keys(after, "train")
    expected = {
        job.key
        for job in before.of_kind("train")
        if kept == "all"
        or (kept == "all but ig" and not job.label.startswith("ig"))
        or (kept == "all but random" and job.spec["treatment"]["kind"] != "random")
        or (kept == "without maps" and job.spec["treatment"]["kind"] != "estimator")
        or (kept == "unmodified" and job.spec["treatment"]["kind"] == "unmodified")
    }
    assert keys(before, "train") & still == expected


def test_removal_options_leave_the_maps_alone() -> None:
    before = keys(planned(), "maps")
    assert keys(planned(sign="abs"), "maps") == before
    assert keys(planned(imputers=["zero", "mean"]), "maps") == before
    assert not keys(planned(seed=1), "maps") & before


def test_another_method_leaves_the_comparisons_of_the_others() -> None:
    before, after = planned(), planned(methods=["grad", "ig", "ig-sg", "random", "sobel"])
    assert keys(before, "road") < keys(after, "road")
    assert before.facts["road"].items() < after.facts["road"].items()


def test_several_imputers_share_the_unmodified_trainings() -> None:
    found = planned(imputers=["mean", "noisy-linear"])
    assert set(found.points) == {"mean", "noisy-linear"}
    assert len(keys(found, "train")) == 2 * (1 + 2 * (2 + 3 * 2 * 2))


def test_the_random_baseline_is_there_unasked() -> None:
    assert planned(methods=["grad"]).facts["methods"] == ["grad", "random"]


def test_a_new_name_for_a_method_is_the_same_work() -> None:
    named = planned(methods={"mine": "grad", "ig": "ig", "turned": "inverse:mine", "ig-sg": "ig-sg"})
    assert keys(planned(), "train") <= keys(named, "train")
    sources = {source for job in named.of_kind("maps") for source in job.spec["sources"]}
    assert sources == {"grad", "ig", "ig-sg", "inverse:grad"}


def test_saved_maps_are_known_by_their_content(tmp_path: Path) -> None:
    for part, n in (("train", 100), ("test", 40)):
        np.save(tmp_path / f"{part}.npy", np.random.default_rng(n).normal(size=(n, 8, 8)))
        np.save(tmp_path / f"other-{part}.npy", np.random.default_rng(n).normal(size=(n, 8, 8)))

    def with_maps(prefix: str = "") -> Plan:
        files = {part: str(tmp_path / f"{prefix}{part}.npy") for part in ("train", "test")}
        return planned(methods={"mine": files})

    before = with_maps()
    assert not before.of_kind("maps")
    assert set(before.runtime["files"].values()) == {str(tmp_path / "train.npy"), str(tmp_path / "test.npy")}
    assert keys(with_maps("other-"), "train") == keys(before, "train")
    np.save(tmp_path / "test.npy", np.zeros((40, 8, 8)))
    estimators = {job.key for job in before.of_kind("train") if job.spec["treatment"]["kind"] == "estimator"}
    assert not keys(with_maps(), "train") & estimators


def test_an_unknown_name_is_refused_before_anything_is_trained() -> None:
    with pytest.raises(InputError, match="Did you mean 'gradcam'"):
        planned(methods=["gradcm"])


def test_parts_of_the_data_are_drawn_by_seed() -> None:
    spec = load_experiment(None, {"data.per_class": 2}).data.model_dump(mode="json")
    data = open_data(spec)
    assert np.bincount(data.train.labels.numpy()).tolist() == [2] * 10
    assert np.bincount(data.test.labels.numpy()).tolist() == [2] * 10
    other = open_data({**spec, "seed": 1})
    assert identity(other)["train"] != identity(data)["train"]
    assert data.mean == tuple(data.train.images.double().mean((0, 2, 3)).tolist())


def test_content_hashes_tell_names_and_bytes_apart(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder, text in ((one, "x"), (two, "x")):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep" / "a.txt").write_text(text)
    assert content_hash(one) == content_hash(two)
    (two / "deep" / "a.txt").rename(two / "deep" / "b.txt")
    assert content_hash(one) != content_hash(two)


@pytest.mark.parametrize("count", [40, 1_000, 60_000])
def test_costs_of_the_gate_are_those_of_its_recipes(count: int) -> None:
    assert judge_images(count) == judge_recipe(count, GATE_JUDGE).epochs * count
    assert gate_images(count) == len(KEEPS) * judge_recipe(count, GATE).epochs * count
