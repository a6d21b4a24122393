"""Do the classifier's probabilities mean what they say, on the source? Against what chance gives."""

from __future__ import annotations

import numpy as np

from roadworthy.labelfree.calibration import expected_calibration_error
from roadworthy.labelfree.gates.base import FEW, NO_SOURCE, Evidence, Gate, gates, judged, not_run
from roadworthy.rng import numpy_generator

_DRAWS = 500
_MUCH, _USELESS = 0.05, 0.25
_LEVEL = 0.95


@gates.register("calibration", "how far confidence is from accuracy on the source")
def calibration_gate(evidence: Evidence) -> Gate:
    """Warn where confidence misleads by more than chance gives and by more than .05; estimators calibrate first."""
    source = evidence.source
    if source is None:
        return not_run("calibration", NO_SOURCE)
    if len(source) < FEW:
        return not_run("calibration", f"needs at least {FEW} labelled samples")
    error = expected_calibration_error(source.confidence, source.correct)
    by_chance = calibrated_errors(source.confidence, seed=evidence.seed)
    usual = float(np.quantile(by_chance, _LEVEL))
    more = error > usual
    return judged(
        "calibration",
        error,
        warn=more and error > _MUCH,
        refuse=more and error > _USELESS and evidence.live is None,
        expected=f"above {_MUCH} and above what chance gives ({usual:.3f}) warns, above {_USELESS} refuses",
        why=f"confidence and accuracy are {error:.3f} apart on the source, in bins of equal size",
    )


def calibrated_errors(confidence: np.ndarray, *, draws: int = _DRAWS, seed: int = 0) -> np.ndarray:
    """Return the calibration errors (draws,) that a perfectly calibrated classifier of this confidence would show."""
    generator = numpy_generator(seed, "calibration gate")
    hits = generator.random((draws, len(confidence))) < confidence
    return np.array([expected_calibration_error(confidence, row) for row in hits])
