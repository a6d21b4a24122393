"""A model seen from outside: images in pixel units go in, logits come out, and nothing of it is changed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from roadworthy.errors import InputError, ModelError
from roadworthy.types import Layout, Normalize, Output


def as_stats(
    normalize: Normalize, channels: int, device: torch.device | str = "cpu"
) -> tuple[torch.Tensor, torch.Tensor]:
    """Turn ``(mean, std)`` into two tensors that broadcast over (N, C, ...).

    Raises:
        InputError: wrong length, or a standard deviation that is not positive.
    """
    try:
        mean, std = (torch.as_tensor(part, dtype=torch.float32, device=device).flatten() for part in normalize)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"normalize: got {normalize!r}, expected a pair (mean per channel, std per channel)"
        ) from error
    for name, part in (("mean", mean), ("std", std)):
        if part.numel() not in (1, channels):
            raise InputError(
                f"normalize: {name} has {part.numel()} values, the images have {channels} channels; "
                "give one value per channel"
            )
    if not bool((std > 0).all()):
        raise InputError(f"normalize: std is {std.tolist()}, expected positive values")
    return mean, std


def _over_channels(values: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    return values.view(1, -1, *[1] * (images.ndim - 2))


def extract_logits(returned: Any, output: Output = None) -> torch.Tensor:
    """Find the class scores in what a model returned.

    Args:
        returned: a tensor, a mapping or an object with ``logits``, or a tuple.
        output: how to pick: a position, a key or attribute, or a callable. None takes a bare tensor or
            ``logits``.

    Returns:
        The tensor (N, K).

    Raises:
        ModelError: naming what came back and the option to set.

    Example:
        >>> extract_logits({"logits": torch.zeros(2, 3)}).shape
        torch.Size([2, 3])
    """
    if output is not None:
        picked = _pick(returned, output)
    elif isinstance(returned, torch.Tensor):
        picked = returned
    elif isinstance(returned, Mapping) and "logits" in returned:
        picked = returned["logits"]
    else:
        picked = getattr(returned, "logits", None)
    if not isinstance(picked, torch.Tensor):
        raise ModelError(
            f"The model returned {_describe(returned)}; expected a tensor (N, classes), or a mapping or object with "
            "'logits'. Pass output= a position, a key or a callable that picks the class scores."
        )
    if picked.ndim != 2 or picked.shape[1] < 2:
        raise ModelError(
            f"The model's class scores have shape {tuple(picked.shape)}; expected (N, classes) with at least two "
            "classes. Pass output= a callable that brings them to that form."
        )
    return picked


def _pick(returned: Any, output: Output) -> Any:
    if callable(output):
        return output(returned)
    try:
        if isinstance(output, str) and not isinstance(returned, Mapping):
            return getattr(returned, output)
        return returned[output]
    except (LookupError, AttributeError, TypeError) as error:
        raise ModelError(
            f"output={output!r} finds nothing in what the model returned: {_describe(returned)}"
        ) from error


def _describe(returned: Any) -> str:
    if isinstance(returned, torch.Tensor):
        return f"a tensor {tuple(returned.shape)}"
    if isinstance(returned, Mapping):
        return f"a {type(returned).__name__} with keys {sorted(map(str, returned))}"
    if isinstance(returned, (tuple, list)):
        return f"a {type(returned).__name__} of {len(returned)}: " + ", ".join(_describe(part) for part in returned)
    return f"an object of type {type(returned).__name__}"


@contextlib.contextmanager
def untouched(model: Callable[..., Any]) -> Iterator[None]:
    """Put a module in evaluation mode and leave it exactly as it was, also after an error.

    Restores the train flag of every submodule, buffers, ``.grad`` and ``requires_grad`` of every parameter.
    """
    if not isinstance(model, torch.nn.Module):
        yield
        return
    flags = [(module, module.training) for module in model.modules()]
    parameters = [(p, p.grad, None if p.grad is None else p.grad.clone()) for p in model.parameters()]
    buffers = [(b, b.detach().clone()) for b in model.buffers()]
    try:
        for module, _ in flags:
            module.training = False
        yield
    finally:
        for module, training in flags:
            module.training = training
        with torch.no_grad():
            for parameter, grad, value in parameters:
                if grad is not None and value is not None:
                    grad.copy_(value)
                parameter.grad = grad
            for buffer, kept in buffers:
                if not torch.equal(buffer, kept):
                    buffer.copy_(kept)


def device_of(model: Callable[..., Any], device: str | torch.device | None = None) -> torch.device:
    """Return the device to run on: the model's own, or ``device`` for a callable without parameters."""
    if isinstance(model, torch.nn.Module):
        first = next(iter(model.parameters()), None)
        if first is None:
            first = next(iter(model.buffers()), None)
        if first is not None:
            if device is not None and torch.device(device).type != first.device.type:
                raise InputError(
                    f"device={str(device)!r}, but the model is on {str(first.device)!r}; "
                    "move it with model.to(...) first"
                )
            return first.device
    return torch.device(device or "cpu")


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
            raise ModelError(f"model: got {type(model).__name__}, expected a torch.nn.Module or a callable")
        if layout not in ("NCHW", "NHWC"):
            raise InputError(f"layout: got {layout!r}, expected 'NCHW' or 'NHWC'")
        if not isinstance(max_batch, int) or max_batch < 1:
            raise InputError(f"max_batch: got {max_batch!r}, expected an integer of at least 1")
        self.model = model
        self.normalize = normalize
        self.output = output
        self.layout = layout
        self.device = device_of(model, device)
        self.max_batch = max_batch
        self.dtype = _floating_dtype(model)

    def prepare(self, images: torch.Tensor) -> torch.Tensor:
        """Normalise a batch and bring it to the model's device, dtype and layout; differentiable."""
        images = images.to(self.device)
        if images.is_floating_point():
            if self.normalize is not None:
                mean, std = as_stats(self.normalize, images.shape[1], self.device)
                images = (images - _over_channels(mean, images)) / _over_channels(std, images)
            images = images.to(self.dtype)
        if self.layout == "NHWC" and images.ndim > 2:
            images = images.movedim(1, -1)
        return images

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits (N, K) of one batch, on the model's device; differentiable."""
        logits = extract_logits(self.model(self.prepare(images)), self.output)
        if logits.shape[0] != images.shape[0]:
            raise ModelError(f"The model returned {logits.shape[0]} rows of scores for {images.shape[0]} images")
        return logits

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits float32 (N, K) on the CPU, without gradients, at most ``max_batch`` images at a time."""
        parts = []
        with torch.no_grad():
            for start in range(0, len(images), self.max_batch):
                parts.append(self.forward(images[start : start + self.max_batch]).float().cpu())
        if not parts:
            raise InputError("logits: no images were given")
        return torch.cat(parts)


def _floating_dtype(model: Callable[..., Any]) -> torch.dtype:
    if isinstance(model, torch.nn.Module):
        for parameter in model.parameters():
            if parameter.is_floating_point():
                return parameter.dtype
    return torch.float32


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
    """
    if isinstance(target, str):
        if target == "predicted":
            return predicted
        if target != "label":
            raise InputError(f"target: got {target!r}, expected 'predicted', 'label', or one class per sample")
        if labels is None:
            raise InputError("target='label' needs labels")
        return labels
    given = torch.as_tensor(target).to(torch.int64).flatten()
    if len(given) != len(predicted):
        raise InputError(f"target: {len(given)} classes for {len(predicted)} samples; give one class per sample")
    return given
