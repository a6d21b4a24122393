"""Where the maps of a block come from: a named method, a callable, or saved arrays cut by position or id."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.attribution import attribute
from roadworthy.errors import AttributionError, InputError
from roadworthy.evaluation.inputs import Stream
from roadworthy.forward import Classifier
from roadworthy.records import Batch


@dataclass
class MapSources:
    """The methods to compare, by name, and how to get the maps of a block for each.

    Args:
        attributions: method names, or a mapping name -> method name, callable ``(model, images, targets)``, or
            array-like (N, ...).
        stream: the samples; arrays are held against its length.
        options: keyword arguments for :func:`roadworthy.attribute`.
    """

    attributions: Any
    stream: Stream
    options: dict[str, Any]
    named: dict[str, Any] = field(default_factory=dict)
    saved: dict[str, Any] = field(default_factory=dict)
    gaps: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, source in _as_mapping(self.attributions).items():
            if isinstance(source, str) or callable(source):
                self.named[name] = source
            elif hasattr(source, "__getitem__") and hasattr(source, "shape"):
                self.saved[name] = self._checked(name, source)
            elif isinstance(source, (list, tuple)):
                self.saved[name] = self._checked(name, np.asarray(source))
            else:
                raise InputError(
                    f"attributions: {name!r} is a {type(source).__name__}; expected a method name, a callable "
                    "(model, images, targets), or an array (N, ...)"
                )
        self.names = list(_as_mapping(self.attributions))

    def _checked(self, name: str, array: Any) -> Any:
        if self.stream.shuffled:
            raise InputError(
                f"attributions: {name!r} is an array, but the DataLoader shuffles, so its rows cannot be matched; "
                "use shuffle=False"
            )
        if len(array.shape) < 2:
            raise AttributionError(f"{name}: got shape {tuple(array.shape)}, expected one map per sample, (N, ...)")
        if array.shape[0] != self.stream.length:
            enough = array.shape[0] > self.stream.length and self.stream.max_samples is not None
            if not enough:
                raise AttributionError(f"{name}: {array.shape[0]} maps for {self.stream.length} samples")
        return array

    def block(self, classifier: Classifier, batch: Batch, targets: torch.Tensor, start: int) -> dict[str, np.ndarray]:
        """Return the maps of every method for one block, in the order the methods were given.

        Args:
            classifier: the model.
            batch: the samples.
            targets: int64 (N,), the class to explain for each.
            start: how many samples came before.
        """
        found: dict[str, np.ndarray] = {}
        if self.named:
            maps = attribute(
                classifier.model,
                batch,
                self.named,
                target=targets,
                max_batch=classifier.max_batch,
                normalize=classifier.normalize,
                output=classifier.output,
                layout=classifier.layout,
                device=str(classifier.device),
                **self.options,
            )
            found.update(maps)
            self._note(maps.info)
        if self.saved:
            places = self.stream.positions(batch.ids, start)
            found.update({name: self._cut(array, places) for name, array in self.saved.items()})
        return {name: found[name] for name in self.names}

    def digest(self, batch: Batch, start: int) -> str:
        """Hash the saved maps of a block, so that a kept block is not taken for one with other maps."""
        digest = hashlib.blake2b(digest_size=8)
        places = self.stream.positions(batch.ids, start)
        for name, array in self.saved.items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(self._cut(array, places)).tobytes())
        return digest.hexdigest()

    def _cut(self, array: Any, places: np.ndarray) -> np.ndarray:
        first, last = int(places[0]), int(places[-1])
        found = _plain(array[first : last + 1])
        return found if len(found) == len(places) else found[places - first]

    def _note(self, info: Mapping[str, Any]) -> None:
        for name, entry in info.items():
            if isinstance(entry, Mapping) and "completeness_gap" in entry:
                self.gaps[name] = np.abs(np.asarray(entry["completeness_gap"], dtype=np.float64)).ravel()

    def take_gaps(self) -> dict[str, np.ndarray]:
        """Return the completeness gaps noted since the last call."""
        found, self.gaps = self.gaps, {}
        return found


def _plain(array: Any) -> np.ndarray:
    return array.detach().cpu().numpy() if isinstance(array, torch.Tensor) else np.asarray(array)


def _as_mapping(attributions: Any) -> dict[str, str | Callable[..., Any] | Any]:
    if isinstance(attributions, str):
        attributions = [attributions]
    if isinstance(attributions, Mapping):
        found = {str(name): source for name, source in attributions.items()}
    elif isinstance(attributions, Sequence) and all(isinstance(name, str) for name in attributions):
        found = {name: name for name in attributions}
        if len(found) != len(attributions):
            raise InputError(f"attributions: a method is named twice in {list(attributions)}")
    else:
        raise InputError(
            f"attributions: got {type(attributions).__name__}; expected method names, or a mapping of names to "
            "method names, callables or arrays"
        )
    if not found:
        raise InputError("attributions: got none; name at least one method, for instance ['ig', 'random']")
    return found
