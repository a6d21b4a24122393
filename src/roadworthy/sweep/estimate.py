"""What a sweep will take, measured before it begins: a few steps of the real work, times how often it occurs."""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from roadworthy.sweep.plan import RANDOM, Plan, gate_images, judge_images
from roadworthy.sweep.probe import Probe, Rates, family_of
from roadworthy.sweep.values import fill_name

if TYPE_CHECKING:
    from roadworthy.records import Data
    from roadworthy.sweep.experiment import Experiment
    from roadworthy.sweep.job import Job

_ROW = 26  # bytes that a record keeps of a test sample, beside its id


@dataclass(frozen=True)
class Estimate:
    """What is still to be done, an estimate from one short probe.

    Attributes:
        seconds: wall-clock time with ``workers`` jobs at a time.
        work: seconds of single jobs, by their key; of unfinished jobs only.
        disk: bytes that will be written, at most, by what they are.
        workers: jobs at a time.
        probe: seconds that the probe took.
        counted: methods whose time was worked out from their number of passes, not measured.
    """

    seconds: float
    work: Mapping[str, float]
    disk: Mapping[str, int]
    workers: int
    probe: float
    counted: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return what ``--plan --json`` prints of it."""
        return {
            "seconds": round(self.seconds, 3),
            "seconds_of_work": round(sum(self.work.values()), 3),
            "workers": self.workers,
            "bytes": sum(self.disk.values()),
            "bytes_of": dict(self.disk),
            "probe_seconds": round(self.probe, 3),
            "counted": list(self.counted),
        }


def estimate(
    experiment: Experiment,
    plan: Plan,
    data: Data,
    *,
    finished: Collection[str] = (),
    workers: int = 1,
    threads: int | None = None,
    device: str = "cpu",
) -> Estimate:
    """Measure a little of each kind of work, and say what the rest of a sweep takes.

    Nothing is written. Real runs differ: machines are busy, several processes share memory and caches, and maps
    compress.

    Args:
        experiment: what is to be done.
        plan: its jobs.
        data: its data.
        finished: keys of jobs that are done.
        workers: jobs that are done at a time.
        threads: threads that each of them has; as many as there are now by default.
        device: where they compute.

    Returns:
        The estimate for what is not finished.
    """
    jobs = [job for job in plan.jobs if job.key not in finished]
    if not jobs:
        return Estimate(0.0, {}, {}, workers, 0.0)
    with _threads(threads):
        rates = Probe(experiment, plan, data, jobs, device).rates()
    counts = {"train": len(data.train), "test": len(data.test)}
    work = {job.key: seconds_of(job, rates, counts) for job in jobs}
    disk = _disk(jobs, rates, plan, counts, data, workers)
    return Estimate(makespan(jobs, work, workers), work, disk, workers, rates.seconds, rates.counted)


def seconds_of(job: Job, rates: Rates, counts: Mapping[str, int]) -> float:
    """Return the seconds that one job takes at these rates.

    Args:
        job: the job.
        rates: what was measured.
        counts: number of samples of ``"train"`` and ``"test"``.
    """
    if job.kind == "maps":
        return counts[job.spec["split"]] * (rates.maps[family_of(job)] + rates.read)
    if job.kind == "road":
        copies = (2 if job.spec["order"] == "both" else 1) * len(job.spec["fractions"])
        each = sum(rates.degrade.get(fill_name(imputer), 0.0) + rates.score for imputer in job.spec["imputers"])
        return counts["test"] * (rates.read + copies * each)
    if job.kind == "fill":
        return rates.fill
    if job.kind in ("audit", "judge"):
        return _audit_seconds(job, rates, counts["train"])
    steps = epochs_of(job.spec["recipe"], counts["train"])
    removal = job.spec.get("removal")
    prepare = rates.read + (rates.degrade.get(fill_name(removal["imputer"]), 0.0) if removal else 0.0)
    held = "memory" not in job.spec  # what does not fit is prepared anew each epoch
    redrawn = job.spec["treatment"]["kind"] == RANDOM and removal and removal.get("random_masks") != "fixed"
    passes = 1.0 if held and not redrawn else steps
    share = job.spec.get("processes", 1)
    test = counts["test"] * (prepare + rates.score)
    return counts["train"] * (passes * prepare + steps * rates.train / share) + test


def _audit_seconds(job: Job, rates: Rates, count: int) -> float:
    """Return the seconds of an audit of masks with its gates, or of a judge with its control."""

    def filled(imputer: str) -> float:
        return rates.read + rates.degrade.get(fill_name(imputer), 0.0)

    def gate(imputer: str) -> float:
        return 2 * count * filled(imputer) + gate_images(count) * rates.train

    if job.kind == "judge":
        imputer = job.spec["removal"]["imputer"]
        return judge_images(count) * (filled(imputer) + rates.train) + gate(imputer)
    return rates.audit + sum(map(gate, job.spec["imputers"] if "judges" in job.spec else ()))


def epochs_of(recipe: Mapping[str, Any], count: int) -> float:
    """Return how often a training goes over its samples.

    Example:
        >>> epochs_of({"epochs": 3, "batch_size": 8}, 20), epochs_of({"total_steps": 10, "batch_size": 8}, 20)
        (3.0, 4.0)
    """
    if recipe.get("total_steps"):
        return recipe["total_steps"] * recipe["batch_size"] / max(1, count)
    return float(recipe["epochs"])


def makespan(jobs: list[Job], work: Mapping[str, float], workers: int) -> float:
    """Return when the last job ends if ``workers`` take jobs in order as soon as what those need is done.

    Example:
        >>> from roadworthy.sweep.job import Job
        >>> first, second = Job("train", {"n": 1}), Job("train", {"n": 2})
        >>> third = Job("maps", {}, needs=(first.key,))
        >>> makespan([third, first, second], {first.key: 2.0, second.key: 5.0, third.key: 1.0}, workers=2)
        5.0
    """
    planned = {job.key: place for place, job in enumerate(jobs)}
    lacking = [len({key for key in job.needs if key in planned}) for job in jobs]
    after: dict[str, list[int]] = defaultdict(list)
    for place, job in enumerate(jobs):
        for key in {key for key in job.needs if key in planned}:
            after[key].append(place)
    ready = [(0.0, place) for place, count in enumerate(lacking) if count == 0]
    free, last = [0.0] * max(1, workers), 0.0
    begins = [0.0] * len(jobs)
    while ready:  # a heap: it began sorted
        since, place = heapq.heappop(ready)
        ended = max(since, heapq.heappop(free)) + work[jobs[place].key]
        heapq.heappush(free, ended)
        last = max(last, ended)
        for other in after[jobs[place].key]:
            lacking[other] -= 1
            begins[other] = max(begins[other], ended)
            if lacking[other] == 0:
                heapq.heappush(ready, (begins[other], other))
    return last


def _disk(
    jobs: list[Job], rates: Rates, plan: Plan, counts: Mapping[str, int], data: Data, workers: int
) -> dict[str, int]:
    trainings = [job for job in jobs if job.kind == "train"]
    found: dict[str, int] = defaultdict(int)
    for job in jobs:
        if job.kind == "maps":
            found["maps"] += rates.map_bytes[family_of(job)] * counts[job.spec["split"]]
    # text of ids takes four bytes a character
    row = _ROW + 4 * max((len(sample) for sample in data.test.ids[:100]), default=0)
    found["records"] = len(trainings) * counts["test"] * row
    kept = len(trainings) if plan.runtime["keep_weights"] else 1
    every = plan.runtime["snapshots"]
    if every:
        kept += sum(math.ceil(epochs_of(job.spec["recipe"], counts["train"]) / every) for job in trainings)
    found["weights"] = kept * rates.weights
    found["checkpoints, deleted at the end"] = 2 * rates.weights * min(workers, len(trainings))
    found["results and reports"] = 20 * counts["test"] * sum(len(rows) for rows in plan.points.values())
    return {name: size for name, size in found.items() if size}


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    import torch

    before = torch.get_num_threads()
    try:
        if count is not None:
            torch.set_num_threads(count)
        yield
    finally:
        torch.set_num_threads(before)
