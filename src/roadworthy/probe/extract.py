"""Features of a pretrained network, taken batch by batch into a file, and gone on with after an interruption.

What is done is kept in parts in a hidden folder beside the file, which is put together in one step at the end: an
HDF5 file that is being written does not survive a kill.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from roadworthy.errors import DataError, InputError, ModelError, listed
from roadworthy.files import replacing
from roadworthy.fingerprints import array_hash, callable_fingerprint, model_fingerprint
from roadworthy.labels import label_array
from roadworthy.probe.features import FEATURES, IDS, LABELS, NAMES, Features, read_features
from roadworthy.provenance import ids_hash
from roadworthy.types import Layout, Normalize, Output, Progress

if TYPE_CHECKING:
    import torch

    from roadworthy.labelfree.asking import FeatureTap

_STATE = "state.json"
_LOOKED_AT = 8  # samples whose values tell one data set from another


def extract_features(
    model: Callable[..., Any],
    data: Any,
    path: str | Path,
    *,
    features: str | Callable[..., Any] = "penultimate",
    labels: Any = None,
    classes: Sequence[str] = (),
    batch: Callable[[Any], Any] | None = None,
    normalize: Normalize | None = None,
    output: Output = None,
    layout: Layout = "NCHW",
    device: str | torch.device | None = None,
    max_batch: int = 256,
    per_part: int = 1024,
    progress: Progress | None = None,
) -> Features:
    """Write what a layer of a network holds of each sample into an HDF5 file; stopped, the same call goes on.

    The file holds ``features`` float32 (N, D), ``labels`` int64 (N,), ``label_names`` and ``ids``, and as attributes
    ``done`` (N) and ``key`` (JSON: the model and the samples). Memory holds one part. A file that is there already is
    returned if it was made from the same model and samples, else refused.

    Args:
        model: a module or callable that returns class scores (N, K); nothing of it is changed.
        data: a data set in two splits (training samples come first), a Split, an array (N, ...), a map-style Dataset,
            or a DataLoader in order.
        path: ends in ``.h5`` or ``.hdf5``.
        features: ``"penultimate"``, the name of a layer, or a callable on the samples, such as a headless network.
            Axes of space or time are averaged.
        labels: (N,) of an array; other data bring their own.
        classes: class names; those of the data set, or numbers, by default.
        batch: turns a batch into what the model takes; see :func:`roadworthy.labelfree.predict_outputs`.
        normalize: ``(mean, std)`` per channel, applied before the model.
        output: how to pick the class scores from what the model returns.
        layout: ``"NCHW"`` or ``"NHWC"``, of data and model.
        device: for a callable without parameters.
        max_batch: samples in one pass; does not change the result beyond rounding.
        per_part: samples that are kept together: so many are done again after a kill, at most.
        progress: called with the number of samples done; its ``begin(total, what)``, if it has one, comes first.

    Returns:
        The features, to be read from the file.

    Raises:
        InputError: data without labels, or that cannot be read so.
        DataError: the path holds something else, or features of another model or other samples.
        ModelError: the model has no such features.

    Example:
        >>> import tempfile, torch
        >>> net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found = extract_features(net, torch.rand(5, 3), folder + "/features.h5", labels=[0, 1, 1, 0, 1])
        >>> len(found), found.dimension, found.label_names
        (5, 8, ('0', '1'))
    """
    place = Path(path).expanduser()
    if place.suffix.lower() not in (".h5", ".hdf5"):
        raise InputError(f"{place}: expected a name that ends in .h5 or .hdf5")
    if isinstance(per_part, bool) or not isinstance(per_part, int) or per_part < 1:
        raise InputError(f"per_part: got {per_part!r}, expected an integer of at least 1")
    pieces, known = _pieces(data, labels)
    names = tuple(map(str, classes)) or known
    reading = {"batch": batch, "layout": layout, "max_batch": max_batch}
    asking = {"normalize": normalize, "output": output, "layout": layout, "device": device, "max_batch": max_batch}
    key = _key(model, features, pieces, reading, {"classes": names, "per_part": per_part, **asking})
    total = sum(piece.total for piece in pieces)
    if (begin := getattr(progress, "begin", None)) is not None:
        begin(total, "samples")
    if place.exists():
        _check_finished(place, key)
        if progress is not None:
            progress(total)
        return read_features(place)
    work = _Work(place, key)
    with _tapped(model, features, asking) as tap:
        for number, (piece, start, stop) in enumerate(_parts(pieces, per_part)):
            if not work.has(number):
                arrays = _asked(tap, piece, start, stop, reading)
                _check_labels(arrays[LABELS], names)
                work.keep(number, arrays)
            if progress is not None:
                progress(stop - start)
    work.finish(names)
    return read_features(place)


class _Piece(NamedTuple):
    """Samples that can be read from any position on.

    ``cut(start, stop)`` returns the arguments of a reader for these positions.
    """

    total: int
    cut: Callable[[int, int], dict[str, Any]]
    about: dict[str, Any]


def _pieces(data: Any, labels: Any) -> tuple[list[_Piece], tuple[str, ...]]:
    """Return what can be read, in order, and the class names that the data bring."""
    from torch.utils.data import DataLoader, Dataset, SequentialSampler

    from roadworthy.labelfree.reading import as_values
    from roadworthy.records import Data, Split

    if labels is not None and isinstance(data, (Data, Split, Dataset, DataLoader)):
        raise InputError("labels: a data set brings its own; pass labels=None, or the samples as an array")
    if isinstance(data, Data):
        return [_of_split(data.train), _of_split(data.test)], data.classes
    if isinstance(data, Split):
        return [_of_split(data)], ()
    if isinstance(data, DataLoader):
        if not isinstance(data.sampler, SequentialSampler):
            raise InputError("data: the DataLoader draws its own order, so it cannot be gone on with; shuffle=False")
        return [_of_dataset(data.dataset, batch_size=data.batch_size or 1, collate_fn=data.collate_fn)], ()
    if isinstance(data, Dataset):
        return [_of_dataset(data)], ()
    if not hasattr(data, "__array__") and not isinstance(data, (list, tuple)):
        raise InputError(
            f"data: got {type(data).__name__}, expected a data set, a Split, an array, a map-style Dataset or a "
            "DataLoader; an iterable of batches cannot be gone on with after an interruption"
        )
    values = as_values("data", data)
    if labels is None:
        raise InputError("labels: features are kept with the classes of the samples; pass labels=")
    return [_of_array(values, label_array(labels, len(values)))], ()


def _of_split(split: Any) -> _Piece:
    indices, source = split.indices, split.source
    if len(indices) == 0:
        raise InputError(f"data: the split {split.name!r} has no samples")
    about = {
        "n": len(indices),
        "ids": ids_hash(source.ids[int(index)] for index in indices),
        "labels": array_hash(np.asarray(source.labels)[indices]),
    }
    return _Piece(len(indices), lambda start, stop: {"data": split.reordered(indices[start:stop])}, about)


def _of_dataset(dataset: Any, **loading: Any) -> _Piece:
    from torch.utils.data import DataLoader, Subset

    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__") or len(dataset) == 0:
        raise InputError(
            f"data: got {type(dataset).__name__}, expected a Dataset with a length, at least 1, and items by position"
        )

    def cut(start: int, stop: int) -> dict[str, Any]:
        part: Any = Subset(dataset, range(start, stop))
        ids = [str(position) for position in range(start, stop)]
        return {"data": DataLoader(part, **loading) if loading else part, "ids": ids}

    return _Piece(len(dataset), cut, {"n": len(dataset), "type": type(dataset).__qualname__})


def _of_array(values: Any, labels: np.ndarray) -> _Piece:
    def cut(start: int, stop: int) -> dict[str, Any]:
        ids = [str(position) for position in range(start, stop)]
        return {"data": values[start:stop], "labels": labels[start:stop], "ids": ids}

    return _Piece(len(values), cut, {"n": len(values), "labels": array_hash(labels)})


def _parts(pieces: Sequence[_Piece], size: int) -> Iterator[tuple[_Piece, int, int]]:
    for piece in pieces:
        for start in range(0, piece.total, size):
            yield piece, start, min(piece.total, start + size)


def _key(
    model: Any, features: Any, pieces: Sequence[_Piece], reading: dict[str, Any], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return what the features follow from, as JSON types."""

    def told(value: Any) -> Any:
        return callable_fingerprint(value) if callable(value) else value

    normalize = settings["normalize"]
    return json.loads(
        json.dumps(
            {
                "model": model_fingerprint(model),
                "layer": told(features),
                "samples": [{**piece.about, "values": _values_hash(piece, reading)} for piece in pieces],
                "batch": told(reading["batch"]),
                "classes": ids_hash(settings["classes"]),  # an attribute holds 64 KiB
                "normalize": normalize and [list(map(float, part)) for part in normalize],
                "output": told(settings["output"]),
                "layout": settings["layout"],
                "per_part": settings["per_part"],
            }
        )
    )


def _values_hash(piece: _Piece, reading: dict[str, Any]) -> list[str]:
    """Hash a few samples spread over a piece; one that cannot be read says so too."""
    from roadworthy.labelfree.reading import Reader

    found = []
    for position in np.unique(np.linspace(0, piece.total - 1, _LOOKED_AT).round().astype(int)).tolist():
        try:
            chunk = next(Reader(**piece.cut(position, position + 1), **reading).chunks())
            found.append(array_hash(chunk.values.numpy()))
        except InputError:
            if not _none_readable(piece, position, position + 1):
                raise
            found.append("cannot be read")
    return found


@contextlib.contextmanager
def _tapped(model: Callable[..., Any], features: Any, asking: dict[str, Any]) -> Iterator[FeatureTap]:
    from roadworthy.forward import untouched
    from roadworthy.labelfree.asking import Asker, FeatureTap
    from roadworthy.rng import seeded_globals

    tap = FeatureTap(Asker(model, **asking), features)
    with seeded_globals(0, "features"), untouched(model):
        yield tap


def _asked(tap: FeatureTap, piece: _Piece, start: int, stop: int, reading: dict[str, Any]) -> dict[str, np.ndarray]:
    """Ask the model about the samples of one part."""
    from roadworthy.labelfree.reading import Reader

    rows, labels = [np.empty((0, 0), np.float32)], [np.empty(0, np.int64)]
    ids: list[str] = []
    chunks = Reader(**piece.cut(start, stop), **reading).chunks()
    try:
        for chunk in chunks:
            if chunk.labels is None:
                raise InputError("data: features are kept with the classes of the samples, and a batch has none")
            _, found = tap.logits(chunk)
            if found is None:
                raise ModelError(f"features: {tap.note}" if tap.note else "features: the model gave none")
            bad = np.flatnonzero(~np.isfinite(found).all(axis=1))
            if len(bad):
                raise ModelError(
                    f"features: of samples {listed([chunk.ids[row] for row in bad])} some are not finite; leave "
                    "them out, or name another layer"
                )
            rows.append(found.astype(np.float32))
            labels.append(label_array(chunk.labels, len(chunk)))
            ids += chunk.ids
    except InputError:
        if ids or not _none_readable(piece, start, stop):
            raise
    return {
        FEATURES: np.concatenate(rows[1:]) if ids else rows[0],
        LABELS: np.concatenate(labels),
        IDS: np.array(ids, dtype=np.str_),
    }


def _check_labels(labels: np.ndarray, names: Sequence[str]) -> None:
    if len(labels) and (labels.min() < 0 or (names and labels.max() >= len(names))):
        most = f"0 to {len(names) - 1} for {len(names)} classes" if names else "numbers from 0 on"
        raise InputError(
            f"labels: go from {labels.min()} to {labels.max()}, expected {most}; leave out samples without a class, "
            "or pass classes="
        )


def _none_readable(piece: _Piece, start: int, stop: int) -> bool:
    """Whether all samples of a part of a split are broken; the part is then empty."""
    from roadworthy.records import Split

    part = piece.cut(start, stop)["data"]
    return isinstance(part, Split) and len(part) == 0


def _check_finished(place: Path, key: dict[str, Any]) -> None:
    """Refuse a file that does not hold these features."""
    import h5py

    try:
        with h5py.File(place, "r") as file:
            held = json.loads(file.attrs["key"])
    except (OSError, KeyError, ValueError, TypeError) as error:
        raise DataError(f"{place}: holds something else already; choose another path, or delete it") from error
    _refuse_other(place, held, key)


def _refuse_other(place: Path, held: Any, key: dict[str, Any]) -> None:
    different = [name for name in key if not isinstance(held, dict) or held.get(name) != key[name]]
    if different:
        raise DataError(
            f"{place}: holds features of another origin, which differ in {', '.join(different)}; choose another "
            "path, or delete it"
        )


class _Work:
    """An extraction under way, in a hidden folder beside its file."""

    def __init__(self, path: Path, key: dict[str, Any]) -> None:
        self.path, self.key = path, key
        self.folder = path.with_name(f".{path.name}.partial")
        self.parts = 0
        self._begun = any(self.folder.glob("part-*.npz"))
        if self._begun:
            state = self.folder / _STATE
            try:
                held = json.loads(state.read_text(encoding="utf8"))
            except (OSError, ValueError) as error:
                raise DataError(f"{state}: cannot be read: {error}; delete this folder to begin anew") from error
            _refuse_other(self.folder, held, key)

    def _part(self, number: int) -> Path:
        return self.folder / f"part-{number:06d}.npz"

    def has(self, number: int) -> bool:
        """Whether a part is done; parts are asked for in order."""
        self.parts = number + 1
        return self._part(number).exists()

    def keep(self, number: int, arrays: dict[str, Any]) -> None:
        """Write a part whole, and before the first what all parts follow from."""
        if not self._begun:
            with replacing(self.folder / _STATE) as beside:
                beside.write_text(json.dumps(self.key), encoding="utf8")
            self._begun = True
        with replacing(self._part(number)) as beside:
            np.savez(beside, **arrays)

    def _held(self, name: str) -> Iterator[np.ndarray]:
        for number in range(self.parts):
            try:
                with np.load(self._part(number), allow_pickle=False) as held:
                    values = held[name]
            except (OSError, ValueError, KeyError, zipfile.BadZipFile, EOFError) as error:
                raise DataError(f"{self._part(number)}: cannot be read ({error}); delete it and go on") from error
            if len(values):
                yield values

    def finish(self, names: tuple[str, ...]) -> None:
        """Put the parts together and take the folder away."""
        import h5py

        labels = np.concatenate([np.empty(0, np.int64), *self._held(LABELS)])
        if not len(labels):
            raise DataError(f"{self.path}: no sample could be read, so there are no features")
        names = names or tuple(map(str, range(int(labels.max()) + 1)))
        ids = [name for part in self._held(IDS) for name in part.tolist()]
        with replacing(self.path) as beside, h5py.File(beside, "w") as file:
            self._join(file, len(labels))
            file[LABELS] = labels
            file.create_dataset(NAMES, data=list(names), dtype=h5py.string_dtype())
            file.create_dataset(IDS, data=ids, dtype=h5py.string_dtype())
            file.attrs["done"] = len(labels)
            file.attrs["key"] = json.dumps(self.key)
        shutil.rmtree(self.folder)

    def _join(self, file: Any, n: int) -> None:
        dataset, at = None, 0
        for values in self._held(FEATURES):
            if dataset is None:
                dataset = file.create_dataset(FEATURES, (n, values.shape[1]), np.float32)
            elif values.shape[1] != dataset.shape[1]:
                raise DataError(
                    f"features: samples have {dataset.shape[1]} and {values.shape[1]} values; name a layer, or pass "
                    "a callable, that holds as many of each sample"
                )
            dataset[at : at + len(values)] = values
            at += len(values)
