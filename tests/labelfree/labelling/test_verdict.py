"""Three answers, and none that few labels would give by being few."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling import AuditEstimate, Interval, audit_estimate, audit_plan, verdict
from roadworthy.labelfree.outputs import Outputs


def audit(low: float, high: float) -> AuditEstimate:
    interval = Interval((low + high) / 2, low, high)
    return AuditEstimate(interval, interval, 0.0, 0.0, (), 50, 1000, 0.9)


@pytest.mark.parametrize(
    ("found", "claim", "expected"),
    [
        ((0.70, 0.80), (0.65, 0.85), "confirmed"),
        ((0.70, 0.80), (0.70, 0.80), "confirmed"),
        ((0.70, 0.80), (0.75, 0.85), "cannot tell"),
        ((0.50, 0.95), (0.75, 0.85), "cannot tell"),
        ((0.70, 0.80), (0.80, 0.90), "cannot tell"),
        ((0.70, 0.80), (0.81, 0.90), "refuted"),
        ((0.70, 0.80), (0.50, 0.69), "refuted"),
        ((0.70, 0.80), (0.75, 0.75), "cannot tell"),
        ((0.70, 0.80), (0.90, 0.90), "refuted"),
        ((0.70, 0.80), (np.nan, np.nan), "cannot tell"),
    ],
)
def test_the_rule(found: tuple[float, float], claim: tuple[float, float], expected: str) -> None:
    assert verdict(audit(*found), *claim) == expected


def test_a_tolerance_widens_the_claim() -> None:
    assert verdict(audit(0.7, 0.8), 0.75, 0.75, tolerance=0.06) == "confirmed"
    assert verdict(audit(0.7, 0.8), 0.82, 0.9, tolerance=0.03) == "cannot tell"
    assert verdict(audit(0.7, 0.8), 0.6, 0.68, tolerance=0.03) == "cannot tell"
    assert verdict(audit(0.7, 0.8), 0.6, 0.68, tolerance=0.01) == "refuted"


def test_wrong_input_is_refused() -> None:
    with pytest.raises(InputError, match="low 0.9, high 0.8"):
        verdict(audit(0.7, 0.8), 0.9, 0.8)
    with pytest.raises(InputError, match="tolerance -1"):
        verdict(audit(0.7, 0.8), 0.7, 0.8, tolerance=-1)


def test_how_often_the_answers_are_wrong() -> None:
    """An estimate that is off by .2 is refuted by 100 labels, a right one is not."""
    rng = np.random.default_rng(0)
    confidence = 0.5 + rng.random(1000) / 2
    target = Outputs.of(confidence)
    labels = (rng.random(1000) < 0.7).astype(np.int64)
    answers = []
    for seed in range(100):
        plan = audit_plan(target, budget=100, seed=seed)
        found = audit_estimate(plan, labels[plan.rows(target)], target)
        answers.append((verdict(found, 0.85, 0.95), verdict(found, 0.65, 0.75)))
    off, right = zip(*answers, strict=True)
    assert off.count("refuted") > 85
    assert off.count("confirmed") == 0
    assert right.count("refuted") <= 3
