"""One training on several processes or GPUs, by torch's DistributedDataParallel."""

from __future__ import annotations

import contextlib
import datetime
import json
import multiprocessing
import os
import queue
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch.multiprocessing import ProcessExitedException, ProcessRaisedException

from roadworthy.errors import InputError, ModelError, RoadworthyError, RoadworthyWarning
from roadworthy.forward import device_of
from roadworthy.lifeline import end_with
from roadworthy.model.fit import train_as
from roadworthy.model.history import History
from roadworthy.model.recipe import Recipe
from roadworthy.model.team import Team
from roadworthy.model.weights import load_weights, write_weights
from roadworthy.rng import resolve_seed, seeded_globals
from roadworthy.types import Progress, Seed

_WAIT = datetime.timedelta(minutes=30)
_BATCH_NORM = torch.nn.modules.batchnorm._BatchNorm


def fit_distributed(
    build: Callable[[], torch.nn.Module],
    train: Any,
    *,
    processes: int | None = None,
    recipe: Recipe,
    seed: Seed = 0,
    device: str = "cpu",
    backend: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> tuple[torch.nn.Module, History]:
    """Train one model on several processes of this machine, or as one of a process group that exists already.

    Every step takes the batch that :func:`fit` would take, in the same order and with the same augmentation; each
    process takes its part of it, and the gradients are those of the whole batch. So the loss curve is that of ``fit``
    but for rounding, and a checkpoint of one is continued by the other. Two things differ. Dropout is drawn by each
    process for its part. Batch normalisation: on CUDA it is synchronised (``SyncBatchNorm``), as on one process; on
    a CPU, where torch has no such layer, each process normalises its own part by that part's statistics, and the
    running statistics are those of the first process; a warning says so.

    Each process reads the whole data: samples are shared out after reading.

    If ``torch.distributed`` is initialised already (by ``torchrun`` and ``init_process_group``, on one machine or
    many), no process is started: call this in each of them, with files that all of them see. On gloo let such a
    script end with ``torch.distributed.barrier()`` and ``os._exit(0)``: gloo's threads outlive the group, and one
    that lets go of a tensor while the interpreter ends aborts the process. A process that ends
    before its time ends the training: the others are stopped, and an error says which one it was. The processes end
    with this one, also if it is killed.

    Args:
        build: returns the model, on the CPU; it is called in each process under the seed's own global generators,
            and all get the weights of the first. A function at the top of a module (or a ``functools.partial`` of
            one, such as ``partial(untrained, "small-cnn", classes=10)``): it is sent to the processes.
        train: as for ``fit``; sent to the processes as well.
        processes: how many to start; the CUDA devices that are there, or 2 on a CPU, by default.
        recipe: the settings; ``batch_size`` is that of the whole team.
        seed: an integer or a generator.
        device: ``"cpu"``, or ``"cuda"`` for a device of its own for each process.
        backend: of torch.distributed; ``"gloo"`` on a CPU and ``"nccl"`` on CUDA by default.
        progress: called with the number of samples just trained on, by all processes together.
        **options: others of ``fit``: ``normalize``, ``output``, ``validation``, ``checkpoint``, ``snapshots``, ...

    Returns:
        The trained model, on the CPU (in a process group that existed: on its device), and the history.

    Raises:
        InputError: unusable arguments.
        ModelError: ``build`` or ``train`` cannot be sent to a process.
        RoadworthyError: a process failed or died; the message holds its error.
    """
    seed = resolve_seed(seed)
    if device not in ("cpu", "cuda"):
        raise InputError(f"device: got {device!r}, expected 'cpu' or 'cuda'; each process takes a device of its own")
    device_of(len, device)
    job = {"recipe": recipe, "seed": seed, **options}
    if torch.distributed.is_initialized():
        size = torch.distributed.get_world_size()
        if processes not in (None, size):
            raise InputError(f"processes is {processes}, but the process group that exists has {size}")
        return _as_member(build, train, device, job, progress, warn=True)
    count = _count(processes, device)
    model = _built(build, seed)
    if device == "cpu":
        _warn_of_batch_norm(model, count)
    with tempfile.TemporaryDirectory(prefix="roadworthy-") as folder:
        settings = (folder, count, backend or ("nccl" if device == "cuda" else "gloo"), build, train, device, job)
        _run(settings, count, progress)
        load_weights(model, Path(folder) / "model.safetensors")
        kept = json.loads((Path(folder) / "history.json").read_text(encoding="utf8"))
    return model, History.of(kept)


def _count(processes: int | None, device: str) -> int:
    there = torch.cuda.device_count() if device == "cuda" else None
    if processes is None:
        return there or 2
    if not isinstance(processes, int) or processes < 1:
        raise InputError(f"processes is {processes!r}, expected an integer of at least 1")
    if there is not None and processes > there:
        raise InputError(f"processes is {processes}, but there are {there} CUDA devices; each process needs its own")
    return processes


def _built(build: Callable[[], torch.nn.Module], seed: int) -> torch.nn.Module:
    with seeded_globals(seed, "init"):
        model = build()
    if not isinstance(model, torch.nn.Module):
        raise ModelError(f"build: returned {type(model).__name__}, expected a torch.nn.Module")
    return model


def _warn_of_batch_norm(model: torch.nn.Module, count: int) -> None:
    if count > 1 and any(isinstance(part, _BATCH_NORM) for part in model.modules()):
        warnings.warn(
            f"fit_distributed: on a CPU each of {count} processes normalises its own part of a batch "
            "(BatchNorm cannot be synchronised there), so the result differs from that of one process",
            RoadworthyWarning,
            stacklevel=3,
        )


def _run(settings: tuple[Any, ...], count: int, progress: Progress | None) -> None:
    """Start the processes and wait for them; when one fails, the others are stopped."""
    context = torch.multiprocessing.get_context("spawn")
    reports = context.Queue() if progress is not None else None
    try:
        started = torch.multiprocessing.spawn(_worker, (*settings, reports), nprocs=count, join=False)
    except (AttributeError, TypeError, ValueError) as error:  # all of these are raised by what cannot be sent
        raise ModelError(
            f"fit_distributed: build or train cannot be sent to a process ({' '.join(str(error).split())}); pass "
            "functions and classes from the top of a module that can be imported"
        ) from error
    try:
        while not started.join(timeout=0.1):
            _pass_on(reports, progress)
        _pass_on(reports, progress)
    except (ProcessExitedException, ProcessRaisedException) as error:
        raise RoadworthyError(
            f"fit_distributed: process {error.error_index} of {count} {_cause(error)}; the training is stopped. "
            "With a checkpoint the same call goes on from there"
        ) from error
    finally:
        for process in started.processes:
            if process.is_alive():
                process.kill()
            process.join()


def _cause(error: ProcessExitedException | ProcessRaisedException) -> str:
    if isinstance(error, ProcessExitedException):
        return f"died (signal {error.signal_name or 'none'}, exit code {error.exit_code})"
    lines = str(error).strip().splitlines()
    return f"failed: {lines[-1]}"


def _pass_on(reports: Any, progress: Progress | None) -> None:
    if reports is None or progress is None:
        return
    with contextlib.suppress(queue.Empty):
        while True:
            progress(reports.get_nowait())


def _worker(
    rank: int,
    folder: str,
    count: int,
    backend: str,
    build: Callable[[], torch.nn.Module],
    train: Any,
    device: str,
    job: dict[str, Any],
    reports: Any,
) -> None:
    starter = multiprocessing.parent_process()
    if starter is not None and starter.pid is not None:  # one that is killed cannot stop its team
        end_with(starter.pid, starter.join)
    torch.set_num_threads(max(1, torch.get_num_threads() // count))
    with _group(backend, Path(folder) / "rendezvous", rank, count):
        model, history = _as_member(build, train, device, job, None if reports is None else reports.put)
        if rank == 0:
            write_weights(model, Path(folder) / "model.safetensors", {})
            (Path(folder) / "history.json").write_text(json.dumps(asdict(history)), encoding="utf8")
        torch.distributed.barrier()
    _leave(reports)


def _leave(reports: Any) -> None:
    """End this process, whose work is done, without taking the interpreter down.

    Gloo's threads may hold tensors of Python's beyond the end of the group; where they let go of them while the
    interpreter is finalised, the process is aborted (SIGABRT).
    """
    if reports is not None:
        reports.close()
        reports.join_thread()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def _group(backend: str, meeting: Path, rank: int, count: int) -> Iterator[None]:
    torch.distributed.init_process_group(
        backend, init_method=meeting.as_uri(), rank=rank, world_size=count, timeout=_WAIT
    )
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def _as_member(
    build: Callable[[], torch.nn.Module],
    train: Any,
    device: str,
    job: dict[str, Any],
    progress: Progress | None,
    *,
    warn: bool = False,
) -> tuple[torch.nn.Module, History]:
    """Train as this process's part of the group."""
    team = Team(torch.distributed.get_rank(), torch.distributed.get_world_size())
    place = torch.device(device)
    model = _built(build, job["seed"])
    if place.type == "cuda":
        place = torch.device("cuda", team.rank % torch.cuda.device_count())
        torch.cuda.set_device(place)
        model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)
    elif warn and team.leads:
        _warn_of_batch_norm(model, team.size)
    return model, train_as(team, model, train, device=place, progress=progress, **job)
