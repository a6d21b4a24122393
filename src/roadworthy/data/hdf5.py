"""``hdf5:PATH``: images and labels in an HDF5 file, read row by row.

The file holds ``images`` and ``labels``, at its root or in groups ``train`` and ``test``. Images are uint8, or float
in [0, 1], of shape (N, H, W, C), (N, C, H, W) or (N, H, W).
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from roadworthy.data.decode import fit, unit_tensor
from roadworthy.data.options import Options, split_argument
from roadworthy.data.registry import sources
from roadworthy.data.splits import TEST_NAMES, TRAIN_NAMES, check_classes, hash_split
from roadworthy.errors import DataError, InputError
from roadworthy.records import Data, Split

_IMAGES, _LABELS, _IDS, _CLASSES = ("images", "image"), ("labels", "label"), "ids", "classes"
_LAYOUTS = ("NHWC", "NCHW")
_CHANNELS = (1, 3, 4)
_MOST_VALUES = 2**28  # of one image: 9000 x 9000 pixels in three channels
_MOST_IN_CHUNK = 2**32  # bytes that are decompressed together
_CACHE_BYTES = 64 << 20  # decompressed chunks that HDF5 keeps
_EXPECTED = "expected datasets 'images' and 'labels', at the root or in groups 'train' and 'test'"


class Hdf5Source:
    """The rows of one group of an HDF5 file, which each process opens for itself.

    Args:
        path: the file.
        group: name of the group, ``"/"`` for the root.
        layout: ``"NHWC"`` or ``"NCHW"``, or None to take what the file says or its shape leaves no doubt about.
        options: ``size`` and ``channels`` to bring the images to.

    Raises:
        DataError: datasets of a wrong shape or type, or a layout that could be either.
    """

    def __init__(self, path: Path, group: str, layout: str | None, options: Options) -> None:
        self._path, self._options = path, options
        self._images: Any = None
        self._process = 0
        node = _opened(path)[group]
        images, labels = _member(node, _IMAGES), _member(node, _LABELS)
        if images is None or labels is None:
            raise DataError(f"{path}: {group} holds {', '.join(map(repr, node)) or 'nothing'}; {_EXPECTED}")
        self._name = images.name
        self._layout = _layout_of(images, layout, f"{path}{images.name}")
        self.labels = _labels_of(labels, len(images), f"{path}{labels.name}")
        prefix = f"{path.name}" if group == "/" else group.strip("/")
        self.ids: Sequence[str] = _ids_of(node, len(images), prefix, path)
        self.run = 1 if images.chunks is None else max(1, int(images.chunks[0]))

    def read(self, index: int) -> torch.Tensor:
        """Return one image, float32 (C, H, W) in [0, 1]."""
        try:
            values = np.asarray(self._dataset()[index])
        except (OSError, KeyError, ValueError) as error:
            raise DataError(f"{self.where(index)}: cannot be read: {error}") from error
        if values.ndim == 2:
            values = values[None]
        elif self._layout == "NHWC":
            values = values.transpose(2, 0, 1)
        image = self._unit(values, index)
        return _brought_to(image, self._options)

    def paths(self) -> list[Path]:
        """Return the files that samples are read from."""
        return [self._path]

    def where(self, index: int) -> str:
        """Return the path and row of a sample."""
        return f"{self._path}{self._name}[{index}]"

    def _unit(self, values: np.ndarray, index: int) -> torch.Tensor:
        if values.dtype == np.uint8:
            return unit_tensor(values)
        values = values.astype(np.float32)
        low, high = values.min(), values.max()
        if not (low >= 0 and high <= 1):  # also when a value is NaN
            raise DataError(f"{self.where(index)}: has values from {low:g} to {high:g}, expected floats in [0, 1]")
        return torch.from_numpy(np.ascontiguousarray(values))

    def _dataset(self) -> Any:
        """Return the images, held open: HDF5 keeps decompressed chunks only as long."""
        if self._images is None or self._process != os.getpid():  # a handle is of no use behind a fork
            self._images, self._process = _opened(self._path)[self._name], os.getpid()
        return self._images

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_images": None}


def _opened(path: Path) -> Any:
    import h5py

    try:
        return h5py.File(path, "r", rdcc_nbytes=_CACHE_BYTES)
    except OSError as error:
        raise DataError(f"{path}: not an HDF5 file that can be read: {error}") from error


@sources.register("hdf5", "an HDF5 file with images and labels, or groups train and test: hdf5:PATH[,layout=NCHW]")
def load_hdf5(argument: str, options: Options) -> Data:
    """Open an HDF5 file of images.

    ``images`` are uint8 or float in [0, 1]; ``labels`` integers from 0 on, ``ids`` (optional) texts. They lie in
    groups ``train`` and ``test`` (or ``validation``, ``valid``, ``val``), or at the root, where they are split by a
    hash of their ids, by class. Class names are an attribute or dataset ``classes`` of the root, else numbers.

    Channels last or first is told by an attribute ``layout`` of the images (``"NHWC"`` or ``"NCHW"``), by the option
    of that name, or by the shape, where only one of the two places has 1, 3 or 4 values.

    Raises:
        InputError: no path given, or an option that cannot be used.
        DataError: datasets that are missing or cannot be used.
    """
    place, chosen = split_argument(argument, ("layout",), "hdf5")
    layout = chosen.get("layout")
    if layout is not None and layout not in _LAYOUTS:
        raise InputError(f"layout={layout}: expected NHWC (channels last) or NCHW (channels first)")
    if not place:
        raise InputError("data: 'hdf5' needs a path behind the colon: 'hdf5:PATH'")
    path = Path(place).expanduser()
    if not path.is_file():
        raise DataError(f"{path}: {'not a file' if path.exists() else 'no such file'}; expected an HDF5 file")
    groups, classes = _groups_and_classes(path)
    found = [Hdf5Source(path, group, layout, options) for group in groups]
    classes = _checked_classes(path, found, classes)
    if len(found) == 2:
        train, test = Split(found[0], "train"), Split(found[1], "test")
    else:
        rows = hash_split(found[0].ids, found[0].labels, test_share=options.test_share, seed=options.seed)
        train, test = (Split(found[0], name, part) for name, part in zip(("train", "test"), rows, strict=True))
    return Data(options.spec, train, test, classes, seed=options.seed)


def _groups_and_classes(path: Path) -> tuple[list[str], list[str] | None]:
    import h5py

    try:
        with h5py.File(path, "r") as file:
            by_name = {name.lower(): name for name in file if isinstance(file.get(name), h5py.Group)}
            train, test = (
                next((by_name[name] for name in known if name in by_name), None)
                for known in (TRAIN_NAMES, TEST_NAMES)
            )
            names = file[_CLASSES] if _CLASSES in file else file.attrs.get(_CLASSES)
            classes = None if names is None else _texts(names, f"{path}: {_CLASSES!r}")
    except (OSError, RuntimeError, KeyError) as error:
        raise DataError(f"{path}: not an HDF5 file that can be read: {error}") from error
    if (train is None) != (test is None):
        raise DataError(f"{path}: has the group {train or test!r}, but none for the other split; {_EXPECTED}")
    return ["/"] if train is None or test is None else [train, test], classes


def _checked_classes(path: Path, found: Sequence[Hdf5Source], classes: list[str] | None) -> list[str]:
    labels = np.concatenate([source.labels for source in found])
    if any(source.labels.size == 0 for source in found):
        raise DataError(f"{path}: a split has no rows")
    least, most = int(labels.min()), int(labels.max())
    if classes is None:
        absent = np.setdiff1d(np.arange(most + 1), labels) if least >= 0 and most < 1_000_000 else np.array([0])
        if len(absent):
            raise DataError(
                f"{path}: labels go from {least} to {most} and {absent[0]} is absent; expected class numbers from 0 "
                "on, or a dataset 'classes' with the names of all classes"
            )
        classes = [str(label) for label in range(most + 1)]
    if least < 0 or most >= len(classes):
        raise DataError(
            f"{path}: labels go from {least} to {most}, expected 0 to {len(classes) - 1} for {len(classes)} classes"
        )
    check_classes(classes, str(path))
    return classes


def _member(node: Any, names: Sequence[str]) -> Any:
    import h5py

    return next((node[name] for name in names if isinstance(node.get(name), h5py.Dataset)), None)


def _layout_of(images: Any, wanted: str | None, where: str) -> str:
    """Return where the channels are, from the option, the file's attribute or the shape, in this order."""
    shape = tuple(images.shape or ())  # that of an empty dataspace is None
    if images.dtype != np.uint8 and images.dtype.kind != "f":
        raise DataError(f"{where}: holds {images.dtype}, expected uint8, or floats in [0, 1]")
    if len(shape) not in (3, 4):
        raise DataError(f"{where}: has shape {shape}, expected (N, H, W, C), (N, C, H, W) or (N, H, W)")
    chunk = math.prod(images.chunks or (1,)) * images.dtype.itemsize
    if math.prod(shape[1:]) > _MOST_VALUES or chunk > _MOST_IN_CHUNK:
        raise DataError(
            f"{where}: has shape {shape} in chunks {images.chunks}; at most {_MOST_VALUES} values an image and "
            f"{_MOST_IN_CHUNK} bytes a chunk are read"
        )
    stated = wanted or (_text(images.attrs["layout"]) if "layout" in images.attrs else None)
    if len(shape) == 3:
        return "NHW"
    fits = {"NHWC": shape[3] in _CHANNELS, "NCHW": shape[1] in _CHANNELS}
    if stated is None:
        if fits["NHWC"] == fits["NCHW"]:
            why = "both ends could be channels" if fits["NHWC"] else "neither end has 1, 3 or 4 channels"
            raise DataError(
                f"{where}: has shape {shape}, {why}; say which it is with 'hdf5:PATH,layout=NHWC' or layout=NCHW, or "
                "an attribute 'layout' of the dataset"
            )
        return "NHWC" if fits["NHWC"] else "NCHW"
    if not fits.get(stated, False):
        raise DataError(f"{where}: has shape {shape}, which is not {stated} with 1, 3 or 4 channels")
    return stated


def _labels_of(labels: Any, n: int, where: str) -> np.ndarray:
    if labels.dtype.kind not in "iu" or labels.shape != (n,):
        raise DataError(f"{where}: holds {labels.dtype} of shape {labels.shape}, expected integers of shape ({n},)")
    return np.asarray(labels[:]).astype(np.int64)


def _ids_of(node: Any, n: int, prefix: str, path: Path) -> list[str]:
    if _IDS not in node:
        return [f"{prefix}:{row}" for row in range(n)]
    ids = _texts(node[_IDS], f"{path}{node[_IDS].name}")
    if len(ids) != n or len(set(ids)) != n:
        raise DataError(f"{path}{node[_IDS].name}: {len(ids)} ids for {n} images, or some twice; expected one each")
    return ids


def _texts(found: Any, where: str) -> list[str]:
    """Return the texts or numbers that a dataset or an attribute lists."""
    import h5py

    if isinstance(found, h5py.Group):
        raise DataError(f"{where}: is a group, expected a list of texts")
    values = found if isinstance(found, (h5py.Dataset, h5py.Empty)) else np.asarray(found)
    shape, dtype = values.shape, values.dtype
    is_text = h5py.check_string_dtype(dtype) is not None or dtype.kind in "SU"
    if shape is None or len(shape) != 1 or not (is_text or dtype.kind in "iu"):
        raise DataError(f"{where}: holds {dtype} of shape {shape}, expected a list of texts")
    try:
        return [_text(value) for value in values[:]]
    except OSError as error:
        raise DataError(f"{where}: cannot be read: {error}") from error


def _text(value: Any) -> str:
    return value.decode("utf8", "backslashreplace") if isinstance(value, bytes) else str(value)


def _brought_to(image: torch.Tensor, options: Options) -> torch.Tensor:
    """Bring an image to the channels and the size asked for; transparency is laid on white unless 4 are kept."""
    channels = options.channels or (3 if image.shape[0] == 4 else image.shape[0])
    if image.shape[0] == 4 and channels < 4:
        image = image[:3] * image[3:] + (1 - image[3:])
    if channels == 4 and image.shape[0] < 4:
        colour = image.expand(3, -1, -1)
        image = torch.cat([colour, torch.ones_like(colour[:1])])
    elif channels == 3 and image.shape[0] == 1:
        image = image.repeat(3, 1, 1)
    elif channels == 1 and image.shape[0] == 3:
        weights = torch.tensor([0.299, 0.587, 0.114])  # Rec. 601, as Pillow's conversion to grey
        image = (image * weights[:, None, None]).sum(dim=0, keepdim=True)
    if options.size is None or tuple(image.shape[1:]) == options.size:
        return image
    planes = [np.asarray(fit(Image.fromarray(plane.numpy()), options.size)) for plane in image]
    return torch.from_numpy(np.stack(planes).clip(0, 1))
