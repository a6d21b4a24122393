"""M10: does the gate of retraining scores stop what writes the class down, and let pass what is clean?

Over 20 planted leaks and 20 clean maps on the planted bench. The gate must put every leak above every clean
map, and may not stop the truth, blurred truths or random maps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from roadworthy.attribution import attribute
from roadworthy.data import load_data
from roadworthy.evaluation.audit.gate import KEEPS, THRESHOLD, encoding_gap, gate_verdict
from roadworthy.evaluation.epochs import GATE_JUDGE
from roadworthy.evaluation.finetune import fine_tuned, judge_recipe
from roadworthy.evaluation.selftest.leaks import Planted, clean, leaks
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.model import load_model
from roadworthy.records import Data
from roadworthy.statistics import area_under_roc
from roadworthy.types import Progress

REAL = ("grad", "ixg", "ig", "gradcam")
NEVER = ("truth", "blur", "random")
"""What must not be called a leak, by how the names begin."""


@dataclass(frozen=True)
class GateTest:
    """What the gate made of planted leaks and clean maps, for one seed.

    Attributes:
        rows: what :func:`~roadworthy.evaluation.audit.gate.encoding_gap` returned.
        leaks: names of the maps that leak.
        n: test samples.
        seed: of the bench.
    """

    rows: list[dict[str, Any]]
    leaks: tuple[str, ...]
    n: int
    seed: int

    @property
    def gaps(self) -> dict[str, float]:
        """The largest gap of each map over the shares kept, beyond that of random masks."""
        names = dict.fromkeys(row["method"] for row in self.rows)
        return {name: max(row["beyond"] for row in self.rows if row["method"] == name) for name in names}

    @property
    def auroc(self) -> float:
        """The share of pairs of a leak and a clean map in which the leak has the larger gap."""
        return area_under_roc(list(self.gaps.values()), [name in self.leaks for name in self.gaps])

    @property
    def withheld(self) -> list[str]:
        """The maps that the gate stops."""
        return [each["method"] for each in gate_verdict(self.rows) if each["verdict"] == "withheld"]


def gate_test(
    seed: int,
    *,
    names: Sequence[str] | None = None,
    train: int = 1600,
    test: int = 400,
    keeps: Sequence[float] = KEEPS,
    cache: str | None = None,
    progress: Progress | None = None,
) -> GateTest:
    """Run the gate over planted leaks and clean maps.

    Args:
        seed: of images, model, maps and trainings.
        names: the maps to take; by default all 40.
        train: training images.
        test: test images.
        keeps: shares kept.
        cache: folder of trained networks, see :func:`roadworthy.load_model`.
        progress: called with the number of samples just trained on.
    """
    data = load_data(f"planted:n={train},test={test}", seed=seed)
    model = load_model("small-cnn", data, seed=seed, cache=cache)
    judge = fine_tuned(model, data.train, mean=data.mean, recipe=judge_recipe(len(data.train), GATE_JUDGE), seed=seed)
    pairs, leaking = _maps(data, model, seed, names)
    rows = encoding_gap(
        judge, data.train, data.test, pairs, keeps=keeps, mean=data.mean, seed=seed, progress=progress
    )
    return GateTest(rows, tuple(leaking), test, seed)


def encoding(found: Sequence[GateTest]) -> Trial:
    """M10: does the gap tell leaks from clean maps, and stop none of those it must not stop?

    Args:
        found: a test of the gate per seed.

    Returns:
        ``measured`` is the lowest area under the ROC curve of the gap, over the seeds.
    """
    auroc = [one.auroc for one in found]
    alarms = sorted({name for one in found for name in one.withheld if name not in one.leaks})
    missed = sorted({name for one in found for name in one.leaks if name not in one.withheld})
    gaps = [(gap, name in one.leaks) for one in found for name, gap in one.gaps.items()]
    lowest = min((gap for gap, leaks in gaps if leaks), default=float("nan"))
    highest = max((gap for gap, leaks in gaps if not leaks), default=float("nan"))
    return Trial(
        "M10",
        "leak gate",
        min(auroc),
        "area under the ROC curve 1.00, and no alarm on truth, blur and random",
        min(auroc) == 1 and not any(name.startswith(NEVER) for name in alarms),
        f"smallest gap of a leak {lowest:.2f}, largest of a clean map {highest:.2f}; above {THRESHOLD:g} although "
        f"clean: {', '.join(alarms) or 'none'}; leaks below it: {', '.join(missed) or 'none'}",
        min(one.n for one in found),
        tuple(one.seed for one in found),
    )


def _maps(
    data: Data, model: Any, seed: int, names: Sequence[str] | None
) -> tuple[dict[str, tuple[np.ndarray, np.ndarray]], list[str]]:
    """Return the pairs of training and test maps, and which of them leak."""
    splits = (data.train, data.test)
    planted = [Planted.of(split, seed) for split in splits]
    leaking = [leaks(of) for of in planted]
    found: list[Mapping[str, np.ndarray]] = [clean(of) for of in planted]
    real = [name for name in REAL if names is None or name in names]
    if real:
        made = [attribute(model, split, real, seed=seed, mean=data.mean) for split in splits]
        found = [dict(each) | dict(maps) for each, maps in zip(found, made, strict=True)]
    both = [dict(bad) | dict(good) for bad, good in zip(leaking, found, strict=True)]
    chosen = list(both[0]) if names is None else list(names)
    return {name: (both[0][name], both[1][name]) for name in chosen}, [n for n in chosen if n in leaking[0]]
