"""``torchvision:NAME``: the classification data sets of torchvision, downloaded when their files are absent."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from roadworthy.data.decode import to_tensor
from roadworthy.data.options import Options
from roadworthy.data.registry import sources
from roadworthy.data.splits import check_classes
from roadworthy.errors import DataError, InputError, unknown_name
from roadworthy.records import Data, Split

_BY_FLAG = ({"train": True}, {"train": False})
_BY_NAME = ({"split": "train"}, {"split": "test"})
_KNOWN: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    **dict.fromkeys(("CIFAR10", "CIFAR100", "FashionMNIST", "KMNIST", "MNIST", "QMNIST", "USPS"), _BY_FLAG),
    **dict.fromkeys(("Country211", "DTD", "FGVCAircraft", "Flowers102", "Food101", "GTSRB"), _BY_NAME),
    **dict.fromkeys(("RenderedSST2", "STL10", "StanfordCars", "SVHN"), _BY_NAME),
    "ImageNet": ({"split": "train"}, {"split": "val"}),
    "Imagenette": ({"split": "train"}, {"split": "val"}),
    "OxfordIIITPet": ({"split": "trainval"}, {"split": "test"}),
}
"""Constructor arguments of the training and the test split."""


def known() -> list[str]:
    """Return the names of the data sets."""
    return sorted(_KNOWN)


def data_folder() -> Path:
    """Return where downloads go: the environment variable ROADWORTHY_DATA, or ~/.cache/roadworthy/data."""
    return Path(os.environ.get("ROADWORTHY_DATA") or "~/.cache/roadworthy/data").expanduser()


class TorchvisionSource:
    """One split of a torchvision data set.

    Args:
        dataset: a map-style data set of (image, label).
        labels: int (n,).
        name: split name, which ids start with.
        options: ``size`` and ``channels`` to bring the images to.
    """

    def __init__(self, dataset: Any, labels: np.ndarray, name: str, options: Options) -> None:
        self.labels = labels
        self.ids = [f"{name}:{row}" for row in range(len(labels))]
        self._dataset = dataset
        self._options = options

    def read(self, index: int) -> torch.Tensor:
        """Return one image, float32 (C, H, W) in [0, 1]."""
        try:
            image: Image.Image = self._dataset[index][0]
        except (OSError, ValueError, SyntaxError) as error:
            raise DataError(f"{self.where(index)}: cannot be decoded: {error}") from error
        return to_tensor(image, channels=self._options.channels, size=self._options.size)

    def where(self, index: int) -> str:
        """Return what to call a sample in messages."""
        return f"{self._options.spec} {self.ids[index]}"


@sources.register("torchvision", "a classification data set of torchvision by its class name, such as CIFAR10")
def load_torchvision(argument: str, options: Options) -> Data:
    """Open a data set of torchvision below :func:`data_folder`.

    Raises:
        InputError: a name that is not known.
        DataError: files are absent and cannot be downloaded.
    """
    name = next((known for known in _KNOWN if known.lower() == argument.lower()), None)
    if name is None:
        raise unknown_name("torchvision data set", argument, _KNOWN)
    splits: dict[str, Split] = {}
    classes: list[str] = []
    for split, arguments in zip(("train", "test"), _KNOWN[name], strict=True):
        dataset = fetch(name, arguments, f"fill {data_folder()}")
        labels = _labels(dataset, name)
        classes = classes or _classes(dataset, labels)
        if labels.size == 0 or labels.min() < 0 or labels.max() >= len(classes):
            raise DataError(
                f"torchvision:{name}: {split} has {labels.size} labels, expected values 0 to {len(classes) - 1}"
            )
        splits[split] = Split(TorchvisionSource(dataset, labels, split, options), split)
    check_classes(classes, f"torchvision:{name}")
    return Data(options.spec, splits["train"], splits["test"], classes, seed=options.seed)


def fetch(name: str, arguments: dict[str, Any], otherwise: str) -> Any:
    """Open a torchvision data set; download it only when its files are absent.

    Args:
        name: class name in ``torchvision.datasets``.
        arguments: what its constructor takes besides the folder.
        otherwise: what the user can do when the download fails.

    Raises:
        DataError: neither there nor downloaded.
    """
    from torchvision import datasets

    factory, folder = getattr(datasets, name), data_folder()
    try:
        return factory(str(folder), **arguments)
    except (RuntimeError, OSError):  # how torchvision says that files are absent
        if name == "ImageNet":  # cannot be downloaded
            raise DataError(
                f"torchvision:{name}: no files below {folder} and no download exists; {otherwise}"
            ) from None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.redirect_stdout(sys.stderr):  # torchvision prints; standard output is the caller's
            return factory(str(folder), **arguments, download=True)
    except (RuntimeError, OSError, ValueError, ImportError) as error:
        cause = " ".join(str(error).split()) or type(error).__name__
        raise DataError(
            f"torchvision:{name}: not below {folder}, and the download failed ({cause}); {otherwise}"
        ) from error


def _labels(dataset: Any, name: str) -> np.ndarray:
    for attribute in ("targets", "labels", "_labels"):
        if (values := getattr(dataset, attribute, None)) is not None:
            labels = np.asarray(values, dtype=np.int64)
            return labels if labels.ndim == 1 else labels[:, 0]  # QMNIST: the label is the first of several columns
    samples = getattr(dataset, "samples", None) or getattr(dataset, "_samples", None)
    if samples is None:
        raise InputError(f"torchvision:{name}: this version of torchvision does not tell its labels up front")
    return np.asarray([label for _, label in samples], dtype=np.int64)


def _classes(dataset: Any, labels: np.ndarray) -> list[str]:
    names = getattr(dataset, "classes", None)
    if names is None:
        return [str(label) for label in range(int(labels.max(initial=-1)) + 1)]
    # ImageNet gives several synonyms a class
    return [", ".join(name) if isinstance(name, tuple) else str(name) for name in names]
