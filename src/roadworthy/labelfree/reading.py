"""Whatever a user has as data, read once, in pieces of at most ``max_batch`` samples that a model can be asked."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, SequentialSampler

from roadworthy.errors import DataError, InputError
from roadworthy.labels import check_ids_are_text, label_array
from roadworthy.records import Batch, Data, Split
from roadworthy.types import Layout

_LABELS = ("labels", "label", "targets", "target")
_PERTURBED = ("input_ids", "pixel_values", "inputs", "images", "image", "x")
_WAY_OUT = "pass batch= a callable that turns it into a tensor, a mapping of arguments, or a BatchInput"


@dataclass(frozen=True, eq=False)
class BatchInput:
    """What a user's ``batch=`` callable makes of one batch, where a tensor or mapping alone does not say enough.

    Args:
        inputs: a tensor; a mapping, passed to the model as keyword arguments; or a tuple, passed in order.
        perturbed: key or position of the tensor that is perturbed, and split by rows; found by its name or as the
            only floating one by default.
        labels: (N,) true classes, or None.
        ids: N names of the samples, or None.

    Example:
        >>> made = BatchInput({"input_ids": torch.ones(2, 3, dtype=torch.long)}, labels=[0, 1])
        >>> list(made.inputs), made.perturbed
        (['input_ids'], None)
    """

    inputs: Any
    perturbed: str | int | None = None
    labels: Any = None
    ids: Sequence[Any] | None = None


@dataclass(frozen=True, eq=False)
class Chunk:
    """Samples that go through the model together.

    Attributes:
        values: (N, ...), what is perturbed.
        others: the other arguments by key or position, or None where the model takes ``values`` alone.
        key: where ``values`` belongs among them.
        labels: (N,), or None.
        ids: N ids.
    """

    values: torch.Tensor
    others: dict[str | int, Any] | None
    key: str | int
    labels: Any
    ids: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.values)

    def rows(self, chosen: slice | list[int]) -> Chunk:
        """Return these samples alone."""
        n = len(self)
        others = self.others and {name: _taken(value, n, chosen) for name, value in self.others.items()}
        ids = self.ids[chosen] if isinstance(chosen, slice) else tuple(self.ids[row] for row in chosen)
        return replace(
            self, values=self.values[chosen], others=others, labels=_taken(self.labels, n, chosen), ids=ids
        )


def _taken(value: Any, n: int, chosen: slice | list[int]) -> Any:
    """Take rows of what has a row for each sample; leave the rest whole."""
    per_sample = isinstance(value, (torch.Tensor, np.ndarray)) and value.ndim and len(value) == n
    return value[chosen] if per_sample else value


class Reader:
    """One pass over the samples.

    Args:
        data: tensor, array or table of numbers (N, ...); Split; Dataset; DataLoader; or an iterable of batches.
        labels: (N,) of a tensor or array; other data bring their own.
        ids: names of the samples, in order.
        batch: turns a batch into what the model takes; see :class:`BatchInput`.
        layout: ``"NHWC"`` moves the last axis to the front of each sample.
        max_batch: samples in a piece, at most.

    Raises:
        InputError: data that cannot be read so.
    """

    def __init__(
        self,
        data: Any,
        *,
        labels: Any = None,
        ids: Sequence[Any] | None = None,
        batch: Callable[[Any], Any] | None = None,
        layout: Layout = "NCHW",
        max_batch: int = 256,
    ) -> None:
        if isinstance(data, Data):
            raise InputError("data: got a data set in two splits, expected one of them, such as data.test")
        self.data = data.to_numpy() if hasattr(data, "to_numpy") else data
        self.batch, self.layout, self.max_batch = batch, layout, max_batch
        self.in_memory = isinstance(self.data, (torch.Tensor, np.ndarray))
        if self.in_memory:
            self.data = as_values("data", self.data)
            if self.data.ndim < 2 or len(self.data) == 0:
                raise InputError(
                    f"data: got shape {tuple(self.data.shape)}, expected (N, ...) with at least one sample"
                )
            labels = None if labels is None else label_array(labels, len(self.data))
        elif labels is not None:
            raise InputError("labels: a data set brings its own; pass labels=None, or the samples as an array")
        elif not isinstance(self.data, (Split, Dataset, Iterable)):
            raise InputError(
                f"data: got {type(data).__name__}, expected an array (N, ...), a Split, a Dataset, a DataLoader, or "
                "an iterable of batches"
            )
        self.labels = labels
        self.ids = None if ids is None else tuple(map(str, ids))
        if self.ids is not None:
            self._check_ids(self.ids)

    def _check_ids(self, ids: tuple[str, ...]) -> None:
        if isinstance(self.data, Split):
            raise InputError("ids: a Split brings its own ids; leave ids= out")
        if isinstance(self.data, DataLoader) and not isinstance(self.data.sampler, SequentialSampler):
            raise InputError("ids: the DataLoader draws its own order, so ids cannot be matched; use shuffle=False")
        if len(set(ids)) != len(ids):
            raise InputError(f"ids: {len(ids) - len(set(ids))} of {len(ids)} ids repeat; ids must be unique")
        check_ids_are_text(ids)

    def chunks(self) -> Iterator[Chunk]:
        """Read the samples in order.

        Raises:
            InputError: a batch that cannot be understood, another number of ids than samples, or no sample.
        """
        seen = 0
        for batch in self._batches():
            chunk = self._chunk(batch, seen)
            seen += len(chunk)
            for start in range(0, len(chunk), self.max_batch):
                yield chunk.rows(slice(start, start + self.max_batch))
        if seen == 0:
            raise InputError("data: there are no samples")
        if self.ids is not None and len(self.ids) != seen:
            raise InputError(f"ids: {len(self.ids)} ids for {seen} samples")

    def take(self, rows: Sequence[int]) -> Chunk:
        """Return the samples at these positions.

        Raises:
            InputError: a position that the data do not have.
        """
        found: dict[int, Chunk] = {}
        seen = 0
        for chunk in self.chunks():
            for row in set(rows):
                if seen <= row < seen + len(chunk):
                    found[row] = chunk.rows(slice(row - seen, row - seen + 1))
            seen += len(chunk)
            if len(found) == len(set(rows)):
                break
        missing = [row for row in rows if row not in found]
        if missing or not rows:
            raise InputError(f"rows: got {missing or list(rows)}, expected positions from 0 to {seen - 1}")
        picked = [found[row] for row in rows]
        ids = tuple(name for chunk in picked for name in chunk.ids)
        return replace(picked[0], values=torch.cat([chunk.values for chunk in picked]), others=None, ids=ids)

    def _batches(self) -> Iterator[Any]:
        if isinstance(self.data, Split):
            yield from self.data.batches(self.max_batch)
        elif self.in_memory:
            for start in range(0, len(self.data), self.max_batch):
                part = slice(start, start + self.max_batch)
                labels = None if self.labels is None else self.labels[part]
                yield BatchInput(self.data[part], labels=labels) if self.batch is None else self.data[part]
        elif isinstance(self.data, (Dataset, IterableDataset)):
            yield from DataLoader(self.data, batch_size=self.max_batch)
        else:
            yield from self.data

    def _chunk(self, batch: Any, seen: int) -> Chunk:
        made = _understood(batch if self.batch is None else self.batch(batch))
        labels, inputs, key = made.labels, made.inputs, made.perturbed
        if self.labels is not None and labels is None:
            labels = self.labels[seen : seen + self.max_batch]
        others: dict[str | int, Any] | None = None
        if isinstance(inputs, (Mapping, tuple, list)):
            others = dict(inputs.items() if isinstance(inputs, Mapping) else enumerate(inputs))
            key = _perturbed(others) if key is None else key
            if key not in others:
                raise InputError(f"batch: perturbed={key!r} is not among {list(others)}")
            inputs = others.pop(key)
        values = self._arranged(as_values("data", inputs))
        ids = made.ids if self.ids is None else self.ids[seen : seen + len(values)]
        named = tuple(map(str, range(seen, seen + len(values)) if ids is None else ids))
        if len(named) != len(values):
            raise InputError(
                f"ids: {len(named) if self.ids is None else len(self.ids)} ids for more or fewer samples"
            )
        return Chunk(values, others, 0 if key is None else key, labels, named)

    def _arranged(self, values: torch.Tensor) -> torch.Tensor:
        if values.is_floating_point():
            return values.movedim(-1, 1).contiguous() if self.layout == "NHWC" and values.ndim > 2 else values
        if values.ndim > 2:
            raise InputError(
                f"data: got {values.dtype} values of shape {tuple(values.shape)}, expected floats; divide 8-bit "
                "images by 255"
            )
        return values.long()


def as_values(what: str, values: Any) -> torch.Tensor:
    """Bring the samples of a batch to a dense tensor on the CPU.

    Raises:
        InputError: no numbers, complex or sparse ones.
    """
    if not isinstance(values, torch.Tensor):
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            raise InputError(f"{what}: got values of type {array.dtype}, expected real numbers; {_WAY_OUT}")
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))
        with warnings.catch_warnings():  # an array that is only read may be read only
            warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
            values = torch.from_numpy(array)
    if values.is_complex() or values.is_sparse:
        raise InputError(f"{what}: got a {values.dtype} tensor ({values.layout}), expected real numbers, dense")
    return values.detach().cpu()


def _understood(batch: Any) -> BatchInput:
    if isinstance(batch, BatchInput):
        return batch
    if isinstance(batch, Batch):
        return BatchInput(batch.images, labels=batch.labels, ids=batch.ids)
    if isinstance(batch, (torch.Tensor, np.ndarray)):
        return BatchInput(batch)
    if isinstance(batch, Mapping):
        found = next((name for name in _LABELS if name in batch), None)
        rest = {name: value for name, value in batch.items() if name != found}
        return BatchInput(rest, labels=None if found is None else batch[found])
    if isinstance(batch, (tuple, list)) and len(batch) == 1:
        return _understood(batch[0])
    if isinstance(batch, (tuple, list)) and len(batch) == 2 and _like_labels(batch[1]):
        return replace(_understood(batch[0]), labels=batch[1])
    what = f"a {type(batch).__name__}" + (f" of {len(batch)}" if isinstance(batch, (tuple, list)) else "")
    raise DataError(f"data: a batch is {what}, expected a tensor, a pair (samples, labels) or a mapping; {_WAY_OUT}")


def _like_labels(values: Any) -> bool:
    try:
        array = np.asarray(values.detach().cpu() if isinstance(values, torch.Tensor) else values)
    except (TypeError, ValueError):
        return False
    return array.ndim <= 1 or (array.ndim == 2 and array.shape[1] == 1)


def _perturbed(inputs: Mapping[str | int, Any]) -> str | int:
    """Find which of the arguments is the sample: by its usual name, else the only one of real numbers."""
    named = [name for name in _PERTURBED if name in inputs]
    if named:
        return named[0]
    tensors = {name: value for name, value in inputs.items() if isinstance(value, (torch.Tensor, np.ndarray))}
    floating = [name for name, value in tensors.items() if as_values("data", value).is_floating_point()]
    found = floating if floating else list(tensors)
    if len(found) != 1:
        raise InputError(
            f"data: of the arguments {list(inputs)} it is not clear which is perturbed; return "
            "BatchInput(inputs, perturbed=NAME) from batch="
        )
    return found[0]
