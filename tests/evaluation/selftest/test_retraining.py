"""Strategies that train a network for each explanation: scored from one result, behind the gate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from roadworthy.evaluation import Result, Scores
from roadworthy.evaluation.selftest import retraining
from roadworthy.evaluation.selftest.contender import RETRAINED, contenders
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.evaluation.selftest.retraining import FRACTIONS, MAPS, retrained

QUALITY = {
    "truth": 1.0,
    **{f"permuted {share:g}": 1 - 0.9 * share for share in (0.2, 0.4, 0.6, 0.8, 1.0)},
    "blur 1": 1.0,
    "blur 2": 0.99,
    "blur 4": 0.96,
    "coarse": 0.6,
    "edge": 0.3,
    "decoy": 0.05,
    "null white": 0.09,
    "null blob": 0.08,
    "inverse": 0.03,
    "leak": 0.1,
}


def outcome(
    monkeypatch: pytest.MonkeyPatch, withheld: tuple[str, ...], **changes: Any
) -> dict[tuple[str, str], Trial]:
    """Hold the trials on a result of the given quality of maps, of which the gate withholds some."""

    def evaluated(model: Any, test: Any, labels: Any, maps: dict[str, Any], **options: Any) -> Result:
        assert list(maps) == list(MAPS)
        assert all(len(pair[0]) == 40 and len(pair[1]) == 100 for pair in maps.values())
        assert options["strategy"].training == "retrain"
        assert options["strategy"].orders == ("morf", "lerf")
        top1 = np.ones((len(maps), 2, len(FRACTIONS) + 1, 1, 100), dtype=np.uint8)
        for row, name in enumerate(maps):
            morf = 100 - int(100 * {**QUALITY, **changes}.get(name, 0))
            top1[row, 0, 1:, :, morf:] = 0
            top1[row, 1, 1:, :, 100 - morf :] = 0
        beyond = {name: 0.5 if name in withheld else 0.0 for name in maps}
        gate = [
            {"method": name, "keep": 0.06, "kar": 0.9, "judge": 0.4, "gap": gap, "control": 0.0}
            | {f"beyond{end}": gap for end in ("", "_low", "_high")}
            for name, gap in beyond.items()
        ]
        scores = Scores(*[top1] * 4, *np.zeros((3, 100), dtype=np.int64))
        ids = [str(row) for row in range(100)]
        removed = [0, 173, 403]
        settings = {"training": "retrain"}
        return Result(
            list(maps), ["morf", "lerf"], [0.0, *FRACTIONS], removed, 1, ids, scores, [], settings=settings,
            audit={"gate": gate},
        )  # fmt: skip

    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(576, 4))
    monkeypatch.setattr(retraining, "evaluate", evaluated)
    monkeypatch.setattr(retraining, "load_model", lambda *args, **options: net)
    found = retrained(contenders(RETRAINED), 0, train=40, test=100)
    return {(trial.id, trial.strategy): trial for trial in found}


def test_the_known_order_passes_where_the_gate_stops_the_leak(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(monkeypatch, ("leak",))
    assert {strategy for _, strategy in found} == set(RETRAINED)
    for strategy in RETRAINED:
        assert found["M3a", strategy].measured == 1.0
        assert found["M4", strategy].passed
        assert found["M5", strategy].passed
    assert found["M10", "kar"].passed
    assert found["M10", "roar symmetric"].passed
    assert ("M10", "roar") not in found  # what is removed and retrained has no gate
    assert "over 16 maps" in found["M1", "roar"].note
    assert "over 15 maps" in found["M1", "kar"].note


def test_a_leak_that_passes_the_gate_or_a_truth_that_does_not_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    found = outcome(monkeypatch, ("truth", "edge"), leak=1.0)
    trial = found["M10", "kar"]
    assert (trial.passed, trial.measured) == (False, 2.0)
    assert "withheld: edge, truth; of these neither leak nor clean: edge" in trial.note
    assert found["M1", "roar"].measured < outcome(monkeypatch, ("leak",))["M1", "roar"].measured
