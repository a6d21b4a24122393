"""Which samples are for training and which for the test."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from roadworthy.errors import DataError, RoadworthyWarning

TRAIN_NAMES = ("train", "training")
TEST_NAMES = ("test", "testing", "validation", "valid", "val")
"""In the order of preference: where a test split and a validation split lie side by side, the first is used."""


def hash_split(
    ids: Sequence[str], labels: np.ndarray, *, test_share: float, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Split samples by a hash of their ids, class by class.

    A sample's side depends on its id and the seed alone, so it stays there when samples are added or removed; the
    share in each class is therefore only about ``test_share``. A class of two or more gets at least one sample on
    either side.

    Args:
        ids: n unique ids.
        labels: int (n,).
        test_share: share for the test, in (0, 1).
        seed: another seed gives another split.

    Returns:
        Positions for training and for the test, each int64 and ascending.

    Example:
        >>> train, test = hash_split([f"cat/{i}" for i in range(10)], np.zeros(10, int), test_share=0.3, seed=0)
        >>> sorted([*train.tolist(), *test.tolist()]) == list(range(10))
        True
    """
    key = hashlib.blake2b(str(seed).encode(), digest_size=16).digest()
    draws = np.empty(len(ids), dtype=np.float64)
    for row, sample in enumerate(ids):
        digest = hashlib.blake2b(sample.encode(), digest_size=8, key=key).digest()
        draws[row] = int.from_bytes(digest, "little") / 2**64
    is_test = draws < test_share
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        if len(members) > 1 and is_test[members].all():
            is_test[members[draws[members].argmax()]] = False
        elif len(members) > 1 and not is_test[members].any():
            is_test[members[draws[members].argmin()]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def stratified_split(
    labels: np.ndarray, *, test_share: float, generator: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Split a data set that never grows: exactly ``round(test_share * n)`` of each class go to the test.

    Returns:
        Positions for training and for the test, each int64 and ascending; a class keeps at least one of either.
    """
    is_test = np.zeros(len(labels), dtype=bool)
    for label in np.unique(labels):
        members = generator.permutation(np.flatnonzero(labels == label))
        is_test[members[: min(max(round(test_share * len(members)), 1), len(members) - 1)]] = True
    return np.flatnonzero(~is_test), np.flatnonzero(is_test)


def by_split(where: str | Path, files: Sequence[str], ending: str) -> tuple[list[str], list[str]]:
    """Put files into splits by their names or folders: ``train*``, ``test*``, or else ``validation*`` and the like.

    Args:
        where: what to call the place in messages.
        files: paths relative to it.
        ending: of the names, such as ``".parquet"``; no part of a split's name.

    Returns:
        The training and the test files. Where no name says ``train``, all files are one pool, with no test files.

    Raises:
        DataError: there is a test split alone.

    Example:
        >>> by_split("here", ["train-00000-of-00001", "validation-00000-of-00001"], "")
        (['train-00000-of-00001'], ['validation-00000-of-00001'])
    """
    found: dict[str | None, list[str]] = {}
    for file in files:
        found.setdefault(split_of(file.removesuffix(ending)), []).append(file)
    train = next((found[name] for name in TRAIN_NAMES if name in found), None)
    test = next((found[name] for name in TEST_NAMES if name in found), [])
    if train is not None and None in found:
        warnings.warn(
            f"{where}: {len(found[None])} {ending or 'record'} files of no split are left out; the first: "
            f"{found[None][0]}",
            RoadworthyWarning,
            stacklevel=6,
        )
    if train is None and test:
        raise DataError(f"{where}: {test[0]} is a test split, but there is no train*{ending} beside it")
    return (list(files), []) if train is None else (train, test)


def split_of(file: str) -> str | None:
    """Return the split that a file's name or one of its folders says, as in ``data/train-00000-of-00002``."""
    for part in reversed(file.lower().split("/")):
        for word in re.findall(r"[a-z]+", part):
            if word in (*TRAIN_NAMES, *TEST_NAMES):
                return str(word)
    return None


def check_classes(classes: Sequence[str], where: str) -> None:
    """Refuse a data set with fewer than two classes.

    Raises:
        DataError: naming the classes found.
    """
    if len(classes) < 2:
        found = f"one class ({classes[0]!r})" if classes else "no class"
        raise DataError(f"{where}: {found} found, expected at least two")
