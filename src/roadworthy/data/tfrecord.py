"""``tfrecord:GLOB``: images in TFRecord shards, ImageNet's usual fields or those of ROAR's saliency shards."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roadworthy.data.classes import CLASSES_FILE, Stated, read_classes, settle_labels
from roadworthy.data.decode import decode
from roadworthy.data.encoded import common_channels
from roadworthy.data.options import Options, parse_whole, split_argument
from roadworthy.data.registry import sources
from roadworthy.data.splits import by_split, check_classes, hash_split
from roadworthy.errors import DataError, InputError, RoadworthyWarning
from roadworthy.records import Data, Split
from roadworthy.tfrecord import Column, Shards, find_shards
from roadworthy.tfrecord import decode as decode_record

IMAGES = ("image/encoded", "raw_image")
LABELS = ("image/class/label", "label")
TEXT, ID = "image/class/text", "image/id"
"""Features by name; of the first two, the first that is there counts."""

_RUN = 50  # consecutive records that a sample for statistics takes together
_OPTIONS = ("label_offset", "classes")


class RecordIds(Sequence[str]):
    """Ids of all records: ``SHARD:ROW``, made when they are asked for."""

    def __init__(self, shards: Shards) -> None:
        self._shards = shards

    def __len__(self) -> int:
        return len(self._shards)

    def __getitem__(self, index: Any) -> Any:
        return self._shards.id_of(int(index))


class TfrecordSource:
    """The records of some shards.

    Args:
        shards: the records, with the columns of :func:`open_shards`.
        options: ``size`` and ``channels`` to bring the images to.

    Attributes:
        shards: the records; ``shards.names`` and ``shards.starts`` say which shard a sample lies in.
        labels: int64 (n,), as they stand in the files until :meth:`settle` is called.
        ids: ``SHARD:ROW``, or what the records call themselves in ``image/id``.

    Raises:
        DataError: a record without a label.
    """

    def __init__(self, shards: Shards, options: Options) -> None:
        self.shards, self._options = shards, options
        self.labels = self._labels()
        self.ids: Sequence[str] = self._ids()
        self.run = _RUN

    def settle(self, offset: int, channels: int | None) -> None:
        """Let labels count from 0, and settle the channels that images are brought to."""
        self.labels = self.labels - offset
        self._options = replace(self._options, channels=channels)

    def encoded(self, index: int) -> bytes:
        """Return the encoded bytes of one image.

        Raises:
            DataError: the record is damaged or has no image.
        """
        features = decode_record(self.shards[index], IMAGES, where=self.where(index))
        for name in IMAGES:
            value = features.get(name)
            if isinstance(value, list) and len(value) == 1 and value[0]:
                return value[0]
        found = sorted(decode_record(self.shards[index]))
        raise DataError(f"{self.where(index)}: has no image: none of {IMAGES} holds encoded bytes; it has {found}")

    def read(self, index: int) -> torch.Tensor:
        """Decode one record, float32 (C, H, W) in [0, 1]."""
        return decode(
            self.encoded(index), self.where(index), channels=self._options.channels, size=self._options.size
        )

    def paths(self) -> list[Path]:
        """Return the files that samples are read from."""
        return [self.shards.root / name for name in self.shards.names]

    def where(self, index: int) -> str:
        """Return the path and row of a sample."""
        return self.shards.where(index)

    def _labels(self) -> np.ndarray:
        columns = [self.shards.columns[name] for name in LABELS]
        column = next((found for found in columns if found.present.any()), columns[0])
        if not column.present.all():
            missing = np.flatnonzero(~column.present)
            features = decode_record(self.shards[int(missing[0])], where=self.where(int(missing[0])))
            raise DataError(
                f"{self.where(int(missing[0]))}: has no integer label in {' or '.join(map(repr, LABELS))} "
                f"({len(missing)} such records); it has {sorted(features)}"
            )
        return column.values

    def _ids(self) -> Sequence[str]:
        column = self.shards.columns[ID]
        if not len(self.labels) or not column.present.all():
            return RecordIds(self.shards)
        ids = texts(column)
        if len(set(ids)) < len(ids):
            raise DataError(f"{self.shards.root}: the ids that records hold in {ID!r} are not unique")
        return ids


def texts(column: Column) -> list[str]:
    """Return the values of a bytes column as text."""
    table = [value.decode("utf8", "backslashreplace") for value in column.table or ()]
    return [table[code] if there else "" for code, there in zip(column.values, column.present, strict=True)]


def open_shards(root: Path, names: Sequence[str]) -> Shards:
    """Open shards with the columns that a source needs; reads through files that have no index yet."""
    integers = dict.fromkeys(LABELS, "int")
    return Shards(root, names, {**integers, TEXT: "bytes", ID: "bytes"})  # type: ignore[dict-item]


@sources.register("tfrecord", "TFRecord shards: tfrecord:GLOB[,label_offset=0|1][,classes=K] (extra [tfrecord])")
def load_tfrecord(argument: str, options: Options) -> Data:
    """Open TFRecord shards: a file, a folder of them or a pattern.

    A record is a ``tf.train.Example`` with ``image/encoded`` (or ``raw_image``) and ``image/class/label`` (or
    ``label``); ``image/class/text`` names the classes, unless ``classes.json`` beside the shards does. Files belong
    to a split by their name: ``train*``, ``test*``, or else ``validation*``, ``valid*``, ``val*``; where none says
    ``train``, records are split by a hash of their ids, by class. Ids are ``SHARD:ROW``, or what the records hold in
    ``image/id``.

    Labels may count from 0 or from 1. Unless ``label_offset`` says which, labels of which the least is 1 are taken
    to count from 1, and a warning states it. Labels with gaps are refused unless ``classes`` gives their number.

    The first use reads every file through, verifies its checksums and keeps an index beside it.

    Raises:
        InputError: no path given, or an option that cannot be used.
        DataError: nothing there, a damaged or cut record, or labels that cannot be used.
        MissingExtraError: the extra ``[tfrecord]`` is not installed.
    """
    pattern, chosen = split_argument(argument, _OPTIONS, "tfrecord")
    if not pattern:
        raise InputError("data: 'tfrecord' needs files behind the colon: 'tfrecord:PATH/*'")
    offset = parse_whole("label_offset", chosen.get("label_offset"), 0, 1)
    count = parse_whole("classes", chosen.get("classes"), 2, 1_000_000)
    root, files = find_shards(pattern)
    single = Path(pattern).expanduser().is_file()
    files = [file for file in files if Path(file).name != CLASSES_FILE] or files  # indices are hidden files
    train_files, test_files = (files, []) if single else by_split(pattern, files, "")
    train_source = TfrecordSource(open_shards(root, train_files), options)
    found = [train_source]
    if test_files:
        found.append(TfrecordSource(open_shards(root, test_files), options))
    if any(len(source.labels) == 0 for source in found):
        raise DataError(f"{pattern}: a split has no records")
    written = read_classes(root)
    stated = Stated(written.classes, count or written.number, written.offset if offset is None else offset)
    shift, number = settle_labels([source.labels for source in found], stated, pattern, f"tfrecord:{pattern}")
    channels = options.channels or common_channels(train_source)
    for source in found:
        source.settle(shift, channels)
    classes = written.classes if written.classes and len(written.classes) == number else _names(found, number)
    check_classes(classes, pattern)
    if test_files:
        train, test = Split(found[0], "train"), Split(found[1], "test")
    else:
        rows = hash_split(train_source.ids, train_source.labels, test_share=options.test_share, seed=options.seed)
        train, test = (Split(train_source, name, part) for name, part in zip(("train", "test"), rows, strict=True))
    return Data(options.spec, train, test, classes, seed=options.seed)


def _names(found: Sequence[TfrecordSource], number: int) -> list[str]:
    """Return the class names that the records tell, and numbers for classes they do not name."""
    names: dict[int, str] = {}
    for source in found:
        column = source.shards.columns[TEXT]
        pairs = np.unique(np.stack([source.labels, column.values])[:, column.present], axis=1)
        for label, code in pairs.T.tolist():
            text = (column.table or ())[code].decode("utf8", "backslashreplace")
            if names.setdefault(label, text) != text:
                warnings.warn(
                    f"{source.shards.root}: records of class {label} are called {names[label]!r} and {text!r}; "
                    "classes are numbered instead",
                    RoadworthyWarning,
                    stacklevel=5,
                )
                return [str(label) for label in range(number)]
    listed = [names.get(label, str(label)) for label in range(number)]
    return listed if len(set(listed)) == number else [str(label) for label in range(number)]
