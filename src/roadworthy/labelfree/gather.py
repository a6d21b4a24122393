"""From a user's model and data, or saved arrays, to what the judgement needs: all passes through the model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from roadworthy.errors import InputError
from roadworthy.labelfree.consistency import Consistency
from roadworthy.labelfree.corruptions import corrupt, names_for
from roadworthy.labelfree.outputs import Outputs
from roadworthy.labelfree.targets import PseudoTarget, corruption_targets, source_targets
from roadworthy.rng import numpy_generator

CORRUPTED = 300
"""Source samples whose corrupted copies the model is asked about, at most: each five times a corruption."""
_MODALITIES = {2: "table", 3: "series", 4: "image"}


@dataclass(frozen=True, eq=False)
class Gathered:
    """What is known before anything is judged.

    Attributes:
        target: what the classifier says of the unlabelled samples; labels taken away.
        truth: labels that came with them, or None. Nothing is judged by them; they are shown beside.
        source: labelled samples of the user's own domain, or None.
        train: labelled samples for pseudo-label discrepancy, or None.
        consistency: of the target under perturbation, or None.
        pseudo: pseudo-targets made of the source.
        notes: what could not be done, and why.
    """

    target: Outputs
    truth: np.ndarray | None
    source: Outputs | None
    train: Outputs | None
    consistency: Consistency | None
    pseudo: tuple[PseudoTarget, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Asking:
    """How the model is asked; the keywords of ``perturbation_consistency`` that have nothing to do with noise."""

    features: Any = "penultimate"
    batch: Callable[[Any], Any] | None = None
    normalize: Any = None
    output: Any = None
    layout: Any = "NCHW"
    device: Any = None
    max_batch: int = 256
    classes: Sequence[str] = ()
    progress: Callable[[int], None] | None = None

    def keywords(self) -> dict[str, Any]:
        """Return them as keywords."""
        return dict(vars(self))


def gather(
    model: Any,
    data: Any,
    *,
    source: Any,
    train: Any,
    second: Any,
    ids: Sequence[Any] | None,
    perturbing: dict[str, Any] | None,
    groups: Any,
    times: Any,
    corruptions: Sequence[str] | None,
    pseudo_targets: Sequence[PseudoTarget],
    seed: int,
    asking: Asking,
) -> Gathered:
    """Ask the model about everything, or take what was saved.

    Args:
        model: a module or callable; None where data and source are arrays of outputs.
        data: the unlabelled samples; or Outputs, or a Consistency.
        source: labelled samples; or Outputs with labels; or None.
        train: labelled samples that are not the source's; or Outputs; or None.
        second: a second model of the same kind, or None.
        ids: of the samples of an array.
        perturbing: keywords of ``perturbation_consistency``; None perturbs nothing.
        groups: (N,) of the source, for pseudo-targets.
        times: (N,) of the source.
        corruptions: names; None takes those for the kind of data; none at all where empty.
        pseudo_targets: more of them.
        seed: of all draws.
        asking: how the model is asked.

    Returns:
        What was gathered.

    Raises:
        InputError: samples without a model, or parts that do not fit one another.
    """
    notes: list[str] = []
    consistency, said = _target(model, data, second, ids, perturbing, seed, asking, notes)
    if len(said) == 0:
        raise InputError("data: got no samples")
    truth = said.labels
    said = replace(said, labels=None)
    if consistency is not None:
        consistency = replace(consistency, clean=said)
    known = _labelled("source", model, source, second, asking)
    trained = _labelled("train", model, train, None, asking)
    for name, part in (("source", known), ("train", trained)):
        _same_classes(name, part, said)
    pseudo = [*pseudo_targets]
    if known is not None:
        pseudo += source_targets(known, groups=groups, times=times, seed=seed)
        pseudo += _corrupted(model, source, known, second, corruptions, seed, asking, notes)
    elif groups is not None or times is not None or pseudo:
        raise InputError("groups, times and pseudo_targets belong to labelled samples; pass source= too")
    return Gathered(said, truth, known, trained, consistency, tuple(pseudo), tuple(notes))


def _target(
    model: Any,
    data: Any,
    second: Any,
    ids: Sequence[Any] | None,
    perturbing: dict[str, Any] | None,
    seed: int,
    asking: Asking,
    notes: list[str],
) -> tuple[Consistency | None, Outputs]:
    from roadworthy.labelfree.consistency import perturbation_consistency
    from roadworthy.labelfree.predict import predict_outputs

    if isinstance(data, Consistency):
        return data, data.clean
    if isinstance(data, Outputs):
        if model is not None:
            raise InputError("model: data are saved outputs, which need no model; pass samples, or model=None")
        if not (ids is None and second is None):
            raise InputError("ids, second: saved outputs bring their own; pass them to Outputs.of")
        notes.append("the target is saved outputs: nothing was perturbed, so there is no reliability curve")
        return None, data
    if model is None:
        raise InputError(
            f"model: data are samples ({type(data).__name__}); pass the model, or Outputs.of(probabilities) in place "
            "of the samples"
        )
    if perturbing is None:
        return None, predict_outputs(model, data, second=second, ids=ids, **asking.keywords())
    found = perturbation_consistency(
        model, data, second=second, ids=ids, seed=seed, **perturbing, **asking.keywords()
    )
    return found, found.clean


def _labelled(name: str, model: Any, data: Any, second: Any, asking: Asking) -> Outputs | None:
    """Return what the model says of labelled samples: a Split, a pair (samples, labels), or saved outputs."""
    from roadworthy.labelfree.predict import predict_outputs

    if data is None:
        return None
    if isinstance(data, Outputs):
        found = data
    elif model is None:
        raise InputError(f"{name}: got samples ({type(data).__name__}) but no model; pass model=, or Outputs")
    else:
        samples, labels = _pair(data)
        found = predict_outputs(model, samples, labels=labels, second=second, **asking.keywords())
    if found.labels is None:
        raise InputError(
            f"{name}: its labels are not known; pass (samples, labels), a Split, or Outputs.of(..., labels=...)"
        )
    return found


def _pair(data: Any) -> tuple[Any, Any]:
    """Take (samples, labels) apart; everything else brings its labels along."""
    if isinstance(data, (tuple, list)) and len(data) == 2:
        return data[0], data[1]
    return data, None


def _same_classes(name: str, part: Outputs | None, target: Outputs) -> None:
    if part is not None and part.class_count != target.class_count:
        raise InputError(
            f"{name}: has {part.class_count} classes, the target {target.class_count}; both must come from one model"
        )
    if part is not None and part.classes != target.classes and "0" not in (part.classes[0], target.classes[0]):
        raise InputError(f"{name}: its classes are {list(part.classes)}, those of the target {list(target.classes)}")


def _corrupted(
    model: Any,
    data: Any,
    source: Outputs,
    second: Any,
    wanted: Sequence[str] | None,
    seed: int,
    asking: Asking,
    notes: list[str],
) -> list[PseudoTarget]:
    """Ask about corrupted copies of some source samples, where the samples themselves are at hand."""
    from roadworthy.labelfree.predict import predict_outputs

    if wanted is not None and not wanted:
        return []
    if isinstance(data, Outputs):
        if wanted is not None:
            raise InputError("corruptions: the source is saved outputs; pass its samples, or pseudo_targets=")
        notes.append("the source is saved outputs: pseudo-targets are parts of it, none is corrupted")
        return []
    rows = np.sort(numpy_generator(seed, "corrupted").permutation(len(source))[:CORRUPTED])
    values = _values(data, rows, asking)
    if values is not None and values.ndim == 4 and not 0 <= values.min() <= values.max() <= 1:
        notes.append("the images are not in pixel units [0, 1], so none is corrupted; pass normalize= to change that")
        values = None
    names = [] if values is None else names_for(_MODALITIES.get(values.ndim, ""))
    if values is None or (wanted is None and not names):
        if wanted is not None:
            raise InputError("corruptions: these samples cannot be corrupted here; pass pseudo_targets= instead")
        notes.append("no corruptions are known for such samples; pass pseudo_targets= for more kinds of shift")
        return []
    ids, labels = [source.ids[row] for row in rows], source.known_labels("corruptions")[rows]

    def outputs_of(name: str, severity: int) -> Outputs:
        changed = corrupt(values, name, severity=severity, seed=seed)
        keywords = {**asking.keywords(), "layout": "NCHW" if values.ndim < 3 else asking.layout}
        if asking.layout == "NHWC" and values.ndim > 2:
            changed = np.moveaxis(changed, 1, -1)
        return predict_outputs(model, changed, labels=labels, ids=ids, second=second, **keywords)

    return corruption_targets(outputs_of, list(names if wanted is None else wanted))


def _values(data: Any, rows: np.ndarray, asking: Asking) -> np.ndarray | None:
    """Return some samples, float32 channels first, where they are floats in memory or in a split; else None."""
    import torch

    from roadworthy.labelfree.reading import as_values
    from roadworthy.records import Split

    if asking.batch is not None:
        return None
    if isinstance(data, Split):
        return np.asarray(data.subset(rows).images.numpy())
    samples = _pair(data)[0]
    samples = samples.to_numpy() if hasattr(samples, "to_numpy") else samples
    if not isinstance(samples, (torch.Tensor, np.ndarray)):
        return None
    values = as_values("source", samples)[torch.as_tensor(rows)]
    if not values.is_floating_point():
        return None
    if asking.layout == "NHWC" and values.ndim > 2:
        values = values.movedim(-1, 1)
    return np.asarray(values.float().numpy())
