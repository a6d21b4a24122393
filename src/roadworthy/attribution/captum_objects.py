"""Objects of ``captum.attr`` as methods: ``IntegratedGradients(net)``, ``LayerGradCam(net, net.conv)`` and the like.

A shallow copy of the object is asked, with the model that is evaluated (normalisation in front, scores picked) where
the object holds the network. So baselines, noise and windows are in pixel units, and maps equal captum's own where
nothing stands between. Only LRP is passed on through a normalisation as it is. Maps of a layer are enlarged as
Grad-CAM's are, their channels reduced first.
"""

from __future__ import annotations

import copy
import functools
import inspect
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.nn import functional as F

from roadworthy.attribution.base import Job
from roadworthy.attribution.outside import (
    Front,
    Outside,
    behind_normalization,
    check_takes_pixels,
    in_batches,
    is_a,
    is_class_of,
    is_part_of,
    undisturbed,
)
from roadworthy.errors import AttributionError, InputError
from roadworthy.fingerprints import callable_fingerprint
from roadworthy.forward import module_of, untouched

_CAPTUM = "captum.attr"
_OURS = ("inputs", "target", "return_convergence_delta")
_EXAMPLES = {"sliding_window_shapes": "(3, 8, 8)", "baselines": "torch.zeros(1, 3, 32, 32)", "neuron_selector": "0"}


@dataclass(frozen=True)
class CaptumMethod(Outside):
    """An object of captum and what its ``attribute`` is called with."""

    given: Any
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The class of the object."""
        return type(self.given).__name__

    def fingerprint(self) -> str:
        """Hash the object with its settings."""
        return callable_fingerprint(functools.partial(self.given.attribute, **self.settings))

    def explain(self, job: Job, name: str) -> torch.Tensor:
        """Return the maps of a block."""
        theirs = self.given.forward_func
        if not is_part_of(job.model, theirs):
            check_takes_pixels(job, theirs, f"{name!r} ({self.name})")
            with untouched(theirs), undisturbed(theirs):
                return in_batches(job, functools.partial(self._ask, job, copy.copy(self.given)), name)
        passes_on = is_a(getattr(self.given, "attribution_method", self.given), _CAPTUM, "LRP")
        core = behind_normalization(theirs if passes_on else job.model)
        front = Front(job.classifier, module_of(core), module_of(core) if passes_on else None)
        return in_batches(job, functools.partial(self._ask, job, _asking(self.given, theirs, front)), name)

    def _ask(self, job: Job, method: Any, images: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        settings = {
            key: value.to(images.device) if isinstance(value, torch.Tensor) else value
            for key, value in self.settings.items()
        }
        accepted = _accepted(method)
        if "target" in accepted:
            settings["target"] = targets
        if "internal_batch_size" in accepted:
            settings.setdefault("internal_batch_size", job.classifier.max_batch)
        found = method.attribute(images, **settings)
        if isinstance(found, (tuple, list)) and len(found) == 1:
            found = found[0]
        if is_a(method, _CAPTUM, "LayerAttribution") and isinstance(found, torch.Tensor):
            return _at_size(job, found, self.name)
        return found


def captum_method(method: Any, **settings: Any) -> CaptumMethod:
    """Say what an object of captum is asked with, to pass it as a method.

    Args:
        method: an object of ``captum.attr``, such as ``Occlusion(net)``.
        settings: for its ``attribute``, without ``inputs`` and ``target``; baselines and noise are in pixel units.

    Returns:
        A method for ``attribute``, ``evaluate`` and the like.

    Raises:
        InputError: no such object, or a setting that its ``attribute`` does not take.

    Example:
        >>> from captum.attr import Occlusion
        >>> from roadworthy.attribution import attribute
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(16, 3))
        >>> covered = captum_method(Occlusion(net), sliding_window_shapes=(1, 2, 2))
        >>> attribute(net, torch.rand(2, 1, 4, 4), {"covered": covered})["covered"].shape
        (2, 1, 4, 4)
    """
    if not is_a(method, _CAPTUM, "Attribution"):
        raise InputError(
            f"captum_method: got {_named(method)}, expected an object such as captum.attr.Occlusion(net)"
        )
    accepted = _accepted(method)
    for setting in settings:
        if setting in _OURS:
            way_out = "pass target= to evaluate or attribute" if setting == "target" else "leave it out"
            raise InputError(f"{_named(method)}: {setting}= is not taken here: {way_out}")
        if setting not in accepted and None not in accepted:
            raise InputError(
                f"{_named(method)}: its attribute takes no {setting!r}, but {', '.join(map(str, accepted))}"
            )
    return CaptumMethod(method, settings)


def recognise(source: Any, name: str) -> Outside | None:
    """Return the method that a captum object, or its ``attribute`` with settings, stands for.

    Raises:
        InputError: a class in place of an object, or settings that are missing or wrong.
    """
    if is_class_of(source, _CAPTUM, "Attribution"):
        raise InputError(
            f"methods: {name!r} is the class {source.__name__}; pass an object: {source.__name__}(model)"
        )
    if isinstance(source, CaptumMethod):
        found = source
    elif is_a(source, _CAPTUM, "Attribution"):
        found = CaptumMethod(source)
    else:
        function, settings = source, {}
        if isinstance(source, functools.partial):
            function, settings = source.func, source.keywords
        owner = getattr(function, "__self__", None)
        if not is_a(owner, _CAPTUM, "Attribution") or function.__name__ != "attribute":
            return None
        if getattr(source, "args", ()):
            raise InputError(f"methods: {name!r}: give the settings of {_named(owner)}.attribute by keyword")
        found = captum_method(owner, **settings)
    _check_complete(found, name)
    return found


def _check_complete(method: CaptumMethod, name: str) -> None:
    if is_a(method.given, _CAPTUM, "FeaturePermutation"):
        raise InputError(
            f"methods: {name!r}: {method.name} shuffles features between the images of a batch, so a map would "
            "depend on which images stand together; use FeatureAblation or Occlusion"
        )
    missing = [
        setting
        for setting, needed in _accepted(method.given).items()
        if needed and setting not in (*_OURS, *method.settings)
    ]
    if missing:
        example = ", ".join(f"{setting}={_EXAMPLES.get(str(setting), '...')}" for setting in missing)
        raise InputError(
            f"methods: {name!r}: {method.name}.attribute needs {' and '.join(map(str, missing))}; pass "
            f"roadworthy.attribution.captum_method(object, {example}), or functools.partial(object.attribute, "
            f"{example})"
        )


def _accepted(method: Any) -> dict[str | None, bool]:
    """Return what ``attribute`` takes and whether it must be given; NoiseTunnel hands on to the method inside."""
    found: dict[str | None, bool] = {}
    for parameter in inspect.signature(method.attribute).parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            inner = getattr(method, "attribution_method", None)
            found |= {None: False} if inner is None else _accepted(inner)
        else:
            found[parameter.name] = parameter.default is parameter.empty
    return found


def _asking(method: Any, network: Any, front: Front) -> Any:
    """Return a copy of a captum object, and of those inside it, that asks ``front`` in place of its network."""
    copied = copy.copy(method)
    for key, value in vars(method).items():
        if value is network and key != "layer":
            setattr(copied, key, front)
        elif is_a(value, _CAPTUM, "Attribution"):
            setattr(copied, key, _asking(value, network, front))
        elif isinstance(value, (list, dict)):
            setattr(copied, key, copy.copy(value))  # handles of hooks are put in there
    return copied


def _at_size(job: Job, found: torch.Tensor, what: str) -> torch.Tensor:
    """Reduce the channels of a layer's maps and bring them to the images' size, as Grad-CAM does."""
    positions = tuple(job.images.shape[2:])
    if tuple(found.shape[1:]) == tuple(job.images.shape[1:]):
        return found
    if not positions or found.ndim != job.images.ndim:
        raise AttributionError(
            f"{what} gives {tuple(found.shape)}, which has no positions to enlarge to {positions}; name a layer with "
            "feature maps, such as a convolution"
        )
    if found.shape[1] > 1:
        found = torch.from_numpy(job.reduce(found.detach().cpu().numpy()))[:, None]
    mode = {1: "linear", 2: "bilinear", 3: "trilinear"}[len(positions)]
    return F.interpolate(found.detach().float(), size=positions, mode=mode, align_corners=False)[:, 0]


def _named(method: Any) -> str:
    return f"the class {method.__name__}" if isinstance(method, type) else type(method).__name__
