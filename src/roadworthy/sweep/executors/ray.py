"""Jobs as tasks of a Ray cluster.

A task takes a job and returns a few words; results go into the store's folder, which every node must see under the
same path. A job whose worker or machine is lost goes to another one and resumes from its scratch folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from roadworthy.errors import DataError, InputError, MissingExtraError, RoadworthyError, RoadworthyWarning
from roadworthy.sweep.executors.base import THREADS, Done, as_done, check_count, perform_elsewhere
from roadworthy.sweep.job import Job
from roadworthy.sweep.store import Store, StoreError

_OBJECTS = 80 << 20  # bytes of the object store of a cluster of our own; tasks return words, not data
_LOOK = 5.0  # seconds that the number of workers is believed before the cluster is asked again
_ANSWER = 120.0  # seconds a node may take to say whether it sees the folder
# of a cluster of our own: reports of use go nowhere; a job without a GPU sees none
_SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class RayExecutor:
    """Do jobs on a Ray cluster. The package and its version must be the same on all nodes.

    Tasks end with this process. Nodes may join and leave; a job is done by another worker up to ``retries`` times
    after the one at it was lost.

    Args:
        address: ``"auto"``: the cluster that runs on this machine or that ``RAY_ADDRESS`` names; ``"local"``: one of
            our own on this machine, gone when the sweep ends; else ``"host:port"``. If this process is connected
            to a cluster already, that one is used and stays connected.
        cpus: CPUs that a job takes, more than 0.
        gpus: GPUs that a job takes; with any, the work is told ``"cuda:0"``, else ``"cpu"``.
        threads: of each worker, for OpenMP, BLAS, numba and torch; ``cpus`` rounded down, 1 or more, by default.
        in_flight: tasks that Ray is given at a time; twice as many as can run by default, so that a cluster that
            grows on demand sees that there is some.
        retries: see above.

    Raises:
        InputError: a number out of range.
    """

    def __init__(
        self,
        address: str = "auto",
        *,
        cpus: float = 1.0,
        gpus: float = 0.0,
        threads: int | None = None,
        in_flight: int | None = None,
        retries: int = 3,
    ) -> None:
        if not cpus > 0 or not gpus >= 0:
            raise InputError(f"cpus: {cpus!r}, gpus: {gpus!r}; expected more than 0, and 0 or more")
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            raise InputError(f"retries: {retries!r}, expected a whole number of 0 or more")
        self.address, self.cpus, self.gpus, self.retries = address, cpus, gpus, retries
        self.threads = check_count("threads", max(1, int(cpus)) if threads is None else threads)
        self._in_flight = None if in_flight is None else check_count("in_flight", in_flight)
        self._started = self._ours = False
        self._handler: Any = signal.SIG_DFL
        self._running: dict[Any, tuple[Job, float]] = {}
        self._counted: tuple[float, int] = (-_LOOK, 1)

    @property
    def workers(self) -> int:
        """Jobs that the living nodes can work on at a time; 1 before the start."""
        when, count = self._counted
        if self._started and time.monotonic() - when > _LOOK:
            count = max(1, sum(self._fits(node) for node in _nodes()))
            self._counted = (time.monotonic(), count)
        return count

    def _fits(self, node: dict[str, Any]) -> int:
        offered = node["Resources"]
        fits = int(offered.get("CPU", 0) / self.cpus + 1e-9)
        return min(fits, int(offered.get("GPU", 0) / self.gpus + 1e-9)) if self.gpus else fits

    def start(self, folder: Path, work: str, jobs: int) -> None:
        """Connect, and ask every node that can do a job whether it sees the folder.

        Raises:
            MissingExtraError: Ray is not installed.
            InputError: there is no cluster at the address.
            RoadworthyError: nodes that do not see the folder, by name.
        """
        ray = _ray()
        identity = Store(folder).identity()
        self._connect(ray)
        self._started = True
        environment = dict.fromkeys(THREADS, str(self.threads))
        self._order = {"folder": str(folder), "work": work, "device": "cuda:0" if self.gpus else "cpu"}
        self._shared = (identity, [os.path.abspath(entry) for entry in sys.path])
        self._task = ray.remote(_do).options(
            num_cpus=self.cpus, num_gpus=self.gpus, max_retries=0, runtime_env={"env_vars": environment}
        )
        try:
            self._check_nodes(ray, folder, identity)
        except BaseException:
            self.stop(now=True)
            raise

    def _connect(self, ray: Any) -> None:
        if ray.is_initialized():
            return
        if threading.current_thread() is threading.main_thread():
            self._handler = signal.getsignal(signal.SIGTERM)  # Ray puts in one of its own
        own: dict[str, Any] = {"include_dashboard": False, "object_store_memory": _OBJECTS}
        options = own if self.address == "local" else {}
        try:
            _knock(os.environ.get("RAY_ADDRESS", "auto") if self.address == "auto" else self.address)
            with _environment(_SETTINGS):
                ray.init(address=self.address, log_to_driver=False, logging_level="ERROR", **options)
        except (OSError, ValueError) as error:
            raise InputError(
                f"address: no Ray cluster at {self.address!r} ({error}). Start one with 'ray start --head', or take "
                "'local' for one on this machine"
            ) from error
        self._ours = True

    def _check_nodes(self, ray: Any, folder: Path, identity: str) -> None:
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in _nodes() if self._fits(node)]
        if not nodes:
            warnings.warn(
                f"no node of the cluster has {self.cpus} CPUs and {self.gpus} GPUs for a job; waiting for one",
                RoadworthyWarning,
                stacklevel=4,
            )
        ask = ray.remote(_sight)
        names = {}
        for node in nodes:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            settings = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": there}
            answer = ask.options(**settings).remote(str(folder), identity)
            names[answer] = f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"
        answers, _ = ray.wait(list(names), num_returns=len(names), timeout=_ANSWER) if names else ([], [])
        faults = {names[answer]: _answer(ray, answer) for answer in answers}
        faults.update(
            {name: f"no answer in {_ANSWER:.0f} s" for answer, name in names.items() if answer not in answers}
        )
        found = [f"{name}: {fault}" for name, fault in faults.items() if fault]
        if found:
            raise RoadworthyError(
                f"every node must see {folder} under this path, as the same folder, be able to write there, and "
                f"import roadworthy. {'; '.join(found)}. Take a folder on a shared file system"
            )

    def room(self) -> int:
        """Return how many tasks Ray may be given now."""
        return max(0, (self._in_flight or 2 * self.workers) - len(self._running))

    def submit(self, job: Job) -> None:
        """Give a job to Ray."""
        answer = self._task.remote({**self._order, "job": asdict(job)}, *self._shared)
        self._running[answer] = (job, time.perf_counter())

    def wait(self, timeout: float) -> list[Done]:
        """See :class:`roadworthy.sweep.executors.base.Executor`."""
        ray, pending = _ray(), list(self._running)
        if not pending:
            return []
        ready, _ = ray.wait(pending, num_returns=1, timeout=timeout)
        if ready:
            ready, _ = ray.wait(pending, num_returns=len(pending), timeout=0)
        return [self._result(ray, answer) for answer in ready]

    def _result(self, ray: Any, answer: Any) -> Done:
        job, since = self._running.pop(answer)
        try:
            return as_done(ray.get(answer))
        except ray.exceptions.RayTaskError as error:  # outside the work, whose errors are noted where they come up
            status, text = "failed", str(error)
        except ray.exceptions.RayError as error:
            status, text = "lost", f"{type(error).__name__}: {error}"
        return Done(job.key, status, time.perf_counter() - since, text.strip())

    def stop(self, *, now: bool) -> None:
        """Cancel what runs, and disconnect if this executor connected."""
        ray, self._started = _ray(), False
        for answer in self._running:
            with contextlib.suppress(ray.exceptions.RayError):
                ray.cancel(answer, force=True)
        self._running = {}
        if self._ours:
            ray.shutdown()
            self._ours = False
            if threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGTERM, self._handler)


def _do(order: dict[str, Any], identity: str, path: list[str]) -> dict[str, Any]:
    """Do one job in a Ray worker."""
    fault = _sight(order["folder"], identity)
    if fault:
        return asdict(Done(Job(**order["job"]).key, "lost", text=fault))
    sys.path.extend(entry for entry in path if entry not in sys.path and os.path.exists(entry))
    return perform_elsewhere(**order)


def _sight(folder: str, identity: str) -> str:
    """Say what keeps this machine from the store, or nothing."""
    if not os.path.isfile(os.path.join(folder, "store.json")):
        return f"there is no store at {folder} on {os.uname().nodename}"
    try:
        seen = Store(folder).identity()
    except (DataError, StoreError) as error:
        return str(error)
    if seen != identity:
        return f"{folder} on {os.uname().nodename} is another folder of that name"
    return "" if os.access(folder, os.W_OK) else f"{folder} on {os.uname().nodename} cannot be written"


def _answer(ray: Any, answer: Any) -> str:
    """Return what a node says of the folder; a node that was lost meanwhile is no fault."""
    try:
        return str(ray.get(answer))
    except ray.exceptions.RayTaskError as error:
        return str(error).strip().splitlines()[-1]
    except ray.exceptions.RayError:
        return ""


def _ray() -> Any:
    try:
        import ray
        import ray.exceptions
    except ImportError as error:
        raise MissingExtraError("the Ray executor needs Ray: pip install 'roadworthy[ray]'") from error
    return ray


def _nodes() -> list[dict[str, Any]]:
    return [node for node in _ray().nodes() if node["Alive"]]


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at ``host:port``; Ray itself would try for many minutes."""
    host, _, port = address.rpartition(":")
    if port.isdecimal() and "/" not in host:
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextlib.contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set environment variables that are not set, for as long as the block lasts."""
    ours = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name in ours:
            os.environ.pop(name, None)
