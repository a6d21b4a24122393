from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from toy_jobs import logged, toys

from roadworthy.errors import InputError, MissingExtraError, RoadworthyError, RoadworthyWarning
from roadworthy.sweep import Job, Outcome, RayExecutor, SerialExecutor, Store, run_jobs

WORK = "toy_jobs:toy"
HERE = str(Path(__file__).parents[1])
NODE = {"object_store_memory": 80 << 20, "include_dashboard": False}


def test_without_ray_the_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    executor = RayExecutor("local")
    assert executor.workers == 1
    with pytest.raises(MissingExtraError, match=r"pip install 'roadworthy\[ray\]'"):
        run(tmp_path, toys(1), executor)
    assert run(tmp_path, [], executor) == Outcome()


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"cpus": 0}, "cpus: 0"),
        ({"cpus": float("nan")}, "cpus: nan"),
        ({"gpus": -1}, "gpus: -1"),
        ({"threads": 0}, "threads: 0"),
        ({"in_flight": 0}, "in_flight: 0"),
        ({"retries": -1}, "retries: -1"),
    ],
)
def test_odd_settings_are_refused(options: dict[str, float], match: str) -> None:
    with pytest.raises(InputError, match=match):
        RayExecutor(**options)


def run(folder: Path, jobs: list[Job], executor: Any, events: list[str] | None = None) -> Outcome:
    def tell(what: str, job: Job, seconds: float) -> None:
        if events is not None:
            events.append(what)

    return run_jobs(jobs, Store(folder), executor, work=WORK, on_event=tell)


def until(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'roadworthy[ray]'")
    import ray
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **NODE})
    cluster.add_node(num_cpus=1, object_store_memory=NODE["object_store_memory"])
    yield cluster
    ray.shutdown()
    cluster.shutdown()
    del os.environ["RAY_USAGE_STATS_ENABLED"]


@pytest.mark.slow
def test_two_nodes_give_the_records_of_one_process(tmp_path: Path, cluster: Any) -> None:
    import ray

    jobs = [*toys(6, sleep=0.3), *toys(2, "raise"), *toys(2, "steps", steps=20, sleep=0), *toys(1, "noisy")]
    jobs.append(Job("toy", {"do": "sum"}, needs=tuple(job.key for job in jobs[:6])))
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    executor = RayExecutor(cluster.address)
    seen: list[int] = []
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.warns(RoadworthyWarning, match="worn"):
        serial = run(here, jobs, SerialExecutor())

    def tell(what: str, job: Job, seconds: float) -> None:
        seen.append(executor.workers)

    with pytest.warns(RoadworthyWarning, match="noisy 0: the toy is worn"):
        spread = run_jobs(jobs, Store(there), executor, work=WORK, on_event=tell)
    assert not ray.is_initialized()
    assert handlers == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert set(serial.finished) == set(spread.finished) == Store(there).finished()
    assert serial.failed.keys() == spread.failed.keys() == Store(there).failures().keys()
    for key in serial.finished:
        assert (here / "trials" / f"{key}.npz").read_bytes() == (there / "trials" / f"{key}.npz").read_bytes()
    assert len({line.split()[-1] for line in logged(there)}) >= 2
    assert set(seen) == {2}


@pytest.mark.slow
def test_settings_of_a_task(tmp_path: Path, cluster: Any) -> None:
    jobs = toys(2, "surroundings")
    run(tmp_path, jobs, RayExecutor(cluster.address, threads=3))
    for job in jobs:
        head = Store(tmp_path).read(job.key).head
        assert (head["OMP_NUM_THREADS"], head["NUMBA_NUM_THREADS"], head["device"]) == ("3", "3", "cpu")
        assert head["heavy"] == ["ray"]


@pytest.mark.slow
def test_a_connection_that_was_there_stays(tmp_path: Path, cluster: Any) -> None:
    import ray

    ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
    try:
        jobs, events = [*toys(1, "die-once"), *toys(1, "die"), *toys(2)], []
        outcome = run(tmp_path, jobs, RayExecutor("ignored", retries=1), events)
        assert ray.is_initialized()
    finally:
        ray.shutdown()
    assert set(outcome.finished) == {job.key for job in jobs} - {jobs[1].key}
    assert "2 workers in a row died" in outcome.failed[jobs[1].key].error
    assert events.count("lost") == 2


@pytest.mark.slow
def test_a_node_that_does_not_see_the_folder_is_named(
    tmp_path: Path, cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = Store.identity
    here = os.uname().nodename
    monkeypatch.setattr(Store, "identity", lambda self: identity(self) + " of the driver")
    with pytest.raises(RoadworthyError, match=rf"every node must see .* on {here} is another folder of that name"):
        run(tmp_path, toys(1), RayExecutor(cluster.address))
    monkeypatch.setattr(Store, "identity", lambda self: "of a folder that only the driver sees")
    with pytest.raises(RoadworthyError, match=f"there is no store at .* on {here}"):
        run(tmp_path / "gone", toys(1), RayExecutor(cluster.address))


@pytest.mark.slow
def test_more_than_any_node_has_is_warned_of(tmp_path: Path, cluster: Any) -> None:
    executor = RayExecutor(cluster.address, cpus=64)
    with pytest.warns(RoadworthyWarning, match="no node of the cluster has 64 CPUs"):
        executor.start(tmp_path, WORK, 1)
    executor.stop(now=True)


@pytest.mark.slow
def test_a_node_is_lost_in_mid_sweep(tmp_path: Path, cluster: Any) -> None:
    jobs = toys(4, "steps", steps=50, sleep=0.05)
    node = cluster.add_node(num_cpus=2, object_store_memory=NODE["object_store_memory"])
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    events: list[str] = []
    raylet = node.all_processes["raylet"][0].process.pid
    removed: list[int] = []

    def on_it() -> list[int]:
        pids = [int(line.split()[-1]) for line in logged(there)]
        return [pid for pid in pids if alive(pid) and psutil.Process(pid).ppid() == raylet]

    def tell(what: str, job: Job, seconds: float) -> None:
        events.append(what)

    class Remover(RayExecutor):
        def wait(self, timeout: float) -> list[Any]:
            states = list((there / "scratch").glob("*/state.npy"))
            if not removed and len(states) == 4 and on_it():
                removed.extend(on_it())
                cluster.remove_node(node, allow_graceful=False)
            return super().wait(0.1)

    outcome = run_jobs(jobs, Store(there), Remover(cluster.address), work=WORK, on_event=tell)
    run(here, [Job(job.kind, job.spec) for job in jobs], SerialExecutor())
    assert removed
    assert events.count("lost") >= 1
    assert set(outcome.finished) == {job.key for job in jobs}
    for job in jobs:
        name = f"trials/{job.key}.npz"
        assert (here / name).read_bytes() == (there / name).read_bytes()
    assert not any(alive(pid) for pid in removed)


DRIVER = """
import sys
from roadworthy.sweep import RayExecutor, Store, run_jobs
sys.path.insert(0, sys.argv[2])
from toy_jobs import toys
run_jobs(toys(2, sys.argv[3]), Store(sys.argv[1]), RayExecutor(sys.argv[4]), work="toy_jobs:toy")
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_tasks_end_with_the_driver(tmp_path: Path, cluster: Any, how: signal.Signals) -> None:
    command = [sys.executable, "-c", DRIVER, str(tmp_path), HERE, "forever", cluster.address]
    # shells start what runs in the background deaf to interruptions
    hearing = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    with subprocess.Popen(command, stderr=subprocess.DEVNULL, preexec_fn=hearing) as driver:
        until(lambda: len(logged(tmp_path)) == 2)
        driver.send_signal(how)
    until(lambda: not any(alive(int(line.split()[-1])) for line in logged(tmp_path)), seconds=30)


@pytest.mark.slow
def test_a_cluster_of_our_own_comes_and_goes(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'roadworthy[ray]'")
    command = [sys.executable, "-c", DRIVER, str(tmp_path), HERE, "value", "local"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert (done.stdout, done.stderr) == ("", "")
    assert len(Store(tmp_path).finished()) == 2


@pytest.mark.slow
def test_no_cluster_is_an_error_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'roadworthy[ray]'")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    for address in ("127.0.0.1:1", "auto"):
        with pytest.raises(InputError, match=f"no Ray cluster at '{address}' .*refused.* Start one with 'ray start"):
            run(tmp_path, toys(1), RayExecutor(address))
