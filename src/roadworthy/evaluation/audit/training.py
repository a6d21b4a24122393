"""The leakage audit of a retrained evaluation: what the masks of its training samples say about their labels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from roadworthy.evaluation.audit.collect import BYTES, SAMPLES
from roadworthy.evaluation.audit.leakage import audit_leakage
from roadworthy.evaluation.audit.predictor import Effort
from roadworthy.evaluation.degrade import block_values
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import MapRows
from roadworthy.imputation import Imputer
from roadworthy.records import Batch, Split


def audit_training(
    train: Split,
    maps: Mapping[str, MapRows],
    *,
    strategy: Strategy,
    imputers: Sequence[Imputer],
    mean: torch.Tensor | None,
    class_count: int,
    seed: int,
    effort: Effort = "quick",
) -> dict[str, Any]:
    """Audit the masks that a new network is trained on, on at most 1,000 of its samples, drawn.

    Args:
        train: training samples.
        maps: of each method, on these samples; a sample whose map is not finite is left out.
        strategy: orders, shares, unit, sign and reduction.
        imputers: what fills removed units.
        mean: training mean per channel, in pixel units.
        class_count: number of classes.
        seed: of the draws.
        effort: see :func:`roadworthy.evaluation.audit.leakage.audit_leakage`.

    Returns:
        What :func:`~roadworthy.evaluation.audit.leakage.audit_leakage` returns, for the labels.
    """
    most = min(SAMPLES, len(train), max(1, BYTES // (4 * math.prod(train.shape))))
    chosen = train.take(most, seed)
    batches = list(chosen.batches(256))
    batch = Batch(
        torch.cat([part.images for part in batches]),
        torch.cat([part.labels for part in batches]),
        [sample for part in batches for sample in part.ids],
    )
    values = block_values({name: rows(batch.ids) for name, rows in maps.items()}, batch, strategy)
    sound = np.logical_and.reduce(
        [np.isfinite(array).reshape(len(array), -1).all(axis=1) for array in values.values()]
    )
    return audit_leakage(
        batch.images[torch.from_numpy(sound)],
        batch.labels.numpy()[sound],
        {name: array[sound] for name, array in values.items()},
        strategy=strategy,
        imputers=imputers,
        mean=mean,
        class_count=class_count,
        seed=seed,
        ids=[sample for sample, whole in zip(batch.ids, sound, strict=True) if whole],
        target="label",
        effort=effort,
    )


def merged(parts: Sequence[Mapping[str, Any]], imputer: str | None = None) -> dict[str, Any]:
    """Put audits of different methods on the same samples together.

    Args:
        parts: what :func:`audit_training` returned for each; at least one.
        imputer: keep what is about this fill only; None keeps all.
    """
    first = dict(parts[0])
    first["seconds"] = sum(part["seconds"] for part in parts)
    first["masks"] = [row for part in parts for row in part["masks"]]
    verdicts = [row for part in parts for row in part["verdicts"]]
    first["verdicts"] = [row for row in verdicts if imputer in (None, row["imputer"])]
    first["imputers"] = [row for row in first["imputers"] if imputer in (None, row["imputer"])]
    return first
