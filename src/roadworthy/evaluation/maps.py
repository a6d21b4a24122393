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
    names: list[str] = field(default_factory=list)
    rows: dict[str, int] | None = None

    def __post_init__(self) -> None:
        sources = _as_mapping(self.attributions)
        self.names = list(sources)
        ids = getattr(self.attributions, "ids", None)
        self.rows = None if ids is None else {str(sample): row for row, sample in enumerate(ids)}
        if self.rows is not None and self.stream.known_ids and not self.rows.keys() & set(self.stream.known_ids):
            self.rows = None  # maps made from a bare tensor are numbered by position
        for name, source in sources.items():
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

    def _checked(self, name: str, array: Any) -> Any:
        if len(array.shape) < 2:
            raise AttributionError(f"{name}: got shape {tuple(array.shape)}, expected one map per sample, (N, ...)")
        if self.rows is not None:
            if array.shape[0] != len(self.rows):
                raise AttributionError(f"{name}: {array.shape[0]} maps for {len(self.rows)} ids")
            return array
        if self.stream.shuffled:
            raise InputError(
                f"attributions: {name!r} is an array, but the DataLoader shuffles, so its rows cannot be matched; "
                "use shuffle=False"
            )
        more = array.shape[0] > self.stream.length and self.stream.max_samples is not None
        if array.shape[0] != self.stream.length and not more:
            raise AttributionError(f"{name}: {array.shape[0]} maps for {self.stream.length} samples")
        return array

    def _places(self, batch: Batch, start: int) -> np.ndarray:
        if self.rows is None:
            return self.stream.positions(batch.ids, start)
        missing = [sample for sample in batch.ids if sample not in self.rows]
        if missing:
            raise AttributionError(
                f"there is no map for {len(missing)} samples, the first {missing[0]!r}; make them anew"
            )
        return np.array([self.rows[sample] for sample in batch.ids])

    def other_targets(self, targets: torch.Tensor, batch: Batch, start: int) -> int:
        """Count the samples whose saved maps say that they explain another class than the one scored."""
        made_for = getattr(self.attributions, "targets", None)
        if made_for is None or not self.saved:
            return 0
        return int((np.asarray(made_for)[self._places(batch, start)] != targets.numpy()).sum())

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
                nonfinite="keep",  # refused, or dropped for all methods alike, further on
                **self.options,
            )
            found.update(maps)
            self._note(maps.info)
        if self.saved:
            places = self._places(batch, start)
            found.update({name: self._cut(array, places) for name, array in self.saved.items()})
            self._note_saved(places)
        return {name: found[name] for name in self.names}

    def digest(self, batch: Batch, start: int) -> str:
        """Hash the saved maps of a block, so that a kept block is not taken for one with other maps."""
        digest = hashlib.blake2b(digest_size=8)
        places = self._places(batch, start)
        for name, array in self.saved.items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(self._cut(array, places)).tobytes())
        return digest.hexdigest()

    def _cut(self, array: Any, places: np.ndarray) -> np.ndarray:
        first, last = int(places.min()), int(places.max())
        found = _plain(array[first : last + 1])
        return found if (np.diff(places) == 1).all() else found[places - first]

    def _note(self, info: Mapping[str, Any]) -> None:
        for name, entry in info.items():
            if isinstance(entry, Mapping) and "completeness_gap" in entry:
                self.gaps[name] = np.abs(np.asarray(entry["completeness_gap"], dtype=np.float64)).ravel()

    def _note_saved(self, places: np.ndarray) -> None:
        info = getattr(self.attributions, "info", None) or {}
        for name in self.saved:
            gap = info.get(name, {}).get("completeness_gap") if isinstance(info.get(name), Mapping) else None
            if gap is not None:
                self.gaps[name] = np.abs(np.asarray(gap, dtype=np.float64))[places]

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
        found: dict[str, Any] = {str(name): source for name, source in attributions.items()}
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
