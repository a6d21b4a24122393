"""``convert``: a data set from one format to another, streamed, and gone on with after an interruption.

Everything is written into a hidden folder beside the destination, which takes its place when it is complete; so what
stands at the destination is never half a data set. The state of the work is a small file in that folder.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from roadworthy.data.load import load_data
from roadworthy.data.pixels import as_bytes, to_png
from roadworthy.data.writers import FolderWriter, Hdf5Writer, ParquetWriter, Part, Row, TfrecordWriter, Writer
from roadworthy.errors import DataError, InputError, RoadworthyWarning, unknown_name
from roadworthy.files import replacing
from roadworthy.provenance import ids_hash
from roadworthy.records import Data, Split
from roadworthy.types import Progress, Seed

FORMATS = ("folder", "parquet", "hdf5", "tfrecord")
_STATE = ".roadworthy-convert.json"


@dataclass(frozen=True)
class Converted:
    """What a conversion did.

    Attributes:
        spec: the specification that :func:`load_data` opens the result with.
        counts: samples in each split.
        written: parts written by this call.
        kept: parts that an earlier call had finished.
        left_out: samples that could not be read, id and cause.
        rounded: samples whose values image files do not hold exactly.
    """

    spec: str
    counts: dict[str, int]
    written: int
    kept: int
    left_out: list[str] = field(default_factory=list)
    rounded: int = 0


def convert(
    source: str,
    destination: str,
    *,
    size: int | Sequence[int] | None = None,
    channels: int | None = None,
    seed: Seed = 0,
    test_share: float = 0.2,
    per_part: int = 1024,
    label_offset: int = 0,
    progress: Progress | None = None,
) -> Converted:
    """Write a data set in another format; stopped at any moment, the same call goes on.

    Splits, labels, class names and ids are kept. Between folders, Parquet and TFRecord the bytes of image files are
    copied as they are, unless ``size`` or ``channels`` ask for others; images that are no files become PNG. HDF5
    holds pixels: uint8 where that keeps every value, else float32. Memory holds one part at most.

    Args:
        source: what :func:`load_data` opens.
        destination: ``folder:PATH``, ``parquet:PATH``, ``hdf5:PATH`` or ``tfrecord:PATH``; PATH is a folder, for
            HDF5 a file, and must not hold anything else.
        size: bring images to (height, width), see :func:`load_data`.
        channels: 1, 3 or 4, see :func:`load_data`.
        seed: decides the split of a source that has none.
        test_share: share of the test split of a source that has none.
        per_part: samples in a part: a shard, a Parquet file, or what is kept of an interrupted run.
        label_offset: for TFRecord, the label of the first class: 0, or 1 as ImageNet's converters write. It is stated
            in ``classes.json`` beside the shards.
        progress: called with the number of samples just finished; its ``begin(total, what)``, if it has one, with
            how many there are.

    Returns:
        :class:`Converted`.

    Raises:
        InputError: arguments that cannot be used.
        DataError: the source cannot be read, or the destination holds something else.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/digits.h5"
        >>> done = convert("digits", f"hdf5:{path}")
        >>> done.counts, load_data(done.spec).test.ids[:2] == load_data("digits").test.ids[:2]
        ({'train': 1438, 'test': 359}, True)
    """
    kind, path = destination_of(destination)
    if not isinstance(per_part, int) or per_part < 1:
        raise InputError(f"per_part: got {per_part!r}, expected an integer of at least 1")
    if label_offset not in (0, 1):
        raise InputError(f"label_offset: got {label_offset!r}, expected 0 or 1")
    if label_offset and kind != "tfrecord":
        raise InputError(f"label_offset: labels of {kind} count from 0; it is for tfrecord alone")
    data = load_data(source, size=size, channels=channels, seed=seed, test_share=test_share)
    settings = {"size": size, "channels": channels, "per_part": per_part, "label_offset": label_offset}
    spec = f"{kind}:{path}"
    if (begin := getattr(progress, "begin", None)) is not None:
        begin(len(data.train) + len(data.test), "samples")
    key = _key(data, kind, settings)
    receipt = _receipt(path)
    if receipt is not None and _differences(receipt["key"], key) == ["files"]:
        raise DataError(f"{path}: was made from this source, which has changed since; delete it or name another")
    if receipt is not None and receipt["key"] == key:
        if progress is not None:
            progress(len(data.train) + len(data.test))
        return _summary(spec, receipt, written=0)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise DataError(f"{path}: holds something else already; choose another path, or delete it")
    work = _Work(path, kind, data, key, label_offset=label_offset, copies=size is None and channels is None)
    written = work.run(per_part, progress)
    return _summary(spec, work.finish(), written=written)


def destination_of(destination: str) -> tuple[str, Path]:
    """Split what a user names as destination into format and path.

    Raises:
        InputError: a format that cannot be written, or no path.
    """
    kind, _, place = destination.partition(":") if isinstance(destination, str) else ("", "", "")
    if kind not in FORMATS:
        kinds = {".h5": "hdf5", ".hdf5": "hdf5", ".parquet": "parquet", ".tfrecord": "tfrecord"}
        meant = kinds.get(Path(kind).suffix.lower())
        raise unknown_name("format to convert to", kind or destination, FORMATS, meant and f"{meant}:{destination}")
    if not place:
        raise InputError(f"destination: {kind!r} needs a path behind the colon: '{kind}:PATH'")
    return kind, Path(place).expanduser()


def _key(data: Data, kind: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Return what the result follows from, as JSON types."""
    splits = {
        split.name: {
            "n": len(split.indices),
            "ids": ids_hash(split.ids),
            "labels": hashlib.blake2b(split.labels.numpy().tobytes(), digest_size=8).hexdigest(),
        }
        for split in (data.train, data.test)
    }
    about = {"source": data.name, "files": _stamp(data), "format": kind, "splits": splits}
    made = {**about, "classes": list(data.classes), **settings}
    found: dict[str, Any] = json.loads(json.dumps(made))
    return found


def _stamp(data: Data) -> str | None:
    """Hash sizes and times of the files that the samples are read from; None where they lie in none of their own."""
    digest = hashlib.blake2b(digest_size=8)
    for split in (data.train, data.test):
        source: Any = split.source
        if not hasattr(source, "paths"):
            return None
        for path in source.paths():
            try:
                info = os.stat(path)
                digest.update(f"{info.st_size} {info.st_mtime_ns}\n".encode())
            except OSError:  # the sample is left out, and told, when it is read
                digest.update(b"none\n")
    return digest.hexdigest()


def _differences(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    return [name for name in now if before.get(name) != now[name]]


class _Work:
    """A conversion under way, in a hidden folder beside its destination."""

    def __init__(
        self, path: Path, kind: str, data: Data, key: dict[str, Any], *, label_offset: int, copies: bool
    ) -> None:
        self.path, self.kind, self.data, self.copies = path, kind, data, copies
        self.folder = path.with_name(f".{path.name}.partial")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.state = _read_state(self.folder / _STATE) or {"key": key, "parts": {}}
        different = _differences(self.state["key"], key)
        if different == ["files"]:
            raise DataError(
                f"{self.folder}: an unfinished conversion of this source, which has changed since; delete that folder"
            )
        if different:
            raise DataError(
                f"{self.folder}: an unfinished conversion that differs in {', '.join(different)} lies there; finish "
                "it with the settings it was begun with, or delete that folder"
            )
        self.writer = self._writer(label_offset)
        self.parts: list[Part] = []

    def _writer(self, label_offset: int) -> Writer:
        classes = self.data.classes
        if self.kind == "folder":
            return FolderWriter(self.folder, classes, [*self.data.train.ids, *self.data.test.ids])
        if self.kind == "parquet":
            return ParquetWriter(self.folder, classes)
        if self.kind == "tfrecord":
            return TfrecordWriter(self.folder, classes, label_offset)
        return Hdf5Writer(self.folder, classes, self.path.name)

    def run(self, per_part: int, progress: Progress | None) -> int:
        """Write the parts that are not finished, and return how many these were."""
        written = 0
        for split in (self.data.train, self.data.test):
            starts = range(0, len(split.indices), per_part)
            for number, start in enumerate(starts):
                part = Part(split.name, number, len(starts))
                self.parts.append(part)
                indices = split.indices[start : start + per_part]
                if part.name in self.state["parts"] and self.writer.has(part):
                    if progress is not None:
                        progress(len(indices))
                    continue
                self._write(part, split, indices, progress)
                written += 1
        return written

    def _write(self, part: Part, split: Split, indices: np.ndarray, progress: Progress | None) -> None:
        note: dict[str, Any] = {"split": part.split, "left_out": [], "rounded": 0}
        note["n"] = self.writer.write(part, self._rows(split, indices, note, progress))
        self.state["parts"][part.name] = note
        _save_state(self.folder / _STATE, self.state)

    def _rows(
        self, split: Split, indices: np.ndarray, note: dict[str, Any], progress: Progress | None
    ) -> Iterator[Row]:
        source: Any = split.source
        for index in map(int, indices):
            try:
                image, exact = self._image(source, index)
            except DataError as error:
                note["left_out"].append(f"{source.ids[index]}: {error}")
            else:
                note["rounded"] += not exact
                yield Row(source.ids[index], int(source.labels[index]), image)
            if progress is not None:
                progress(1)

    def _image(self, source: Any, index: int) -> tuple[Any, bool]:
        """Return an image in the form that the writer takes, and whether that keeps every value."""
        if not self.writer.encoded:
            image = source.read(index)
            whole = as_bytes(image)
            return np.ascontiguousarray((image.numpy() if whole is None else whole).transpose(1, 2, 0)), True
        if self.copies and hasattr(source, "encoded"):
            return source.encoded(index), True
        return to_png(source.read(index))

    def finish(self) -> dict[str, Any]:
        """Put the data set in its place, and return the state."""
        for split in ("train", "test"):
            if not sum(note["n"] for note in self.state["parts"].values() if note["split"] == split):
                first = next((line for note in self.state["parts"].values() for line in note["left_out"]), "")
                raise DataError(f"{self.data.name}: no sample of the {split} split could be read; the first: {first}")
        found = self.writer.finish(self.parts)
        if found == self.folder:
            os.replace(self.folder, self.path)
        else:
            _note_in_hdf5(found, self.state)
            os.replace(found, self.path)
            shutil.rmtree(self.folder)
        return self.state


def _receipt(path: Path) -> dict[str, Any] | None:
    """Return the state that a finished conversion left at its destination."""
    if path.is_dir():
        return _read_state(path / _STATE)
    if not path.is_file():
        return None
    import h5py

    try:
        with h5py.File(path, "r") as file:
            found: dict[str, Any] | None = json.loads(file["roadworthy"].asstr()[()])
    except (OSError, KeyError, ValueError, TypeError):  # no HDF5 file, or not one of ours
        return None
    return found


def _note_in_hdf5(path: Path, state: dict[str, Any]) -> None:
    import h5py

    with h5py.File(path, "a") as file:
        file.create_dataset("roadworthy", data=json.dumps(state), dtype=h5py.string_dtype())


def _read_state(path: Path) -> dict[str, Any] | None:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}; delete this folder to begin anew") from error
    return found


def _save_state(path: Path, state: dict[str, Any]) -> None:
    with replacing(path) as beside:
        beside.write_text(json.dumps(state), encoding="utf8")


def _summary(spec: str, state: dict[str, Any], *, written: int) -> Converted:
    notes = list(state["parts"].values())
    counts = {split: sum(note["n"] for note in notes if note["split"] == split) for split in ("train", "test")}
    left_out = [line for note in notes for line in note["left_out"]]
    rounded = sum(note["rounded"] for note in notes)
    if left_out:
        warnings.warn(
            f"{spec}: {len(left_out)} samples could not be read and are left out; the first: {left_out[0]}",
            RoadworthyWarning,
            stacklevel=3,
        )
    if rounded:
        warnings.warn(
            f"{spec}: {rounded} images have values that a PNG file does not hold exactly, and were rounded; hdf5 "
            "keeps them",
            RoadworthyWarning,
            stacklevel=3,
        )
    return Converted(spec, counts, written, len(notes) - written, left_out, rounded)
