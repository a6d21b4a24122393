"""Maps in the record files of the ROAR benchmark: read, written, and made shard by shard.

A record holds ``raw_image`` (the encoded image, untouched), one float list named after the method (the signed map,
row-major H, W, C) and ``label`` (from 0 on). The benchmark keeps a folder a method and in it one output file per
input file, of the same name. Written here besides: ``height`` and ``width`` of the map and ``prediction_class``, the
class explained (all three in the benchmark's own list of features, unused by it), and ``image/id``.
Source: google-research/interpretability_benchmark, saliency_data_gen/data_helper.py, train_resnet.py.
"""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from PIL import Image

from roadworthy.attribution.saved import SavedArray, SavedMaps
from roadworthy.errors import DataError, InputError
from roadworthy.records import Split
from roadworthy.tfrecord import Shards, decode, encode, find_shards, record_writer

_IMAGE, _LABEL, _HEIGHT, _WIDTH, _CLASS, _ID = (
    "raw_image",
    "label",
    "height",
    "width",
    "prediction_class",
    "image/id",
)
_CONVERT = (
    "maps are written shard by shard from record files: make those first, with roadworthy data convert SOURCE "
    "tfrecord:PATH, and name tfrecord:PATH as the data"
)


class Names(NamedTuple):
    """What the benchmark calls a method: the feature in a record, and the folder of its files."""

    field: str
    folder: str


ROAR_NAMES: dict[str, Names] = {
    "grad": Names("gradient_image", "SH"),
    "grad-sg": Names("gradient_smooth", "SH_SG"),
    "grad-sq": Names("gradient_smooth_2", "SH_SG_2"),
    "grad-var": Names("gradient_vargrad", "SH_V"),
    "ig": Names("ig_image", "IG"),
    "ig-sg": Names("ig_smooth", "IG_SG"),
    "ig-sq": Names("ig_smooth_2", "IG_SG_2"),
    "ig-var": Names("IG_vargrad", "IG_V"),
    "gb": Names("gb_image", "GB"),
    "gb-sg": Names("gb_smooth", "GB_SG"),
    "gb-sq": Names("gb_smooth_2", "GB_SG_2"),
    "gb-var": Names("GB_vargrad", "GB_V"),
    "sobel": Names("sobel", "SOBEL"),
}
"""Our name -> the benchmark's; other methods keep their own."""

_OURS = {names.field: ours for ours, names in ROAR_NAMES.items()}


def roar_names(method: str) -> Names:
    """Return the feature and the folder of a method.

    Example:
        >>> roar_names("ig-sq"), roar_names("gradcam")
        (Names(field='ig_smooth_2', folder='IG_SG_2'), Names(field='gradcam', folder='gradcam'))
    """
    return ROAR_NAMES.get(method) or Names(method, quote(method, safe=""))


def open_shards(pattern: str | Path) -> SavedMaps:
    """Open the saliency shards of the ROAR benchmark for reading.

    Every float list of the first record but ``raw_image`` is a map; its name becomes ours where the benchmark's is
    known. A map's shape is the first of these that gives its length: ``height`` x ``width`` of the record x channels;
    S x S x 3, a square in three channels (as the benchmark's 224 x 224 x 3); the size of ``raw_image`` x 3 or 1.
    Values are row-major H, W, C there and (C, H, W) here.

    Args:
        pattern: a file, a folder of shards, or a pattern such as ``PATH/validation-*``.

    Returns:
        :class:`SavedMaps`, read record by record when sliced. Its ids are ``SHARD:ROW``, or what the records hold in
        ``image/id``; its targets are ``prediction_class`` if all records have one.

    Raises:
        DataError: no shards, a damaged record, no map, or one whose shape cannot be told.

    Example:
        >>> import tempfile
        >>> path = tempfile.mkdtemp() + "/validation-00000-of-00001"
        >>> with record_writer(path) as write:
        ...     write(encode({"label": 0, "ig_smooth": np.arange(12.0), "raw_image": b"..."}))
        >>> maps = open_shards(path)
        >>> maps["ig-sg"].shape, maps["ig-sg"][0, :, 0, 0].tolist(), maps.ids
        ((1, 3, 2, 2), [0.0, 1.0, 2.0], ['validation-00000-of-00001:0'])
    """
    root, names = find_shards(pattern)
    shards = Shards(root, names, {_CLASS: "int", _ID: "bytes"})
    if not len(shards):
        raise DataError(f"maps: {pattern}: there are no records")
    where = f"maps: {shards.where(0)}"
    features = decode(shards[0], where=where)
    fields = {name: value for name, value in features.items() if _is_float(value) and name != _IMAGE}
    if not fields:
        raise DataError(f"{where}: holds no float list, so no map; it has {sorted(features)}")
    arrays = {}
    for field, value in fields.items():
        ours = _OURS.get(field, field)
        shape = _shape(features, len(value), field, where)
        arrays[ours] = SavedArray(ours, (len(shards), *shape), np.float32, _Rows(shards, field, shape))
    classes, ids = shards.columns[_CLASS], shards.columns[_ID]
    known = classes.present.all() and (classes.values >= 0).all()
    named = ids.present.all()
    table = [value.decode("utf8", "backslashreplace") for value in ids.table or ()]
    return SavedMaps(
        arrays,
        ids=[table[code] for code in ids.values] if named else [shards.id_of(row) for row in range(len(shards))],
        targets=classes.values if known else None,
        close=shards.close,
    )


def _is_float(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind == "f" and len(value) > 0


def _shape(features: Mapping[str, Any], n: int, field: str, where: str) -> tuple[int, int, int]:
    """Return (C, H, W) of a map of ``n`` values."""
    height, width = (int(features[name][0]) if len(features.get(name, ())) else -1 for name in (_HEIGHT, _WIDTH))
    if height > 0 and width > 0 and n % (height * width) == 0:
        return n // (height * width), height, width
    side = math.isqrt(n // 3)
    if n == 3 * side * side:
        return 3, side, side
    images = features.get(_IMAGE)
    size = _image_size(images[0]) if isinstance(images, list) and images else None
    for channels in (3, 1):
        if size is not None and n == channels * size[0] * size[1]:
            return channels, *size
    image = "no image" if size is None else f"an image of {size[0]} x {size[1]}"
    raise DataError(
        f"{where}: {field!r} has {n} values, and its shape cannot be told: no height and width that divide "
        f"them, no square of three channels, and {image}"
    )


def _image_size(encoded: bytes) -> tuple[int, int] | None:
    try:
        with Image.open(io.BytesIO(encoded)) as opened:
            return opened.height, opened.width
    except Exception:  # decoders raise many kinds on broken files
        return None


class _Rows:
    """The maps of one method, decoded record by record."""

    def __init__(self, shards: Shards, field: str, shape: tuple[int, int, int]) -> None:
        self.shards, self.field, self.shape = shards, field, shape

    def __call__(self, key: Any) -> np.ndarray:
        first, *rest = key if isinstance(key, tuple) else (key,)
        rows = np.arange(len(self.shards))[first]
        if rows.ndim == 0:
            return self._row(int(rows))[tuple(rest)]
        maps = np.empty((len(rows), *self.shape), np.float32)
        for place, row in enumerate(rows.tolist()):
            maps[place] = self._row(row)
        return maps[(slice(None), *rest)]

    def _row(self, row: int) -> np.ndarray:
        where = self.shards.where(row)
        features = decode(self.shards[row], (self.field, _HEIGHT, _WIDTH, _IMAGE), where=where)
        values = features.get(self.field)
        if not _is_float(values):
            raise DataError(f"{where}: has no float list {self.field!r}, as the first record has")
        shape = _shape(features, len(values), self.field, where)  # type: ignore[arg-type]
        if shape != self.shape:
            raise DataError(f"{where}: {self.field!r} has shape {shape}, the first record's {self.shape}")
        channels, height, width = shape
        return np.asarray(values, dtype=np.float32).reshape(height, width, channels).transpose(2, 0, 1)


@dataclass(frozen=True)
class InputShard:
    """The samples of a split that lie in one of its files.

    Attributes:
        name: of the file.
        path: of the file, if it is known.
        indices: their positions in the split's source.
        positions: their positions in the split.
    """

    name: str
    path: Path | None
    indices: np.ndarray
    positions: np.ndarray


def input_shards(split: Split) -> list[InputShard]:
    """Return the files that a split's samples come from, in order, also those with none.

    Raises:
        InputError: its source has no encoded images, or ids that name no shard.
    """
    source: Any = split.source
    if not hasattr(source, "encoded"):
        raise InputError(f"{split.name}: its images are no files that could be copied into shards; {_CONVERT}")
    indices = np.array([index for index in split.indices if source.ids[int(index)] not in split.broken], dtype=int)
    shards = getattr(source, "shards", None)
    if isinstance(shards, Shards):
        owner = np.searchsorted(shards.starts, indices, side="right") - 1
        known: list[tuple[str, Path | None]] = [(name, shards.root / name) for name in shards.names]
    else:
        parts = [str(source.ids[int(index)]).rpartition(":") for index in indices]
        lost = next((ids for ids in parts if not ids[0] or not ids[2].isdigit()), None)
        if lost is not None:
            raise InputError(f"{split.name}: the id {''.join(lost)!r} names no shard (SHARD:ROW); {_CONVERT}")
        names = list(dict.fromkeys(part[0] for part in parts))
        owner = np.array([names.index(part[0]) for part in parts], dtype=int)
        known = [(name, None) for name in names]
    rows = (np.flatnonzero(owner == number) for number in range(len(known)))
    return [InputShard(name, path, indices[row], row) for (name, path), row in zip(known, rows, strict=True)]


def write_shards(
    maps: Mapping[str, Any],
    split: Split,
    folder: str | Path,
    *,
    targets: Sequence[int] | np.ndarray | None = None,
) -> list[Path]:
    """Write maps as the ROAR benchmark's shards: ``FOLDER/METHOD/SHARD``, one output shard per input shard.

    Args:
        maps: method -> array (N, C, H, W), or (N, H, W), which is repeated over the image's channels; signed.
        split: the N samples; from a ``tfrecord:`` data set, or another whose source has encoded images and ids
            ``SHARD:ROW``.
        folder: where the methods' folders go, under the benchmark's names (``IG_SG``).
        targets: int (N,), the class each map explains; ``maps.targets`` by default, if there are any.

    Returns:
        The files written.

    Raises:
        InputError: a split without shards, or maps of another number or shape.
    """
    targets = getattr(maps, "targets", None) if targets is None else targets
    for name, array in maps.items():
        if len(array) != len(split) or np.ndim(array) not in (3, 4):
            raise InputError(f"{name}: maps of shape {np.shape(array)} for {len(split)} samples")
    written = []
    for shard in input_shards(split):
        for name, array in maps.items():
            path = Path(folder) / roar_names(name).folder / shard.name
            with record_writer(path) as write:
                for place, index in zip(shard.positions.tolist(), shard.indices.tolist(), strict=True):
                    explained = None if targets is None else int(targets[place])
                    write(record(name, np.asarray(array[place]), split, index, explained))
            written.append(path)
    return written


def record(method: str, values: np.ndarray, split: Split, index: int, explained: int | None) -> bytes:
    """Encode one sample with its map.

    Args:
        method: our name.
        values: (C, H, W) or (H, W).
        split: the split the sample is of.
        index: its position in the split's source.
        explained: the class the map is for, if it is known.
    """
    source: Any = split.source
    if values.ndim == 2 or len(values) == 1:
        plane = values if values.ndim == 2 else values[0]
        values = np.broadcast_to(plane, (split.shape[0], *plane.shape))
    features = {
        roar_names(method).field: np.ascontiguousarray(values.transpose(1, 2, 0), dtype=np.float32),
        _IMAGE: source.encoded(index),
        _LABEL: int(source.labels[index]),
        _HEIGHT: values.shape[1],
        _WIDTH: values.shape[2],
        _ID: str(source.ids[index]).encode(),
    }
    if explained is not None:
        features[_CLASS] = explained
    return encode(features)
