"""Planted faults are named, each by the numbers it was planted with."""

from __future__ import annotations

import json

import numpy as np
import pytest

from roadworthy.errors import InputError
from roadworthy.labelfree.as_described import as_described_curve
from roadworthy.labelfree.consistency import Consistency
from roadworthy.labelfree.curve import reliability_curve
from roadworthy.labelfree.diagnosis import DISAGREEMENT, NOTHING, diagnose, with_audit
from roadworthy.labelfree.outputs import Outputs

N, CLASSES = 300, 3


def planted(keep: np.ndarray, *, predicted: np.ndarray | None = None, agreement: float | None = None) -> Consistency:
    """The clean class keeps ``keep`` of the mean probability; the rest goes to the others alike."""
    classes = np.arange(N) % CLASSES if predicted is None else predicted
    rows = np.arange(N)
    confidence = 0.5 + np.linspace(0.4, 0, N)  # falls with the row
    clean, mean = np.empty((N, CLASSES)), np.empty((N, CLASSES))
    clean[:], mean[:] = (1 - confidence[:, None]) / (CLASSES - 1), (1 - keep[:, None]) / (CLASSES - 1)
    clean[rows, classes], mean[rows, classes] = confidence, keep
    count = np.round(30 * (keep if agreement is None else np.full(N, agreement))).astype(int)
    zeros = np.zeros(N)
    return Consistency(
        clean=Outputs.of(clean, features=mean),
        passes=30,
        perturbation="planted",
        strength=None,
        seed=0,
        agreement_count=count,
        mode_count=np.maximum(count, 30 - count),
        mode=classes,
        mean_probabilities=mean,
        variance=zeros,
        entropy=zeros,
        confidence_mean=mean.max(axis=1),
        confidence_variance=zeros,
    )


SOUND = planted(np.linspace(1, 0.6, N))


@pytest.mark.parametrize(
    ("consistency", "symptoms"),
    [
        (SOUND, [NOTHING]),
        (planted(np.linspace(0.45, 0.3, N)), ["flat low"]),
        (planted(np.full(N, 0.36)), ["flat low", "bunched scores"]),
        (planted(np.r_[np.full(45, 1.0), np.full(N - 45, 0.34)]), ["early collapse"]),
        (planted(np.full(N, 0.99)), ["bunched scores"]),
        (planted(np.full(N, 0.55)), ["bunched scores"]),
        (planted(np.linspace(1, 0.6, N), predicted=np.zeros(N, dtype=int)), ["one class"]),
    ],
)
def test_symptoms_are_named(consistency: Consistency, symptoms: list[str]) -> None:
    found = diagnose(consistency)
    assert [finding.symptom for finding in found.findings] == symptoms
    assert found.symptom == symptoms[0]


def test_bunched_scores_have_two_causes() -> None:
    firm, smooth = diagnose(planted(np.full(N, 0.99))), diagnose(planted(np.full(N, 0.55)))
    assert "hardly moves" in firm.findings[0].cause
    assert "over-smoothed" in smooth.findings[0].cause
    assert smooth.numbers["agreement"] == pytest.approx(0.533, abs=0.02)


def test_an_audit_that_disagrees_comes_first() -> None:
    assert diagnose(SOUND, audit=(0.7, 0.9)).symptom == NOTHING
    above = diagnose(SOUND, audit=(0.3, 0.4))
    assert above.symptom == "disagreement with the audit"
    assert "above the audit's interval, 0.300 to 0.400" in above.findings[0].rule
    assert above.numbers["estimate"] == pytest.approx(0.8, abs=0.01)
    below = diagnose(SOUND, audit=(0.7, 0.9), estimate=0.5)
    assert "right but unsure" in below.findings[0].cause


def test_a_record_learns_of_an_audit_afterwards() -> None:
    record = diagnose(SOUND).as_dict()
    for audit, symptom in (((0.3, 0.4), DISAGREEMENT), ((0.7, 0.9), NOTHING)):
        found = with_audit(record, audit)
        assert found["symptom"] == symptom
        assert found == diagnose(SOUND, audit=audit).as_dict()
    assert with_audit(record, (0.3, 0.4), (0.35, 0.9))["symptom"] == NOTHING  # the two meet
    refuted = with_audit(diagnose(planted(np.full(N, 0.99))).as_dict(), (0.3, 0.4), (0.5, 0.9))
    assert [finding["symptom"] for finding in refuted["findings"]] == [DISAGREEMENT, "bunched scores"]
    assert refuted["findings"][0]["rule"].startswith("the estimate 0.500 to 0.900 lies above")
    assert with_audit(refuted, (0.6, 0.7), (0.5, 0.9))["symptom"] == "bunched scores"  # of more labels


def test_the_numbers_are_those_of_the_curve() -> None:
    curve = reliability_curve(SOUND, draws=0)
    found = diagnose(SOUND, curve=curve)
    assert found.numbers["area"] == curve.area
    assert found.numbers["whole_reliability"] == curve.reliability[-1] == pytest.approx(0.7, abs=0.01)
    assert found.numbers["score_spread"] == pytest.approx(0.32, abs=0.01)
    assert json.loads(json.dumps(found.as_dict()))["symptom"] == NOTHING


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(InputError, match="'as-described', expected the ranked one"):
        diagnose(SOUND, curve=as_described_curve(SOUND, estimator="simple_majority"))
    with pytest.raises(InputError, match=r"audit: \(0.9, 0.2\) came"):
        diagnose(SOUND, audit=(0.9, 0.2))


def test_the_curves_of_a_record_name_what_they_show() -> None:
    by_clean = reliability_curve(SOUND, draws=20)
    by_itself = reliability_curve(SOUND, statistic="agreement", rank="soft-agreement", draws=20)
    assert by_clean.notes == ()
    assert "part of a high start is selection" in by_itself.notes[0]
    assert by_itself.estimator == "agreement, ranked by soft-agreement"
    with pytest.raises(InputError, match="Unknown statistic of the curve 'entropy'"):
        reliability_curve(SOUND, statistic="entropy")
    clustered = as_described_curve(SOUND)
    assert clustered.estimator == "cluster_consistency"
    assert np.nanmin(clustered.reliability) > 0.9
