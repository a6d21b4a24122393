"""What an executor is to the scheduler, and how any of them does one job."""

from __future__ import annotations

import errno
import importlib
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from roadworthy.errors import InputError, RoadworthyWarning
from roadworthy.sweep.job import Job
from roadworthy.sweep.store import Store, StoreError, failure_of

THREADS = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
_PASSING = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ESTALE}
_WARNINGS = 20  # of one job that are passed on


@dataclass(frozen=True)
class Done:
    """What became of a job that was handed to an executor.

    Attributes:
        key: of the job.
        status: ``"finished"``; ``"found"``: another process had finished it; ``"busy"``: another process is at it;
            ``"failed"``: it raised; ``"lost"``: the process or machine at it died.
        seconds: of work.
        text: the traceback, or how the worker died.
        warnings: what the work warned of in another process.
    """

    key: str
    status: str
    seconds: float = 0.0
    text: str = ""
    warnings: tuple[str, ...] = ()


class Executor(Protocol):
    """Where jobs are done. The scheduler calls from one thread: start, submit and wait in turns, stop."""

    @property
    def workers(self) -> int:
        """Jobs that are worked on at a time."""
        ...

    @property
    def retries(self) -> int:
        """How often a job is given to another worker after its own died."""
        ...

    def start(self, folder: Path, work: str, jobs: int) -> None:
        """Get ready for ``jobs`` jobs of ``work`` in the store ``folder``; raise if that cannot be."""
        ...

    def room(self) -> int:
        """Return how many jobs may be submitted now."""
        ...

    def submit(self, job: Job) -> None:
        """Hand over a job."""
        ...

    def wait(self, timeout: float) -> list[Done]:
        """Return what is done, at once if anything is, else after at most ``timeout`` seconds."""
        ...

    def stop(self, *, now: bool) -> None:
        """Let go of workers; with ``now`` those that are at work are ended."""
        ...


def check_work(work: str) -> str:
    """Return the name of a work function if it has the form ``package.module:function``.

    Raises:
        InputError: it has not. Whether it is there is seen where it is imported, in the workers.
    """
    module, colon, function = work.partition(":")
    if not (colon and function.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise InputError(f"work: {work!r}, expected 'package.module:function'")
    return work


def perform(folder: Path, work: str, job: Job, device: str) -> Done:
    """Do one job in this process: claim it, call the work, see to it that there is a record.

    A failure is noted in the store while the claim is held, so that no other process tries the same in vain.

    Args:
        folder: of the store.
        work: ``"package.module:function"``, called as ``function(folder, job, device)``; it writes the record.
        job: the job.
        device: handed to the work.

    Returns:
        What became of it; errors of the work are in it, not raised.
    """
    start = time.perf_counter()
    store = Store(folder)
    try:
        with store.claim(job.key, wait=False) as mine:
            if not mine:
                return Done(job.key, "busy")
            if store.has(job.key):
                return Done(job.key, "found")
            failure = store.failure(job.key)
            if failure is not None:
                return Done(job.key, "failed", text=failure.traceback or failure.error)
            text, passing = _worked(store, work, job, device)
            seconds = time.perf_counter() - start
            if text:
                if not passing:
                    note_failure(store, job, text)
                return Done(job.key, "failed", seconds, text)
            store.clear_scratch(job.key)
            return Done(job.key, "finished", seconds)
    except StoreError as error:
        return Done(job.key, "failed", time.perf_counter() - start, f"{type(error).__name__}: {error}")


def _worked(store: Store, work: str, job: Job, device: str) -> tuple[str, bool]:
    """Call the work.

    Returns:
        The traceback if there is no record after it, and whether the cause lies outside and passes, such as a full
        disk: then the same command must go on once it has passed.
    """
    try:
        _resolved(work)(store.folder, job, device)
    except (Exception, SystemExit) as error:
        if not store.has(job.key):
            return failure_of(job, traceback.format_exc()).traceback, _passes(error)
        warnings.warn(f"{job} raised after it wrote its record: {error!r}", RoadworthyWarning, stacklevel=2)
    if store.has(job.key):
        return "", False
    return f"RoadworthyError: {work} came back and wrote no record {job.key} of {job}", False


def _passes(error: BaseException | None) -> bool:
    """Tell whether a full, read-only or failing disk is behind an error."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, StoreError) or (isinstance(error, OSError) and error.errno in _PASSING):
            return True
        error = error.__cause__ or error.__context__
    return False


def _resolved(work: str) -> Callable[[Path, Job, str], None]:
    module, _, name = work.partition(":")
    function = getattr(importlib.import_module(module), name, None)
    if not callable(function):
        raise InputError(f"work: module {module} has no function {name!r}")
    return function


def note_failure(store: Store, job: Job, text: str) -> None:
    """Note a failure in the store; where that cannot be written either, say so and go on."""
    try:
        store.fail(job.key, job, text)
    except StoreError as error:
        warnings.warn(str(error), RoadworthyWarning, stacklevel=2)


def perform_elsewhere(folder: str, work: str, job: dict[str, Any], device: str) -> dict[str, Any]:
    """Do one job in a process of its own: :func:`perform` with JSON types in and out, warnings among them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("always", RoadworthyWarning)
        done = perform(Path(folder), work, Job(**job), device)
    texts = [str(entry.message)[:2000] for entry in caught if issubclass(entry.category, RoadworthyWarning)]
    return {**asdict(done), "warnings": list(dict.fromkeys(texts))[:_WARNINGS]}


def as_done(fields: dict[str, Any]) -> Done:
    """Read what :func:`perform_elsewhere` returned."""
    return Done(**{**fields, "warnings": tuple(fields["warnings"])})


def check_count(name: str, value: int) -> int:
    """Return a number of workers or threads of 1 or more, or raise."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InputError(f"{name}: {value!r}, expected a whole number of 1 or more")
    return value
