from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import toy_jobs
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_jobs import logged, toys

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.sweep import Job, Outcome, Record, SerialExecutor, Store, StoreError, run_jobs
from roadworthy.sweep.executors.base import Done
from roadworthy.sweep.schedule import critical_path

WORK = "toy_jobs:toy"


def run(folder: Path, jobs: list[Job], **options: object) -> tuple[Outcome, list[tuple[str, str]]]:
    """Run in this process; return the outcome and the events as (what, label)."""
    events: list[tuple[str, str]] = []
    executor = options.pop("executor", None) or SerialExecutor()
    outcome = run_jobs(
        jobs,
        Store(folder),
        executor,
        work=WORK,
        on_event=lambda what, job, seconds: events.append((what, str(job))),
        **options,
    )
    return outcome, events


def chain() -> list[Job]:
    """Two values, their sum, and a sum of nothing else; the one that needs comes first."""
    first, second = toys(2)
    total = Job("toy", {"do": "sum", "of": 2}, needs=(first.key, second.key), label="sum")
    return [total, first, second]


def test_jobs_come_after_what_they_need(tmp_path: Path) -> None:
    jobs = chain()
    outcome, events = run(tmp_path, jobs)
    assert [label for what, label in events if what == "started"] == ["value 0", "value 1", "sum"]
    assert [what for what, _ in events] == ["started", "finished"] * 3
    assert set(outcome.finished) == {job.key for job in jobs}
    assert Store(tmp_path).read(jobs[0].key).head == {"sum": 1}


def test_a_finished_sweep_does_nothing(tmp_path: Path) -> None:
    run(tmp_path, chain())
    executor = Untouchable()
    outcome, events = run(tmp_path, chain(), executor=executor)
    assert (outcome.finished, len(outcome.skipped)) == ([], 3)
    assert {what for what, _ in events} == {"found"}
    assert len(logged(tmp_path)) == 3


class Untouchable(SerialExecutor):
    """Must not be started."""

    def start(self, folder: Path, work: str, jobs: int) -> None:
        raise AssertionError("there is nothing to do")


def test_a_failure_stops_only_what_needs_it(tmp_path: Path) -> None:
    (bad,) = toys(1, "raise")
    good = toys(2)
    child = Job("toy", {"do": "sum", "of": "bad"}, needs=(bad.key, good[0].key), label="child")
    grandchild = Job("toy", {"do": "sum", "of": "child"}, needs=(child.key,), label="grandchild")
    jobs = [bad, child, grandchild, *good]
    outcome, events = run(tmp_path, jobs)
    assert set(outcome.finished) == {job.key for job in good}
    assert outcome.blocked == {child.key: (bad.key,), grandchild.key: (bad.key,)}
    failure = outcome.failed[bad.key]
    assert failure.error == "ValueError: number 0 cannot be done"
    assert "toy_jobs.py" in failure.traceback
    assert (failure.kind, failure.label) == ("toy", "raise 0")
    assert Store(tmp_path).failures() == outcome.failed
    assert [event for event in events if event[0] in ("failed", "blocked")] == [
        ("failed", "raise 0"),
        ("blocked", "child"),
        ("blocked", "grandchild"),
    ]
    again, _ = run(tmp_path, jobs)
    assert (again.failed, again.blocked, again.finished) == (outcome.failed, outcome.blocked, [])


def test_failed_jobs_are_done_again_when_asked(tmp_path: Path) -> None:
    (job,) = toys(1, "raise-unless")
    child = Job("toy", {"do": "sum"}, needs=(job.key,))
    run(tmp_path, [job, child])
    (tmp_path / "repaired").touch()
    outcome, _ = run(tmp_path, [job, child])
    assert (list(outcome.failed), list(outcome.blocked)) == ([job.key], [child.key])
    outcome, _ = run(tmp_path, [job, child], retry_failed=True)
    assert outcome.finished == [job.key, child.key]
    assert Store(tmp_path).failures() == {}


def test_two_failed_needs_are_both_named(tmp_path: Path) -> None:
    bad = toys(2, "raise")
    child = Job("toy", {"do": "sum"}, needs=(bad[0].key, bad[1].key))
    outcome, events = run(tmp_path, [*bad, child])
    assert outcome.blocked == {child.key: (bad[0].key, bad[1].key)}
    assert [what for what, _ in events].count("blocked") == 1


@pytest.mark.parametrize(
    ("do", "error"),
    [("quit", "SystemExit: 3"), ("silent", "RoadworthyError: toy_jobs:toy came back and wrote no record")],
)
def test_other_ways_to_fail(tmp_path: Path, do: str, error: str) -> None:
    jobs = [*toys(1, do), *toys(1)]
    outcome, _ = run(tmp_path, jobs)
    assert outcome.failed[jobs[0].key].error.startswith(error)
    assert outcome.finished == [jobs[1].key]


def test_an_error_after_the_record_is_told(tmp_path: Path) -> None:
    (job,) = toys(1, "late")
    with pytest.warns(RoadworthyWarning, match="late 0 raised after it wrote its record.*too late"):
        outcome, _ = run(tmp_path, [job])
    assert outcome.finished == [job.key]


@pytest.mark.parametrize(
    ("work", "error"),
    [("not_there_at_all:toy", "No module named 'not_there_at_all'"), ("toy_jobs:gone", "has no function 'gone'")],
)
def test_work_that_is_not_there_fails_the_job(tmp_path: Path, work: str, error: str) -> None:
    (job,) = toys(1)
    outcome = run_jobs([job], Store(tmp_path), SerialExecutor(), work=work)
    assert error in outcome.failed[job.key].error


@pytest.mark.parametrize("work", ["toy_jobs", "toy_jobs:", ":toy", "a b:toy", "os:system('x')"])
def test_work_has_a_form(tmp_path: Path, work: str) -> None:
    with pytest.raises(InputError, match="expected 'package.module:function'"):
        run_jobs([], Store(tmp_path), SerialExecutor(), work=work)


def test_needs_must_be_known(tmp_path: Path) -> None:
    total, first, second = chain()
    with pytest.raises(InputError, match=f"sum needs '{first.key}', neither among the jobs nor finished"):
        run(tmp_path, [total, second])
    run(tmp_path, [first])
    outcome, _ = run(tmp_path, [total, second])
    assert set(outcome.finished) == {total.key, second.key}
    run(tmp_path, [total])


def circle(n: int) -> list[Job]:
    keys = [Job("toy", {"number": number}).key for number in range(n)]
    return [
        Job("toy", {"number": number}, needs=(keys[(number + 1) % n],), label=f"c{number}") for number in range(n)
    ]


@pytest.mark.parametrize("n", [1, 2, 5])
def test_circles_are_refused(tmp_path: Path, n: int) -> None:
    with pytest.raises(InputError, match="in a circle.*'c0'"):
        run(tmp_path, [*toys(2), *circle(n)])
    assert logged(tmp_path) == []


def test_equal_jobs_count_once(tmp_path: Path) -> None:
    (job,) = toys(1)
    outcome, _ = run(tmp_path, [job, Job(job.kind, job.spec, label="the same")])
    assert outcome.finished == [job.key]
    with pytest.raises(InputError, match="have different needs"):
        run(tmp_path, [job, Job(job.kind, job.spec, needs=(toys(2)[1].key,)), *toys(2)])


def test_a_damaged_record_is_made_again(tmp_path: Path) -> None:
    jobs = chain()
    run(tmp_path, jobs)
    path = tmp_path / "trials" / f"{jobs[1].key}.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    with pytest.warns(RoadworthyWarning, match="set aside"):
        outcome, _ = run(tmp_path, jobs)
    assert outcome.finished == [jobs[1].key]
    assert path.read_bytes() == whole


def test_scratch_is_gone_with_the_record(tmp_path: Path) -> None:
    jobs = toys(2, "steps", steps=3, sleep=0)
    (Store(tmp_path).scratch(jobs[0].key) / "old").touch()
    run(tmp_path, jobs)
    assert list((tmp_path / "scratch").iterdir()) == []


def test_a_full_disk_fails_that_job_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = toys(3)
    write = Store.write

    def full(self: Store, key: str, record: Record) -> bool:
        if key == jobs[1].key:
            raise StoreError("the disk is full, make room")
        return write(self, key, record)

    with monkeypatch.context() as patched:
        patched.setattr(Store, "write", full)
        outcome, _ = run(tmp_path, jobs)
    assert outcome.finished == [jobs[0].key, jobs[2].key]
    assert "make room" in outcome.failed[jobs[1].key].error
    assert Store(tmp_path).failures() == {}
    outcome, _ = run(tmp_path, jobs)  # the same again: no job failed by itself
    assert outcome.finished == [jobs[1].key]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO])
def test_what_a_disk_does_to_the_work_is_not_its_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    jobs = toys(2)

    def work(folder: Path, job: Job, device: str) -> None:
        try:
            raise OSError(number, "trouble")
        except OSError as error:
            raise RuntimeError("the library that was writing says so in its own words") from error

    with monkeypatch.context() as patched:
        patched.setattr(toy_jobs, "toy", work)
        outcome, _ = run(tmp_path, jobs)
    assert len(outcome.failed) == 2
    assert Store(tmp_path).failures() == {}
    assert len(run(tmp_path, jobs)[0].finished) == 2


def test_a_failure_that_cannot_be_noted_is_still_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Store, key: str, job: Job, text: str) -> None:
        raise StoreError("no room for the note")

    jobs = [*toys(1, "raise"), *toys(1)]
    monkeypatch.setattr(Store, "fail", full)
    with pytest.warns(RoadworthyWarning, match="no room for the note"):
        outcome, _ = run(tmp_path, jobs)
    assert "cannot be done" in outcome.failed[jobs[0].key].error
    assert outcome.finished == [jobs[1].key]
    assert Store(tmp_path).failures() == {}


def test_what_much_waits_for_goes_first(tmp_path: Path) -> None:
    short = Job("toy", {"do": "value", "number": 0}, label="short", cost=1)
    long = Job("toy", {"do": "value", "number": 1}, label="long", cost=2)
    root = Job("toy", {"do": "value", "number": 2}, label="root", cost=1)
    tip = Job("toy", {"do": "sum"}, needs=(root.key,), label="tip", cost=5)
    _, events = run(tmp_path, [short, long, root, tip])
    assert [label for what, label in events if what == "started"] == ["root", "tip", "long", "short"]


@given(st.data())
@settings(max_examples=50, deadline=None)
def test_the_critical_path_is_the_longest_chain(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 7))
    jobs: list[Job] = []
    for number in range(n):
        needs = data.draw(st.sets(st.sampled_from(jobs))) if jobs else set()
        cost = data.draw(st.integers(0, 9))
        jobs.append(Job("toy", {"number": number}, needs=tuple(job.key for job in needs), cost=cost))

    def longest(job: Job) -> float:  # every chain, one by one
        return job.cost + max((longest(other) for other in jobs if job.key in other.needs), default=0)

    assert critical_path(data.draw(st.permutations(jobs))) == {job.key: longest(job) for job in jobs}


class Scripted:
    """An executor that says what it is told to, for the ways of workers and machines to die."""

    workers = 2
    retries = 2

    def __init__(self, folder: Path, script: dict[str, list[str]]) -> None:
        self.script, self.folder = script, folder
        self.at: list[Job] = []
        self.stopped: list[bool] = []

    def start(self, folder: Path, work: str, jobs: int) -> None:
        assert jobs > 0

    def room(self) -> int:
        return self.workers - len(self.at)

    def submit(self, job: Job) -> None:
        self.at.append(job)

    def wait(self, timeout: float) -> list[Done]:
        job = self.at.pop(0)
        status = (self.script.get(job.label) or ["finished"]).pop(0)
        if status == "interrupt":
            raise KeyboardInterrupt
        if status == "finished":
            Store(self.folder).write(job.key, Record({}))
        return [Done(job.key, status, 1.0, "some words\nended by SIGKILL", ("worn",))]

    def stop(self, *, now: bool) -> None:
        self.stopped.append(now)


@pytest.mark.filterwarnings("ignore:.*worn")
def test_a_lost_job_is_tried_again_and_then_fails(tmp_path: Path) -> None:
    jobs = toys(3)
    script = {"value 0": ["lost", "lost", "finished"], "value 1": ["lost"] * 5}
    executor = Scripted(tmp_path, script)
    outcome, events = run(tmp_path, jobs, executor=executor)
    assert set(outcome.finished) == {jobs[0].key, jobs[2].key}
    assert outcome.failed[jobs[1].key].error == "3 workers in a row died at this job; the last: ended by SIGKILL"
    assert script["value 1"] == ["lost"] * 2
    assert [event for event in events if event[0] == "lost"].count(("lost", "value 1")) == 2
    assert Store(tmp_path).failures() == outcome.failed
    assert executor.stopped == [False]


def test_an_interruption_ends_the_workers(tmp_path: Path) -> None:
    executor = Scripted(tmp_path, {"value 1": ["interrupt"]})
    with pytest.raises(KeyboardInterrupt), pytest.warns(RoadworthyWarning):
        run(tmp_path, toys(3), executor=executor)
    assert executor.stopped == [True]
    assert len(Store(tmp_path).finished()) == 1


def test_warnings_of_workers_are_passed_on_once(tmp_path: Path) -> None:
    with pytest.warns(RoadworthyWarning, match="worn") as caught:
        run(tmp_path, toys(3), executor=Scripted(tmp_path, {}))
    assert [str(entry.message) for entry in caught] == ["value 0: worn"]


SECOND = """
import sys
from pathlib import Path
from roadworthy.sweep import SerialExecutor, Store, run_jobs
sys.path.insert(0, sys.argv[2])
from toy_jobs import toys
jobs = toys(12, sleep=0.05) + toys(2, "raise")
outcome = run_jobs(jobs, Store(sys.argv[1]), SerialExecutor(), work="toy_jobs:toy")
print(len(outcome.finished), len(outcome.skipped), len(outcome.failed))
"""


def test_two_processes_share_a_sweep(tmp_path: Path) -> None:
    command = [sys.executable, "-c", SECOND, str(tmp_path), str(Path(__file__).parent)]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    counts = [[int(word) for word in process.communicate(timeout=60)[0].split()] for process in both]
    assert sum(finished for finished, _, _ in counts) == 12
    assert all(finished + skipped == 12 and failed == 2 for finished, skipped, failed in counts)
    done = [line.rsplit(" ", 1)[0] for line in logged(tmp_path)]
    assert sorted(done) == sorted([f"value {number}" for number in range(12)] + ["raise 0", "raise 1"])
    assert min(finished for finished, _, _ in counts) > 0


def test_the_job_of_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    (job,) = toys(1, sleep=1.5)
    code = SECOND.replace("jobs = ", "jobs = toys(1, sleep=1.5); _ = ")
    command = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as other:
        while not logged(tmp_path):
            time.sleep(0.02)
        killer = subprocess.Popen(["sh", "-c", f"sleep 0.5; kill -9 {other.pid}"])
        outcome, _ = run(tmp_path, [job])
        killer.wait()
    assert other.returncode == -signal.SIGKILL
    assert outcome.finished == [job.key]
    assert [line.split()[-1] for line in logged(tmp_path)] == [str(other.pid), str(os.getpid())]


def test_neither_torch_nor_ray_is_loaded_by_a_finished_sweep(tmp_path: Path) -> None:
    run(tmp_path, toys(12, sleep=0.05) + toys(2, "raise"))
    code = SECOND + "print({'torch', 'ray', 'pandas'} & sys.modules.keys())"
    command = [sys.executable, "-c", code, str(tmp_path), str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["0 12 2", "set()"]
