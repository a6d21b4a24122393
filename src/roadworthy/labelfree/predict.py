"""What a model says of samples, from one pass: probabilities and the features of a layer."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from roadworthy.labelfree.outputs import Outputs
from roadworthy.types import Layout, Normalize, Output, Progress

if TYPE_CHECKING:
    import torch

    from roadworthy.labelfree.asking import Features


def predict_outputs(
    model: Callable[..., Any] | Sequence[Callable[..., Any]],
    data: Any,
    *,
    features: Features = "penultimate",
    second: Callable[..., Any] | None = None,
    labels: Any = None,
    ids: Sequence[Any] | None = None,
    classes: Sequence[str] = (),
    batch: Callable[[Any], Any] | None = None,
    normalize: Normalize | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    max_batch: int = 256,
    progress: Progress | None = None,
) -> Outputs:
    """Run a classifier once over samples, in evaluation, and keep what label-free evaluation needs.

    Nothing of the caller's is changed.

    Args:
        model: a module or callable that returns logits (N, C), or something that ``output`` finds them in; of
            several, an ensemble, the mean of their probabilities is kept, and features of the first.
        data: tensor, array or table (N, ...), Split, Dataset, DataLoader, or an iterable of batches; with or without
            labels.
        features: ``"penultimate"``, what the last linear (or convolution) layer is given; the name of a layer, what
            it returns; a callable on the samples; or None. Axes of space or time are averaged. A callable model
            without modules has no penultimate layer, and so no features.
        second: another model of the same kind, asked about the same samples.
        labels: (N,) of an array, if known.
        ids: names of the samples; positions by default.
        classes: class names.
        batch: turns a batch of a DataLoader or iterable into what the model takes: a tensor, a mapping of arguments,
            or a ``BatchInput``.
        normalize: ``(mean, std)`` per channel, applied before the model.
        output: how to pick the logits from what the model returns.
        layout: ``"NCHW"`` or ``"NHWC"``, of data and model.
        device: for a callable without parameters.
        max_batch: samples in one forward pass, at most.
        progress: called with the number of samples done.

    Returns:
        Probabilities, features, labels where all samples have one, and ids.

    Raises:
        InputError: data that cannot be read, or a layer that the model does not have.
        ModelError: what the model returns cannot be used.

    Example:
        >>> import torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> said = predict_outputs(net, torch.rand(5, 3))
        >>> said.probabilities.shape, said.features.shape, net.training
        ((5, 2), (5, 8), True)
    """
    import warnings

    from roadworthy.errors import RoadworthyWarning
    from roadworthy.forward import untouched
    from roadworthy.labelfree.asking import Asker, FeatureTap
    from roadworthy.labelfree.passes import Answers, Collected, probabilities_of
    from roadworthy.labelfree.reading import Reader
    from roadworthy.rng import seeded_globals

    settings: dict[str, Any] = {"normalize": normalize, "output": output, "device": device, "layout": layout}
    models = list(model) if isinstance(model, Sequence) else [model]
    asker, *members = (Asker(each, max_batch=max_batch, **settings) for each in models)
    other = None if second is None else Asker(second, max_batch=max_batch, **settings)
    size = asker.classifier.max_batch
    reader = Reader(data, labels=labels, ids=ids, batch=batch, layout=layout, max_batch=size)
    tap = FeatureTap(asker, features)
    whole = Collected()
    with contextlib.ExitStack() as stack:
        stack.enter_context(seeded_globals(0, "labelfree"))
        for asked in (asker, *members, other):
            if asked is not None:
                stack.enter_context(untouched(asked.model))
        for chunk in reader.chunks():
            said = Answers.of(*tap.logits(chunk))
            if members:
                said = said.together([Answers.of(member.logits(chunk)) for member in members])
            if other is not None:
                said = said._replace(second=probabilities_of(other.logits(chunk)))
            whole.add(chunk, said)
            if progress is not None:
                progress(len(chunk))
    found = whole.outputs(classes)
    for note in whole.notes:
        warnings.warn(note, RoadworthyWarning, stacklevel=2)
    return found
