"""The front of label-free evaluation: a user's model and data, or saved arrays, become one result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from roadworthy.errors import InputError, unknown_name
from roadworthy.fingerprints import stated_model
from roadworthy.labelfree.as_described import as_described_curve
from roadworthy.labelfree.clustering import cluster_purity
from roadworthy.labelfree.consistency import STATISTICS
from roadworthy.labelfree.curve import STATISTICS as OF_CURVE
from roadworthy.labelfree.curve import ReliabilityCurve, reliability_curve
from roadworthy.labelfree.diagnosis import diagnose
from roadworthy.labelfree.discrepancy import pseudo_label_discrepancy
from roadworthy.labelfree.gates import OF_PERTURBATION, Gate, run_gates
from roadworthy.labelfree.gather import Asking, Gathered, gather
from roadworthy.labelfree.labelling import audit_plan, chance_correct, labels_needed
from roadworthy.labelfree.live import LiveEstimate
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.plain import plain
from roadworthy.labelfree.result import LabelFree
from roadworthy.labelfree.selfvalidation import SelfValidation, self_validate
from roadworthy.labelfree.show import pictures_of
from roadworthy.labelfree.targets import PseudoTarget
from roadworthy.labelfree.thresholds import coverage_at, coverage_at_accuracy
from roadworthy.provenance import provenance
from roadworthy.rng import resolve_seed
from roadworthy.types import Layout, Normalize, Output, Progress, Seed

if TYPE_CHECKING:
    import torch

_LEAST_SOURCE = 4  # below, self-validation cannot halve it


def labelfree(
    model: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
    data: Any = None,
    *,
    source: Any = None,
    train: Any = None,
    second: Callable[..., Any] | None = None,
    perturbation: Any = "gaussian",
    passes: int = 30,
    strength: float | dict[str, float] | None = None,
    adaptive: tuple[float, float] | None = None,
    statistic: str = "soft-agreement",
    reliability: float = 0.9,
    groups: Any = None,
    times: Any = None,
    corruptions: Sequence[str] | None = None,
    pseudo_targets: Sequence[PseudoTarget] = (),
    level: float = 0.9,
    half_width: float = 0.05,
    pictures: int = 3,
    ids: Sequence[Any] | None = None,
    classes: Sequence[str] = (),
    features: Any = "penultimate",
    batch: Callable[[Any], Any] | None = None,
    normalize: Normalize | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    max_batch: int = 256,
    seed: Seed = 0,
    progress: Progress | None = None,
) -> LabelFree:
    """Say how far a classifier can be believed on samples without labels, on how much of them, and what to label.

    With labelled samples of the classifier's own domain (``source``) accuracy is estimated, by the estimator that did
    best on shifts made of them, with an interval that includes what it was off by there; beyond those shifts no
    number is given. Without, only agreement under perturbation can be reported, which is no accuracy.

    Args:
        model: a module or callable from a batch to logits, or several with ``perturbation="ensemble"``. None where
            ``data`` and ``source`` are saved outputs.
        data: the unlabelled samples: tensor or array (N, ...), Split, Dataset, DataLoader or iterable of batches; or
            :class:`~roadworthy.labelfree.Outputs` or a :class:`~roadworthy.labelfree.Consistency` made before. Labels
            that come along are not used; the accuracy by them is shown beside.
        source: labelled samples that the classifier was not trained on: a Split, a pair (samples, labels), or
            Outputs with labels.
        train: further labelled samples of the domain, for pseudo-label discrepancy; left out by default.
        second: a second model of the same kind; more estimators can be tried with it.
        perturbation: a name, several joined by ``+``, a perturbation, or None for none; see
            :func:`~roadworthy.labelfree.perturbation_consistency`.
        passes: perturbed passes.
        strength: of the perturbation, in its own unit; None takes its default.
        adaptive: (low, high): strength follows the clean confidence of each sample.
        statistic: of the curve: ``"soft-agreement"`` or ``"agreement"``.
        reliability: for which the coverage is reported, in (0, 1).
        groups: (N,) of the source: subgroups become pseudo-targets.
        times: (N,) of the source: blocks of time become pseudo-targets.
        corruptions: whose corrupted copies of the source become pseudo-targets; None takes all that are known for the
            kind of samples, () none.
        pseudo_targets: more of them.
        level: of all intervals, in (0, 1).
        half_width: that labels of the plan shall reach.
        pictures: samples shown of each band of confidence, for images.
        ids: names of the samples of an array.
        classes: class names.
        features: ``"penultimate"``, a layer's name, a callable on the samples, or None.
        batch: turns a batch of a loader into what the model takes.
        normalize: ``(mean, std)`` applied before the model.
        output: which part of what the model returns holds the logits.
        layout: ``"NHWC"`` if samples and model are channels last.
        device: for a callable without parameters.
        max_batch: samples in one pass.
        seed: of all draws.
        progress: called with the number of samples done.

    Returns:
        The result: ``accuracy``, ``estimates``, ``gates``, ``verdict``, ``plan``, ``per_sample``, ``save(folder)``.

    Raises:
        InputError: parts that are missing or do not fit one another.
        ModelError: what the model returns cannot be used.

    Source:
        The parts name theirs: perturbation consistency follows a practitioner's guide, pseudo-label discrepancy
        Kiyasseh et al. (2024); both are called SUDO by their authors and are two different things.

    Example:
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> def said(n):
        ...     p = rng.uniform(size=n)
        ...     return Outputs.of(p, labels=(rng.uniform(size=n) < p).astype(int))
        >>> found = labelfree(data=said(300), source=said(400))
        >>> value, low, high = found.accuracy
        >>> low < 0.75 < high
        True
    """
    _check(data, statistic, reliability, level, half_width)
    number = resolve_seed(seed)
    asking = Asking(features, batch, normalize, output, layout, device, max_batch, classes, progress)
    perturbing = {
        "perturbation": perturbation, "passes": passes, "strength": strength, "adaptive": adaptive
    }  # fmt: skip
    gathered = gather(
        model,
        data,
        source=source,
        train=train,
        second=second,
        ids=ids,
        perturbing=None if perturbation is None else perturbing,
        groups=groups,
        times=times,
        corruptions=corruptions,
        pseudo_targets=pseudo_targets,
        seed=number,
        asking=asking,
    )
    validation = _validated(gathered, number)
    record = judged(gathered, validation, statistic=statistic, reliability=reliability, level=level, seed=number)
    chances = chance_correct(gathered.target, gathered.source)
    plan = audit_plan(gathered.target, half_width=half_width, level=level, scores=chances, seed=number)
    record["plan"] = {**plan.as_dict(), "half_width": half_width}
    record["settings"] = _settings(perturbing, gathered, reliability=reliability, level=level, half_width=half_width)
    device_name = str(next((part.device for part in _parameters(model)), "cpu"))
    record["provenance"] = provenance(ids=gathered.target.ids, seed=number, device=device_name) | _stated(model)
    shown = pictures_of(data, gathered, perturbing, count=pictures, seed=number, asking=asking, model=model, ids=ids)
    return LabelFree(plain(record), _per_sample(gathered), gathered.target, plan, shown)


def judged(
    gathered: Gathered,
    validation: SelfValidation | None,
    *,
    statistic: str,
    reliability: float,
    level: float,
    seed: int,
) -> dict[str, Any]:
    """Return the findings about what was gathered, as records."""
    target, source, consistency = gathered.target, gathered.source, gathered.consistency
    live = None if validation is None else validation.estimate(target, level=level)
    options: dict[str, Any] = {"statistic": statistic, "level": level, "seed": seed}
    curve = None if consistency is None else reliability_curve(consistency, **options)
    gates = run_gates(target, source=source, consistency=consistency, live=live, seed=seed)
    live = None if live is None else _withheld(live, gates)
    estimate = None if live is None or live.reason else live.accuracy
    return {
        "n": len(target),
        "classes": list(target.classes),
        "predicted": np.bincount(target.predicted, minlength=target.class_count),
        "truth": None if gathered.truth is None else float((target.predicted == gathered.truth).mean()),
        "source": None if source is None else {"n": len(source), "accuracy": source.accuracy},
        "estimate": None if live is None else live.as_dict(),
        "estimates": _estimates(validation, live),
        "validation": None if validation is None else validation.as_dict(),
        "consistency": None if consistency is None else _summary(consistency),
        "curve": None if curve is None else curve.as_dict(),
        "described": [] if consistency is None else [found.as_dict() for found in _described(gathered, seed)],
        "clusters": _clusters(target, seed),
        "threshold": _threshold(gathered, reliability, options),
        "gates": [gate.as_dict() for gate in gates],
        "diagnosis": None if consistency is None else diagnose(consistency, curve=curve, estimate=estimate).as_dict(),
        "discrepancy": _discrepancy(gathered, seed),
        "audit": None,
        "notes": [*gathered.notes, *(() if consistency is None else consistency.notes)],
    }


def _check(data: Any, statistic: str, reliability: float, level: float, half_width: float) -> None:
    """Say what is wrong before the model is asked."""
    if data is None:
        raise InputError("data: got nothing; pass the unlabelled samples, or Outputs.of(probabilities)")
    for name, value in (("reliability", reliability), ("level", level)):
        if isinstance(value, bool) or not 0 < value < 1:
            raise InputError(f"{name}: got {value!r}, expected a share between 0 and 1, such as 0.9")
    labels_needed(half_width, level=level)
    if statistic not in OF_CURVE:
        raise unknown_name("statistic of the curve", statistic, OF_CURVE)


def _validated(gathered: Gathered, seed: int) -> SelfValidation | None:
    source = gathered.source
    if source is None:
        return None
    if len(source) < _LEAST_SOURCE:
        raise InputError(
            f"source: got {len(source)} labelled samples, expected some hundred, at least {_LEAST_SOURCE}"
        )
    if not gathered.pseudo:
        raise InputError(
            f"source: its {len(source)} samples are too few to make pseudo-targets of; give some hundred labelled "
            "samples, or pseudo_targets="
        )
    return self_validate(source, gathered.pseudo, seed=seed)


def _withheld(live: LiveEstimate, gates: Sequence[Gate]) -> LiveEstimate:
    """Take the number away where a gate refuses it; gates about perturbation have no say in it."""
    why = [gate.why for gate in gates if gate.status == "refuse" and gate.name not in OF_PERTURBATION]
    if not why or live.reason:
        return live
    nan = float("nan")
    return replace(live, accuracy=nan, low=nan, high=nan, reason="; ".join(why))


def _estimates(validation: SelfValidation | None, live: Any) -> list[dict[str, Any]]:
    """Return a row an estimator: what it says here, and what it was off by where the truth was known."""
    if validation is None or live is None:
        return []
    known = {row["estimator"]: row for row in validation.summary()}
    return [
        {
            **estimate.as_dict(),
            "estimator": estimate.name,
            **{key: known[estimate.name][key] for key in ("mae", "bias", "worst", "rank_correlation", "by_kind")},
            "chosen": estimate.name == live.chosen,
        }
        for estimate in live.estimates
    ]


def _summary(consistency: Any) -> dict[str, Any]:
    """Return a consistency without its rows: those are in the table of samples."""
    names = ("perturbation", "strength", "passes", "seed", "has_dropout", "settings", "notes")
    return {
        **{name: getattr(consistency, name) for name in names},
        "means": {name: float(consistency.scores(name).mean()) for name in STATISTICS},
    }


def _described(gathered: Gathered, seed: int) -> list[ReliabilityCurve]:
    """Return the guide's curves, kept for comparison."""
    kinds = ["simple_majority"]
    if gathered.target.features is not None:
        kinds.append("cluster_consistency")
    assert gathered.consistency is not None
    method = "minibatch-kmeans" if len(gathered.target) > 2000 else "kmeans"
    return [as_described_curve(gathered.consistency, estimator=kind, method=method, seed=seed) for kind in kinds]


def _clusters(target: Outputs, seed: int) -> dict[str, Any] | None:
    if target.features is None or len(target) < 2 * target.class_count:
        return None
    method = "minibatch-kmeans" if len(target) > 2000 else "kmeans"
    return cluster_purity(target.features, target.predicted, target.class_count, method=method, seed=seed).as_dict()


def _threshold(gathered: Gathered, reliability: float, options: dict[str, Any]) -> dict[str, Any]:
    """Return on how much of the data the wanted reliability is reached, by agreement and by calibrated chances."""
    consistency, source = gathered.consistency, gathered.source
    by_chance = None
    if source is not None:
        chances = chance_correct(gathered.target, source)
        more = {"level": options["level"], "seed": options["seed"]}
        by_chance = coverage_at_accuracy(chances, reliability, **more).as_dict()
    return {
        "agreement": None if consistency is None else coverage_at(consistency, reliability, **options).as_dict(),
        "accuracy": by_chance,
    }


def _discrepancy(gathered: Gathered, seed: int) -> dict[str, Any] | None:
    if gathered.train is None:
        return None
    if gathered.source is None:
        raise InputError("train: pseudo-label discrepancy needs labelled held-out samples too; pass source=")
    return pseudo_label_discrepancy(gathered.train, gathered.source, gathered.target, seed=seed).as_dict()


def _per_sample(gathered: Gathered) -> pd.DataFrame:
    target, consistency = gathered.target, gathered.consistency
    table: dict[str, Any] = {
        "id": list(target.ids), "predicted": target.predicted, "confidence": target.confidence
    }  # fmt: skip
    if consistency is not None:
        for name in ("agreement", "soft-agreement", "mode-share", "entropy", "variance"):
            table[name.replace("-", "_")] = consistency.scores(name)
    return pd.DataFrame(table)


def _settings(perturbing: dict[str, Any], gathered: Gathered, **more: Any) -> dict[str, Any]:
    consistency = gathered.consistency
    used = {} if consistency is None else {**perturbing, "perturbation": consistency.perturbation}
    pseudo = sorted({target.kind for target in gathered.pseudo})
    return {**used, **more, "pseudo_targets": len(gathered.pseudo), "kinds_of_shift": pseudo}


def _stated(model: Any) -> dict[str, Any]:
    """Return which model was asked; nothing where outputs were saved before."""
    if model is None:
        return {}
    return {
        "model": [stated_model(one) for one in model] if isinstance(model, (list, tuple)) else stated_model(model)
    }


def _parameters(model: Any) -> list[Any]:
    from roadworthy.forward import module_of

    module = None if model is None or isinstance(model, (list, tuple)) else module_of(model)
    return [] if module is None else list(module.parameters())[:1]
