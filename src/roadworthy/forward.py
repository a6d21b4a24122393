"""A model seen from outside: images in pixel units go in, logits come out, and nothing of it is changed."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, RoadworthyError
from roadworthy.hints import batch_hint, not_a_model
from roadworthy.scores import extract_logits
from roadworthy.types import Layout, Normalize, Output


def as_stats(
    normalize: Normalize, channels: int, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn ``(mean, std)`` into two tensors that broadcast over (N, C, ...).

    Raises:
        InputError: wrong length, a mean that is not finite, or a standard deviation that is not positive.
    """
    try:
        mean, std = (torch.as_tensor(part, dtype=torch.float32, device="cpu").flatten() for part in normalize)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"normalize: got {normalize!r}, expected a pair (mean per channel, std per channel)"
        ) from error
    for name, part in (("mean", mean), ("std", std)):
        if part.numel() not in (1, channels):
            raise InputError(
                f"normalize: {name} has {part.numel()} values, the images have {channels} channels; "
                "give one value per channel"
            )
    if not bool(mean.isfinite().all()):
        raise InputError(f"normalize: mean is {mean.tolist()}, expected finite values")
    if not bool(((std > 0) & std.isfinite()).all()):
        raise InputError(f"normalize: std is {std.tolist()}, expected positive values")
    return mean.to(device), std.to(device)


def built_in(model: Any) -> Normalize | None:
    """Return ``(mean, std)`` that a model from :func:`roadworthy.load_model` applies to its images, or None.

    Example:
        >>> built_in(torch.nn.Linear(2, 2)) is None
        True
    """
    mean, std = (getattr(model, name, None) for name in ("pixel_mean", "pixel_std"))
    return None if mean is None or std is None else (mean, std)


def _over_channels(values: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (images.ndim - 2))


def module_of(model: Callable[..., Any]) -> torch.nn.Module | None:
    """Return the module behind a model: itself, or that of a bound method or partial; None for other callables.

    Example:
        >>> net = torch.nn.Linear(2, 2)
        >>> module_of(net.forward) is net
        True
    """
    while isinstance(model, functools.partial):
        model = model.func
    owner = getattr(model, "__self__", model)
    return owner if isinstance(owner, torch.nn.Module) else None


# one lock for all models: two of them may share parts, and locks taken in two orders could wait for ever
_ONE_AT_A_TIME = threading.RLock()


@contextlib.contextmanager
def untouched(model: Callable[..., Any]) -> Iterator[None]:
    """Put a module in evaluation mode and leave it exactly as it was, also after an error.

    Restores the train flag of every submodule, buffers, and ``.grad`` and ``requires_grad`` of every parameter. One
    thread is in such a block at a time, others wait, so that none sees the flags another has set.
    """
    module = module_of(model)
    if module is None:
        yield
        return
    with _ONE_AT_A_TIME, _restored(module):
        yield


@contextlib.contextmanager
def _restored(module: torch.nn.Module) -> Iterator[None]:
    flags = [(part, part.training) for part in module.modules()]
    parameters = [
        (p, p.requires_grad, p.grad, None if p.grad is None else p.grad.clone()) for p in module.parameters()
    ]
    buffers = [
        (part, name, buffer, None if buffer is None else buffer.detach().clone())
        for part, _ in flags
        for name, buffer in part._buffers.items()
    ]
    try:
        for part, _ in flags:
            part.training = False
        yield
    finally:
        for part, training in flags:
            part.training = training
        with torch.no_grad():
            for parameter, required, grad, value in parameters:
                if grad is not None and value is not None:
                    grad.copy_(value)
                parameter.grad = grad
                if parameter.requires_grad != required:
                    parameter.requires_grad_(required)
            for part, name, buffer, kept in buffers:
                # a forward pass may write into a buffer or put another tensor in its place
                if buffer is not None and kept is not None and not _same_values(buffer, kept):
                    buffer.copy_(kept)
                part._buffers[name] = buffer


def _same_values(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.device.type == "meta" or torch.equal(one, other)


def _first_tensor(module: torch.nn.Module, floating: bool = False) -> torch.Tensor | None:
    for group in (module.parameters(), module.buffers()):
        for tensor in group:
            if tensor.is_floating_point() or not floating:
                return tensor
    return None


def device_of(model: Callable[..., Any], device: str | torch.device | None = None) -> torch.device:
    """Return the device to run on: the model's own, or ``device`` for a callable without parameters.

    Raises:
        InputError: ``device`` is not a device, not there, or not the one where the model is.
    """
    try:
        wanted = None if device is None else torch.device(device)
    except RuntimeError as error:
        raise InputError(f"device: got {device!r}, expected a device such as 'cpu' or 'cuda:0'") from error
    module = module_of(model)
    first = None if module is None else _first_tensor(module)
    if first is None:
        if wanted is not None and wanted.type == "cuda" and not torch.cuda.is_available():
            raise InputError(f"device={str(device)!r}, but no CUDA device is available here; use 'cpu'")
        if wanted is not None and wanted.type not in ("cpu", "cuda", "meta"):
            try:
                torch.empty(0, device=wanted)
            except (RuntimeError, AssertionError) as error:
                raise InputError(f"device={str(device)!r} is not available here; use 'cpu'") from error
        return wanted or torch.device("cpu")
    own = first.device
    if wanted is not None and (wanted.type != own.type or _different(wanted.index, own.index)):
        raise InputError(
            f"device={str(device)!r}, but the model is on {str(own)!r}; move it with model.to(...) first"
        )
    return own


def _different(wanted: int | None, own: int | None) -> bool:
    return wanted is not None and own is not None and wanted != own


class Classifier:
    """A user's model as a function from images in pixel units to logits.

    Args:
        model: a module, or any callable that takes a batch of images.
        normalize: ``(mean, std)`` applied per channel before the model; None applies nothing.
        output: see :func:`extract_logits`.
        layout: the layout the model takes; images here are always channels first.
        device: device for a callable without parameters; a module runs where it is.
        max_batch: the largest number of images in one forward pass.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        *,
        normalize: Normalize | None = None,
        output: Output = None,
        layout: Layout = "NCHW",
        device: str | torch.device | None = None,
        max_batch: int = 256,
    ) -> None:
        if not callable(model):
            raise ModelError(
                f"model: got {type(model).__name__}, expected a torch.nn.Module or a callable{not_a_model(model)}"
            )
        if isinstance(model, type):
            raise ModelError(f"model: got the class {model.__name__}; pass an instance of it")
        if layout not in ("NCHW", "NHWC"):
            raise InputError(f"layout: got {layout!r}, expected 'NCHW' or 'NHWC'")
        own = built_in(model)
        if normalize is not None and own is not None:
            raise InputError(
                f"normalize: the model normalises its images itself (mean {list(own[0])}), so they would be "
                "normalised twice; leave normalize= out, or load the model with normalize=None"
            )
        if isinstance(max_batch, bool) or not hasattr(max_batch, "__index__") or max_batch < 1:
            raise InputError(f"max_batch: got {max_batch!r}, expected an integer of at least 1")
        self.model = model
        self.normalize = normalize
        self.output = output
        self.layout = layout
        self.max_batch = int(max_batch)
        self._asked = device
        self._bare: bool | None = None  # whether the model returns the scores themselves; known once it was asked
        module = module_of(model)
        # convolutions on a CPU run faster so; only the strides differ
        parts = [] if module is None or layout != "NCHW" else list(module.modules())
        watched = any(part._forward_hooks or part._forward_pre_hooks for part in parts)  # hooks may count the calls
        convolves = any(isinstance(part, torch.nn.Conv2d) for part in parts)
        self._channels_last = "untried" if convolves and not watched else ""
        device_of(model, device)  # a device that does not fit is refused here, not at the first batch

    @property
    def device(self) -> torch.device:
        """The device that batches go to: wherever the model is now."""
        return device_of(self.model, self._asked)

    @property
    def dtype(self) -> torch.dtype:
        """The floating dtype that the model computes in."""
        module = module_of(self.model)
        first = None if module is None else _first_tensor(module, floating=True)
        return torch.float32 if first is None else first.dtype

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise a batch and bring it to the model's device, dtype and layout; differentiable."""
        device = self.device
        given, images = images, images.to(device)
        if images.is_floating_point():
            if self.normalize is not None:
                mean, std = as_stats(self.normalize, images.shape[1], device)
                images = (images - _over_channels(mean, images)) / _over_channels(std, images)
            images = images.to(self.dtype)
        if self.layout == "NHWC" and images.ndim > 2:
            images = images.movedim(1, -1).contiguous()
        # a model that works in place must write neither into the caller's images nor into a leaf
        return images.clone() if images.data_ptr() == given.data_ptr() else images

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, K) of one batch, on the model's device; differentiable."""
        return self._checked(self._call(self.prepare(images)), len(images))

    def _checked(self, returned: Any, n: int) -> torch.Tensor:
        self._bare = isinstance(returned, (torch.Tensor, np.ndarray))
        logits = extract_logits(returned, self.output)
        if len(logits) != n:
            raise ModelError(f"The model returned {len(logits)} rows of scores for {n} images")
        return logits

    def _call(self, prepared: torch.Tensor) -> Any:
        try:
            return self.model(prepared)
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"The model ran out of memory on a batch {tuple(prepared.shape)}; pass a smaller max_batch "
                f"(it is {self.max_batch})"
            ) from error
        except RoadworthyError:
            raise
        except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
            shape = tuple(prepared.shape)
            raise ModelError(
                f"The model failed on a batch {shape} ({self.layout}, {prepared.dtype}, {prepared.device}): {error}"
                + batch_hint(module_of(self.model), shape, self.layout, str(error))
            ) from error

    def as_model(self, example: torch.Tensor | None = None) -> Callable[[torch.Tensor], torch.Tensor]:
        """Return what a user's own attribution method is given: it takes pixel units and returns logits (N, K).

        That is the model itself where nothing stands between; otherwise a module around it that normalises,
        arranges and picks the scores as here.

        Args:
            example: one image, on which a model that was never asked shows whether it returns the scores themselves.
        """
        if self._bare is None and example is not None:
            with torch.no_grad():
                self.forward(example)
        if self.normalize is None and self.output is None and self.layout == "NCHW" and self._bare is not False:
            return self.model
        return PixelModel(self)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits float32 (N, K) on the CPU, without gradients, at most ``max_batch`` images at a time."""
        parts = []
        with torch.no_grad():
            for start in range(0, len(images), self.max_batch):
                parts.append(self._scores(images[start : start + self.max_batch]).float().cpu())
        if not parts:
            raise InputError("logits: no images were given")
        return torch.cat(parts)

    def _scores(self, images: torch.Tensor) -> torch.Tensor:
        """Ask the model, with channels last in memory where that is faster and the model allows it."""
        if not self._channels_last or images.ndim != 4 or self.device.type != "cpu":
            return self.forward(images)
        if self._channels_last == "proven":
            return self._in_channels_last(images)
        usual = self.forward(images)
        try:  # a model may call view() on what it takes for contiguous, or read the order in memory
            same = torch.allclose(
                self._in_channels_last(images), usual, rtol=1e-3, atol=1e-4 * float(usual.abs().max())
            )
        except Exception:
            same = False
        self._channels_last = "proven" if same else ""
        return usual

    def _in_channels_last(self, images: torch.Tensor) -> torch.Tensor:
        prepared = self.prepare(images).contiguous(memory_format=torch.channels_last)
        return self._checked(self._call(prepared), len(images))


class PixelModel(torch.nn.Module):
    """A user's model behind its normalisation, as one module from images in pixel units to logits.

    Args:
        classifier: how the model is asked.
    """

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        self.classifier = classifier
        module = module_of(classifier.model)
        if module is not None:
            self.body = module
        self.training = module is not None and module.training

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, K) of images (N, C, ...) in pixel units; differentiable."""
        return self.classifier.forward(images)

    def __getattr__(self, name: str) -> Any:
        """Look into the user's own module for what this one has not, such as its layers."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "body":
                raise
            return getattr(super().__getattr__("body"), name)


def target_classes(
    target: str | Sequence[int] | torch.Tensor,
    *,
    predicted: torch.Tensor,
    labels: torch.Tensor | None,
) -> torch.Tensor:
    """Resolve which class each sample is explained (and scored) for.

    Args:
        target: ``"predicted"``, ``"label"``, or one class per sample.
        predicted: int64 (N,), the model's own answers.
        labels: int64 (N,), or None.

    Returns:
        int64 (N,).

    Raises:
        InputError: an unknown word, no labels where they are needed, or a wrong number of classes.

    Example:
        >>> target_classes([2, 0], predicted=torch.tensor([1, 1]), labels=None)
        tensor([2, 0])
    """
    if isinstance(target, str):
        if target == "predicted":
            return predicted
        if target != "label":
            raise InputError(f"target: got {target!r}, expected 'predicted', 'label', or one class per sample")
        if labels is None:
            raise InputError("target='label' needs labels")
        target = labels
    try:
        given = torch.as_tensor(target).flatten()
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(f"target: got {target!r}, expected 'predicted', 'label', or one class per sample") from error
    classes = given.to(predicted.device, torch.int64)
    if not torch.equal(classes.to(given.dtype), given.to(predicted.device)) or bool((classes < 0).any()):
        raise InputError("target: classes must be whole numbers from 0 up")
    if len(classes) != len(predicted):
        raise InputError(f"target: {len(classes)} classes for {len(predicted)} samples; give one class per sample")
    return classes
