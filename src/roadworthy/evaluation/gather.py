"""The scores of many trainings, put together into one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.errors import DataError
from roadworthy.evaluation.result import COST, READOUTS, Result, Scores
from roadworthy.evaluation.treatment import Treatment
from roadworthy.provenance import provenance
from roadworthy.types import Order

_KINDS = {"top1": np.uint8, "top5": np.uint8, "probability": np.float32, "logit": np.float32}


@dataclass(frozen=True)
class Point:
    """The scores of one training on the test split, as kept in a record.

    Attributes:
        ids: test sample ids.
        arrays: ``labels``, ``predicted`` and every readout, each (n,).
        seconds: wall-clock time.
        images: images trained on.
    """

    ids: list[str]
    arrays: dict[str, np.ndarray]
    seconds: float
    images: int


@dataclass(frozen=True)
class Grid:
    """The points of a retrained evaluation.

    Attributes:
        methods: names, in order.
        orders: MoRF first.
        fractions: shares removed, 0 first.
        repeats: which repeats.
    """

    methods: Sequence[str]
    orders: Sequence[Order]
    fractions: Sequence[float]
    repeats: Sequence[int]

    def treatments(self) -> list[Treatment]:
        """Return the distinct treatments: p = 0 and the random masks are shared by all methods and orders."""
        points = [
            Treatment.of(method, order, fraction)
            for fraction in self.fractions
            for method in self.methods
            for order in self.orders
        ]
        return list(dict.fromkeys(points))

    def of_method(self, method: str) -> list[Treatment]:
        """Return the treatments of one method's curves."""
        return Grid([method], self.orders, self.fractions, self.repeats).treatments()

    def complete(self, has: Callable[[Treatment, int], bool]) -> Grid | None:
        """Return the largest part of which everything is there: methods first, then repeats; None if nothing is.

        Args:
            has: whether a treatment's training for a repeat is there.
        """
        done = {m: {r for r in self.repeats if all(has(t, r) for t in self.of_method(m))} for m in self.methods}
        methods = [name for name in self.methods if done[name]]
        while methods:
            common = set.intersection(*(done[name] for name in methods))
            if common:
                return Grid(methods, self.orders, self.fractions, sorted(common))
            fewest = min(methods, key=lambda name: len(done[name]))
            methods.remove(fewest)
        return None


@dataclass
class Facts:
    """What a result states beside its scores.

    Attributes:
        removed: units removed at each share, as in the grid.
        seed: of the run.
        device: where it was trained.
        classes: class names.
        settings: the strategy and every option, as used.
        warnings: what the user should know.
        missing: points that are not there yet, in words.
        cost: further rows of the cost table (maps, ROAD).
    """

    removed: list[int]
    seed: int
    device: str
    classes: Sequence[str] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    cost: list[tuple[Any, ...]] = field(default_factory=list)


def gather(grid: Grid, find: Callable[[Treatment, int], Point], facts: Facts) -> Result:
    """Put points into a result: the same record as an evaluation without retraining has.

    A repeat is an independent training; within a repeat all methods share initial weights and the order of the
    samples. The point at p = 0 is the model trained on unmodified images.

    Args:
        grid: what to put together; all of it must be there.
        find: returns the scores of a treatment's training for a repeat.
        facts: everything else.

    Raises:
        DataError: trainings that were scored on different samples.
    """
    repeats = list(grid.repeats)
    first = find(Treatment(), repeats[0])
    shape = (len(grid.methods), len(grid.orders), len(grid.fractions), len(repeats), len(first.ids))
    scores = {readout: np.zeros(shape, dtype=_KINDS[readout]) for readout in READOUTS}
    cost: dict[tuple[Treatment, int], tuple[Any, ...]] = {}
    for r, repeat in enumerate(repeats):
        for treatment in grid.treatments():
            point = find(treatment, repeat)
            if point.ids != first.ids:
                raise DataError(
                    f"the training {treatment} of repeat {repeat} was scored on other test samples than "
                    f"{Treatment()}: {len(point.ids)} and {len(first.ids)}; run it again"
                )
            for place in _places(grid, treatment):
                for readout in READOUTS:
                    scores[readout][(*place, r)] = point.arrays[readout]
            order = treatment.order if treatment.kind == "estimator" else ""
            method = treatment.method or ("random" if treatment.kind == "random" else "")
            cost[treatment, repeat] = (
                "retrain", method, order, treatment.fraction, repeat, point.seconds, point.images
            )  # fmt: skip
    labels = first.arrays["labels"].astype(np.int64)
    return Result(
        methods=list(grid.methods),
        orders=list(grid.orders),
        fractions=list(grid.fractions),
        removed=facts.removed,
        repeats=len(repeats),
        ids=first.ids,
        scores=Scores(**scores, labels=labels, targets=labels, predicted=first.arrays["predicted"].astype(np.int64)),
        classes=[str(name) for name in facts.classes],
        method_info=pd.DataFrame({"method": list(grid.methods)}),
        settings=facts.settings,
        provenance=provenance(ids=first.ids, seed=facts.seed, device=facts.device),
        warnings=facts.warnings,
        cost=pd.DataFrame([*cost.values(), *facts.cost], columns=list(COST)),
        missing=facts.missing,
    )


def _places(grid: Grid, treatment: Treatment) -> list[tuple[int, int, int]]:
    return [
        (m, o, p)
        for m, method in enumerate(grid.methods)
        for o, order in enumerate(grid.orders)
        for p, fraction in enumerate(grid.fractions)
        if Treatment.of(method, order, fraction) == treatment
    ]
