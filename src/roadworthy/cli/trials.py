"""Progress over the jobs of a sweep, with the time that the rest will take."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from roadworthy.cli.console import err, say

if TYPE_CHECKING:
    from roadworthy.sweep.executors import Executor
    from roadworthy.sweep.job import Job

_EVERY = 15.0  # seconds between lines where standard error is no terminal
_JUDGED = 1.0  # seconds that an estimate of the rest is shown before it is made anew


class Trials:
    """Shows the events of a sweep on standard error: a bar on a terminal, else a line now and then.

    Args:
        jobs: of the sweep, all of them.
        executor: who does them.
    """

    def __init__(self, jobs: Sequence[Job], executor: Executor) -> None:
        from roadworthy.sweep.timeleft import TimeLeft

        self._left = TimeLeft(jobs, executor)
        self._total, self._done, self._found, self._failed = len(jobs), 0, 0, 0
        self._said = self._judged = time.monotonic()
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if err.is_terminal:
            columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn())
            rest = TextColumn("{task.fields[rest]}", markup=False)
            self._bar = Progress(*columns, TimeElapsedColumn(), rest, console=err, transient=True)
            self._bar.start()
            self._task = self._bar.add_task("jobs", total=self._total, rest="")
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, where: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._found and not self._done:
            say(f"{self._found} of {self._total} jobs were finished before.")

    def __call__(self, what: str, job: Job, seconds: float) -> None:
        """Take an event of :func:`roadworthy.sweep.schedule.run_jobs`."""
        self._left(what, job, seconds)
        self._found += what == "found"
        self._done += what == "finished"
        self._failed += what == "failed"
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, completed=self._done + self._found + self._failed)
            if what in ("started", "finished") and now - self._judged > _JUDGED:
                self._judged = now
                self._bar.update(self._task, description=str(job), rest=self._rest())
        elif what == "finished" and now - self._said > _EVERY:
            self._said = now
            failed = f", {self._failed} failed" if self._failed else ""
            say(f"{self._done + self._found} of {self._total} jobs{failed}{self._rest()}")

    def _rest(self) -> str:
        seconds = self._left.seconds()
        return "" if seconds is None else f", about {spoken(seconds)} left"


def spoken(seconds: float) -> str:
    """Say a duration roughly.

    Example:
        >>> [spoken(value) for value in (0.2, 42, 150, 9000, 400_000)]
        ['1 s', '42 s', '2.5 min', '2.5 h', '4.6 days']
    """
    for most, size, unit in ((90, 1, "s"), (5400, 60, "min"), (172_800, 3600, "h")):
        if seconds < most:
            return f"{max(1, round(seconds))} s" if unit == "s" else f"{seconds / size:.1f} {unit}"
    return f"{seconds / 86_400:.1f} days"


def sized(size: float) -> str:
    """Say a number of bytes roughly.

    Example:
        >>> [sized(value) for value in (10, 2500, 3_400_000, 5e9)]
        ['10 bytes', '2.5 kB', '3.4 MB', '5.0 GB']
    """
    for factor, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size:.0f} bytes"
