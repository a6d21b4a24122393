"""Maps block by block, with what is found out once kept for all blocks of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, Literal

import numpy as np
import torch

from roadworthy.attribution.base import Block, Family, Job, Reduce, channel_sum, kind_of
from roadworthy.attribution.base import methods as registered
from roadworthy.attribution.outside import Outside
from roadworthy.attribution.requests import Methods, Request, parse
from roadworthy.attribution.samples import Samples
from roadworthy.attribution.settings import Resolved, Settings, named, resolve
from roadworthy.errors import AttributionError, InputError, ModelError, listed
from roadworthy.fingerprints import callable_fingerprint
from roadworthy.forward import Classifier, target_classes, untouched
from roadworthy.rng import resolve_seed
from roadworthy.types import Layout, Normalize, Output, Progress, Seed


@dataclass
class Explained:
    """The maps of one block.

    Attributes:
        maps: method -> float32 (n, ...).
        per_sample: method -> further numbers per sample, (n,) each, such as ``"completeness_gap"``.
        notes: method -> what the result states, as JSON types.
        targets: int64 (n,).
    """

    maps: dict[str, np.ndarray]
    per_sample: dict[str, dict[str, np.ndarray]]
    notes: dict[str, dict[str, Any]]
    targets: np.ndarray


class Explainer:
    """A model, methods and settings, ready to explain block after block.

    What is found out once (traced copies of the model for DeepLIFT and LRP, Grad-CAM's layer, settings in pixel
    units) serves all blocks, so the model must stay as it is meanwhile; after training it on, make a new one.

    Args:
        model: as for :func:`attribute`, and so are the others.
        methods: names, callables, or a mapping from names of one's own to either.
        seed: keys all random draws, together with the sample ids.
        max_batch: images in one forward or backward pass.
        normalize: ``(mean, std)`` per channel to apply before the model.
        settings: a name or a :class:`Settings`.
        mean: the data's mean per channel in pixel units.
        output: how to pick the scores from what the model returns.
        layout: the layout that the model takes; samples are channels first.
        device: where a callable without parameters runs.
        nonfinite: ``"raise"`` refuses maps with NaN or infinity, ``"keep"`` returns them.
        progress: called with the number of maps just finished.
        reduce: brings maps (n, c, ...) of a layer that an object of captum gives to (n, ...); the sum by default.

    Raises:
        InputError: arguments that cannot be used.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
        >>> explainer = Explainer(model, ["ig", "deeplift"], seed=0)
        >>> for begin in (0, 2):
        ...     ids = [str(begin), str(begin + 1)]
        ...     found = explainer.explain(Samples(torch.rand(2, 1, 4, 4), ids, [2, 0]))
        >>> found.maps["ig"].shape, found.targets.tolist(), found.per_sample["ig"]["completeness_gap"].shape
        ((2, 1, 4, 4), [2, 0], (2,))
    """

    def __init__(
        self,
        model: Callable[..., Any],
        methods: Methods,
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
        reduce: Reduce = channel_sum,
    ) -> None:
        _refuse_inference(model)
        if nonfinite not in ("raise", "keep"):
            raise InputError(f"nonfinite: got {nonfinite!r}, expected 'raise' or 'keep'")
        self.nonfinite = nonfinite
        self.requests = parse(methods)
        self.classifier = Classifier(
            model, normalize=normalize, output=output, layout=layout, device=device, max_batch=max_batch
        )
        self.seed = resolve_seed(seed)
        self.given = named(settings)
        self.mean = mean
        self.progress = progress
        self.reduce = reduce
        self.values: Resolved | None = None
        self._caches: dict[tuple[int, ...], dict[str, Any]] = {}
        # taken once, before the callables run: what they remember is no part of what they are
        self._sources = {request.name: _fingerprint(request.source) for request in self.requests}

    def resolved(self, channels: int) -> Resolved:
        """Return the settings in pixel units, worked out once for a number of channels."""
        if self.values is None or len(self.values.baseline) != channels:
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
        """Compute the maps of one block.

        Args:
            samples: the block. With its ``logits`` known, no forward pass is spent on them.
            only: of :attr:`requests`, those to compute; all by default.

        Returns:
            :class:`Explained`: the maps, numbers per sample and the classes explained.

        Raises:
            AttributionError: a method has no meaning here, or its map is not finite (naming the samples).
            ModelError: scores that are not finite.
        """
        wanted = self.requests if only is None else only
        for request in wanted:
            if isinstance(request.source, str):
                registered[request.source].check(kind_of(samples.images), request.name)
        with untouched(self.classifier.model):
            job = self._job(samples)
            computed = Block({})
            for family, members in _groups(wanted):
                self._run_family(job, family, members, computed)
            explained = Explained({}, {}, {}, job.targets.cpu().numpy())
            for request in wanted:
                self._take(request, job, computed, explained)
        return explained

    def scores(self, samples: Samples) -> torch.Tensor:
        """Return the model's scores of a block, float32 (n, K), for ``Samples(..., logits=...)``."""
        with untouched(self.classifier.model):
            return self.classifier.logits(samples.images)

    def _job(self, samples: Samples) -> Job:
        classifier = self.classifier
        logits = classifier.logits(samples.images) if samples.logits is None else samples.logits.float().cpu()
        bad = ~torch.isfinite(logits).all(dim=1)
        if bool(bad.any()):
            raise ModelError(
                f"The model's scores are NaN or infinite for samples {listed(compress(samples.ids, bad.tolist()))}"
            )
        targets = target_classes(samples.target, predicted=logits.argmax(dim=1), labels=samples.labels)
        outside = (targets < 0) | (targets >= logits.shape[1])
        if bool(outside.any()):
            raise InputError(
                f"target: class {sorted(set(targets[outside].tolist()))[:5]} is outside the model's "
                f"0..{logits.shape[1] - 1}, for samples {listed(compress(samples.ids, outside.tolist()))}"
            )
        images = samples.images.to(classifier.device)
        return Job(
            classifier.model,
            classifier,
            images,
            targets.to(classifier.device),
            logits,
            list(samples.ids),
            self.seed,
            self.resolved(samples.images.shape[1]),
            self._caches.setdefault(tuple(samples.images.shape[1:]), {}),
            self.reduce,
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
        values = {} if self.values is None else self.values.describe()
        return {
            "method": self._sources[request.name],
            "sign": request.sign,
            "settings": values if isinstance(source, str) else {},
        }


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
            family = registered[request.source]
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
        job.reduce,
    )


def _array(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.float().numpy() if values.is_floating_point() else values.numpy()
    values = np.asarray(values)
    if values.dtype.kind not in "fiub":
        raise ValueError(f"maps of type {values.dtype}, expected real numbers")
    return values.astype(np.float32)


def _fingerprint(source: str | Outside | Callable[..., Any]) -> str:
    if isinstance(source, Outside):
        return source.fingerprint()
    return source if isinstance(source, str) else callable_fingerprint(source)


def _call(name: str, method: Outside | Callable[..., Any], job: Job) -> np.ndarray:
    if isinstance(method, Outside):
        return _array(method.explain(job, name))
    # the images are in pixel units and channels first, so the model it gets must take them so
    try:
        model = job.classifier.as_model(job.images[:1])
        return _array(method(model, job.images.clone(), job.targets.clone()))
    except (TypeError, ValueError) as error:
        raise AttributionError(
            f"{name!r}: the callable failed with {type(error).__name__}: {error}; it is called as "
            "(model, images, targets) and returns one map per image"
        ) from error
    except RuntimeError as error:
        if "require grad" not in str(error):
            raise
        raise AttributionError(
            f"{name!r}: the callable failed with {error}; the images it gets follow no gradients yet: begin with "
            "images = images.clone().requires_grad_()"
        ) from error


def _check(name: str, values: np.ndarray, job: Job, *, refuse_nonfinite: bool) -> None:
    shape = tuple(job.images.shape)
    positions = (shape[0], *shape[2:]) if len(shape) > 2 else shape
    if values.shape not in (shape, positions, (positions[0], 1, *positions[1:])):
        raise AttributionError(f"{name!r}: maps have shape {values.shape}, expected {shape} or {positions}")
    bad = ~np.isfinite(values).reshape(len(values), -1).all(axis=1)
    if refuse_nonfinite and bad.any():
        raise AttributionError(
            f"{name!r}: NaN or infinite attributions for samples {listed(compress(job.ids, bad.tolist()))}"
        )
