"""The audits of a retrained evaluation: what its masks say about the labels, and whether networks make use of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from roadworthy.evaluation.audit.collect import BYTES
from roadworthy.evaluation.audit.gate import Gate
from roadworthy.evaluation.audit.leak_verdict import Fill
from roadworthy.evaluation.audit.leakage import SAMPLES, audit_leakage, judged_fill
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
    imputers: Sequence[Imputer] = (),
    fills: Mapping[str, Fill] | None = None,
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
        fills: those that are judged already, by name: from :func:`audit_fill`.
        mean: training mean per channel, in pixel units.
        class_count: number of classes.
        seed: of the draws.
        effort: see :func:`roadworthy.evaluation.audit.leakage.audit_leakage`.

    Returns:
        What :func:`~roadworthy.evaluation.audit.leakage.audit_leakage` returns, for the labels.
    """
    batch = _drawn(train, seed, effort)
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
        fills=fills,
        mean=mean,
        class_count=class_count,
        seed=seed,
        ids=[sample for sample, whole in zip(batch.ids, sound, strict=True) if whole],
        target="label",
        effort=effort,
    )


def audit_fill(
    train: Split,
    imputer: Imputer,
    *,
    strategy: Strategy,
    mean: torch.Tensor | None,
    seed: int,
    effort: Effort = "quick",
) -> Fill:
    """Judge how far a fill shows what was removed, on the samples that :func:`audit_training` draws.

    Args:
        train: training samples.
        imputer: the fill.
        strategy: shares and unit.
        mean: training mean per channel, in pixel units.
        seed: of the draws.
        effort: as in :func:`audit_training`.
    """
    batch = _drawn(train, seed, effort)
    return judged_fill(batch.images, imputer, strategy, mean=mean, seed=seed, ids=batch.ids, effort=effort)


def _drawn(train: Split, seed: int, effort: Effort) -> Batch:
    most = min(SAMPLES[effort], len(train), max(1, BYTES // (4 * math.prod(train.shape))))
    batches = list(train.take(most, seed).batches(256))
    return Batch(
        torch.cat([part.images for part in batches]),
        torch.cat([part.labels for part in batches]),
        [sample for part in batches for sample in part.ids],
    )


def judge_of_gate(
    model: torch.nn.Module,
    train: Split,
    *,
    imputer: Imputer,
    mean: torch.Tensor | None,
    strategy: Strategy,
    seed: int,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
) -> torch.nn.Module:
    """Return the judge that retrained networks are held against: a copy of the model that knows random masks.

    It is trained on the fill that it will be asked about.
    """
    return fine_tuned(
        model,
        train,
        imputers=[imputer],
        mean=mean,
        recipe=judge_recipe(len(train), GATE_JUDGE),
        unit=strategy.unit,
        seed=seed,
        normalize=normalize,
        output=output,
        device=device,
    )


def gate_for(
    judge: torch.nn.Module,
    train: Split,
    test: Split,
    *,
    imputer: Imputer,
    strategy: Strategy,
    mean: torch.Tensor | None,
    seed: int,
    normalize: Normalize | None = None,
    output: Output = None,
    device: str | torch.device | None = None,
) -> Gate:
    """Return the gate of an evaluation: it removes and fills as the evaluation does.

    Args:
        judge: from :func:`judge_of_gate`, for the same fill.
        train: training samples.
        test: test samples.
        imputer: the fill.
        strategy: unit, sign and reduction.
        mean: training mean per channel, in pixel units.
        seed: of the draws and trainings.
        normalize, output, device: as in the evaluation.
    """
    return Gate(
        judge,
        train,
        test,
        imputer=imputer,
        mean=mean,
        unit=strategy.unit,
        sign=strategy.sign,
        reduction=strategy.reduction,
        seed=seed,
        normalize=normalize,
        output=output,
        device=device,
    )


def audit_gate(
    gate: Gate, maps: Mapping[str, tuple[MapRows, MapRows]], control: Mapping[float, np.ndarray] | None = None
) -> list[dict[str, Any]]:
    """Ask whether networks retrained on kept units read more than the units.

    Args:
        gate: from :func:`gate_for`.
        maps: of each method, on the training and on the test samples.
        control: what the gate's ``random_hits`` returned; by default it is worked out here.

    Returns:
        The rows of :func:`~roadworthy.evaluation.audit.gate.encoding_gap`.
    """
    parts = (gate.train.ids, gate.test.ids)
    values = {name: tuple(rows(ids) for rows, ids in zip(pair, parts, strict=True)) for name, pair in maps.items()}
    return gate.gaps(values, control=control)


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
