"""Where the maps of a block come from: a named method, a callable, or saved arrays cut by id or position."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from roadworthy.attribution import Explainer, Samples, is_method, name_of
from roadworthy.errors import AttributionError, InputError
from roadworthy.evaluation.inputs import Stream
from roadworthy.fingerprints import callable_fingerprint
from roadworthy.forward import Classifier
from roadworthy.hints import of_file
from roadworthy.records import Batch


@dataclass(frozen=True)
class Saved:
    """Maps that exist already.

    Attributes:
        array: array-like (N, ...), cut block by block.
        ids: the samples they belong to; None matches by position.
        targets: int (N,), the class each explains, or None if unknown.
        gaps: float (N,), completeness gaps, or None.
    """

    array: Any
    ids: Sequence[str] | None = None
    targets: Any = None
    gaps: Any = None


@dataclass
class MapSources:
    """The methods to compare, by name, and how to get the maps of a block for each.

    Args:
        attributions: method names and callables, or a mapping name -> method name, callable
            ``(model, images, targets)``, object of captum or Zennit, array-like (N, ...) or :class:`Saved`.
        stream: the samples; arrays are held against its length.
        classifier: the model.
        options: keyword arguments for the maps that are computed here: seed, settings, mean, reduce.
    """

    attributions: Any
    stream: Stream
    classifier: Classifier
    options: dict[str, Any]
    named: dict[str, Any] = field(default_factory=dict)
    saved: dict[str, Saved] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)
    _gaps: dict[str, np.ndarray] = field(default_factory=dict)
    _rows: dict[int, dict[str, int]] = field(default_factory=dict)
    _cuts: tuple[list[str], dict[str, np.ndarray]] = field(default_factory=lambda: ([], {}))

    def __post_init__(self) -> None:
        sources = _as_mapping(self.attributions)
        self.names = list(sources)
        for name, source in sources.items():
            if isinstance(source, str) and of_file(source):
                raise InputError(f"attributions: {source!r} is no method{of_file(source)}")
            if isinstance(source, str) or (not hasattr(source, "shape") and is_method(source)):
                self.named[name] = source
            else:
                self.saved[name] = self._checked(name, self._as_saved(name, source))
        self._explainer = self._make_explainer() if self.named else None

    def _make_explainer(self) -> Explainer:
        return Explainer(
            self.classifier.model,
            self.named,
            max_batch=self.classifier.max_batch,
            normalize=self.classifier.normalize,
            output=self.classifier.output,
            layout=self.classifier.layout,
            device=self.classifier.device,
            nonfinite="keep",  # refused, or dropped for all methods alike, further on
            **self.options,
        )

    def _as_saved(self, name: str, source: Any) -> Saved:
        if isinstance(source, Saved):
            found = source
        elif isinstance(source, (list, tuple)) or (hasattr(source, "__getitem__") and hasattr(source, "shape")):
            array = _stacked(name, source) if isinstance(source, (list, tuple)) else source
            info = (getattr(self.attributions, "info", None) or {}).get(name)
            found = Saved(
                array,
                ids=getattr(self.attributions, "ids", None),
                targets=getattr(self.attributions, "targets", None),
                gaps=info.get("completeness_gap") if isinstance(info, Mapping) else None,
            )
        else:
            raise InputError(
                f"attributions: {name!r} is a {type(source).__name__}; expected a method name, a callable "
                "(model, images, targets), an object of captum.attr or Zennit, or an array (N, ...)" + of_file(source)
            )
        known = self.stream.known_ids
        if found.ids is not None and (known is None or not set(map(str, found.ids)) & set(known)):
            if known is not None and not _numbered(found.ids) and not _numbered(known):
                raise AttributionError(
                    f"{name}: the maps are of other samples: the first is {str(found.ids[0])!r} there and "
                    f"{known[0]!r} here; make maps of these samples"
                )
            return Saved(found.array, None, found.targets, found.gaps)  # by position alone: the counts must agree
        return found

    def _checked(self, name: str, saved: Saved) -> Saved:
        shape = tuple(saved.array.shape)
        if len(shape) < 2:
            raise AttributionError(f"{name}: got shape {shape}, expected one map per sample, (N, ...){_hint(saved)}")
        if (
            np.dtype(getattr(saved.array, "dtype", float) if not _is_tensor(saved.array) else float).kind
            not in "fiub"
        ):
            raise AttributionError(f"{name}: maps of type {saved.array.dtype}, expected real numbers")
        if _is_tensor(saved.array) and (saved.array.is_complex() or saved.array.is_sparse):
            raise AttributionError(f"{name}: a complex or sparse tensor, expected real numbers in a dense one")
        if self.stream.shuffled:
            raise InputError(
                f"attributions: {name!r} is an array, but the DataLoader draws its own order, so its rows cannot be "
                "matched; use shuffle=False"
            )
        if saved.ids is not None:
            if shape[0] != len(saved.ids):
                raise AttributionError(f"{name}: {shape[0]} maps for {len(saved.ids)} ids")
            return saved
        more = shape[0] > self.stream.length and self.stream.max_samples is not None
        if shape[0] != self.stream.length and not more:
            raise AttributionError(
                f"{name}: {shape[0]} maps for {self.stream.length} samples; give one map per sample, in their order"
            )
        return saved

    def block(self, batch: Batch, targets: torch.Tensor, logits: torch.Tensor, start: int) -> dict[str, np.ndarray]:
        """Return the maps of every method for one block, in the order the methods were given.

        Args:
            batch: the samples.
            targets: int64 (N,), the class to explain for each.
            logits: float32 (N, K), the model's scores of the intact samples.
            start: how many samples came before.
        """
        found: dict[str, np.ndarray] = {}
        if self._explainer is not None:
            explained = self._explainer.explain(Samples(batch.images, batch.ids, targets, logits=logits))
            found.update(explained.maps)
            for name, numbers in explained.per_sample.items():
                if "completeness_gap" in numbers:
                    self._gaps[name] = np.abs(np.asarray(numbers["completeness_gap"], dtype=np.float64))
        found.update(self._saved_of(batch, start))
        for name, saved in self.saved.items():
            if saved.gaps is not None:
                places = self._places(saved, batch, start)
                self._gaps[name] = np.abs(np.asarray(saved.gaps, dtype=np.float64))[places]
        return {name: found[name] for name in self.names}

    def other_targets(self, targets: torch.Tensor, batch: Batch, start: int) -> int:
        """Count the samples for which some saved maps say that they explain another class than the one scored."""
        wrong = np.zeros(len(batch.ids), dtype=bool)
        for saved in self.saved.values():
            if saved.targets is not None:
                wrong |= np.asarray(saved.targets)[self._places(saved, batch, start)] != targets.numpy()
        return int(wrong.sum())

    def digest(self, batch: Batch, start: int) -> str:
        """Hash the saved maps of a block, so that a kept block is not taken for one with other maps."""
        digest = hashlib.blake2b(digest_size=8)
        for name, array in self._saved_of(batch, start).items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def identity(self) -> dict[str, str]:
        """Return what stands behind each name: a method, a callable's fingerprint, or saved maps."""
        return {name: "saved" if name in self.saved else _identity(self.named[name]) for name in self.names}

    def take_gaps(self) -> dict[str, np.ndarray]:
        """Return the completeness gaps noted since the last call."""
        found, self._gaps = self._gaps, {}
        return found

    def _saved_of(self, batch: Batch, start: int) -> dict[str, np.ndarray]:
        """Cut the saved maps of a block, once for its digest and its scores."""
        if self._cuts[0] != batch.ids:
            cuts = {name: _cut(saved.array, self._places(saved, batch, start)) for name, saved in self.saved.items()}
            self._cuts = (batch.ids, cuts)
        return self._cuts[1]

    def _places(self, saved: Saved, batch: Batch, start: int) -> np.ndarray:
        if saved.ids is None:
            return self.stream.positions(batch.ids, start)
        rows = self._rows.setdefault(id(saved.ids), {})
        if not rows:
            rows.update({str(sample): row for row, sample in enumerate(saved.ids)})
        missing = [sample for sample in batch.ids if sample not in rows]
        if missing:
            raise AttributionError(
                f"there is no map for {len(missing)} of {len(batch.ids)} samples, the first {missing[0]!r}; make "
                "maps of these samples"
            )
        return np.array([rows[sample] for sample in batch.ids])


def _hint(saved: Saved) -> str:
    names = np.asarray(saved.array)
    if names.dtype.kind != "U":
        return ""
    return f"; a list of methods stands by itself, attributions={names.tolist()}, not under a name"


def _identity(source: Any) -> str:
    return source if isinstance(source, str) else callable_fingerprint(source)


def _numbered(ids: Sequence[str]) -> bool:
    return len(ids) > 0 and all(str(sample) == str(row) for row, sample in enumerate(ids))


def _is_tensor(array: Any) -> bool:
    return isinstance(array, torch.Tensor)


def _stacked(name: str, maps: Sequence[Any]) -> np.ndarray:
    try:
        return np.stack([_plain(part) for part in maps])
    except (TypeError, ValueError) as error:
        raise AttributionError(
            f"{name}: a list of maps that do not stack into one array (N, ...): {error}"
        ) from error


def _cut(array: Any, places: np.ndarray) -> np.ndarray:
    first, last = int(places.min()), int(places.max())
    found = _plain(array[first : last + 1])
    return found if (np.diff(places) == 1).all() else found[places - first]


def _plain(array: Any) -> np.ndarray:
    if isinstance(array, torch.Tensor):
        array = array.detach().cpu()
        return (array.float() if array.is_floating_point() and array.dtype == torch.bfloat16 else array).numpy()
    return np.asarray(array)


def _as_mapping(attributions: Any) -> dict[str, str | Callable[..., Any] | Any]:
    if isinstance(attributions, str) or (not isinstance(attributions, Mapping) and is_method(attributions)):
        attributions = [attributions]
    if isinstance(attributions, Mapping):
        found: dict[str, Any] = {str(name): source for name, source in attributions.items()}
        if len(found) != len(attributions):
            raise InputError(f"attributions: two names read alike in {list(attributions)}")
    elif isinstance(attributions, Sequence) and all(
        isinstance(part, str) or is_method(part) for part in attributions
    ):
        found = {name_of(part): part for part in attributions}
        if len(found) != len(attributions):
            raise InputError(
                f"attributions: two methods have one name in {list(attributions)}; pass a mapping with names of your "
                "own"
            )
    else:
        raise InputError(
            f"attributions: got {type(attributions).__name__}; expected method names, or a mapping of names to "
            "method names, callables or arrays, such as {'mine': maps}"
        )
    if not found:
        raise InputError("attributions: got none; name at least one method, for instance ['ig', 'random']")
    return found
