from __future__ import annotations

import _thread
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from toy_jobs import logged, toys

from roadworthy.errors import InputError, RoadworthyError, RoadworthyWarning
from roadworthy.sweep import Job, Outcome, ProcessExecutor, Record, SerialExecutor, Store, run_jobs
from roadworthy.sweep.executors import processes

WORK = "toy_jobs:toy"
HERE = str(Path(__file__).parents[1])


def run(
    folder: Path, jobs: list[Job], executor: object, events: list[str] | None = None, **options: object
) -> Outcome:
    def tell(what: str, job: Job, seconds: float) -> None:
        if events is not None:
            events.append(what)

    return run_jobs(jobs, Store(folder), executor, work=WORK, on_event=tell, **options)


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


def workers_of(folder: Path) -> list[psutil.Process]:
    """Return the living processes that began a job."""
    pids = {int(line.split()[-1]) for line in logged(folder)}
    return [psutil.Process(pid) for pid in pids if alive(pid)]


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_the_records_are_those_of_one_process_bit_for_bit(tmp_path: Path) -> None:
    jobs = [*toys(6), *toys(2, "raise"), *toys(2, "steps", steps=20, sleep=0)]
    jobs.append(Job("toy", {"do": "sum"}, needs=tuple(job.key for job in jobs[:6])))
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir(), there.mkdir()
    serial, spread = run(here, jobs, SerialExecutor()), run(there, jobs, ProcessExecutor(2))
    assert set(serial.finished) == set(spread.finished) == Store(there).finished()
    assert serial.failed.keys() == spread.failed.keys() == Store(there).failures().keys()
    for key in serial.finished:
        assert (here / "trials" / f"{key}.npz").read_bytes() == (there / "trials" / f"{key}.npz").read_bytes()
    pids = {line.split()[-1] for line in logged(there)}
    assert len(pids) == 2
    assert str(os.getpid()) not in pids
    assert not any(alive(int(pid)) for pid in pids)


def test_workers_work_side_by_side_and_no_more_are_started_than_there_are_jobs(tmp_path: Path) -> None:
    outcome = run(tmp_path, toys(3, "meet", guests=3), ProcessExecutor(8))
    assert (len(outcome.finished), outcome.failed) == (3, {}), "each waited for the others to be at work"
    assert len({line.split()[-1] for line in logged(tmp_path)}) == 3


def heads(folder: Path, jobs: list[Job]) -> list[dict[str, object]]:
    return [Store(folder).read(job.key).head for job in jobs]


def test_threads_and_imports_of_a_worker(tmp_path: Path) -> None:
    jobs = toys(1, "surroundings")
    run(tmp_path, jobs, ProcessExecutor(1, threads=3))
    (head,) = heads(tmp_path, jobs)
    assert (head["OMP_NUM_THREADS"], head["NUMBA_NUM_THREADS"]) == ("3", "3")
    assert head["device"] == "cpu"
    assert head["heavy"] == []  # the machinery itself loads neither torch nor ray


@pytest.mark.slow
def test_torch_takes_the_threads(tmp_path: Path) -> None:
    code = "import torch\nfrom roadworthy.sweep import Record, Store\n"
    code += "def work(folder, job, device):\n"
    code += "    Store(folder).write(job.key, Record({'threads': torch.get_num_threads()}))\n"
    (tmp_path / "threads_of_torch.py").write_text(code)
    sys.path.append(str(tmp_path))
    try:
        (job,) = toys(1)
        run_jobs([job], Store(tmp_path), ProcessExecutor(1, threads=1), work="threads_of_torch:work")
    finally:
        sys.path.remove(str(tmp_path))
    assert Store(tmp_path).read(job.key).head == {"threads": 1}


def test_devices_go_round_and_a_worker_sees_its_own_gpu_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    jobs = toys(3, "surroundings", sleep=0.7)
    run(tmp_path, jobs, ProcessExecutor(3, devices=["cuda:0", "cuda:1"]))
    seen = sorted((head["CUDA_VISIBLE_DEVICES"], head["device"]) for head in heads(tmp_path, jobs))
    assert seen == [("4", "cuda:0"), ("4", "cuda:0"), ("6", "cuda:0")]
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "4,6"


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"workers": 0}, "workers: 0"),
        ({"workers": 1.5}, "workers: 1.5"),
        ({"workers": 1, "threads": 0}, "threads: 0"),
        ({"workers": 1, "devices": []}, r"devices: \[\]"),
        ({"workers": 1, "devices": "cpu"}, "devices: 'cpu'"),
    ],
)
def test_odd_settings_are_refused(options: dict[str, object], match: str) -> None:
    with pytest.raises(InputError, match=match):
        ProcessExecutor(**options)


@pytest.mark.parametrize("device", ["cuda:x", "cuda:2"])
def test_gpus_that_are_not_there_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,6")
    with pytest.raises(InputError, match=f"devices: '{device}'"):
        run(tmp_path, toys(1), ProcessExecutor(1, devices=[device]))


def test_a_worker_that_was_killed_once_costs_nothing(tmp_path: Path) -> None:
    jobs, events = [*toys(1, "die-once"), *toys(3)], []
    outcome = run(tmp_path, jobs, ProcessExecutor(2), events)
    assert set(outcome.finished) == {job.key for job in jobs}
    assert events.count("lost") == 1
    assert (outcome.failed, Store(tmp_path).failures()) == ({}, {})


@pytest.mark.parametrize(
    ("do", "words"),
    [
        (
            "die",
            "2 workers in a row died at this job; the last: the worker process was ended by SIGKILL (out of memory?)",
        ),
        ("vanish", "2 workers in a row died at this job; the last: the worker process ended with status 7"),
    ],
)
def test_a_worker_that_dies_again_is_a_failure_with_a_name(tmp_path: Path, do: str, words: str) -> None:
    jobs, events = [*toys(1, do), *toys(3)], []
    outcome = run(tmp_path, jobs, ProcessExecutor(1), events)
    assert set(outcome.finished) == {job.key for job in jobs[1:]}
    assert outcome.failed[jobs[0].key].error == words
    assert ("last words of the worker" in outcome.failed[jobs[0].key].traceback) == (do == "die")
    assert Store(tmp_path).failures() == outcome.failed
    assert events.count("lost") == 1
    assert len([line for line in logged(tmp_path) if line.startswith(do)]) == 2


def test_workers_do_not_write_to_the_terminal_but_warn(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    jobs = toys(3, "noisy")
    with pytest.warns(RoadworthyWarning, match="the toy is worn") as caught:
        run(tmp_path, jobs, ProcessExecutor(2))
    assert len(caught) == 1
    assert capfd.readouterr() == ("", "")


def test_workers_that_cannot_start_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_BOOT", "print('no luck'); raise SystemExit(4)")
    with pytest.raises(RoadworthyError, match=r"could not start(?s:.*)no luck(?s:.*)status 4"):
        run(tmp_path, toys(1), ProcessExecutor(1))


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Shells start what runs in the background deaf to interruptions."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interruption_ends_workers_at_once_and_all_can_go_on(tmp_path: Path) -> None:
    jobs = toys(2, "steps", steps=40, sleep=0.05)

    def interrupt() -> None:
        # not of both: on a busy machine one worker may be done before the other has begun
        until(lambda: list((tmp_path / "scratch").glob("*/state.npy")))
        _thread.interrupt_main()

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, jobs, ProcessExecutor(2))
    assert workers_of(tmp_path) == []
    assert Store(tmp_path).finished() == set(), "nobody waited for the jobs at work"
    assert len(run(tmp_path, jobs, ProcessExecutor(2)).finished) == 2
    straight = tmp_path / "straight"
    straight.mkdir()
    run(straight, jobs, SerialExecutor())
    for job in jobs:
        name = f"trials/{job.key}.npz"
        assert (tmp_path / name).read_bytes() == (straight / name).read_bytes()


def test_ctrl_c_is_the_parents_business(tmp_path: Path) -> None:
    """A terminal sends it to workers too; they leave it to the parent to end them."""
    jobs, events = toys(1, sleep=1.0), []

    def interrupt() -> None:
        until(lambda: workers_of(tmp_path))
        workers_of(tmp_path)[0].send_signal(signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    outcome = run(tmp_path, jobs, ProcessExecutor(1), events)
    thread.join()
    assert (outcome.finished, events) == ([jobs[0].key], ["started", "finished"])


PARENT = """
import sys
from roadworthy.sweep import ProcessExecutor, Store, run_jobs
sys.path.insert(0, sys.argv[2])
from toy_jobs import toys
jobs = toys(1, sys.argv[3]) + toys(1, "forever")
run_jobs(jobs, Store(sys.argv[1]), ProcessExecutor(3), work="toy_jobs:toy")
"""


@pytest.mark.parametrize("do", ["forever", "stuck"])
def test_workers_die_with_a_killed_parent(tmp_path: Path, do: str) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path), HERE, do]) as parent:
        until(lambda: len(logged(tmp_path)) == (2 if do != "forever" else 1))
        children = psutil.Process(parent.pid).children(recursive=True)
        assert {process.pid for process in workers_of(tmp_path)} <= {child.pid for child in children}
        parent.send_signal(signal.SIGKILL)
    until(lambda: not any(alive(child.pid) for child in children), seconds=5)
    until(
        lambda: is_free(tmp_path, toys(1, do)[0].key), seconds=5
    )  # threads of a dead process may end a little later


def is_free(folder: Path, key: str) -> bool:
    with Store(folder).claim(key, wait=False) as free:
        return free


@pytest.mark.slow
def test_an_interruption_ends_the_processes_of_a_training_too(tmp_path: Path) -> None:
    (job,) = toys(1, "team")
    executor = ProcessExecutor(1)
    executor.start(tmp_path, WORK, 1)
    executor.submit(job)
    until((Store(tmp_path).scratch(job.key) / "a.pt").exists, seconds=120)
    team = psutil.Process(executor._pool[0].process.pid).children(recursive=True)
    assert len([child for child in team if "spawn_main" in " ".join(child.cmdline())]) == 2
    executor.stop(now=True)
    left = psutil.wait_procs(team, timeout=10)[1]
    for child in left:
        child.kill()
    assert left == []


def test_a_closed_channel_ends_a_worker_without_the_kernels_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where there is no signal at a parent's death."""
    monkeypatch.setattr(processes, "_BOOT", processes._BOOT.replace("main(int", "sys.platform = 'other'; main(int"))
    executor = ProcessExecutor(1)
    executor.start(tmp_path, WORK, 1)
    executor.submit(toys(1, "forever")[0])
    until(lambda: logged(tmp_path))
    (worker,) = executor._pool
    worker.channel.close()
    assert worker.process.wait(timeout=5) == 0
    executor.stop(now=True)


def test_a_worker_that_died_idle_is_replaced(tmp_path: Path) -> None:
    executor = ProcessExecutor(1)
    executor.start(tmp_path, WORK, 1)
    executor._pool[0].process.kill()
    executor._pool[0].process.wait()
    (job,) = toys(1)
    executor.submit(job)
    until(lambda: Store(tmp_path).has(job.key))
    assert [done.status for done in executor.wait(5)] == ["finished"]
    executor.stop(now=False)


def test_a_script_needs_no_main_guard(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PARENT.replace('toys(1, "forever")', "[]").replace("(3)", "(2)") + "print('once')\n")
    command = [sys.executable, str(script), str(tmp_path), HERE, "value"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert (done.stdout, done.stderr) == ("once\n", "")


def test_writing_needs_no_more_than_a_store(tmp_path: Path) -> None:
    """What a worker wrote is there for this process at once."""
    jobs = toys(2)
    run(tmp_path, jobs, ProcessExecutor(2))
    assert [Store(tmp_path).read(job.key).head for job in jobs] == [{"square": 0}, {"square": 1}]
    assert isinstance(Store(tmp_path).read(jobs[0].key), Record)
