"""What methods of other libraries have in common: images in pixel units, draws by sample, a model left as it was.

Such an object holds a network of its own, most often the one that is evaluated or the part of it behind the
normalisation. It is asked through :class:`Front`, so that what it sees are images in pixel units, channels first,
and what it explains is the score that is evaluated. Nothing is imported to find out what an object is.
"""

from __future__ import annotations

import copy
import random
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from roadworthy.attribution.base import Job
from roadworthy.errors import AttributionError, ModelError, RoadworthyError, RoadworthyWarning
from roadworthy.fingerprints import callable_fingerprint
from roadworthy.forward import Classifier, module_of, untouched
from roadworthy.rng import seeded_globals

Ask = Callable[[torch.Tensor, torch.Tensor], Any]
"""What is asked of another library for a batch: images (b, ...) and classes (b,) give maps (b, ...)."""

# said by captum about what is put back after, or of batches that are small here on purpose
_KNOWN = (
    "Setting (forward, )?backward hooks",
    "Input Tensor . did not already require",
    "Internal batch size cannot",
    "This method computes finite differences",
)
_DRAWS = "outside"  # one stream a sample, whatever the method: two of them see the same noise


class Outside(ABC):
    """A method of another library.

    Attributes:
        given: the object or function that the user passed.
    """

    given: Any

    @property
    @abstractmethod
    def name(self) -> str:
        """What it is called where the user gives it no name."""

    def fingerprint(self) -> str:
        """Hash the method with its settings, so that maps of one are not taken for another's."""
        return callable_fingerprint(self.given)

    @abstractmethod
    def explain(self, job: Job, name: str) -> Any:
        """Return the maps of a block, (n, C, ...) or (n, ...); ``name`` is for messages."""


def is_a(value: Any, module: str, kind: str) -> bool:
    """Tell whether a value is an instance of a class of another library, which is not imported for that.

    Example:
        >>> is_a(torch.zeros(2), "torch", "Tensor"), is_a(torch.zeros(2), "no.such.library", "Tensor")
        (True, False)
    """
    found = getattr(sys.modules.get(module), kind, None)
    return isinstance(found, type) and isinstance(value, found)


def is_class_of(value: Any, module: str, kind: str) -> bool:
    """Tell whether a value is such a class itself, where an object of it is meant."""
    found = getattr(sys.modules.get(module), kind, None)
    return isinstance(found, type) and isinstance(value, type) and issubclass(value, found)


class Front(torch.nn.Module):
    """The model that is evaluated, from images in pixel units to class scores (N, K); differentiable.

    Args:
        classifier: how the model is asked.
        core: the part that rules are put on; the only child.
        entry: with it, relevance that arrives at this module's input is passed on to the pixels as it is. A gradient
            would be divided by the standard deviation there; relevance is shared out, and the normalisation of a
            pixel depends on that pixel alone.
    """

    def __init__(self, classifier: Classifier, core: Any, entry: torch.nn.Module | None = None) -> None:
        super().__init__()
        if isinstance(core, torch.nn.Module):
            self.core = core
            self.training = core.training
        self.classifier = classifier
        self._entry = (entry,)  # in a tuple: no child
        self._arrange = copy.copy(classifier)
        self._arrange.normalize = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the scores of a batch."""
        (entry,) = self._entry
        if entry is None:
            return self.classifier.forward(images)
        arranged = self._arrange.prepare(images)
        entered = entry.register_forward_pre_hook(lambda part, inputs: _through(arranged, inputs), prepend=True)
        try:
            return self.classifier.forward(images)
        finally:
            entered.remove()


class _PassOn(torch.autograd.Function):
    """Show other values on the way forward; hand what comes back to the images."""

    @staticmethod
    def forward(ctx: Any, images: torch.Tensor, shown: torch.Tensor) -> torch.Tensor:
        return shown.clone()

    @staticmethod
    def backward(ctx: Any, *relevance: torch.Tensor) -> tuple[torch.Tensor, None]:
        return relevance[0], None


def _through(images: torch.Tensor, inputs: tuple[Any, ...]) -> tuple[torch.Tensor]:
    first = inputs[0] if inputs else None
    if len(inputs) != 1 or not isinstance(first, torch.Tensor) or first.shape != images.shape:
        found = tuple(first.shape) if isinstance(first, torch.Tensor) else type(first).__name__
        raise AttributionError(
            f"its network is given {found}, not the images {tuple(images.shape)}, so relevance cannot be passed on "
            "to the pixels; make it of the whole model"
        )
    return (_PassOn.apply(images, first.detach()),)


def behind_normalization(model: Any) -> Any:
    """Return the network behind the normalisation that ``load_model`` puts in front, or the model itself."""
    body = getattr(model, "body", None)
    return body if hasattr(model, "pixel_std") and isinstance(body, torch.nn.Module) else model


def is_part_of(model: Any, theirs: Any) -> bool:
    """Tell whether a method's network is the model, or a part of it.

    Example:
        >>> net = torch.nn.Sequential(torch.nn.Linear(2, 2))
        >>> is_part_of(net, net[0]), is_part_of(net[0], net), is_part_of(net, net.forward)
        (True, False, True)
    """
    if theirs is model:
        return True
    module, other = module_of(model), module_of(theirs)
    return module is not None and other is not None and any(part is other for part in module.modules())


def check_takes_pixels(job: Job, theirs: Any, what: str) -> None:
    """Let a network that is not the model's pass where it takes the images as they come.

    A user may have wrapped the model: to pick the scores, say, or to explain probabilities. Of a function that gives
    neither it warns: it may hold another model, or the model with another last layer.

    Args:
        job: whose model is evaluated, on whose images the two are compared.
        theirs: the function that the method explains.
        what: the method, for messages.

    Raises:
        AttributionError: it is another network, or it is not known what it takes.
    """
    way_out = "make it of the model that is evaluated, or pass a callable (model, images, targets) -> maps"
    mine, other = module_of(job.model), module_of(theirs)
    if mine is not None and other is not None and not _parts(mine) & _parts(other):
        raise AttributionError(f"{what} explains a {type(other).__name__} that is no part of the model: {way_out}")
    classifier = job.classifier
    with torch.no_grad(), seeded_globals(job.seed, _DRAWS, job.ids[0]), untouched(theirs), undisturbed(theirs):
        expected = classifier.forward(job.images[:1])
        try:
            found = theirs(job.images[:1].clone())
        except Exception:
            found = None
    if classifier.normalize is None and classifier.layout == "NCHW":
        if found is not None and not is_part_of(theirs, mine) and not _follows(found, expected):
            warnings.warn(
                f"{what} explains a function of its own, whose scores are not the model's: its maps may be of "
                f"another model; {way_out}",
                RoadworthyWarning,
                stacklevel=2,
            )
        return
    if not _equal(found, expected):
        between = "normalize=" if classifier.normalize is not None else "layout="
        raise AttributionError(
            f"{what} explains a function of its own, and {between} stands between the images and the model; whether "
            "that function takes images in pixel units cannot be told (its scores differ from the model's): "
            f"{way_out}"
        )


def _equal(found: Any, expected: torch.Tensor) -> bool:
    if not isinstance(found, torch.Tensor) or found.shape != expected.shape:
        return False
    return torch.allclose(found.to(expected), expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


def _follows(found: Any, scores: torch.Tensor) -> bool:
    """Tell whether these are the scores of a model, their probabilities or the logarithms of these."""
    return any(_equal(found, form) for form in (scores, scores.softmax(1), scores.log_softmax(1), scores.sigmoid()))


def _parts(module: torch.nn.Module) -> set[int]:
    return {id(part) for part in module.modules()} | {id(parameter) for parameter in module.parameters()}


def in_batches(job: Job, ask: Ask, name: str) -> torch.Tensor:
    """Ask for the maps of a block, at most ``max_batch`` images at a time; images one by one if the method draws.

    Other libraries draw from the global generators. These are seeded from the sample's id and put back after; so the
    same seed gives the same maps, whatever the batches.

    Args:
        job: the block.
        ask: the other library.
        name: the method, for messages.

    Raises:
        AttributionError: the other library failed, with what it said.
    """
    draws = f"{_DRAWS}:{name}"
    if draws not in job.cache:  # found out on one image, whose map is then made with the others
        job.cache[draws] = _seeded(job, ask, slice(0, 1), name)[1]
    size = 1 if job.cache[draws] else job.classifier.max_batch
    rows = [slice(begin, begin + size) for begin in range(0, len(job.ids), size)]
    return torch.cat([_seeded(job, ask, part, name)[0] for part in rows])


def _seeded(job: Job, ask: Ask, rows: slice, name: str) -> tuple[torch.Tensor, bool]:
    """Return the maps of some samples, and whether making them drew from the global generators."""
    with seeded_globals(job.seed, _DRAWS, job.ids[rows][0]):
        before = _states()
        found = _asked(job, ask, rows, name)
        return found, _states() != before


def _asked(job: Job, ask: Ask, rows: slice, name: str) -> torch.Tensor:
    images, targets = job.images[rows].detach().clone(), job.targets[rows].clone()
    try:
        with torch.enable_grad(), undisturbed(job.model), warnings.catch_warnings():
            for known in _KNOWN:
                warnings.filterwarnings("ignore", message=rf"\s*{known}", category=UserWarning)
            found = ask(images, targets)
    except RoadworthyError as error:
        raise type(error)(f"{name!r}: {error}") from error
    except torch.OutOfMemoryError as error:
        raise ModelError(
            f"{name!r} ran out of memory on {len(images)} images; pass a smaller max_batch (it is "
            f"{job.classifier.max_batch})"
        ) from error
    except Exception as error:  # other libraries raise anything
        said = str(error).strip().splitlines()
        raise AttributionError(
            f"{name!r}: it failed with {type(error).__name__}: {said[0] if said else ''}"
        ) from error
    if isinstance(found, np.ndarray):
        found = torch.from_numpy(np.ascontiguousarray(found))
    if not isinstance(found, torch.Tensor) or len(found) != len(images):
        came = tuple(found.shape) if isinstance(found, torch.Tensor) else type(found).__name__
        raise AttributionError(f"{name!r}: it returned {came}, expected maps of {len(images)} images")
    return found.detach().float().cpu()


def _states() -> tuple[Any, ...]:
    """Return where the global generators stand."""
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    on_torch = [state.numpy().tobytes() for state in (torch.get_rng_state(), *devices)]
    return on_torch, str(np.random.get_state(legacy=False)["state"]), random.getstate()  # noqa: NPY002


@contextmanager
def undisturbed(model: Any) -> Iterator[None]:
    """Put back attributes, hooks and the tensors behind parameters that another library leaves changed.

    Beside what :func:`roadworthy.forward.untouched` does: rules of captum's LRP are attributes of layers, which it
    deletes after use; zennit's canonizers rewrite weights, and may fail half-way.
    """
    module = module_of(model)
    if module is None:
        yield
        return
    tables = [name for name, value in vars(torch.nn.Module()).items() if isinstance(value, dict)]
    kept = [(part, dict(vars(part)), {name: dict(vars(part)[name]) for name in tables}) for part in module.modules()]
    values = [(tensor, tensor.data) for tensor in (*module.parameters(), *module.buffers())]
    try:
        yield
    finally:
        for part, attributes, contents in kept:
            now = vars(part)
            for key in now.keys() - attributes.keys():
                del now[key]
            now.update({key: value for key, value in attributes.items() if key not in now})
            for key, content in contents.items():
                if list(map(id, now[key].values())) != list(map(id, content.values())):
                    now[key].clear()
                    now[key].update(content)
        for tensor, value in values:
            if tensor.data_ptr() != value.data_ptr():
                tensor.data = value
