"""Jobs one after another in this process."""

from __future__ import annotations

from pathlib import Path

from roadworthy.sweep.executors.base import Done, perform
from roadworthy.sweep.job import Job


class SerialExecutor:
    """Do the jobs in this process, one at a time; for few jobs, debuggers and notebooks.

    Threads are those that this process has. A job that kills the process takes the sweep with it; run it again.

    Args:
        device: handed to the work.
    """

    workers = 1
    retries = 0

    def __init__(self, *, device: str = "cpu") -> None:
        self.device = device
        self._folder, self._work = Path(), ""
        self._next: Job | None = None

    def start(self, folder: Path, work: str, jobs: int) -> None:
        """See :class:`roadworthy.sweep.executors.base.Executor`."""
        self._folder, self._work = folder, work

    def room(self) -> int:
        """Return 1 if no job waits."""
        return int(self._next is None)

    def submit(self, job: Job) -> None:
        """Take a job; it is done by :meth:`wait`."""
        self._next = job

    def wait(self, timeout: float) -> list[Done]:
        """Do the job that was submitted."""
        job, self._next = self._next, None
        return [] if job is None else [perform(self._folder, self._work, job, self.device)]

    def stop(self, *, now: bool) -> None:
        """Forget a job that was not begun."""
        self._next = None
