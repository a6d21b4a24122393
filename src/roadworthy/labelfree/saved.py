"""Outputs in files: what another program saved is enough, no model is needed."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import DataError, InputError, listed, unknown_name
from roadworthy.files import replacing
from roadworthy.labelfree.outputs import Outputs

if TYPE_CHECKING:
    import pandas as pd

ARRAYS = ("probabilities", "logits", "features", "labels", "second", "energy", "ids", "classes")
PROBABILITY, FEATURE, SECOND = "p_", "f_", "q_"
_GAPS = ["", "NA", "NaN", "nan", "null", "None"]  # in columns of numbers
_ENDINGS = (".npz", ".csv", ".parquet", ".h5", ".hdf5")


def read_outputs(path: str | Path) -> Outputs:
    """Read what a classifier said of samples, from a file.

    Args:
        path: ``.npz`` or HDF5 (``.h5``, ``.hdf5``) with arrays ``probabilities`` (N, C) or ``logits`` (N, C), and
            where known ``features`` (N, D), ``labels`` (N,), ``second`` (N, C),
            ``energy`` (N,), ``ids`` (N,), ``classes`` (C,); or
            ``.csv`` or ``.parquet`` with a row a sample and columns ``p_CLASS`` (one a class), ``f_NAME``
            (features), ``q_CLASS`` (second model), ``label`` (a class name, or its number) and ``id``.

    Returns:
        The checked outputs.

    Raises:
        DataError: no such file, a file that cannot be read, or one that holds no probabilities.
        InputError: an ending that is not known, or arrays that :meth:`Outputs.of` refuses.

    Example:
        >>> read_outputs("target.npz").class_count  # doctest: +SKIP
        10
    """
    place = Path(path).expanduser()
    ending = place.suffix.lower()
    if ending not in _ENDINGS:
        raise InputError(f"{place}: expected a file that ends in {', '.join(_ENDINGS)}")
    if not place.is_file():
        raise DataError(f"{place}: {'not a file' if place.exists() else 'no such file'}")
    try:
        if ending in (".csv", ".parquet"):
            found = _columns(place, _frame(place, ending))
        else:
            found = _arrays(place, ending)
    except (OSError, zipfile.BadZipFile, EOFError, MemoryError) as error:
        raise DataError(f"{place}: cannot be read as {ending} ({error})") from error
    if "probabilities" not in found and "logits" not in found:
        expected = "columns p_CLASS" if ending in (".csv", ".parquet") else "arrays 'probabilities' or 'logits'"
        raise DataError(f"{place}: holds {listed(_names(place, ending)) or 'nothing'}; expected {expected}")
    if "probabilities" in found:
        found.pop("logits", None)
    try:
        return Outputs.of(**found)
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def write_outputs(outputs: Outputs, path: str | Path) -> Path:
    """Write outputs into a ``.npz`` file that :func:`read_outputs` reads; an earlier file is replaced in one step.

    Raises:
        InputError: the path does not end in ``.npz``.
    """
    place = Path(path).expanduser()
    if place.suffix.lower() != ".npz":
        raise InputError(f"{place}: outputs are written as .npz; name such a file")
    held = {name: getattr(outputs, name) for name in ("probabilities", "features", "labels", "second", "energy")}
    held |= {name: np.array(getattr(outputs, name), dtype=np.str_) for name in ("ids", "classes")}
    place.parent.mkdir(parents=True, exist_ok=True)
    with replacing(place) as beside, open(beside, "wb") as file:
        np.savez_compressed(file, **{name: value for name, value in held.items() if value is not None})
    return place


def _names(place: Path, ending: str) -> list[str]:
    """Return what a file holds, for a message."""
    if ending in (".csv", ".parquet"):
        return [str(column) for column in _frame(place, ending).columns]
    if ending == ".npz":
        with np.load(place, allow_pickle=False) as held:
            return list(held.files)
    import h5py

    with h5py.File(place, "r") as file:
        return list(file)


def _arrays(place: Path, ending: str) -> dict[str, Any]:
    if ending == ".npz":
        if not zipfile.is_zipfile(place):
            raise zipfile.BadZipFile("it is no archive of arrays")
        try:
            with np.load(place, allow_pickle=False) as held:
                return {name: _text(held[name]) for name in held.files if name in ARRAYS}
        except ValueError as error:  # an array of Python objects, or no archive
            raise DataError(
                f"{place}: cannot be read without running code in it ({error}); save plain arrays"
            ) from error
    import h5py

    with h5py.File(place, "r") as file:
        found: dict[str, Any] = {}
        for name in ARRAYS:
            held = file.get(name)
            if isinstance(held, h5py.Dataset):
                if held.external:  # raw bytes of any file on this machine
                    raise DataError(f"{place}: its {name} lie in another file, which is not opened; save them in it")
                text = h5py.check_string_dtype(held.dtype) is not None
                try:
                    found[name] = held.asstr()[...] if text else held[...]
                except ValueError as error:
                    raise DataError(f"{place}: its {name} cannot be read ({error})") from error
        return found


def _text(values: np.ndarray) -> np.ndarray:
    """Return byte strings as text, all else as it is."""
    return np.char.decode(values, "utf8") if values.dtype.kind == "S" else values


def _frame(place: Path, ending: str) -> pd.DataFrame:
    import pandas as pd

    try:
        if ending == ".parquet":
            return pd.read_parquet(place)
        form: dict[str, Any] = {"index_col": False, "skipinitialspace": True}
        columns = pd.read_csv(place, nrows=0, **form).columns
        as_text = {"id": str, "label": str}  # where NA and 007 are names
        gaps = {name: [] if name.strip() in as_text else _GAPS for name in columns}
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the head would be cut
            return pd.read_csv(place, dtype=as_text, keep_default_na=False, na_values=gaps, **form)
    except (ValueError, pd.errors.ParserWarning) as error:
        raise DataError(f"{place}: cannot be read as {ending} ({error})") from error


def _columns(place: Path, frame: pd.DataFrame) -> dict[str, Any]:
    found: dict[str, Any] = {}
    names = [str(column).strip() for column in frame.columns]
    frame = frame.set_axis(names, axis=1)
    for prefix, what in ((PROBABILITY, "probabilities"), (FEATURE, "features"), (SECOND, "second")):
        chosen = [name for name in names if name.startswith(prefix)]
        if chosen:
            try:
                found[what] = frame[chosen].to_numpy(dtype=np.float64, na_value=np.nan)
            except (TypeError, ValueError) as error:
                raise DataError(f"{place}: columns {prefix}... hold what is no number ({error})") from error
    classes = [name.removeprefix(PROBABILITY) for name in names if name.startswith(PROBABILITY)]
    if len(classes) > 1:
        found["classes"] = classes
    if "id" in names:
        found["ids"] = frame["id"].astype(str).tolist()
    if "label" in names:
        found["labels"] = _label_numbers(place, frame["label"], classes)
    return found


def _label_numbers(place: Path, column: pd.Series, classes: list[str]) -> np.ndarray | None:
    """Labels by class name, or by number; an empty column stands for no labels."""
    words = column.astype(str).str.strip()
    empty = column.isna() | (words == "")
    if empty.all():
        return None
    if empty.any():
        raise DataError(f"{place}: {int(empty.sum())} of {len(column)} labels are empty; fill them, or drop all")
    if len(classes) > 1:
        for told in (words, words.str.replace(r"\.0+$", "", regex=True)):  # a spreadsheet writes 1 as 1.0
            if told.isin(classes).all():
                return told.map({name: row for row, name in enumerate(classes)}).to_numpy(dtype=np.int64)
    truth = words.str.lower()
    if truth.isin(["true", "false"]).all():
        return np.asarray(truth == "true", dtype=np.int64)
    odd = [word for word in words if word not in classes]
    try:
        if len(classes) > 1 and all(name.isdigit() for name in classes):  # numbers are names here, not positions
            raise ValueError(odd)
        return words.to_numpy(dtype=np.float64)
    except ValueError:
        raise DataError(f"{place}: {unknown_name('class', odd[0], classes)}") from None
