"""How samples are written in each format: part by part, each whole or not there."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from roadworthy.data.classes import CLASSES_FILE, folder_name
from roadworthy.data.decode import EXTENSIONS
from roadworthy.data.parquet_schema import OWN_KEY
from roadworthy.data.pixels import header
from roadworthy.errors import DataError
from roadworthy.files import replacing

_GROUP_BYTES = 32 << 20  # of images in a row group of a Parquet file
_CHUNK_BYTES = 64 << 10  # of images in a chunk of an HDF5 file
_SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "GIF": ".gif", "BMP": ".bmp", "TIFF": ".tif", "WEBP": ".webp"}


@dataclass(frozen=True)
class Row:
    """One sample to write.

    Attributes:
        id: its id.
        label: its class, from 0 on.
        image: the bytes of an image file, or for HDF5 an array (H, W, C), uint8 or float32 in [0, 1].
    """

    id: str
    label: int
    image: Any


@dataclass(frozen=True)
class Part:
    """A stretch of one split that is written together.

    Attributes:
        split: ``"train"`` or ``"test"``.
        number: position among the parts of the split.
        total: how many parts the split has.
    """

    split: str
    number: int
    total: int

    @property
    def name(self) -> str:
        """Return ``train-00000-of-00004``."""
        return f"{self.split}-{self.number:05d}-of-{self.total:05d}"


class Writer(Protocol):
    """Writes the parts of a data set into a folder, in any order, each any number of times."""

    encoded: bool
    """Whether rows hold image files; arrays else."""

    def write(self, part: Part, rows: Iterable[Row]) -> int:
        """Write a part whole, and return the number of its rows."""
        ...

    def has(self, part: Part) -> bool:
        """Return whether a part that was written is still there."""
        ...

    def finish(self, parts: Sequence[Part]) -> Path:
        """Write what belongs to all parts, and return the file or folder that is the data set."""
        ...


class FolderWriter:
    """``SPLIT/CLASS/FILE``: the file is named by the sample's id."""

    encoded = True

    def __init__(self, folder: Path, classes: Sequence[str], ids: Iterable[str]) -> None:
        self._folder, self._classes = folder, classes
        self._folders = [folder_name(name) for name in classes]
        self._ids = frozenset(ids)

    def write(self, part: Part, rows: Iterable[Row]) -> int:
        """Write the files of a part."""
        count = 0
        for row in rows:
            with replacing(self._folder / part.split / self._folders[row.label] / self._file(part, row)) as beside:
                beside.write_bytes(row.image)
            count += 1
        return count

    def has(self, part: Part) -> bool:
        """Return whether the split has been begun; single files are not looked for."""
        return (self._folder / part.split).is_dir()

    def finish(self, parts: Sequence[Part]) -> Path:
        """Make the folders of all classes and list these."""
        for split in sorted({part.split for part in parts}):
            for name in self._folders:
                (self._folder / split / name).mkdir(parents=True, exist_ok=True)
        write_classes(self._folder, self._classes)
        return self._folder

    def _file(self, part: Part, row: Row) -> str:
        """Return the name of a sample's file in its class: the id, if that is a path there, else encoded."""
        within = f"{part.split}/{self._folders[row.label]}/"
        name = row.id.removeprefix(within)
        is_path = name != row.id and all(re.fullmatch(r"[^.\\\0][^\\\0]*", step) for step in name.split("/"))
        file = name if is_path else folder_name(row.id)
        if os.path.splitext(file)[1].lower() not in EXTENSIONS:
            found = header(row.image)
            file += _SUFFIXES.get(found[0], ".jpg") if found else ".jpg"
        if row.id not in (file, within + file) and not self._ids.isdisjoint((file, within + file)):
            raise DataError(
                f"the ids {row.id!r} and {file!r} would be one file in a folder; choose another format, or other ids"
            )
        return file


class ParquetWriter:
    """One Parquet file a part, laid out as Hugging Face's data sets are: image struct, label, id."""

    encoded = True

    def __init__(self, folder: Path, classes: Sequence[str]) -> None:
        self._folder, self._classes = folder, classes

    def write(self, part: Part, rows: Iterable[Row]) -> int:
        """Write the file of a part, a row group at a time."""
        import pyarrow.parquet as pq

        schema = self._schema()
        count = 0
        with (
            replacing(self._path(part)) as beside,
            pq.ParquetWriter(beside, schema, compression={"label": "snappy", "id": "zstd"}) as file,
        ):
            for group in _groups(rows):
                file.write_table(_table(group, schema))
                count += len(group)
        return count

    def has(self, part: Part) -> bool:
        """Return whether the file is there."""
        return self._path(part).exists()

    def finish(self, parts: Sequence[Part]) -> Path:
        """Every file says all there is."""
        return self._folder

    def _path(self, part: Part) -> Path:
        return self._folder / f"{part.name}.parquet"

    def _schema(self) -> Any:
        import pyarrow as pa

        features = {
            "image": {"_type": "Image"},
            "label": {"names": list(self._classes), "_type": "ClassLabel"},
            "id": {"dtype": "string", "_type": "Value"},
        }
        image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        metadata = {
            "huggingface": json.dumps({"info": {"features": features}}),
            OWN_KEY: json.dumps({"ids": "id"}),
        }
        return pa.schema([("image", image), ("label", pa.int64()), ("id", pa.string())], metadata=metadata)


def _groups(rows: Iterable[Row]) -> Iterable[list[Row]]:
    group: list[Row] = []
    held = 0
    for row in rows:
        group.append(row)
        held += len(row.image)
        if held >= _GROUP_BYTES:
            yield group
            group, held = [], 0
    if group:
        yield group


def _table(rows: Sequence[Row], schema: Any) -> Any:
    import pyarrow as pa

    images = [{"bytes": row.image, "path": row.id} for row in rows]
    columns = {"image": images, "label": [row.label for row in rows], "id": [row.id for row in rows]}
    return pa.table(columns, schema=schema)


class TfrecordWriter:
    """One TFRecord shard a part, with ImageNet's usual fields."""

    encoded = True

    def __init__(self, folder: Path, classes: Sequence[str], label_offset: int) -> None:
        self._folder, self._classes, self._offset = folder, classes, label_offset

    def write(self, part: Part, rows: Iterable[Row]) -> int:
        """Write the shard of a part."""
        from roadworthy.tfrecord import encode, record_writer

        count = 0
        with record_writer(self._folder / part.name) as write:
            for row in rows:
                write(encode(self._features(row)))
                count += 1
        return count

    def has(self, part: Part) -> bool:
        """Return whether the shard is there."""
        return (self._folder / part.name).exists()

    def finish(self, parts: Sequence[Part]) -> Path:
        """List the classes, and state where labels count from."""
        write_classes(self._folder, self._classes, self._offset)
        return self._folder

    def _features(self, row: Row) -> dict[str, Any]:
        features: dict[str, Any] = {
            "image/encoded": row.image,
            "image/class/label": row.label + self._offset,
            "image/class/text": self._classes[row.label].encode(),
            "image/id": row.id.encode(),
        }
        if (found := header(row.image)) is not None:
            name, height, width = found
            features |= {"image/format": name.encode(), "image/height": height, "image/width": width}
        return features


class Hdf5Writer:
    """Parts as arrays on disk, put together into one HDF5 file at the end, for HDF5 does not survive a kill."""

    encoded = False

    def __init__(self, folder: Path, classes: Sequence[str], name: str) -> None:
        self._folder, self._classes, self._name = folder, classes, name

    def write(self, part: Part, rows: Iterable[Row]) -> int:
        """Write the arrays of a part."""
        found = list(rows)
        shapes = {row.image.shape for row in found}
        if len(shapes) > 1:
            raise DataError(
                f"images differ in shape, {sorted(shapes)[0]} and {sorted(shapes)[1]}; an HDF5 file takes one shape: "
                "pass size=(H, W) (--size), and channels= if these differ"
            )
        images = [row.image for row in found]
        if len({image.dtype for image in images}) > 1:
            images = [_unit(image) for image in images]
        with replacing(self._path(part)) as beside:
            np.savez(
                beside,
                images=np.stack(images) if images else np.empty((0, 0, 0, 0), np.uint8),
                labels=np.array([row.label for row in found], dtype=np.int64),
                ids=np.array([row.id for row in found], dtype=np.str_),
            )
        return len(found)

    def has(self, part: Part) -> bool:
        """Return whether the arrays are there."""
        return self._path(part).exists()

    def finish(self, parts: Sequence[Part]) -> Path:
        """Put the parts together, one after the other."""
        import h5py

        path = self._folder / self._name
        with replacing(path) as beside, h5py.File(beside, "w") as file:
            file.create_dataset("classes", data=list(self._classes), dtype=h5py.string_dtype())
            for split in sorted({part.split for part in parts}):
                self._join(file.create_group(split), [part for part in parts if part.split == split])
        return path

    def _join(self, group: Any, parts: Sequence[Part]) -> None:
        import h5py

        forms = []  # rows, shape and type of each part; a part is opened for itself, for there may be thousands
        for part in parts:
            with np.load(self._path(part), allow_pickle=False) as held:
                images = held["images"]
            forms.append((len(images), images.shape[1:], images.dtype))
        n = sum(rows for rows, _, _ in forms)
        shapes = {shape for rows, shape, _ in forms if rows}
        if len(shapes) != 1:
            raise DataError(f"images differ in shape: {sorted(shapes)}; pass size=(H, W) (--size) and channels=")
        shape = shapes.pop()
        whole = all(kind == np.uint8 for rows, _, kind in forms if rows)
        kind = np.dtype(np.uint8 if whole else np.float32)
        rows = max(1, min(n, _CHUNK_BYTES // max(1, int(np.prod(shape)) * kind.itemsize)))
        images = group.create_dataset(
            "images",
            (n, *shape),
            kind,
            chunks=(rows, *shape),
            compression="gzip",
            compression_opts=1,
            fletcher32=True,
        )
        images.attrs["layout"] = "NHWC"
        labels = group.create_dataset("labels", (n,), np.int64)
        ids = group.create_dataset("ids", (n,), h5py.string_dtype())
        at = 0
        for part, (count, _, _) in zip(parts, forms, strict=True):
            if count:
                span = slice(at, at + count)
                with np.load(self._path(part), allow_pickle=False) as held:
                    values = held["images"]
                    images[span] = values if whole else _unit(values)
                    labels[span] = held["labels"]
                    ids[span] = held["ids"].tolist()
            at += count

    def _path(self, part: Part) -> Path:
        return self._folder / f"{part.name}.npz"


def _unit(values: np.ndarray) -> np.ndarray:
    return np.divide(values, 255, dtype=np.float32) if values.dtype == np.uint8 else values


def write_classes(folder: Path, classes: Sequence[str], label_offset: int | None = None) -> None:
    """Write ``classes.json``: the names in the order of the labels, and for record files where labels count from."""
    found: dict[str, Any] = {"classes": list(classes)}
    if label_offset is not None:
        found["label_offset"] = label_offset
    with replacing(folder / CLASSES_FILE) as beside:
        beside.write_text(json.dumps(found, ensure_ascii=False, indent=1), encoding="utf8")
