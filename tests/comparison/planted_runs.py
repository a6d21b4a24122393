"""Results and label-free results with planted scores; no model, so that every number is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from roadworthy.evaluation import Result, Scores
from roadworthy.labelfree import LabelFree, Outputs


def planted(
    scores: Mapping[str, Any],
    *,
    ids: Sequence[str] | None = None,
    hits: Any = None,
    classes: Any = None,
    audit: Mapping[str, Any] | None = None,
    order: str = "lerf",
    seed: int = 0,
    **settings: Any,
) -> Result:
    """A result in which the score of each method and sample is the value given: a probability at one share removed.

    Args:
        scores: by method, (n,) or for trainings (repeats, n).
        ids: of the samples.
        hits: (n,) or (repeats, n), right with nothing removed; all by default.
        classes: (n,), the labels.
        audit: of the result.
        order: of the one order that was run.
        seed: of the run.
        settings: more of them.
    """
    values = np.stack([np.atleast_2d(np.asarray(value, dtype=np.float32)) for value in scores.values()])
    methods, repeats, n = values.shape
    right = np.ones((repeats, n)) if hits is None else np.broadcast_to(hits, (repeats, n))
    probability = np.ones((methods, 1, 2, repeats, n), dtype=np.float32)
    probability[:, 0, 1] = values
    top1 = np.ones(probability.shape, dtype=np.uint8)
    top1[:, 0, 0] = right
    label = np.arange(n) % 4 if classes is None else np.asarray(classes)
    own = {"strategy": "planted", "imputer": "mean", "readout": "probability", "average": "shares", "labels": "given"}
    return Result(
        methods=list(scores),
        orders=[order],
        fractions=[0.0, 0.5],
        removed=[0, 8],
        repeats=repeats,
        ids=[f"s{i}" for i in range(n)] if ids is None else list(ids),
        scores=Scores(top1, top1, probability, probability, label, label, label),
        settings=own | settings,
        provenance={"seed": seed, "n": n, "versions": {"python": "3.11"}},
        audit=dict(audit or {}),
    )


def free(
    base: LabelFree,
    accuracy: tuple[float, float, float] | None,
    *,
    predicted: Sequence[int] | None = None,
    ids: Sequence[str] | None = None,
    level: float = 0.9,
) -> LabelFree:
    """A label-free result with another estimate, and other predictions."""
    record = dict(base.record)
    if accuracy is None:
        record["estimate"] = None
    else:
        live = dict(zip(("accuracy", "low", "high"), accuracy, strict=True))
        record["estimate"] = {**base.record["estimate"], **live, "level": level, "reason": ""}
    target = base.target
    if predicted is not None or ids is not None:
        chosen = target.predicted if predicted is None else np.asarray(predicted)
        probabilities = np.full((len(chosen), target.class_count), 0.1 / (target.class_count - 1))
        probabilities[np.arange(len(chosen)), chosen] = 0.9
        target = Outputs.of(
            probabilities, ids=list(target.ids)[: len(chosen)] if ids is None else list(ids), classes=target.classes
        )
    table = base.per_sample.iloc[: len(target)].assign(id=list(target.ids))
    return replace(base, record={**record, "n": len(target)}, target=target, per_sample=table)
