"""A model asked about pieces of data: logits, and on request what one of its layers holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch

from roadworthy.errors import InputError, ModelError, did_you_mean, listed
from roadworthy.forward import Classifier, module_of
from roadworthy.labelfree.perturbation.base import Facts
from roadworthy.labelfree.reading import Chunk, Reader, as_values
from roadworthy.scores import extract_logits
from roadworthy.types import Layout, Normalize, Output

Features: TypeAlias = str | Callable[[torch.Tensor], Any] | None
_LAST = (torch.nn.Linear, torch.nn.Bilinear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


class Asker:
    """A user's model as a function from pieces of data to logits.

    Args:
        model: a module, or any callable.
        normalize: ``(mean, std)`` per channel, applied to what is perturbed.
        output: how to pick the class scores; see :func:`roadworthy.scores.extract_logits`.
        layout: the layout that the model takes.
        device: for a callable without parameters.
        max_batch: samples in one forward pass, at most.
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
        self.classifier = Classifier(
            model, normalize=normalize, output=output, layout=layout, device=device, max_batch=max_batch
        )
        self.model = model

    def logits(self, chunk: Chunk, values: torch.Tensor | None = None) -> torch.Tensor:
        """Return logits float32 (N, C) on the CPU of a piece, or of other values in its place.

        Raises:
            ModelError: what came back cannot be used, or is not finite.
        """
        values = chunk.values if values is None else values
        if chunk.others is None:
            found = self.classifier.logits(values)
        else:
            with torch.no_grad():
                found = extract_logits(self._call(chunk, values), self.classifier.output).float().cpu()
            if len(found) != len(chunk):
                raise ModelError(f"The model returned {len(found)} rows of scores for {len(chunk)} samples")
        bad = (~found.isfinite().all(dim=1)).nonzero().flatten().tolist()
        if bad:
            raise ModelError(
                f"The model's scores are not finite for samples {listed([chunk.ids[row] for row in bad])}; "
                "leave these out, or perturb less"
            )
        return found

    def _call(self, chunk: Chunk, values: torch.Tensor) -> Any:
        assert chunk.others is not None
        device = self.classifier.device
        whole: dict[str | int, Any] = {
            name: torch.as_tensor(value).to(device, copy=True)
            if isinstance(value, (torch.Tensor, np.ndarray))
            else value
            for name, value in chunk.others.items()
        }
        whole[chunk.key] = self.classifier.prepare(values)
        try:
            if isinstance(chunk.key, int):
                return self.model(*(whole[position] for position in sorted(whole, key=int)))
            return self.model(**whole)  # type: ignore[arg-type]
        except (RuntimeError, TypeError) as error:
            raise ModelError(f"The model failed on arguments {list(whole)}: {error}") from error


class FeatureTap:
    """Takes up what a layer holds while the model answers.

    Args:
        asker: the model.
        features: ``"penultimate"``, what the last linear (or convolution) layer is given; the name of a layer, what
            it returns; a callable on the samples, such as another network; or None.

    Attributes:
        note: why there are no features although the penultimate layer was asked for; else empty.

    Raises:
        InputError: a layer that the model does not have.
    """

    def __init__(self, asker: Asker, features: Features) -> None:
        self.asker, self.features = asker, features
        self.module = module_of(asker.model)
        self._layer: torch.nn.Module | None = None
        self.note = ""
        if features is not None and not isinstance(features, str) and not callable(features):
            raise InputError(
                f"features: got {features!r}, expected 'penultimate', the name of a layer, a callable or None"
            )
        if isinstance(features, str) and features != "penultimate":
            known = {} if self.module is None else dict(self.module.named_modules())
            if features not in known:
                raise InputError(
                    f"features: the model has no layer {features!r}.{did_you_mean(features, known)} "
                    f"Layers: {listed([name for name in known if name])}"
                )
            self._layer = known[features]

    def logits(self, chunk: Chunk) -> tuple[torch.Tensor, np.ndarray | None]:
        """Return logits (N, C) of a piece, and features float32 (N, D) or None."""
        if self.features is None:
            return self.asker.logits(chunk), None
        if callable(self.features):
            with torch.no_grad():
                found = self.features(chunk.values)
            return self.asker.logits(chunk), _flat(as_values("features", found).float().flatten(1), len(chunk))
        if self.features == "penultimate" and self._layer is None:
            self._layer = self._find_last(chunk)
        if self._layer is None:
            self.note = "no features are kept: the model has no linear or convolution layer; pass features="
            return self.asker.logits(chunk), None
        return self._tapped(chunk, self._layer)

    def _tapped(self, chunk: Chunk, layer: torch.nn.Module) -> tuple[torch.Tensor, np.ndarray | None]:
        parts: list[Any] = []

        def hook(_: torch.nn.Module, inputs: Any, returned: Any) -> None:
            value = inputs[0] if self.features == "penultimate" else returned
            parts.append(value[0] if isinstance(value, tuple) else value)

        handle = layer.register_forward_hook(hook)
        try:
            logits = self.asker.logits(chunk)
        finally:
            handle.remove()
        usable = bool(parts) and isinstance(parts[-1], torch.Tensor)
        if self.features == "penultimate" and not (usable and parts[-1].ndim and len(parts[-1]) == len(chunk)):
            self.note = "no features are kept: the last layer is not given a row for each sample; pass features="
            return logits, None
        if not usable:
            raise InputError(f"features: the layer {self.features!r} was not called, or returned no tensor")
        # a model may be called twice at first, to find the faster memory layout: the last call counts
        return logits, _flat(parts[-1].detach().float().cpu(), len(chunk), self._channels_first(layer, parts[-1]))

    def _channels_first(self, layer: torch.nn.Module, values: torch.Tensor) -> bool:
        if values.ndim != 3:
            return values.ndim > 3 and not isinstance(layer, torch.nn.Linear)
        assert self.module is not None
        convolves = any(isinstance(part, torch.nn.Conv1d) for part in self.module.modules())
        return convolves and not isinstance(layer, (torch.nn.Linear, torch.nn.LayerNorm))

    def _find_last(self, chunk: Chunk) -> torch.nn.Module | None:
        """Ask about one sample and see which layer made the class scores."""
        if self.module is None:
            return None
        called: list[tuple[torch.nn.Module, Any]] = []

        def hook(layer: torch.nn.Module, _: Any, returned: Any) -> None:
            called.append((layer, returned))

        handles = [part.register_forward_hook(hook) for part in self.module.modules() if isinstance(part, _LAST)]
        try:
            count = self.asker.logits(chunk.rows(slice(0, 1))).shape[1]
        finally:
            for handle in handles:
                handle.remove()
        made = [
            layer for layer, _ in called if count == getattr(layer, "out_features", getattr(layer, "out_channels", 0))
        ]
        return made[-1] if made else called[-1][0] if called else None


def _flat(values: torch.Tensor, n: int, channels_first: bool = False) -> np.ndarray:
    """Bring what a layer holds to (N, D): the mean over the axes of space or time."""
    if values.ndim < 1 or len(values) != n:
        raise InputError(
            f"features: a layer holds shape {tuple(values.shape)}, expected {n} rows; name another layer"
        )
    if values.ndim > 2:
        axes = range(2, values.ndim) if channels_first else range(1, values.ndim - 1)
        values = values.mean(dim=tuple(axes))
    return values.reshape(n, -1).numpy()


def model_facts(model: Callable[..., Any]) -> Facts:
    """Return what the model says of token ids: its embedding table, and which ids stand for no word."""
    module = module_of(model)
    if module is None:
        return Facts()
    tables = [part for part in module.modules() if isinstance(part, torch.nn.Embedding)]
    largest = max(tables, key=lambda part: part.num_embeddings, default=None)
    config = getattr(module, "config", None)
    told = {name: getattr(config, f"{name}_token_id", None) for name in ("pad", "mask", "bos", "eos", "cls", "sep")}
    known = {name: value for name, value in told.items() if isinstance(value, int)}
    pad = known.get("pad", None if largest is None else largest.padding_idx)
    return Facts(
        vectors=None if largest is None else largest.weight.detach(),
        special=tuple(sorted(set(known.values()))),
        pad=pad,
        mask=known.get("mask"),
    )


def data_facts(reader: Reader) -> tuple[Facts, tuple[str, ...]]:
    """Return what is known of the values before they are read, and what the user should know of it."""
    from roadworthy.records import Split

    data = reader.data
    if isinstance(data, Split):
        return Facts(valid_range=(0.0, 1.0)), ()
    if not reader.in_memory:
        return Facts(), ("the data are read once, so noise is in their own units and nothing is clipped",)
    if not data.is_floating_point():
        return Facts(), ()
    if reader.layout == "NHWC" and data.ndim > 2:
        data = data.movedim(-1, 1)
    if data.ndim == 4 and float(data.min()) >= 0 and float(data.max()) <= 1:
        return Facts(valid_range=(0.0, 1.0)), ("all values lie in [0, 1] and are taken for pixel units",)
    axes = tuple(axis for axis in range(data.ndim) if axis != 1)
    sd, mean = torch.std_mean(data.double(), dim=axes, keepdim=True, correction=0)
    return Facts(scale=sd.float(), mean=mean.to(data.dtype)), ()
