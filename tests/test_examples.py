"""Every example runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.stats

from roadworthy.evaluation import Result, Scores
from roadworthy.evaluation.result import COST

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
MODULES = {"efficientnet_lite.py"}  # given to --model as package.module:factory; run by the end-to-end test


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in EXAMPLES if path.name not in MODULES], ids=lambda path: path.stem)
def test_it_runs(path: Path, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, str(path)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "random" in done.stdout


METHODS = ["ig", "ig-sg", "grad", "gb", "lrp", "sobel", "random"]
COMPARE = EXAMPLES[0].parent / "road-paper" / "compare.py"


def result_of(folder: Path, seed: int, **changes: Any) -> Result:
    """Save a result of random hits, as a sweep leaves it."""
    facts: dict[str, Any] = {"repeats": 2, "settings": {"training": "retrain", "imputer": folder.name}} | changes
    rng = np.random.default_rng(seed)
    hits = (rng.random((len(METHODS), 2, 4, facts["repeats"], 40)) < 0.5).astype(np.uint8)
    values, labels = hits.astype(np.float32), np.zeros(40, dtype=np.int64)
    result = Result(
        methods=METHODS,
        orders=["morf", "lerf"],
        fractions=[0.0, 0.1, 0.5, 0.9],
        removed=[0, 1, 5, 9],
        ids=[str(i) for i in range(40)],
        scores=Scores(hits, hits, values, values, labels, labels, labels),
        **facts,
    )
    result.save(folder)
    return result


def row(output: str, start: str) -> list[float]:
    """Return the numbers of the line that starts so."""
    line = next(line for line in output.splitlines() if line.strip().startswith(start))
    return [float(number) for number in re.findall(r"-?\d+\.\d+", line.strip().removeprefix(start))]


def spearman(a: Result, b: Result, orders: tuple[str, str], places: list[tuple[int, int]]) -> float:
    """Oracle: SciPy's rho over the methods but the control, mean over pairs of shares; low is good after MoRF."""
    sign = {"morf": -1, "lerf": 1}
    left, right = (
        sign[order] * one.scores.top1[:-1, one.orders.index(order)].mean(axis=(2, 3))
        for one, order in zip((a, b), orders, strict=True)
    )
    return float(np.mean([scipy.stats.spearmanr(left[:, p], right[:, q])[0] for p, q in places]))


def test_a_sweep_is_set_beside_the_paper(tmp_path: Path) -> None:
    mask = {"method": "ig", "order": "morf", "low": 0.25, "high": 0.35}
    masks = [mask | {"fraction": 0.1, "accuracy": 0.2}, mask | {"fraction": 0.5, "accuracy": 0.3}]
    audit = {"leakage": {"masks": masks}}
    work = [("retrain", "ig", "morf", 0.1, 0, 60.0, 10), ("retrain", "", "", 0.0, 0, 40.0, 10)]
    trained = result_of(
        tmp_path / "noisy-linear",
        1,
        audit=audit,
        cost=pd.DataFrame([*work, ("maps", "ig", "", 0.0, 0, 7.0, 10)], columns=list(COST)),
    )
    views = [{"judge": "untouched", "imputer": name} for name in ("mean", "noisy-linear")]
    cost = pd.DataFrame([("road", "ig", "", 0.0, 0, 1.5, 10)], columns=list(COST))
    road = result_of(tmp_path / "road", 2, settings={"strategy": "road", "views": views}, cost=cost)
    done = subprocess.run([sys.executable, str(COMPARE), str(tmp_path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "6 methods, shares [0.1, 0.5, 0.9], 2 trainings of each point" in done.stdout
    assert "MoRF and LeRF, mean" not in done.stdout, "nothing was retrained with it"
    removed, kept, both = [(1, 1), (2, 2), (3, 3)], [(1, 3), (2, 2), (3, 1)], ("morf", "lerf")
    linear = road.view(1)
    for what, one in (("retrain", trained), ("no retraining", linear)):
        found = row(done.stdout, f"MoRF and LeRF, noisy-linear, {what}")
        assert found[0] == pytest.approx(spearman(one, one, both, kept), abs=0.0051)
        assert found[2] == pytest.approx(spearman(one, one, both, removed), abs=0.0051)
    for order in both:
        found = row(done.stdout, f"retrain and no retraining, noisy-linear, {order}")
        assert found[0] == pytest.approx(spearman(trained, linear, (order, order), removed), abs=0.0051)
        assert found[-1] == {"morf": 0.84, "lerf": 0.94}[order], "the paper's"
    assert row(done.stdout, "ig") == [0.30, 0.25, 0.35], "the worst share"
    assert "retraining 100 s, without 2 s: 1.5% (paper: 0.7 %)" in done.stdout


@pytest.mark.slow
def test_the_paper_s_small_experiment_runs_on_other_data_and_is_compared(tmp_path: Path) -> None:
    changes = [
        "data.source=digits",
        "data.train=80",
        "data.test=60",
        "model=digits-cnn",
        "recipe={base: digits, epochs: 1, warmup_epochs: 0}",
        "methods=[grad, sobel, random]",
        "fractions=[0.5]",
        "repeats=1",
    ]
    run = [sys.executable, "-m", "roadworthy", "run", str(COMPARE.with_name("small.yaml")), "--engine", "serial"]
    run += ["--out", "small", *(part for change in changes for part in ("--set", change))]
    environment = os.environ | {"ROADWORTHY_CACHE": str(tmp_path / "cache")}
    for command in (run, [sys.executable, str(COMPARE), "small"]):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr
    assert "2 methods, shares [0.5]" in done.stdout
    for line in (
        "MoRF and LeRF, noisy-linear, retrain",
        "MoRF and LeRF, mean, no retraining",
        "  sobel",
        "cost with",
    ):
        assert line in done.stdout
