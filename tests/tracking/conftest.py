"""Results with known numbers, of both kinds."""

from __future__ import annotations

import numpy as np
import pytest

import roadworthy as rw
from roadworthy.evaluation import Result, Scores
from roadworthy.labelfree import Outputs
from roadworthy.labelfree.result import LabelFree

SHARES = (0.0, 0.05, 0.5, 0.9)


@pytest.fixture
def result() -> Result:
    """Three methods, one of them with a name that no tracker takes, over 80 samples."""
    draw = np.random.default_rng(2)
    probability = draw.random((3, 2, 4, 1, 80), dtype=np.float32)
    top1 = (probability > 0.4).astype(np.uint8)
    top1[:, :, 0] = top1[0, 0, 0]
    scores = Scores(top1, top1, probability, probability, *np.zeros((3, 80), dtype=np.int64))
    settings = {
        "strategy": "road",
        "imputer": "mean",
        "labels": "given",
        "classes": 10,
        "readout": "top1",
        "normalize": None,
        "fill": {"noise": 0.01, "how long": "x" * 9000},
        "views": [{"judge": "untouched", "imputer": "mean"}],
    }
    return Result(
        ["ig", "mine: π (50 %)", "random"],
        ["morf", "lerf"],
        list(SHARES),
        [0, 3, 32, 57],
        1,
        [str(i) for i in range(80)],
        scores,
        settings=settings,
        provenance={"seed": 3, "n": 80, "ids_hash": "abcd", "versions": {"torch": "2.9"}},
        warnings=["few samples", "w" * 9000],
    )


@pytest.fixture(scope="session")
def judged() -> LabelFree:
    """A label-free result with a source."""

    def said(n: int, seed: int) -> Outputs:
        rng = np.random.default_rng(seed)
        p = rng.beta(0.6, 0.6, size=n)
        return Outputs.of(p, labels=(rng.random(n) < p).astype(int), classes=("no", "yes"))

    return rw.labelfree(data=said(100, 1), source=said(90, 0))


@pytest.fixture
def gated(result: Result) -> Result:
    """The same after retraining, with a gate that withholds ``ig``."""
    row = {"keep": 0.06, "kar": 0.9, "judge": 0.4, "gap": 0.5, "control": 0.05}
    leak, clean = ({"beyond": b, "beyond_low": b - 0.05, "beyond_high": b + 0.05} for b in (0.45, 0.01))
    result.settings |= {"training": "retrain"}
    result.audit = {"gate": [{"method": name, **row, **(leak if name == "ig" else clean)} for name in result.methods]}
    return result
