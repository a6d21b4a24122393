"""The front door: maps of several methods for the same samples, computed together where they share work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.attribution.base import Block, Family, Job, kind_of, methods
from roadworthy.attribution.maps import Maps
from roadworthy.attribution.requests import Methods, Request, parse
from roadworthy.attribution.samples import Images, Samples, blocks, listed
from roadworthy.attribution.settings import Resolved, Settings, named, resolve
from roadworthy.errors import AttributionError, InputError, ModelError
from roadworthy.forward import Classifier, target_classes, untouched
from roadworthy.provenance import provenance
from roadworthy.rng import resolve_seed
from roadworthy.types import Ids, Layout, Normalize, Output, Progress, Seed


@dataclass
class Explained:
    """The maps of one block.

    Attributes:
        maps: method -> float32 (n, ...).
        per_sample: method -> further numbers per sample, (n,) each.
        notes: method -> what the result states, as JSON types.
        targets: int64 (n,).
    """

    maps: dict[str, np.ndarray]
    per_sample: dict[str, dict[str, np.ndarray]]
    notes: dict[str, dict[str, Any]]
    targets: np.ndarray


class Explainer:
    """A model, methods and settings, ready to explain block after block; arguments as :func:`attribute`'s."""

    def __init__(
        self,
        model: Callable[..., Any],
        wanted: Methods,
        *,
        seed: Seed = 0,
        max_batch: int = 256,
        normalize: Normalize | None = None,
        settings: str | Settings = "road",
        mean: Sequence[float] | float | None = None,
        output: Output = None,
        layout: Layout = "NCHW",
        device: str | torch.device | None = None,
        nonfinite: Literal["raise", "keep"] = "raise",
        progress: Progress | None = None,
    ) -> None:
        _refuse_inference(model)
        if nonfinite not in ("raise", "keep"):
            raise InputError(f"nonfinite: got {nonfinite!r}, expected 'raise' or 'keep'")
        self.nonfinite = nonfinite
        self.requests = parse(wanted)
        self.classifier = Classifier(
            model, normalize=normalize, output=output, layout=layout, device=device, max_batch=max_batch
        )
        self.seed = resolve_seed(seed)
        self.given = named(settings)
        self.mean = mean
        self.progress = progress
        self.values: Resolved | None = None
        self.cache: dict[str, Any] = {}

    def resolved(self, channels: int) -> Resolved:
        """Return the settings in pixel units, worked out once."""
        if self.values is None:
            self.values = resolve(
                self.given,
                model=self.classifier.model,
                channels=channels,
                normalize=self.classifier.normalize,
                mean=self.mean,
                device=self.classifier.device,
            )
        return self.values

    def explain(self, samples: Samples, *, only: Sequence[Request] | None = None) -> Explained:
        """Compute the maps of one block, all or ``only`` some.

        Raises:
            AttributionError: a method has no meaning here, or its map is not finite (naming the samples).
            ModelError: scores that are not finite.
        """
        wanted = self.requests if only is None else only
        for request in wanted:
            if isinstance(request.source, str):
                methods[request.source].check(kind_of(samples.images), request.name)
        with untouched(self.classifier.model):
            job = self._job(samples)
            computed = Block({})
            for family, members in _groups(wanted):
                self._run_family(job, family, members, computed)
            explained = Explained({}, {}, {}, job.targets.cpu().numpy())
            for request in wanted:
                self._take(request, job, computed, explained)
        return explained

    def _job(self, samples: Samples) -> Job:
        classifier = self.classifier
        logits = classifier.logits(samples.images)
        bad = ~torch.isfinite(logits).all(dim=1)
        if bool(bad.any()):
            raise ModelError(f"The model's scores are NaN or infinite for samples {listed(samples.ids, bad)}")
        targets = target_classes(samples.target, predicted=logits.argmax(dim=1), labels=samples.labels)
        outside = (targets < 0) | (targets >= logits.shape[1])
        if bool(outside.any()):
            raise InputError(
                f"target: class {sorted(set(targets[outside].tolist()))[:5]} is outside the model's "
                f"0..{logits.shape[1] - 1}, for samples {listed(samples.ids, outside)}"
            )
        images = samples.images.to(classifier.device)
        return Job(
            classifier.model,
            classifier,
            images,
            targets.to(classifier.device),
            logits,
            samples.ids,
            self.seed,
            self.resolved(samples.images.shape[1]),
            self.cache,
        )

    def _run_family(self, job: Job, family: Family, members: list[str], into: Block) -> None:
        """Compute a family in parts that fill some batches each, so that progress moves."""
        size = max(1, 4 * self.classifier.max_batch // max(1, family.cost(job.settings, members)))
        parts = []
        for begin in range(0, len(job.ids), size):
            part = _slice(job, slice(begin, begin + size))
            parts.append(family.compute(part, members))
            self.tick(len(part.ids) * len(members))
        for name in members:
            into.maps[name] = np.concatenate([_array(part.maps[name]) for part in parts])
            found = parts[0].per_sample.get(name, {})
            into.per_sample[name] = {
                key: np.concatenate([part.per_sample[name][key] for part in parts]) for key in found
            }
            into.notes[name] = parts[-1].notes.get(name, {})

    def _take(self, request: Request, job: Job, computed: Block, explained: Explained) -> None:
        """Move one request's map from what was computed to what is returned."""
        if isinstance(request.source, str):
            values = np.asarray(computed.maps[request.source])
            explained.per_sample[request.name] = computed.per_sample[request.source]
            explained.notes[request.name] = computed.notes[request.source]
        else:
            values = _call(request.name, request.source, job)
            explained.per_sample[request.name], explained.notes[request.name] = {}, {}
            self.tick(len(job.ids))
        _check(request.name, values, job, refuse_nonfinite=self.nonfinite == "raise")
        explained.maps[request.name] = np.ascontiguousarray(values if request.sign > 0 else -values, dtype=np.float32)

    def tick(self, done: int) -> None:
        """Report ``done`` more maps."""
        if self.progress is not None:
            self.progress(done)

    def settings_of(self, request: Request) -> dict[str, Any]:
        """Return what a result states about how a method ran."""
        source = request.source
        name = source if isinstance(source, str) else f"{source.__module__}:{getattr(source, '__qualname__', source)}"
        values = {} if self.values is None else self.values.describe()
        return {"method": name, "sign": request.sign, "settings": values if isinstance(source, str) else {}}


def _refuse_inference(model: Callable[..., Any]) -> None:
    if torch.is_inference_mode_enabled():
        raise AttributionError(
            "attribute was called inside torch.inference_mode(), where no gradient can be computed; call it outside, "
            "or use torch.no_grad() there, which is no hindrance"
        )
    if isinstance(model, torch.nn.Module):
        for name, parameter in model.named_parameters():
            if parameter.is_inference():
                raise AttributionError(
                    f"The model's parameter {name!r} was made inside torch.inference_mode() and can take no part in "
                    "gradients; build or load the model outside of it, or pass copy.deepcopy(model) made outside"
                )


def _groups(requests: Sequence[Request]) -> Iterator[tuple[Family, list[str]]]:
    groups: dict[str, tuple[Family, list[str]]] = {}
    for request in requests:
        if isinstance(request.source, str):
            family = methods[request.source]
            _, members = groups.setdefault(family.name, (family, []))
            if request.source not in members:
                members.append(request.source)
    yield from groups.values()


def _slice(job: Job, part: slice) -> Job:
    return Job(
        job.model,
        job.classifier,
        job.images[part],
        job.targets[part],
        job.logits[part],
        job.ids[part],
        job.seed,
        job.values,
        job.cache,
    )


def _array(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().float().cpu().numpy()
    return np.asarray(values, dtype=np.float32)


def _call(name: str, function: Callable[..., Any], job: Job) -> np.ndarray:
    images = job.images.clone()
    if job.classifier.layout == "NHWC" and images.ndim > 2:
        images = images.movedim(1, -1)
    try:
        return _array(function(job.model, images, job.targets.clone()))
    except (TypeError, ValueError) as error:
        raise AttributionError(
            f"{name!r}: the callable failed with {type(error).__name__}: {error}; it is called as "
            "(model, images, targets) and returns one map per image"
        ) from error


def _check(name: str, values: np.ndarray, job: Job, *, refuse_nonfinite: bool) -> None:
    shape = tuple(job.images.shape)
    positions = (shape[0], *shape[2:]) if len(shape) > 2 else shape
    if values.shape not in (shape, positions, (positions[0], 1, *positions[1:])):
        raise AttributionError(f"{name!r}: maps have shape {values.shape}, expected {shape} or {positions}")
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if refuse_nonfinite and bad.any():
        raise AttributionError(f"{name!r}: NaN or infinite attributions for samples {listed(job.ids, bad)}")


def attribute(
    model: Callable[..., Any],
    images: Images,
    methods: Methods,
    *,
    labels: Any = None,
    target: Any = "predicted",
    seed: Seed = 0,
    max_batch: int = 256,
    normalize: Normalize | None = None,
    settings: str | Settings = "road",
    mean: Sequence[float] | float | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    ids: Ids | None = None,
    nonfinite: Literal["raise", "keep"] = "raise",
    progress: Progress | None = None,
) -> Maps:
    """Compute attribution maps of one or more methods for the same samples.

    Members of a family (``ig``, ``ig-sg``, ``ig-sq``, ``ig-var``) are computed in one pass over the same noisy
    copies, so all four cost little more than one ensemble. The model is left exactly as it was.

    Args:
        model: a ``torch.nn.Module``, or a callable from images to class scores.
        images: (N, C, H, W) in pixel units ([0, 1]), (N, C, T) series or (N, F) tables, as tensor or array in
            ``layout``; or a Split, a Batch, or batches, which are channels first and bring labels and ids.
        methods: names (:data:`roadworthy.attribution.methods` lists them), callables ``(model, images, targets)``
            that return an array, or a mapping from names of one's own to either. ``"inverse:NAME"`` is minus NAME.
        labels: one class per sample, for ``target="label"``.
        target: the class to explain: ``"predicted"``, ``"label"``, or one class per sample.
        seed: keys all random draws, together with the sample ids.
        max_batch: images in one forward or backward pass; sets the memory needed, and changes maps by rounding only.
        normalize: ``(mean, std)`` per channel to apply before the model; maps are in pixel units either way.
        settings: ``"road"``, ``"road-code"``, ``"roar"``, ``"roar-code"``, or a :class:`Settings`.
        mean: the data's mean per channel in pixel units, for baselines.
        output: how to pick the scores from what the model returns: position, key or callable.
        layout: ``"NHWC"`` if the model, and images passed as an array, are channels last. Maps are channels first.
        device: where a callable without parameters runs; a module runs where it is.
        ids: sample ids, for arrays; positions by default.
        nonfinite: ``"raise"`` refuses maps with NaN or infinity, naming the samples; ``"keep"`` returns them.
        progress: called with the number of maps just finished; N x methods in all.

    Returns:
        :class:`Maps`: name -> float32 (N, C, H, W), or (N, H, W) for methods that have no channels; with ``.info``.

    Raises:
        AttributionError: a method has no meaning for the input or the model, or gives values that are not finite.
        InputError: arguments that cannot be used.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
        >>> maps = attribute(model, torch.rand(2, 1, 4, 4), ["ig", "inverse:ig", "random"])
        >>> {name: values.shape for name, values in maps.items()}
        {'ig': (2, 1, 4, 4), 'inverse:ig': (2, 1, 4, 4), 'random': (2, 4, 4)}
    """
    explainer = Explainer(
        model,
        methods,
        seed=seed,
        max_batch=max_batch,
        normalize=normalize,
        settings=settings,
        mean=mean,
        output=output,
        layout=layout,
        device=device,
        nonfinite=nonfinite,
        progress=progress,
    )
    parts, names = [], []
    for samples in blocks(images, max_batch, labels=labels, target=target, ids=ids, layout=layout):
        parts.append(explainer.explain(samples))
        names += samples.ids
    maps, info = {}, {}
    for request in explainer.requests:
        name = request.name
        maps[name] = np.concatenate([part.maps.pop(name) for part in parts])
        gathered = {
            key: np.concatenate([p.per_sample[name][key] for p in parts]) for key in parts[0].per_sample[name]
        }
        info[name] = {**explainer.settings_of(request), **parts[-1].notes[name], **gathered}
    run = {
        **provenance(ids=names, seed=explainer.seed, device=str(explainer.classifier.device)),
        "target": target if isinstance(target, str) else "given",
        "settings": {} if explainer.values is None else explainer.values.describe(),
    }
    return Maps(maps, ids=names, targets=np.concatenate([part.targets for part in parts]), info=info, run=run)
