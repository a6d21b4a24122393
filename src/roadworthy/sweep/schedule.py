"""The order in which the jobs of a sweep are done, and what becomes of those that cannot be."""

from __future__ import annotations

import heapq
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from roadworthy.errors import InputError, RoadworthyWarning, listed
from roadworthy.sweep.executors.base import Done, Executor, check_work, note_failure
from roadworthy.sweep.job import Job
from roadworthy.sweep.store import Failure, Store, failure_of

OnEvent = Callable[[str, Job, float], None]

_POLL = 0.25  # seconds between looks at jobs that another process is at
_WAIT = 60.0  # seconds that an executor is waited for at a time


@dataclass
class Outcome:
    """What became of the jobs; every key is in exactly one of the four.

    Attributes:
        finished: keys of the jobs done in this call.
        skipped: keys of the jobs that had a record, or got one from another process meanwhile.
        failed: failures of this call and earlier ones that were not tried again, by key.
        blocked: for each job that could not be begun, the failed jobs that it needs, directly or not.
    """

    finished: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    failed: dict[str, Failure] = field(default_factory=dict)
    blocked: dict[str, tuple[str, ...]] = field(default_factory=dict)


def run_jobs(
    jobs: Iterable[Job],
    store: Store,
    executor: Executor,
    *,
    work: str,
    on_event: OnEvent | None = None,
    retry_failed: bool = False,
) -> Outcome:
    """Do the jobs that have no record yet, each after those it needs; failures do not stop the others.

    May be stopped at any moment, kill -9 and power cuts included, and called again. Several processes may call it on
    one folder at a time: they share the work, and no job is done twice.

    Args:
        jobs: in the order that they are preferred in; equal ones count once. Jobs that much other work waits for go
            first.
        store: where the records are.
        executor: who does them; started only if there is something to do, and stopped at the end.
        work: ``"package.module:function"``, called as ``function(folder, job, device)`` in the process that does the
            job; it writes the record (``Store(folder).write(job.key, record)``).
        on_event: called as ``on_event(what, job, seconds)`` with what = ``"found"`` (it has a record already, or
            another process finished it), ``"started"``, ``"finished"``, ``"failed"``, ``"blocked"`` (a job that it
            needs failed) or ``"lost"`` (the worker died; the job is started anew); seconds of work where known,
            else 0.
        retry_failed: do jobs again that failed in an earlier call; else they stay failed.

    Returns:
        What became of each job.

    Raises:
        InputError: a job needs one that is neither among the jobs nor finished, needs that go round in a circle, or
            one job with different needs.

    Example:
        >>> import tempfile
        >>> from roadworthy.sweep.executors import SerialExecutor
        >>> store = Store(tempfile.mkdtemp())
        >>> run_jobs([], store, SerialExecutor(), work="package.module:function")
        Outcome(finished=[], skipped=[], failed={}, blocked={})
    """
    sweep = _Sweep(list(jobs), store, executor, on_event)
    sweep.open(check_work(work), retry_failed)
    return sweep.outcome


class _Sweep:
    """The state of one call."""

    def __init__(self, jobs: list[Job], store: Store, executor: Executor, on_event: OnEvent | None) -> None:
        self.jobs = _by_key(jobs)
        self.store, self.executor = store, executor
        self.tell = on_event or (lambda what, job, seconds: None)
        self.outcome = Outcome()
        self.rank = critical_path(list(self.jobs.values()))
        self.dependents: dict[str, list[str]] = {}
        self.missing: dict[str, set[str]] = {}  # jobs not begun, with the needs that are not finished
        self.ready: list[tuple[float, int, str]] = []
        self.running: set[str] = set()
        self.busy: list[str] = []  # another process is at them
        self.lost: dict[str, int] = {}
        self.warned: set[str] = set()
        self.place = {key: place for place, key in enumerate(self.jobs)}

    def open(self, work: str, retry_failed: bool) -> None:
        """Sort out what is there, and do the rest."""
        there = self.store.finished()
        done = {key for key in self.jobs if key in there and self.store.check(key)}
        self._check_needs(there, done)
        if retry_failed:
            self.store.forget_failures(self.jobs.keys() - done)
        failures = {key: failure for key, failure in self.store.failures().items() if key in self.jobs}
        for key, job in self.jobs.items():
            self.missing[key] = {need for need in job.needs if need in self.jobs and need not in done}
            for need in job.needs:
                self.dependents.setdefault(need, []).append(key)
        for key in self.jobs:
            if key in done:
                self._settled(key, "found", 0.0)
        for key, failure in failures.items():
            self._failed(key, failure, 0.0)
        for key, missing in list(self.missing.items()):
            if not missing:
                self._make_ready(key)
        self.store.tidy()
        if self.missing or self.ready:
            self._run(work)

    def _check_needs(self, there: set[str], done: set[str]) -> None:
        for key, job in self.jobs.items():
            outside = [need for need in job.needs if need not in self.jobs]
            unknown = [need for need in outside if need not in there or not self.store.check(need)]
            if unknown and key not in done:
                raise InputError(
                    f"{job} needs {listed(unknown)}, neither among the jobs nor finished in {self.store.folder}; add "
                    "the jobs that make them"
                )

    def _run(self, work: str) -> None:
        now = True  # left by an exception: what is at work is ended, and resumes in the next call
        self.executor.start(self.store.folder, work, len(self.ready) + len(self.missing))
        try:
            while self.ready or self.running or self.busy:
                self._look_at_busy()
                while self.ready and self.executor.room():
                    self._submit(heapq.heappop(self.ready)[-1])
                for done in self.executor.wait(_POLL if self.busy else _WAIT):
                    self._take(done)
                if self.busy and not self.running and not self.ready:
                    time.sleep(_POLL)
            now = False
        finally:
            self.executor.stop(now=now)

    def _submit(self, key: str) -> None:
        self.running.add(key)
        self.tell("started", self.jobs[key], 0.0)
        self.executor.submit(self.jobs[key])

    def _take(self, done: Done) -> None:
        """Note what became of a job."""
        self.running.discard(done.key)
        self._warn(done)
        job = self.jobs[done.key]
        if done.status in ("finished", "found"):
            self._settled(done.key, done.status, done.seconds)
        elif done.status == "busy":
            self.busy.append(done.key)
        elif done.status == "lost" and self.lost.get(done.key, 0) < self.executor.retries:
            self.lost[done.key] = self.lost.get(done.key, 0) + 1
            self.tell("lost", job, done.seconds)
            self._make_ready(done.key)
        else:
            text = done.text
            if done.status == "lost":
                times = self.lost.get(done.key, 0) + 1
                text = f"{text}\n{times} workers in a row died at this job; the last: {text.splitlines()[-1]}"
                note_failure(self.store, job, text)
            self._failed(done.key, failure_of(job, text), done.seconds)

    def _warn(self, done: Done) -> None:
        for text in done.warnings:
            if text not in self.warned:
                self.warned.add(text)
                warnings.warn(f"{self.jobs[done.key]}: {text}", RoadworthyWarning, stacklevel=5)

    def _make_ready(self, key: str) -> None:
        self.missing.pop(key, None)
        heapq.heappush(self.ready, (-self.rank[key], self.place[key], key))

    def _settled(self, key: str, what: str, seconds: float) -> None:
        """A record is there: tell, and free the jobs that waited for it alone."""
        self.missing.pop(key, None)
        (self.outcome.finished if what == "finished" else self.outcome.skipped).append(key)
        self.tell(what, self.jobs[key], seconds)
        for dependent in self.dependents.get(key, ()):
            waiting = self.missing.get(dependent)
            if waiting and key in waiting:
                waiting.discard(key)
                if not waiting:
                    self._make_ready(dependent)

    def _failed(self, key: str, failure: Failure, seconds: float) -> None:
        """There will be no record: tell, and block what needs it."""
        self.missing.pop(key, None)
        self.outcome.blocked.pop(key, None)  # it failed in an earlier call, before what it needs did
        self.outcome.failed[key] = failure
        self.tell("failed", self.jobs[key], seconds)
        for dependent in self._all_dependents(key):
            if dependent in self.outcome.blocked:
                self.outcome.blocked[dependent] += (key,)
            elif dependent in self.missing:
                del self.missing[dependent]
                self.outcome.blocked[dependent] = (key,)
                self.tell("blocked", self.jobs[dependent], 0.0)

    def _all_dependents(self, key: str) -> list[str]:
        """Return the jobs that need a job, directly or not, in the order of the plan."""
        found: set[str] = set()
        todo = [key]
        while todo:
            new = set(self.dependents.get(todo.pop(), ())) - found
            found |= new
            todo.extend(new)
        return sorted(found, key=self.place.__getitem__)

    def _look_at_busy(self) -> None:
        """Take up jobs that another process was at: it has finished them, or died."""
        for key in list(self.busy):
            if self.store.has(key):
                self.busy.remove(key)
                self._settled(key, "found", 0.0)
                continue
            with self.store.claim(key, wait=False) as free:
                if not free:
                    continue
            self.busy.remove(key)
            self._make_ready(key)


def _by_key(jobs: Sequence[Job]) -> dict[str, Job]:
    found: dict[str, Job] = {}
    for job in jobs:
        same = found.setdefault(job.key, job)
        if set(same.needs) != set(job.needs):
            raise InputError(
                f"two jobs of one kind and spec, {same} and {job}, have different needs; they are one job"
            )
    return found


def critical_path(jobs: Sequence[Job]) -> dict[str, float]:
    """Return, by key, the cost of the longest chain of jobs that begins with each: what cannot be done side by side.

    Raises:
        InputError: needs that go round in a circle, naming jobs on it.

    Example:
        >>> first = Job("a", {}, cost=2)
        >>> second = Job("b", {}, needs=(first.key,), cost=3)
        >>> critical_path([first, second])[first.key]
        5.0
    """
    known = {job.key: job for job in jobs}
    open_needs = {job.key: sum(need in known for need in set(job.needs)) for job in jobs}
    dependents: dict[str, list[str]] = {}
    for job in jobs:
        for need in set(job.needs):
            dependents.setdefault(need, []).append(job.key)
    order = [key for key, count in open_needs.items() if not count]
    for key in order:  # grows as it is walked
        for dependent in dependents.get(key, ()):
            open_needs[dependent] -= 1
            if not open_needs[dependent]:
                order.append(dependent)
    if len(order) < len(known):
        circle = [str(known[key]) for key, count in open_needs.items() if count]
        raise InputError(f"needs go round in a circle among these jobs or those they wait for: {listed(circle)}")
    cost: dict[str, float] = {}
    for key in reversed(order):
        cost[key] = float(known[key].cost) + max((cost[entry] for entry in dependents.get(key, ())), default=0.0)
    return cost
