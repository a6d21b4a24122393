"""What a classifier says of a set of samples, as arrays: all that label-free evaluation needs of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from roadworthy.errors import InputError, listed

_ROUNDING = 1e-3  # rows of float16 probabilities add up to 1 within this
_LARGEST = 1e18  # of features: their squares must fit into float32
_MOST_OFF = 0.05  # however many classes: beyond, a row is no set of probabilities


@dataclass(frozen=True, eq=False)
class Outputs:
    """Probabilities of a classifier on N samples, with what else is known of them. Make one with :meth:`of`.

    Attributes:
        probabilities: float64 (N, C); every row adds up to 1.
        features: float32 (N, D), or None. What a layer of the network holds, or features of any other origin.
        labels: int64 (N,), true classes, or None.
        second: float64 (N, C), probabilities of a second model of the same kind on the same samples, or None.
        energy: float64 (N,), minus the log of the summed exponentials of the logits, or None where those were not
            known; high where the network answers little to anything (Liu et al. 2020).
        ids: N names of the samples.
        classes: C class names.
    """

    probabilities: np.ndarray
    features: np.ndarray | None = None
    labels: np.ndarray | None = None
    second: np.ndarray | None = None
    energy: np.ndarray | None = None
    ids: tuple[str, ...] = field(default=(), repr=False)
    classes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def class_count(self) -> int:
        """Number of classes that the model knows, whether or not they occur."""
        return int(self.probabilities.shape[1])

    @cached_property
    def predicted(self) -> np.ndarray:
        """Class of largest probability, int64 (N,); the first of equals."""
        return self.probabilities.argmax(axis=1).astype(np.int64)

    @cached_property
    def confidence(self) -> np.ndarray:
        """Largest probability, float64 (N,)."""
        return self.probabilities.max(axis=1)

    @property
    def correct(self) -> np.ndarray:
        """Whether the predicted class is the true one, bool (N,).

        Raises:
            InputError: labels are not known.
        """
        return np.asarray(self.predicted == self.known_labels("whether predictions are correct"))

    @property
    def accuracy(self) -> float:
        """Share of correct predictions; NaN of no samples."""
        return float(self.correct.mean()) if len(self) else float("nan")

    def known_labels(self, what_for: str) -> np.ndarray:
        """Return the labels, or say what needs them.

        Raises:
            InputError: labels are not known.
        """
        if self.labels is None:
            raise InputError(f"labels: {what_for} needs the true classes of these samples; pass labels=")
        return self.labels

    def known_features(self, what_for: str) -> np.ndarray:
        """Return the features, or say what needs them.

        Raises:
            InputError: features are not known.
        """
        if self.features is None:
            raise InputError(
                f"features: {what_for} needs a feature vector of each sample; pass features= (N, D), or a torch "
                "module, whose last hidden layer is taken"
            )
        return self.features

    def take(self, rows: ArrayLike) -> Outputs:
        """Return the samples at these positions (integers, or a mask), in this order; a position may repeat."""
        chosen = np.asarray(rows)
        if chosen.dtype == bool and chosen.shape != (len(self),):
            raise InputError(f"rows: got a mask of shape {chosen.shape}, expected ({len(self)},)")
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen.astype(np.int64)
        parts: dict[str, Any] = {
            name: None if getattr(self, name) is None else getattr(self, name)[chosen]
            for name in ("probabilities", "features", "labels", "second", "energy")
        }
        return replace(self, ids=tuple(self.ids[row] for row in chosen), **parts)

    @staticmethod
    def of(
        probabilities: ArrayLike | None = None,
        *,
        logits: ArrayLike | None = None,
        features: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        second: ArrayLike | None = None,
        energy: ArrayLike | None = None,
        ids: Sequence[Any] | None = None,
        classes: Sequence[str] = (),
    ) -> Outputs:
        """Check arrays and bring them to one form.

        Args:
            probabilities: (N, C) in [0, 1], rows adding up to 1; or (N,) or (N, 1), the probability of the second
                of two classes.
            logits: (N, C) instead of probabilities; softmax is taken.
            features: (N, D) finite; more axes are flattened.
            labels: (N,) integers in [0, C).
            second: (N, C) or as ``probabilities``, of a second model.
            energy: (N,) of the logits; worked out where ``logits`` are given.
            ids: N unique names, none empty; positions by default.
            classes: C class names; ``"0"``, ``"1"``, ... by default.

        Returns:
            The outputs; arrays given are copied, never changed.

        Raises:
            InputError: shapes that do not fit, values that are not finite, probabilities outside [0, 1] or that do
                not add up to 1, labels out of range, or names that repeat or are empty.

        Example:
            >>> said = Outputs.of([0.2, 0.9, 0.6], labels=[0, 1, 0])
            >>> said.predicted.tolist(), round(said.accuracy, 2)
            ([0, 1, 1], 0.67)
        """
        if (probabilities is None) == (logits is None):
            raise InputError("probabilities: give either probabilities or logits, one of the two")
        table = _softmax(logits) if probabilities is None else _probabilities("probabilities", probabilities)
        n, count = table.shape
        names = _names("classes", classes) or tuple(map(str, range(count)))
        if len(names) != count:
            raise InputError(f"classes: got {len(names)} names, the probabilities have {count} classes")
        known = tuple(map(str, range(n))) if ids is None else _names("ids", ids)
        if "" in known:
            raise InputError(f"ids: sample {known.index('')} has an empty name; give each a name of its own")
        if len(known) != n or len(set(known)) != n:
            raise InputError(f"ids: got {len(known)} ({len(set(known))} of them different) for {n} samples")
        other = None if second is None else _probabilities("second", second)
        if other is not None and other.shape != table.shape:
            raise InputError(f"second: got shape {other.shape}, expected that of probabilities, {table.shape}")
        if energy is None and logits is not None:
            energy = energy_of(_table("logits", logits))
        return Outputs(
            table, _features(features, n), _labels(labels, n, count), other, _energy(energy, n), known, names
        )


def _names(what: str, values: Any) -> tuple[str, ...]:
    try:
        return tuple(map(str, values))
    except TypeError as error:
        raise InputError(f"{what}: got {values!r}, expected a list of names") from error


def energy_of(logits: np.ndarray) -> np.ndarray:
    """Return minus the log of the summed exponentials of logits (N, C), float64 (N,).

    Example:
        >>> energy_of(np.zeros((1, 4))).round(3).tolist()
        [-1.386]
    """
    most = logits.max(axis=1)
    return np.asarray(-(most + np.log(np.exp(logits - most[:, None]).sum(axis=1))))


def _energy(values: ArrayLike | None, n: int) -> np.ndarray | None:
    if values is None:
        return None
    table = _table("energy", values)
    if table.shape != (n,):
        raise InputError(f"energy: got shape {table.shape}, expected ({n},)")
    return table


def _softmax(logits: ArrayLike | None) -> np.ndarray:
    scores = _table("logits", logits)
    if scores.ndim != 2 or scores.shape[1] < 2:
        raise InputError(f"logits: got shape {scores.shape}, expected (N, classes) with at least two classes")
    shifted = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _probabilities(what: str, values: ArrayLike) -> np.ndarray:
    table = _table(what, values)
    if table.ndim == 1 or (table.ndim == 2 and table.shape[1] == 1):
        positive = table.reshape(-1)
        table = np.stack([1 - positive, positive], axis=1)
    if table.ndim != 2:
        raise InputError(f"{what}: got shape {table.shape}, expected (N, classes), or (N,) for two classes")
    outside = np.flatnonzero((table < -_ROUNDING).any(axis=1) | (table > 1 + _ROUNDING).any(axis=1))
    if outside.size:
        raise InputError(
            f"{what}: rows {listed(outside.tolist())} have values outside [0, 1]; if these are scores before the "
            "softmax, pass them as logits="
        )
    sums = table.sum(axis=1)
    off = np.flatnonzero(np.abs(sums - 1) > min(_ROUNDING * table.shape[1], _MOST_OFF))
    if off.size:
        raise InputError(
            f"{what}: rows {listed(off.tolist())} do not add up to 1 (the first: {sums[off[0]]:.4g}); a classifier "
            "with several labels a sample is judged label by label, each as (N,)"
        )
    np.clip(table, 0, None, out=table)  # a copy of the caller's
    table /= table.sum(axis=1, keepdims=True)
    return table


def _table(what: str, values: Any) -> np.ndarray:
    if hasattr(values, "detach"):
        held = values.detach().cpu()
        values = (held.double() if held.is_floating_point() else held).numpy()  # NumPy has no bfloat16
    try:
        if np.iscomplexobj(values) or np.ma.is_masked(values):
            raise TypeError("complex or masked values")
        table = np.array(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{what}: got {type(values).__name__} that is no array of numbers ({error})") from error
    if table.ndim == 0:
        raise InputError(f"{what}: got a single number, expected one row a sample")
    bad = np.flatnonzero(~np.isfinite(table).all(axis=tuple(range(1, table.ndim))))
    if bad.size:
        raise InputError(f"{what}: rows {listed(bad.tolist())} have values that are not finite; leave them out")
    return table


def _features(values: ArrayLike | None, n: int) -> np.ndarray | None:
    if values is None:
        return None
    table = _table("features", values)
    if len(table) != n:
        raise InputError(f"features: got {len(table)} rows for {n} samples")
    table = table.reshape(n, int(np.prod(table.shape[1:])))
    if table.shape[1] == 0:
        raise InputError(f"features: got shape {table.shape}, expected at least one value a sample; or pass None")
    large = np.flatnonzero((np.abs(table) > _LARGEST).any(axis=1))
    if large.size:
        raise InputError(
            f"features: rows {listed(large.tolist())} have values beyond {_LARGEST:.2g}; scale them down"
        )
    return table.astype(np.float32)


def _labels(values: ArrayLike | None, n: int, count: int) -> np.ndarray | None:
    if values is None:
        return None
    table = _table("labels", values)
    if table.ndim == 2 and table.shape[1] == 1:
        table = table[:, 0]
    if table.shape != (n,):
        raise InputError(f"labels: got shape {table.shape}, expected ({n},)")
    whole = table.astype(np.int64)
    bad = np.flatnonzero((whole != table) | (whole < 0) | (whole >= count))
    if bad.size:
        raise InputError(
            f"labels: rows {listed(bad.tolist())} hold {listed(sorted(set(table[bad].tolist())))}, expected whole "
            f"numbers from 0 to {count - 1}; classes are counted from 0"
        )
    return whole
