"""What a sweep will take: the arithmetic against hand-made oracles, and a probe of real work."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from roadworthy.attribution import Settings
from roadworthy.sweep.estimate import epochs_of, estimate, makespan, seconds_of
from roadworthy.sweep.experiment import Experiment
from roadworthy.sweep.job import Job
from roadworthy.sweep.plan import Plan, plan
from roadworthy.sweep.probe import BUDGET, Rates, family_of, passes
from roadworthy.sweep.subject import open_data

RATES = Rates(
    read=0.001,
    train=0.01,
    score=0.002,
    degrade={"mean": 0.003, "noisy-linear": 0.004},
    audit=7.0,
    fill=5.0,
    maps={"grad": 0.05, "ig, ig-sg": 0.5},
    map_bytes={"grad": 100, "ig, ig-sg": 300},
    counted=(),
    weights=1000,
    seconds=1.0,
)
COUNTS = {"train": 100, "test": 20}


def small(**changes: Any) -> Experiment:
    return Experiment.of(
        **{
            "data": {"source": "digits", "train": 60, "test": 30},
            "methods": ["grad", "random"],
            "fractions": [0.5],
            "repeats": 1,
            "recipe": {"base": "digits", "epochs": 2, "warmup_epochs": 1},
            **changes,
        }
    )


def planned(experiment: Experiment) -> tuple[Plan, Any]:
    data = open_data(experiment.data.model_dump(mode="json"))
    return plan(experiment, data), data


def training(**changes: Any) -> Job:
    spec = {
        "recipe": {"epochs": 5, "batch_size": 10},
        "treatment": {"kind": "estimator"},
        "removal": {"imputer": "mean"},
    }
    return Job("train", spec | changes)


def test_seconds_of_each_kind_of_job() -> None:
    held = 100 * (0.001 + 0.003 + 5 * 0.01) + 20 * (0.001 + 0.003 + 0.002)
    assert seconds_of(training(), RATES, COUNTS) == pytest.approx(held)
    unmodified = Job("train", {"recipe": {"epochs": 5, "batch_size": 10}, "treatment": {"kind": "unmodified"}})
    assert seconds_of(unmodified, RATES, COUNTS) == pytest.approx(100 * 0.051 + 20 * 0.003)
    maps = Job("maps", {"sources": ["ig", "ig-sg"], "split": "train"})
    assert seconds_of(maps, RATES, COUNTS) == pytest.approx(100 * 0.501)
    fills = {"imputers": ["noisy-linear"]}
    road = Job("road", {"fractions": [0.1, 0.5, 0.9], "order": "both", **fills})
    assert seconds_of(road, RATES, COUNTS) == pytest.approx(20 * (0.001 + 6 * 0.006))
    one = Job("road", {"fractions": [0.1, 0.5, 0.9], "order": "lerf", **fills})
    assert seconds_of(one, RATES, COUNTS) == pytest.approx(20 * (0.001 + 3 * 0.006))
    two = Job("road", {"fractions": [0.1, 0.5, 0.9], "order": "lerf", "imputers": ["noisy-linear", "mean"]})
    assert seconds_of(two, RATES, COUNTS) == pytest.approx(20 * (0.001 + 3 * (0.006 + 0.005)))
    assert seconds_of(Job("audit", {}), RATES, COUNTS) == 7.0
    assert seconds_of(Job("fill", {}), RATES, COUNTS) == 5.0
    gate = {"mean": 2 * 100 * 0.004 + 2 * 30 * 100 * 0.01, "noisy-linear": 2 * 100 * 0.005 + 2 * 30 * 100 * 0.01}
    judge = Job("judge", {"removal": {"imputer": "mean"}})
    assert seconds_of(judge, RATES, COUNTS) == pytest.approx(30 * 100 * (0.001 + 0.003 + 0.01) + gate["mean"])
    gated = Job("audit", {"judges": ["0123", "4567"], "imputers": ["mean", "noisy-linear"]})
    assert seconds_of(gated, RATES, COUNTS) == pytest.approx(7.0 + sum(gate.values()))
    trained = training(removal={"imputer": "mean:0123"})
    assert seconds_of(trained, RATES, COUNTS) == pytest.approx(held)


def test_what_does_not_fit_in_memory_is_prepared_every_epoch() -> None:
    more = 4 * 100 * 0.004  # four further epochs of reading and degrading
    held = seconds_of(training(), RATES, COUNTS)
    assert seconds_of(training(memory=1000), RATES, COUNTS) == pytest.approx(held + more)
    redrawn = training(treatment={"kind": "random"}, removal={"imputer": "mean", "random_masks": "redrawn"})
    assert seconds_of(redrawn, RATES, COUNTS) == pytest.approx(held + more)
    fixed = training(treatment={"kind": "random"}, removal={"imputer": "mean", "random_masks": "fixed"})
    assert seconds_of(fixed, RATES, COUNTS) == pytest.approx(held)


def test_processes_share_the_steps_of_a_training() -> None:
    alone = seconds_of(training(), RATES, COUNTS)
    shared = seconds_of(training(processes=2), RATES, COUNTS)
    assert alone - shared == pytest.approx(100 * 5 * 0.005)


def test_epochs_from_either_length() -> None:
    assert epochs_of({"epochs": 3, "total_steps": 0, "batch_size": 8}, 20) == 3
    assert epochs_of({"epochs": 0, "total_steps": 25, "batch_size": 8}, 20) == 10


def chain(count: int) -> list[Job]:
    jobs: list[Job] = []
    for number in range(count):
        jobs.append(Job("train", {"n": number}, needs=(jobs[-1].key,) if jobs else ()))
    return jobs


def test_makespan_of_a_chain_and_of_free_jobs() -> None:
    jobs = chain(5)
    assert makespan(jobs, {job.key: 2.0 for job in jobs}, 4) == 10
    free = [Job("train", {"n": number}) for number in range(7)]
    assert makespan(free, {job.key: 1.0 for job in free}, 3) == 3
    assert makespan([], {}, 2) == 0
    needs_finished = [Job("train", {"n": 1}, needs=("0" * 16,))]
    assert makespan(needs_finished, {needs_finished[0].key: 3.0}, 2) == 3


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0.1, 10), st.integers(0, 3)), min_size=1, max_size=12), st.integers(1, 4))
def test_makespan_lies_between_its_bounds(given: list[tuple[float, int]], workers: int) -> None:
    jobs: list[Job] = []
    work: dict[str, float] = {}
    longest: dict[str, float] = {}
    for number, (seconds, back) in enumerate(given):
        needs = (jobs[-back].key,) if 0 < back <= len(jobs) else ()
        job = Job("train", {"n": number}, needs)
        jobs.append(job)
        work[job.key] = seconds
        longest[job.key] = seconds + max((longest[key] for key in needs), default=0.0)
    found = makespan(jobs, work, workers)
    total = sum(work.values())
    assert found >= max(total / workers, max(longest.values())) * (1 - 1e-9)
    assert found <= total / workers + max(longest.values()) + 1e-9  # Graham's bound for list scheduling
    if workers == 1:
        assert found == pytest.approx(total)


def test_makespan_of_many_jobs_is_quick() -> None:
    jobs = [Job("train", {"n": number}) for number in range(3000)]
    assert makespan(jobs, {job.key: 1.0 for job in jobs}, 7) == math.ceil(3000 / 7)


@pytest.mark.parametrize(
    ("sources", "count"),
    [
        (["grad"], 1),
        (["ixg-sg"], 15),
        (["ig", "ig-sg", "ig-sq", "ig-var"], 50 * 16),
        (["inverse:ig"], 50),
        (["gb-sg"], 100),
        (["lime"], 200),
        (["occlusion"], 16 * 16),
        (["gradient-shap"], 25),
        (["sobel"], 0),
        (["random"], 0),
        (["gradcam"], 1),
    ],
)
def test_passes_of_methods(sources: list[str], count: int) -> None:
    assert passes(sources, Settings(guided_samples=100), (3, 32, 32)) == count


def test_a_probe_measures_every_kind_of_work_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = small(imputers=["mean", "noisy-linear"], snapshots=1, keep_weights=True)
    found, data = planned(experiment)
    torch.manual_seed(3)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    guess = estimate(experiment, found, data, workers=2, threads=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert set(guess.work) == {job.key for job in found.jobs}
    assert all(math.isfinite(seconds) and seconds > 0 for seconds in guess.work.values())
    assert max(guess.work.values()) <= guess.seconds <= sum(guess.work.values()) + 1e-9
    assert guess.counted == ()
    trainings = len(found.of_kind("train"))
    assert guess.disk["maps"] == (60 + 30) * 64 * 4
    weights = guess.disk["checkpoints, deleted at the end"] // 4
    assert guess.disk["weights"] == weights * trainings * 3, "of each training two snapshots and the last weights"
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_not_finished_counts() -> None:
    experiment = small()
    found, data = planned(experiment)
    keys = [job.key for job in found.jobs]
    guess = estimate(experiment, found, data, finished=keys[1:])
    assert list(guess.work) == keys[:1]
    nothing = estimate(experiment, found, data, finished=keys)
    assert (nothing.seconds, nothing.disk, nothing.probe) == (0, {}, 0)
    assert nothing.to_dict()["bytes"] == 0


def test_methods_too_slow_for_a_probe_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("roadworthy.sweep.probe.BUDGET", BUDGET / 1e6)
    experiment = small(methods=["ig-sg", "grad"])
    found, data = planned(experiment)
    guess = estimate(experiment, found, data)
    assert guess.counted == ("ig-sg", "grad")
    cost = {family_of(job): guess.work[job.key] for job in found.of_kind("maps") if job.spec["split"] == "train"}
    assert cost["ig-sg"] > 100 * cost["grad"] > 0
