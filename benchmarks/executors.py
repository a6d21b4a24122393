"""What executors cost: the same jobs in worker processes and as Ray tasks on the same cores, and a finished sweep.

Jobs of about a second and a half of computing each. Workers and cluster are up before the clock starts: a run is
timed from the first job's start to the last one's end. On a machine that is busy with other work the scheduler of
Linux favours Ray, whose workers are sessions of their own (autogroup): the load is stated.

    python benchmarks/executors.py --save
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
from _common import Record as Figures
from _common import environment, parser

from roadworthy.sweep import Job, ProcessExecutor, RayExecutor, Record, SerialExecutor, Store, run_jobs

WORK = "executors:work"
RESUME = """
import sys
from roadworthy.sweep import ProcessExecutor, Store, run_jobs
from executors import WORK, jobs
outcome = run_jobs(jobs(int(sys.argv[2]), 1), Store(sys.argv[1]), ProcessExecutor(2), work=WORK)
assert len(outcome.skipped) == int(sys.argv[2])
"""


def work(folder: Path, job: Job, device: str) -> None:
    """Compute, and keep a record of the size that a training's has (per-sample results of 10,000 images)."""
    total = 0
    for number in range(job.spec["steps"]):
        total += number * number % 7
    arrays = {"top1": np.zeros(10_000, np.float32), "rank": np.arange(10_000, dtype=np.float32)}
    Store(folder).write(job.key, Record({"total": total}, arrays))


def jobs(n: int, steps: int) -> list[Job]:
    return [Job("bench", {"number": number, "steps": steps}) for number in range(n)]


def calibrated(seconds: float) -> int:
    """Return the steps that take about this long here."""
    begin, total = time.perf_counter(), 0
    for number in range(1_000_000):
        total += number * number % 7
    return int(1_000_000 * seconds / (time.perf_counter() - begin))


def timed(executor: SerialExecutor | ProcessExecutor | RayExecutor, plan: list[Job]) -> float:
    """Return the seconds from the first job's start to the last one's end."""
    times: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        outcome = run_jobs(
            plan,
            Store(folder),
            executor,
            work=WORK,
            on_event=lambda what, job, seconds: times.append(time.perf_counter()),
        )
    assert len(outcome.finished) == len(plan)
    return times[-1] - times[0]


def overhead(args: argparse.Namespace, figures: Figures) -> None:
    import ray

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ray.init(
            address="local",
            num_cpus=args.workers,
            include_dashboard=False,
            object_store_memory=80 << 20,
            log_to_driver=False,
            logging_level="ERROR",
        )
    plan = jobs(args.jobs, calibrated(args.seconds))
    contenders = {"processes": ProcessExecutor(args.workers), "ray": RayExecutor()}
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    timed(contenders["ray"], jobs(4 * args.workers, 1_000_000))
    for turn in range(args.rounds):
        for name in list(contenders)[:: 1 if turn % 2 else -1]:
            seconds[name].append(timed(contenders[name], plan))
    per_job(args, figures)
    ray.shutdown()
    figures.line(
        f"{len(plan)} jobs of about {args.seconds} s, {args.workers} workers, {args.rounds} alternating rounds"
    )
    for name, values in seconds.items():
        figures.line(f"{name:<10} median {statistics.median(values):.2f} s ({min(values):.2f} to {max(values):.2f})")
    pairs = [there / here - 1 for here, there in zip(seconds["processes"], seconds["ray"], strict=True)]
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    figures.line(
        f"Ray over processes: {medians['ray'] / medians['processes'] - 1:+.1%} of medians, "
        f"{statistics.median(pairs):+.1%} median of pairs (reach: under 10 %)"
    )


def per_job(args: argparse.Namespace, figures: Figures) -> None:
    """Time jobs that compute nothing: what is left is the machinery. Ray is connected."""
    for name, executor in {
        "serial": SerialExecutor(),
        "processes": ProcessExecutor(args.workers),
        "ray": RayExecutor(),
    }.items():
        each = timed(executor, jobs(200, 1)) / 200
        figures.line(
            f"{name:<10} {each * 1e3:.1f} ms a job that computes nothing (n = 200, records of 80 kB, to disk)"
        )


def resuming(args: argparse.Namespace, figures: Figures) -> None:
    for n in (200, 2000):
        with tempfile.TemporaryDirectory() as folder:
            timed_in = Store(folder)
            run_jobs(jobs(n, 1), timed_in, SerialExecutor(), work=WORK)
            whole, inside = [], []
            for _ in range(args.rounds):
                begin = time.perf_counter()
                subprocess.run([sys.executable, "-c", RESUME, folder, str(n)], check=True, cwd=Path(__file__).parent)
                whole.append(time.perf_counter() - begin)
                begin = time.perf_counter()
                run_jobs(jobs(n, 1), timed_in, ProcessExecutor(2), work=WORK)
                inside.append(time.perf_counter() - begin)
        figures.line(
            f"resuming {n} finished jobs: {statistics.median(inside) * 1e3:.0f} ms, "
            f"{statistics.median(whole):.2f} s with the start of Python (reach for 200: under 3 s)"
        )


def main() -> None:
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--jobs", type=int, default=16)
    options.add_argument("--seconds", type=float, default=1.5, help="of computing in a job, about")
    options.add_argument("--workers", type=int, default=2)
    args = options.parse_args()
    figures = Figures("executors")
    figures.line(environment("roadworthy", "ray", "numpy") + f"; load {os.getloadavg()[0]:.1f} before the start")
    overhead(args, figures)
    resuming(args, figures)
    if args.save:
        print(f"written to {figures.save().name}")


if __name__ == "__main__":
    main()
