"""Work functions of tests; workers import this file by its name."""

from __future__ import annotations

import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from roadworthy.errors import RoadworthyWarning
from roadworthy.files import replacing
from roadworthy.sweep import Job, Record, Store


def toys(n: int, do: str = "value", **spec: object) -> list[Job]:
    return [Job("toy", {"do": do, "number": number, **spec}, label=f"{do} {number}") for number in range(n)]


def tree() -> list[Job]:
    """A sweep to be interrupted: eight jobs, one that needs three of them, one that needs that, and a failure."""
    steps = {"do": "steps", "steps": 12, "sleep": 0.01}
    jobs = [*toys(8, **steps), *toys(1, "raise")]
    jobs.append(Job("toy", {**steps, "number": 20}, needs=tuple(job.key for job in jobs[:3])))
    return [*jobs, Job("toy", {**steps, "number": 21}, needs=(jobs[-1].key,))]


def log(folder: Path, text: str) -> None:
    """Append a line that all processes can be judged by later."""
    descriptor = os.open(folder / "runs.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def logged(folder: Path) -> list[str]:
    path = folder / "runs.log"
    return path.read_text().splitlines() if path.exists() else []


def toy(folder: Path, job: Job, device: str) -> None:
    """Do what the job's spec says."""
    store, spec = Store(folder), job.spec
    log(folder, f"{spec['do']} {spec.get('number', '')} {os.getpid()}")
    globals()[f"_{spec['do'].replace('-', '_')}"](store, job, device)


def _value(store: Store, job: Job, device: str) -> None:
    time.sleep(job.spec.get("sleep", 0))
    number = job.spec["number"]
    store.write(job.key, Record({"square": number**2}, {"row": np.arange(number, dtype=np.float32)}))


def _large(store: Store, job: Job, device: str) -> None:
    store.write(job.key, Record({}, {"filler": np.zeros(job.spec["bytes"], np.uint8)}))


def _sum(store: Store, job: Job, device: str) -> None:
    store.write(job.key, Record({"sum": sum(store.read(need).head["square"] for need in job.needs)}))


def _raise(store: Store, job: Job, device: str) -> None:
    raise ValueError(f"number {job.spec['number']} cannot be done")


def _raise_unless(store: Store, job: Job, device: str) -> None:
    if not (store.folder / "repaired").exists():
        raise ValueError("not repaired")
    _value(store, job, device)


def _late(store: Store, job: Job, device: str) -> None:
    _value(store, job, device)
    raise ValueError("too late to matter")


def _quit(store: Store, job: Job, device: str) -> None:
    sys.exit(3)


def _silent(store: Store, job: Job, device: str) -> None:
    """Forget to write."""


def _die(store: Store, job: Job, device: str) -> None:
    print("last words of the worker", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


def _die_once(store: Store, job: Job, device: str) -> None:
    died = store.scratch(job.key) / "died"
    if not died.exists():
        died.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    _value(store, job, device)


def _vanish(store: Store, job: Job, device: str) -> None:
    os._exit(7)


def _noisy(store: Store, job: Job, device: str) -> None:
    print("NOISE on stdout")
    os.write(2, b"NOISE on stderr\n")
    warnings.warn("the toy is worn", RoadworthyWarning, stacklevel=2)
    _value(store, job, device)


def _surroundings(store: Store, job: Job, device: str) -> None:
    names = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS", "CUDA_VISIBLE_DEVICES")
    head = {"device": device, "pid": os.getpid(), **{name: os.environ.get(name) for name in names}}
    head["heavy"] = sorted({"torch", "ray"} & sys.modules.keys())
    time.sleep(job.spec.get("sleep", 0))
    store.write(job.key, Record(head))


def _meet(store: Store, job: Job, device: str) -> None:
    """Be done only when as many jobs are at work at the same time as are to meet."""
    here = store.folder / "meeting"
    here.mkdir(exist_ok=True)
    (here / job.key).touch()
    end = time.monotonic() + 60
    while len(list(here.iterdir())) < job.spec["guests"]:
        if time.monotonic() > end:
            raise ValueError("nobody came")
        time.sleep(0.02)
    _value(store, job, device)


def _team(store: Store, job: Job, device: str) -> None:
    """Train for ever on two processes."""
    import torch

    from roadworthy.model import Recipe, fit_distributed

    samples = torch.rand(16, 1, 8, 8), torch.arange(16) % 3
    recipe = Recipe(epochs=10**6, learning_rate=0.01, batch_size=8, warmup_epochs=0)
    fit_distributed(small_net, samples, processes=2, recipe=recipe, checkpoint=store.scratch(job.key) / "a.pt")


def small_net() -> object:
    import torch

    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))


def _stuck(store: Store, job: Job, device: str) -> None:
    """One call of C that never lets go of the interpreter lock, for about a minute."""
    sum(range(4 * 10**9))


def _forever(store: Store, job: Job, device: str) -> None:
    while True:
        time.sleep(1)


def _steps(store: Store, job: Job, device: str) -> None:
    """A chaotic sequence, each step kept: it ends the same only if it goes on exactly where it was."""
    path = store.scratch(job.key) / "state.npy"
    state = np.load(path) if path.exists() else np.array([0.0, (job.spec["number"] + 1) / 100])
    while state[0] < job.spec["steps"]:
        time.sleep(job.spec["sleep"])
        state = np.array([state[0] + 1, 3.9 * state[1] * (1 - state[1])])
        with replacing(path) as beside:
            np.save(beside, state)
    needed = [store.read(need).arrays["state"] for need in job.needs]
    store.write(job.key, Record({"pid": 0}, {"state": np.concatenate([state, *needed])}))
