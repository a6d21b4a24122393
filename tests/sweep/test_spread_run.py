"""Real trainings spread out: over processes, over a Ray cluster that loses a node, and one over two processes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roadworthy.sweep import Experiment, ProcessExecutor, RayExecutor, SerialExecutor, Store, load_experiment
from roadworthy.sweep.collate import read_plan
from roadworthy.sweep.run import run_experiment

SMALL = {
    "data.train": 200,
    "data.test": 60,
    "methods": ["grad", "random"],
    "fractions": [0.5],
    "order": "both",
    "repeats": 2,
    "recipe": {"base": "digits", "epochs": 6, "warmup_epochs": 1},
}


def experiment(**changes: Any) -> Experiment:
    return load_experiment(None, {**SMALL, **changes})


@pytest.fixture(scope="module")
def serial(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serial")
    run_experiment(experiment(), folder, executor=SerialExecutor())
    return folder


def assert_same(one: Path, other: Path) -> None:
    keys = {job.key for job in read_plan(one).jobs}
    assert Store(one).finished() == Store(other).finished() == keys
    for key in keys:
        first, second = Store(one).read(key), Store(other).read(key)
        assert first.arrays.keys() == second.arrays.keys()
        for name, values in first.arrays.items():
            assert np.array_equal(values, second.arrays[name]), (first.head["label"], name)
        assert first.head.get("loss") == second.head.get("loss")


@pytest.mark.slow
def test_worker_processes_give_the_same_bits(tmp_path: Path, serial: Path) -> None:
    outcome = run_experiment(experiment(), tmp_path, executor=ProcessExecutor(2))
    assert not outcome.failed
    assert_same(serial, tmp_path)


@pytest.fixture
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'roadworthy[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    options = {"num_cpus": 1, "object_store_memory": 80 << 20}
    made = Cluster(initialize_head=True, head_node_args={**options, "include_dashboard": False})
    yield made, made.add_node(**options)
    ray.shutdown()
    made.shutdown()
    del os.environ["RAY_USAGE_STATS_ENABLED"]


@pytest.mark.slow
def test_a_cluster_that_loses_a_node_gives_the_same_bits(tmp_path: Path, serial: Path, cluster: Any) -> None:
    nodes, second = cluster
    events: list[str] = []
    removed: list[bool] = []

    def lose(what: str, job: Any, seconds: float) -> None:
        events.append(what)
        if what == "started" and events.count("finished") >= 3 and not removed:
            removed.append(True)
            nodes.remove_node(second, allow_graceful=False)

    outcome = run_experiment(experiment(), tmp_path, executor=RayExecutor(nodes.address), on_event=lose)
    assert removed
    assert not outcome.failed
    assert_same(serial, tmp_path)


@pytest.mark.slow
def test_one_training_over_two_processes_is_scored_like_any_other(tmp_path: Path) -> None:
    shared = experiment(**{"processes_per_trial": 2, "methods": ["grad"], "repeats": 1, "compare_road": False})
    with pytest.warns(UserWarning, match="each of 2 processes normalises its own part"):
        outcome = run_experiment(shared, tmp_path, executor=SerialExecutor())
    assert not outcome.failed
    records = [Store(tmp_path).read(job.key) for job in read_plan(tmp_path).of_kind("train")]
    assert [record.head["images"] for record in records] == [200 * 6] * 4
    unmodified = next(record for record in records if record.head["treatment"]["kind"] == "unmodified")
    assert unmodified.head["top1"] > 0.6
