"""The audits of a retrained evaluation: what its masks say about the labels, and whether networks make use of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from roadworthy.evaluation.audit.collect import BYTES
from roadworthy.evaluation.audit.gate import encoding_gap
from roadworthy.evaluation.audit.leakage import SAMPLES, audit_leakage
from roadworthy.evaluation.audit.predictor import Effort
from roadworthy.evaluation.degrade import block_values
from roadworthy.evaluation.epochs import GATE_JUDGE
from roadworthy.evaluation.finetune import fine_tuned, judge_recipe
from roadworthy.evaluation.strategy import Strategy
from roadworthy.evaluation.treatment import MapRows
from roadworthy.imputation import Imputer
from roadworthy.records import Batch, Split
from roadworthy.types import Normalize, Output


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
    """Audit the masks that a new network is trained on, on some of its samples, drawn.

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
    most = min(SAMPLES[effort], len(train), max(1, BYTES // (4 * math.prod(train.shape))))
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


def judge_of_gate(
    model: torch.nn.Module,
    train: Split,
    *,
    mean: torch.Tensor | None,
    strategy: Strategy,
    seed: int,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
) -> torch.nn.Module:
    """Return the judge that retrained networks are held against: a copy of the model that knows random masks."""
    return fine_tuned(
        model,
        train,
        mean=mean,
        recipe=judge_recipe(len(train), GATE_JUDGE),
        unit=strategy.unit,
        seed=seed,
        normalize=normalize,
        output=output,
        device=device,
    )


def audit_gate(
    judge: torch.nn.Module,
    train: Split,
    test: Split,
    maps: Mapping[str, tuple[MapRows, MapRows]],
    *,
    strategy: Strategy,
    mean: torch.Tensor | None,
    seed: int,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
) -> list[dict[str, Any]]:
    """Ask whether networks retrained on kept units read more than the units: see :func:`encoding_gap`.

    Args:
        judge: from :func:`judge_of_gate`.
        train: training samples.
        test: test samples.
        maps: of each method, on the training and on the test samples.
        strategy: unit, sign and reduction; the fill is the mean, which shows the mask best.
        mean: training mean per channel, in pixel units.
        seed: of the draws and trainings.
        normalize, output, device: as in the evaluation.

    Returns:
        The rows of :func:`~roadworthy.evaluation.audit.gate.encoding_gap`.
    """
    return encoding_gap(
        judge,
        train,
        test,
        {name: (rows[0](train.ids), rows[1](test.ids)) for name, rows in maps.items()},
        mean=mean,
        unit=strategy.unit,
        sign=strategy.sign,
        reduction=strategy.reduction,
        seed=seed,
        normalize=normalize,
        output=output,
        device=device,
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
