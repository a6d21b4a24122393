from __future__ import annotations

from types import SimpleNamespace

import pytest

from roadworthy.sweep import Job, TimeLeft


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def jobs(*costs: float, kind: str = "train") -> list[Job]:
    return [Job(kind, {"number": number}, cost=cost) for number, cost in enumerate(costs)]


def listener(plan: list[Job], workers: int = 1) -> tuple[TimeLeft, Clock]:
    clock = Clock()
    return TimeLeft(plan, SimpleNamespace(workers=workers), clock=clock), clock


def test_before_anything_is_finished_nothing_is_known() -> None:
    plan = jobs(1, 1)
    left, _ = listener(plan)
    left("found", plan[0], 0.0)
    left("started", plan[1], 0.0)
    assert (left.seconds(), left.share) == (None, 0.5)


def test_cost_counts() -> None:
    plan = jobs(1, 2, 7)
    left, _ = listener(plan)
    left("finished", plan[0], 4.0)
    assert left.seconds() == pytest.approx(4.0 * 9)
    left("finished", plan[2], 7 * 6.0)
    assert left.seconds() == pytest.approx(2 * (4 + 42) / 8)
    assert left.share == pytest.approx(0.8)
    left("finished", plan[1], 1.0)
    assert (left.seconds(), left.share) == (0.0, 1.0)


def test_workers_share_the_rest_unless_one_job_is_longer() -> None:
    plan = jobs(1, 1, 1, 1, 1)
    left, _ = listener(plan, workers=4)
    left("finished", plan[0], 10.0)
    assert left.seconds() == pytest.approx(10.0)
    plan = jobs(1, 1, 1, 6)
    left, _ = listener(plan, workers=4)
    left("finished", plan[0], 10.0)
    assert left.seconds() == pytest.approx(60.0)


def test_a_chain_cannot_be_shared() -> None:
    plan = jobs(1, 1, 1)
    plan.append(Job("train", {"last": True}, needs=(plan[2].key,), cost=2))
    left, _ = listener(plan, workers=8)
    left("finished", plan[0], 5.0)
    assert left.seconds() == pytest.approx(15.0)


def test_what_runs_has_begun_to_be_done() -> None:
    plan = jobs(1, 1, 1)
    left, clock = listener(plan)
    left("finished", plan[0], 10.0)
    left("started", plan[1], 0.0)
    left("started", plan[2], 0.0)  # waits in a queue: there is one worker
    clock.now += 4
    assert left.seconds() == pytest.approx(16.0)
    clock.now += 100  # longer than expected
    assert left.seconds() == pytest.approx(10.0)
    left("lost", plan[1], 104.0)
    assert left.seconds() == pytest.approx(10.0)  # the second is the one at work now


def test_kinds_have_their_own_speed() -> None:
    plan = [*jobs(1, 1), *jobs(1, 1, kind="maps"), *jobs(1, kind="road")]
    left, _ = listener(plan)
    left("finished", plan[0], 10.0)
    left("finished", plan[2], 2.0)
    assert left.seconds() == pytest.approx(10 + 2 + 6)


def test_a_resumed_sweep_does_not_count_what_it_found() -> None:
    plan = jobs(*[1] * 10)
    left, _ = listener(plan)
    for job in plan[:5]:
        left("found", job, 0.0)
    left("finished", plan[5], 3.0)
    left("failed", plan[6], 100.0)
    left("blocked", plan[7], 0.0)
    assert left.seconds() == pytest.approx(6.0)


def test_no_jobs() -> None:
    left, _ = listener([])
    assert (left.seconds(), left.share) == (0.0, 1.0)
