"""``folder:PATH``: image files, one folder a class, or such folders below ``train`` and ``test``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from roadworthy.data.classes import CLASSES_FILE, folder_name, read_classes
from roadworthy.data.decode import EXTENSIONS, decode, header_channels
from roadworthy.data.levels import check_one_class, check_splits, in_place_of_images, no_folder, warn_level
from roadworthy.data.options import Options
from roadworthy.data.registry import sources
from roadworthy.data.splits import TEST_NAMES, TRAIN_NAMES, check_classes, hash_split
from roadworthy.errors import DataError, InputError, RoadworthyWarning, listed
from roadworthy.records import Data, Split

HEADERS_READ = 256  # files whose headers decide whether a data set is grey or RGB
_EXPECTED = "expected PATH/<class>/<image>, or PATH/train/<class>/<image> and PATH/test/<class>/<image>"


@dataclass
class _Found:
    """Image files of one split, and what else lies there."""

    files: list[str] = field(default_factory=list)  # relative to the root of the data set
    labels: list[int] = field(default_factory=list)
    others: list[str] = field(default_factory=list)


class FolderSource:
    """Image files below a folder; a file is opened when it is read.

    Args:
        root: the folder that ids are relative to.
        files: paths relative to it.
        labels: one per file.
        options: ``size`` and ``channels`` to bring the images to.
    """

    def __init__(self, root: Path, files: Sequence[str], labels: Sequence[int], options: Options) -> None:
        self.labels = np.asarray(labels, dtype=np.int64)
        # a name that is no UTF-8 must still give an id that can be printed and hashed
        self.ids = [os.fsencode(file).decode("utf8", "backslashreplace") for file in files]
        self._root = root
        self._files = files
        self._options = options

    def encoded(self, index: int) -> bytes:
        """Return the bytes of one file.

        Raises:
            DataError: it cannot be read.
        """
        try:
            return (self._root / self._files[index]).read_bytes()
        except OSError as error:
            raise DataError(f"{self.where(index)}: cannot be read: {error.strerror or error}") from error

    def read(self, index: int) -> torch.Tensor:
        """Decode one file, float32 (C, H, W) in [0, 1]."""
        path = self._root / self._files[index]
        return decode(path, self.where(index), channels=self._options.channels, size=self._options.size)

    def paths(self) -> list[Path]:
        """Return the files that samples are read from."""
        return [self._root / file for file in self._files]

    def where(self, index: int) -> str:
        """Return the path of a sample."""
        return f"{self._root}/{self.ids[index]}"


@sources.register("folder", "image files, one folder a class, or train/ and test/ with such folders below")
def load_folder(argument: str, options: Options) -> Data:
    """Open a folder of image files.

    Classes are the sorted names of the folders, unless a file ``classes.json`` in PATH lists them in another order;
    files may lie in folders below them. Ids are paths relative to PATH. Hidden files are skipped; files that are no
    images by their extension are left out and counted in a warning. Without a test folder (``test``, or else
    ``validation``, ``valid`` or ``val``) each class is split by a hash of the ids. Unless ``channels`` is given, grey
    images become RGB when any of up to :data:`HEADERS_READ` files, spread evenly, has colour.

    Raises:
        InputError: no path given.
        DataError: nothing there, no images, one class, or a test class that has no training folder.
    """
    if not argument:
        raise InputError("data: 'folder' needs a path behind the colon: 'folder:PATH'")
    root = Path(argument).expanduser()
    if not root.is_dir():
        raise DataError(f"{root}: {no_folder(root)}; {_EXPECTED}")
    train_name, test_name = _split_folders(root)
    folders = _folders(root / train_name)
    classes, folders = _listed(root, folders) or (folders, folders)
    if test_name is not None:
        _check_test_classes(root, train_name, test_name, folders)
    found = _find(root, train_name, folders)
    test_found = None if test_name is None else _find(root, test_name, folders)
    _check_found(root, classes, found, test_found)
    warn_level(root, train_name, folders, found.files)
    _warn_left_out(root, classes, found, test_found)
    every = found.files + (test_found.files if test_found else [])
    options = replace(options, channels=options.channels or common_channels(root, every))
    source = FolderSource(root, found.files, found.labels, options)
    if test_found is not None:
        test = Split(FolderSource(root, test_found.files, test_found.labels, options), "test")
        return Data(options.spec, Split(source, "train"), test, classes, seed=options.seed)
    rows = hash_split(source.ids, source.labels, test_share=options.test_share, seed=options.seed)
    train, test = (Split(source, name, part) for name, part in zip(("train", "test"), rows, strict=True))
    return Data(options.spec, train, test, classes, seed=options.seed)


def _listed(root: Path, folders: Sequence[str]) -> tuple[list[str], list[str]] | None:
    """Return the class names in ``classes.json`` and the folder of each; None where there is no such file."""
    names = read_classes(root).classes
    if names is None:
        return None
    listed_folders = [name if name in folders else folder_name(name) for name in names]
    unknown = sorted(set(folders) - set(listed_folders))
    if unknown:
        raise DataError(f"{root}/{CLASSES_FILE}: does not list the folders {listed(unknown)}; each is a class")
    return names, listed_folders


def _folders(path: Path) -> list[str]:
    """Return the sorted names of the folders in ``path`` that are not hidden."""
    return sorted(entry.name for entry in os.scandir(path) if entry.is_dir() and not entry.name.startswith("."))


def _split_folders(root: Path) -> tuple[str, str | None]:
    """Return the names of the training and the test folder: ("", None) where the folders are classes.

    A class may be called "train": such a folder holds images, not folders, or has siblings that are no splits.
    """
    names = _folders(root)
    by_name = {name.lower(): name for name in names}
    train, test = (
        next((by_name[name] for name in known if name in by_name), None) for known in (TRAIN_NAMES, TEST_NAMES)
    )
    if train is None:
        if test is not None and set(by_name) <= set(TEST_NAMES) and _folders(root / test):
            raise DataError(f"{root}: '{test}' has no 'train' beside it; {_EXPECTED}")
        return "", None
    if not _folders(root / train):
        check_splits(root, names, train, test, _EXPECTED)
        return "", None
    if test is None and len(names) > 1:
        return "", None
    return train, test


def _find(root: Path, split: str, classes: Sequence[str]) -> _Found:
    """List the images of each class below ``root/split``, sorted."""
    found = _Found()
    for label, name in enumerate(classes):
        top = f"{split}/{name}" if split else name
        if not (root / top).is_dir():
            continue
        for file in walk(root, top):
            if os.path.splitext(file)[1].lower() in EXTENSIONS:
                found.files.append(file)
                found.labels.append(label)
            else:
                found.others.append(file)
    with os.scandir(root / split) as entries:
        found.others += sorted(
            f"{split}/{entry.name}" if split else entry.name
            for entry in entries
            if entry.is_file() and not entry.name.startswith(".") and entry.name != CLASSES_FILE
        )
    return found


def walk(root: Path, folder: str = "", seen: set[tuple[int, int]] | None = None) -> Iterator[str]:
    """Yield the files below ``root/folder`` in order; links to folders are followed, each folder once."""
    seen = set() if seen is None else seen
    status = os.stat(root / folder)
    if (status.st_dev, status.st_ino) in seen:
        return
    seen.add((status.st_dev, status.st_ino))
    with os.scandir(root / folder) as entries:
        listed = sorted((entry.name, entry.is_dir(), entry.is_file()) for entry in entries)
    for name, is_folder, is_file in listed:
        if name.startswith("."):
            continue
        if is_folder:
            yield from walk(root, f"{folder}/{name}" if folder else name, seen)
        elif is_file:
            yield f"{folder}/{name}" if folder else name


def _check_test_classes(root: Path, train: str, test: str, classes: Sequence[str]) -> None:
    unknown = sorted(set(_folders(root / test)) - set(classes))
    if unknown:
        raise DataError(
            f"{root}: {len(unknown)} of the classes in '{test}' are not in '{train}': "
            f"{', '.join(map(repr, unknown[:5]))}{', ...' if len(unknown) > 5 else ''}; each needs a training folder"
        )


def _check_found(root: Path, classes: Sequence[str], found: _Found, test_found: _Found | None) -> None:
    for name, part in (("training", found), ("test", test_found)):
        if part is not None and not part.files:
            raise DataError(f"{root}: no {name} images found{in_place_of_images(root, part.others)}; {_EXPECTED}")
    if len(classes) == 1:
        check_one_class(root, found.files)
    check_classes(classes, str(root))


def _warn_left_out(root: Path, classes: Sequence[str], found: _Found, test_found: _Found | None) -> None:
    others = found.others + (test_found.others if test_found else [])
    if others:
        warnings.warn(
            f"{root}: {len(others)} files that are no images in a class folder are left out; the first: {others[0]}",
            RoadworthyWarning,
            stacklevel=4,
        )
    empty = sorted(set(range(len(classes))) - set(found.labels))
    if empty:
        warnings.warn(
            f"{root}: {len(empty)} of {len(classes)} classes have no training image; first: {classes[empty[0]]!r}",
            RoadworthyWarning,
            stacklevel=4,
        )


def common_channels(root: Path, files: Sequence[str]) -> int | None:
    """Return 3 when any sampled header has colour; None leaves each image as it is, so that a stray one is named."""
    rows = np.unique(np.linspace(0, len(files) - 1, HEADERS_READ).round().astype(int))
    return 3 if any(header_channels(root / files[row]) == 3 for row in rows) else None
