"""Class labels and ids of samples in whatever form a user has them, brought to one or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import InputError, listed

if TYPE_CHECKING:
    import torch

_LARGEST = 2**53  # beyond it floats hold only some whole numbers


def as_labels(labels: Any, n: int | None = None, what: str = "labels") -> torch.Tensor:
    """Bring labels to an int64 tensor (N,) on the CPU; see :func:`label_array`, which it wraps.

    Example:
        >>> as_labels([[1], [2]], 2)
        tensor([1, 2])
    """
    import torch

    return torch.from_numpy(label_array(labels, n, what))


def label_array(labels: Any, n: int | None = None, what: str = "labels") -> np.ndarray:
    """Bring labels to an int64 array (N,), without torch where none is involved.

    Args:
        labels: list, array or tensor (N,) or (N, 1) of any integer type, or of floats that are whole numbers.
        n: how many there must be; None takes any number.
        what: the argument's name, for messages.

    Returns:
        A new array.

    Raises:
        InputError: booleans, text or other objects, values that are not whole numbers, another shape or length.

    Example:
        >>> label_array(np.array([3.0, 0.0], np.float32)).tolist()
        [3, 0]
    """
    values = _plain(labels, what)
    if values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    if values.ndim != 1 or (n is not None and len(values) != n):
        expected = "(N,)" if n is None else f"({n},)"
        hint = _of_rows(values) if values.ndim == 2 else ""
        raise InputError(f"{what}: got shape {values.shape}, expected one class per sample, {expected}{hint}")
    if values.size and values.dtype.kind not in "iuf":
        kind = {"b": "booleans", "U": "text", "S": "text"}.get(values.dtype.kind, f"values of type {values.dtype}")
        raise InputError(
            f"{what}: got {kind} ({listed(values.tolist(), 3)}), expected whole numbers that count the classes from 0"
            + (
                "; [classes.index(name) for name in ...] does, with classes in the model's order"
                if kind == "text"
                else ""
            )
        )
    whole = np.ones(len(values), bool)
    if values.dtype.kind == "f":
        values = values.astype(np.float64)  # float16 cannot be compared with the bound
        whole = np.isfinite(values) & (values == np.round(values)) & (np.abs(values) <= _LARGEST)
    elif values.dtype.kind == "u":
        whole = values <= np.iinfo(np.int64).max
    if not whole.all():
        raise InputError(f"{what}: got {listed(values[~whole].tolist(), 3)}, expected whole numbers")
    return values.astype(np.int64)


def _of_rows(values: np.ndarray) -> str:
    one = values.dtype.kind in "biuf" and bool(((values != 0).sum(axis=1) == 1).all())
    if one or values.dtype.kind not in "biuf":
        return "; of one-hot labels take their argmax(1)"
    return "; of one-hot labels take their argmax(1), of several labels a sample choose one"


def _plain(labels: Any, what: str) -> np.ndarray:
    if hasattr(labels, "detach"):
        labels = labels.detach().cpu()
        if labels.is_floating_point():  # NumPy has no bfloat16
            labels = labels.double()
    try:
        return np.asarray(labels)
    except (ValueError, TypeError) as error:  # rows of different lengths
        raise InputError(f"{what}: got a {type(labels).__name__} that is no array of classes: {error}") from error


def check_ids_are_text(ids: Sequence[str]) -> None:
    """Refuse ids that can be neither hashed nor written, such as names of files that are no UTF-8.

    Raises:
        InputError: naming the first, and the way out.

    Example:
        >>> check_ids_are_text(["a", "ü"])
    """
    try:
        "".join(ids).encode()
    except UnicodeEncodeError as error:
        found = next(name for name in ids if any("\ud800" <= letter <= "\udfff" for letter in name))
        raise InputError(
            f"ids: {found!r} holds bytes that are no text; of the name of a file, pass "
            'os.fsencode(name).decode("utf8", "backslashreplace")'
        ) from error
