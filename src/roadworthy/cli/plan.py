"""What ``--plan`` prints: the jobs by kind, how many are finished, and what the rest will take."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from roadworthy.cli.console import out, print_frame
from roadworthy.cli.trials import sized, spoken

if TYPE_CHECKING:
    from roadworthy.sweep.estimate import Estimate
    from roadworthy.sweep.experiment import Experiment
    from roadworthy.sweep.job import Job
    from roadworthy.sweep.plan import Plan


def groups(plan: Plan) -> dict[tuple[str, str], list[Job]]:
    """Return the jobs of a plan under their kind and what they are about: a method, a family of maps.

    Each job is there once, a training under the first method that it stands for.
    """
    names: dict[str, str] = {}
    for rows in plan.points.values():
        for method, _, fraction, _, key in rows:
            names.setdefault(key, method if fraction > 0 else "unmodified")
    for facts in (plan.facts["road"], plan.facts.get("audits", {})):
        names |= {key: name for name, key in reversed(facts.items())}
    found: dict[tuple[str, str], list[Job]] = {}
    for job in plan.jobs:
        what = ", ".join(job.spec["sources"]) if job.kind == "maps" else names.get(job.key, "unmodified")
        found.setdefault((job.kind, what), []).append(job)
    return found


def show_plan(plan: Plan, finished: Collection[str], failed: Collection[str], guess: Estimate) -> None:
    """Print the jobs by kind, and what is left of them."""
    import pandas as pd

    rows = [
        {
            "kind": kind,
            "method": what,
            "jobs": len(jobs),
            "finished": sum(job.key in finished for job in jobs),
            "failed": sum(job.key in failed for job in jobs),
            "work left": spoken(sum(guess.work.get(job.key, 0.0) for job in jobs))
            if any(job.key in guess.work for job in jobs)
            else "-",
        }
        for (kind, what), jobs in groups(plan).items()
    ]
    left = len(guess.work)
    print_frame(pd.DataFrame(rows), f"{len(plan.jobs)} jobs, {left} to do")
    for line in in_words(guess):
        out.print(line, markup=False, highlight=False, soft_wrap=True)


def in_words(guess: Estimate) -> list[str]:
    """Say what is left to do, as an estimate."""
    if not guess.work:
        return ["Everything is finished."]
    at_a_time = f"{guess.workers} jobs at a time" if guess.workers > 1 else "one job at a time"
    disk = ", ".join(f"{what} {sized(size)}" for what, size in guess.disk.items())
    lines = [
        f"An estimate, from a probe of {spoken(guess.probe)}: about {spoken(guess.seconds)} with {at_a_time}, "
        f"{spoken(sum(guess.work.values()))} of work in all.",
        f"At most {sized(sum(guess.disk.values()))} of disk: {disk}.",
    ]
    if guess.counted:
        lines.append(f"Not measured but worked out from their number of passes: maps of {', '.join(guess.counted)}.")
    return lines


def plan_record(
    experiment: Experiment, plan: Plan, finished: Collection[str], failed: Collection[str], guess: Estimate
) -> dict[str, Any]:
    """Return what ``--plan --json`` prints: every job, and the estimate."""
    names = {job.key: what for (_, what), jobs in groups(plan).items() for job in jobs}
    jobs = [
        {
            "key": job.key,
            "kind": job.kind,
            "method": names[job.key],
            "label": job.label,
            "needs": list(job.needs),
            "state": "finished" if job.key in finished else "failed" if job.key in failed else "to do",
            "seconds": round(guess.work[job.key], 2) if job.key in guess.work else None,
        }
        for job in plan.jobs
    ]
    return {"experiment": experiment.model_dump(mode="json"), "jobs": jobs, "estimate": guess.to_dict()}
