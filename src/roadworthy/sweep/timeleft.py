"""How much of a sweep is done, and the time that the rest will take."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Protocol

from roadworthy.sweep.job import Job
from roadworthy.sweep.schedule import critical_path


class HasWorkers(Protocol):
    """Anything that knows how many jobs are worked on at a time, such as an executor."""

    @property
    def workers(self) -> int:
        """Jobs at a time."""
        ...


class TimeLeft:
    """Listens to the events of :func:`run_jobs` and says what is left.

    The speed of a kind of job, seconds of work per cost, is taken from those finished in this run; kinds of which
    none is finished count at the speed of all. What was found, failed or blocked leaves the rest and does not count
    for speed. The rest takes as long as its work shared by all workers, or as its longest chain, whichever is longer.

    Args:
        jobs: of the sweep, all of them.
        executor: who does them.
        clock: seconds, ever growing.

    Example:
        >>> from roadworthy.sweep.executors import SerialExecutor
        >>> jobs = [Job("train", {"repeat": repeat}, cost=2) for repeat in range(4)]
        >>> left = TimeLeft(jobs, SerialExecutor(), clock=lambda: 0.0)
        >>> left("finished", jobs[0], 10.0)
        >>> left.share, left.seconds()
        (0.25, 30.0)
    """

    def __init__(
        self, jobs: Iterable[Job], executor: HasWorkers, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rest = {job.key: job for job in jobs}
        self._all = sum(job.cost for job in self._rest.values())
        self._executor, self._clock = executor, clock
        self._started: dict[str, float] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._cost: defaultdict[str, float] = defaultdict(float)

    def __call__(self, what: str, job: Job, seconds: float) -> None:
        """Take an event; to be passed as ``on_event``, or called from it."""
        if what == "started":
            self._started[job.key] = self._clock()
            return
        self._started.pop(job.key, None)
        if what == "lost":
            return
        self._rest.pop(job.key, None)
        if what == "finished":
            self._seconds[job.kind] += seconds
            self._cost[job.kind] += job.cost

    @property
    def share(self) -> float:
        """The part of all cost that is done, or will not be: 0 to 1."""
        return 1.0 - sum(job.cost for job in self._rest.values()) / self._all if self._all else 1.0

    def seconds(self) -> float | None:
        """Return the seconds left, or None before there is anything to judge by."""
        if not self._rest:
            return 0.0
        if not sum(self._cost.values()):
            return None
        workers = max(1, self._executor.workers)
        at_work = sorted(self._started, key=self._started.__getitem__)[:workers]  # those after them wait in a queue
        now = self._clock()
        left = {}
        for key, job in self._rest.items():
            spent = now - self._started[key] if key in at_work else 0.0
            left[key] = max(0.0, job.cost * self._speed(job.kind) - spent)
        rest = [Job(job.kind, job.spec, job.needs, cost=left[key]) for key, job in self._rest.items()]
        return max(sum(left.values()) / workers, max(critical_path(rest).values()))

    def _speed(self, kind: str) -> float:
        if self._cost[kind]:
            return self._seconds[kind] / self._cost[kind]
        return sum(self._seconds.values()) / sum(self._cost.values())
