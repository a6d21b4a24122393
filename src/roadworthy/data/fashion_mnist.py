"""``fashion-mnist``: 70,000 grey images of clothes, 28 x 28, from IDX files.

Source: Xiao, Rasul and Vollgraf, Fashion-MNIST, 2017 (arXiv 1708.07747). The IDX format: two zero bytes, a type
byte (8 = unsigned byte), the number of dimensions, their lengths as big-endian 32-bit integers, the values.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from roadworthy.data.arrays import ArraySource
from roadworthy.data.options import Options
from roadworthy.data.registry import sources
from roadworthy.data.torchvision import data_folder, fetch
from roadworthy.errors import DataError
from roadworthy.records import Data, Split

CLASSES = (
    "T-shirt/top",
    "Trouser",
    "Pullover",
    "Dress",
    "Coat",
    "Sandal",
    "Shirt",
    "Sneaker",
    "Bag",
    "Ankle boot",
)
DEBIAN = Path("/usr/share/datasets/fashion-mnist")  # where the package dataset-fashion-mnist puts the files
_PREFIXES = {"train": "train", "test": "t10k"}
_LIMIT = 1 << 30  # values in one file; the data set itself has 47 million


@sources.register("fashion-mnist", "70,000 images of clothes, 28 x 28: IDX files in PATH, from Debian, or downloaded")
def load_fashion_mnist(argument: str, options: Options) -> Data:
    """Load Fashion-MNIST from the folder given, else from Debian's package, else through torchvision's download.

    Raises:
        DataError: the files are not there or are broken.
    """
    folder = _locate(argument)
    splits = {name: _load_split(folder, name, options) for name in _PREFIXES}
    return Data(options.spec, splits["train"], splits["test"], CLASSES, seed=options.seed)


def read_idx(path: Path, dimensions: int) -> np.ndarray:
    """Read an IDX file of unsigned bytes, plain or compressed with gzip.

    No more is decompressed than the header announces, and the header may not announce more than a billion values.

    Args:
        path: the file; a name that ends in ``.gz`` is decompressed.
        dimensions: how many the values must have.

    Returns:
        uint8 array.

    Raises:
        DataError: not such a file, too large, cut off, or with bytes left over.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as file:
            return _parse_idx(cast(BinaryIO, file), path, dimensions)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {error}") from error


def _parse_idx(file: BinaryIO, path: Path, dimensions: int) -> np.ndarray:
    magic, expected = file.read(4), bytes([0, 0, 8, dimensions])
    if magic != expected:
        raise DataError(
            f"{path}: starts with {magic.hex()}, expected {expected.hex()} "
            f"(an IDX file of unsigned bytes in {dimensions} dimensions)"
        )
    lengths = file.read(4 * dimensions)
    shape = tuple(np.frombuffer(lengths, dtype=">u4", count=len(lengths) // 4).tolist())
    count = int(np.prod(shape, dtype=object))
    if len(shape) != dimensions or count > _LIMIT:
        raise DataError(f"{path}: the header announces the shape {shape}, expected at most {_LIMIT} values")
    values = file.read(count + 1)
    if len(values) != count:
        state = "is cut off" if len(values) < count else "has bytes left over"
        raise DataError(f"{path}: {state}: the header announces {count} values for the shape {shape}")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)


def _locate(argument: str) -> Path:
    if argument:
        return Path(argument).expanduser()
    if _find(DEBIAN, "train-images", 3) is not None:
        return DEBIAN
    downloaded = data_folder() / "FashionMNIST" / "raw"
    if _find(downloaded, "train-images", 3) is None:
        fetch("FashionMNIST", {"train": True}, f"install Debian's dataset-fashion-mnist, or fill {downloaded}")
    return downloaded


def _find(folder: Path, stem: str, dimensions: int) -> Path | None:
    names = [f"{stem}{joint}idx{dimensions}-ubyte{end}" for joint in "-." for end in ("", ".gz")]
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _load_split(folder: Path, name: str, options: Options) -> Split:
    arrays = []
    for kind, dimensions in (("images", 3), ("labels", 1)):
        stem = f"{_PREFIXES[name]}-{kind}"
        path = _find(folder, stem, dimensions)
        if path is None:
            raise DataError(f"{folder}: no {stem}-idx{dimensions}-ubyte (or with .gz) there; give fashion-mnist:PATH")
        arrays.append(read_idx(path, dimensions))
    images, labels = arrays
    if len(images) != len(labels) or images.size == 0:
        raise DataError(f"{folder}: {name} has {len(images)} images and {len(labels)} labels")
    if labels.max() >= len(CLASSES):
        raise DataError(f"{folder}: {name} has the label {labels.max()}, expected 0 to {len(CLASSES) - 1}")
    return Split(ArraySource(images, labels, [f"{name}:{row}" for row in range(len(labels))], options), name)
