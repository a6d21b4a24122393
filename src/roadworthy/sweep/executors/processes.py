"""Jobs in long-lived worker processes of this machine, one at a time each."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import IO

from roadworthy.errors import InputError, RoadworthyError
from roadworthy.sweep.executors.base import THREADS, Done, as_done, check_count
from roadworthy.sweep.job import Job

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[3]); "
    "from roadworthy.sweep.executors.worker import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
_LOOK = 0.5  # seconds between looks at whether workers live; most deaths show at once, as the end of their channel
_START = 120.0  # seconds a new worker may take to say that it is there
_TAIL = 4000  # bytes of a dead worker's output that are passed on


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    channel: Connection
    output: IO[bytes]
    device: str
    job: Job | None = None
    since: float = 0.0


class ProcessExecutor:
    """Do jobs in worker processes that stay until the sweep ends.

    A worker is a fresh interpreter: it shares no state with this process, and a script needs no
    ``if __name__ == "__main__"``. What a worker prints stays off the terminal; if it dies, the end of it is in the
    failure. Workers die with this process, also by kill -9. If a worker dies, its job is done once more by another.

    Args:
        workers: jobs at a time.
        devices: handed to the workers in turn: ``"cpu"``, ``"cuda:1"``, ... A worker of ``"cuda:1"`` sees only that
            GPU, and the work is told ``"cuda:0"``. Default: the CPU.
        threads: of each worker, for OpenMP, BLAS, numba and torch.

    Raises:
        InputError: a count below 1, or no device.
    """

    retries = 1

    def __init__(self, workers: int, *, devices: Sequence[str] | None = None, threads: int = 1) -> None:
        self.workers = check_count("workers", workers)
        self.threads = check_count("threads", threads)
        if isinstance(devices, str) or (devices is not None and not devices):
            raise InputError(f"devices: {devices!r}, expected a list such as ['cuda:0', 'cuda:1']")
        self.devices = list(devices or ["cpu"])
        self._folder, self._work = Path(), ""
        self._pool: list[_Worker] = []

    def start(self, folder: Path, work: str, jobs: int) -> None:
        """Start the workers, no more than there are jobs, and wait until they are there."""
        self._folder, self._work = folder, work
        self._pool = [self._spawned(number) for number in range(min(self.workers, jobs))]
        for worker in self._pool:
            self._await_ready(worker)

    def room(self) -> int:
        """Return the number of idle workers."""
        return sum(worker.job is None for worker in self._pool)

    def submit(self, job: Job) -> None:
        """Give a job to an idle worker; one that died idle is replaced."""
        place = next(place for place, worker in enumerate(self._pool) if worker.job is None)
        order = {"folder": str(self._folder), "work": self._work, "job": asdict(job)}
        if self._pool[place].process.poll() is not None:
            self._replace(place)
        worker = self._pool[place]
        worker.job, worker.since = job, time.perf_counter()
        with contextlib.suppress(OSError):  # it died this moment: wait() finds out
            worker.channel.send_bytes(json.dumps({**order, "device": worker.device}).encode())

    def wait(self, timeout: float) -> list[Done]:
        """See :class:`roadworthy.sweep.executors.base.Executor`."""
        end = time.monotonic() + timeout
        while True:
            busy = {id(worker.channel): place for place, worker in enumerate(self._pool) if worker.job is not None}
            channels = [self._pool[place].channel for place in busy.values()]
            left = max(0.0, end - time.monotonic())
            ready = {id(channel) for channel in wait(channels, min(left, _LOOK))} if channels else set()
            dead = {key for key, place in busy.items() if self._pool[place].process.poll() is not None}
            done = [self._result(busy[key]) for key in busy if key in ready | dead]
            if done or left == 0 or not channels:
                return done

    def _result(self, place: int) -> Done:
        """Take what a worker says, or, if it died, put a new one in its place."""
        worker = self._pool[place]
        job, worker.job = worker.job, None
        assert job is not None
        try:
            if worker.channel.poll():
                return as_done(json.loads(worker.channel.recv_bytes()))
        except (EOFError, OSError):
            pass
        text = self._obituary(worker)
        self._replace(place)
        return Done(job.key, "lost", time.perf_counter() - worker.since, text)

    def _replace(self, place: int) -> None:
        self._end(self._pool[place])
        self._pool[place] = self._spawned(place)
        self._await_ready(self._pool[place])

    def _spawned(self, number: int) -> _Worker:
        ours, theirs = socket.socketpair()
        output = _output()
        environment = {**os.environ, **dict.fromkeys(THREADS, str(self.threads))}
        device = self.devices[number % len(self.devices)]
        if device.startswith("cuda"):
            environment["CUDA_VISIBLE_DEVICES"] = _physical(device, os.environ.get("CUDA_VISIBLE_DEVICES"))
            device = "cuda:0"
        path = json.dumps([entry or os.getcwd() for entry in sys.path])
        process = subprocess.Popen(
            [sys.executable, "-c", _BOOT, str(theirs.fileno()), str(os.getpid()), path],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        return _Worker(process, Connection(ours.detach()), output, device)

    def _await_ready(self, worker: _Worker) -> None:
        try:
            if worker.channel.poll(_START):
                worker.channel.recv_bytes()
                return
        except (EOFError, OSError):
            pass
        text = self._obituary(worker)
        self.stop(now=True)
        raise RoadworthyError(f"a worker process could not start. {text}")

    def _obituary(self, worker: _Worker) -> str:
        """Say how a worker died, with the end of what it printed."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(5)
        code = worker.process.poll()
        if code is None:
            how = "the worker process went silent"
        elif code < 0:
            how = f"the worker process was ended by {_signal_name(-code)}"
            how += " (out of memory?)" if -code == signal.SIGKILL else ""
        else:
            how = f"the worker process ended with status {code}"
        worker.output.seek(max(0, worker.output.seek(0, os.SEEK_END) - _TAIL))
        printed = worker.output.read().decode(errors="replace").strip()
        return f"it printed:\n{printed}\n{how}" if printed else how

    def _end(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.channel.close()
        worker.process.wait()
        worker.output.close()

    def stop(self, *, now: bool) -> None:
        """End the workers, at work or not: what they were at resumes in the next run."""
        for worker in self._pool:
            worker.process.kill()
        for worker in self._pool:
            self._end(worker)
        self._pool = []


def _output() -> IO[bytes]:
    """Return a nameless file for what a worker prints; in memory where that can be, since disks get full."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("worker-output"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _physical(device: str, visible: str | None) -> str:
    """Return what CUDA_VISIBLE_DEVICES must be for one GPU, of those that this process sees, to be the only one.

    Example:
        >>> _physical("cuda:1", None), _physical("cuda:1", "4,6"), _physical("cuda", "")
        ('1', '6', '0')
    """
    index = device.partition(":")[2] or "0"
    if not index.isdecimal():
        raise InputError(f"devices: {device!r}, expected 'cpu' or 'cuda:0', 'cuda:1', ...")
    seen = [entry.strip() for entry in (visible or "").split(",") if entry.strip()]
    if seen and int(index) >= len(seen):
        raise InputError(f"devices: {device!r}, but CUDA_VISIBLE_DEVICES shows {len(seen)} GPUs: {visible}")
    return seen[int(index)] if seen else index
