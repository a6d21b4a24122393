"""The data and networks of a sweep, from the plain values that jobs carry; kept once per process."""

from __future__ import annotations

import functools
import hashlib
import json
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from roadworthy.data import load_data
from roadworthy.fingerprints import model_fingerprint, pixels_hash
from roadworthy.model import models, untrained
from roadworthy.model.feed import split_hash
from roadworthy.records import Data, Split
from roadworthy.rng import numpy_generator
from roadworthy.sweep.saved import files_at
from roadworthy.sweep.stamps import stamp_of_source

_IDENTITIES: weakref.WeakKeyDictionary[Data, dict[str, Any]] = weakref.WeakKeyDictionary()
COMPARED = 2000  # images of each split whose pixels are held against those that a sweep was planned for


def open_data(spec: Mapping[str, Any]) -> Data:
    """Open the data of a sweep, or the part of it that is asked for.

    Args:
        spec: the fields of :class:`roadworthy.sweep.experiment.DataSpec`.

    Returns:
        The data. Means and statistics are those of the training samples that are used.
    """
    return _open(json.dumps(dict(spec), sort_keys=True), stamp_of_source(spec["source"]))


def whole_ids(spec: Mapping[str, Any], part: str) -> list[str]:
    """Return the ids of all samples of a split, also of those that a sweep of a part leaves out."""
    return getattr(_loaded(json.dumps(dict(spec), sort_keys=True), stamp_of_source(spec["source"])), part).ids


@functools.lru_cache(maxsize=2)
def _loaded(text: str, stamp: str | None) -> Data:
    # the stamp is part of what is remembered: files that have changed are opened anew
    spec = json.loads(text)
    size = spec["size"]
    return load_data(
        spec["source"],
        size=tuple(size) if isinstance(size, list) else size,
        channels=spec["channels"],
        seed=spec["seed"],
        test_share=spec["test_share"],
    )


@functools.lru_cache(maxsize=2)
def _open(text: str, stamp: str | None) -> Data:
    spec, loaded = json.loads(text), _loaded(text, stamp)
    if not any(spec[key] for key in ("train", "test", "per_class")):
        return loaded
    train, test = (
        _part(split, spec[split.name], spec["per_class"], spec["seed"]) for split in (loaded.train, loaded.test)
    )
    return Data(loaded.name, train, test, loaded.classes, relevant=None, seed=spec["seed"])


def _part(split: Split, count: int | None, per_class: int | None, seed: int) -> Split:
    if count is not None:
        split = split.take(count, seed)
    if per_class is None:
        return split
    labels = split.labels.numpy()
    order = numpy_generator(seed, "per-class", split.name).permutation(len(labels))
    kept = [order[labels[order] == label][:per_class] for label in np.unique(labels)]
    return split.subset(np.sort(np.concatenate(kept)))


def identity(data: Data) -> dict[str, Any]:
    """Describe which samples these are, so that others under the same names are not taken for them.

    Ids and labels count in full, pixels of at most :data:`COMPARED` images of each split.
    """
    if data not in _IDENTITIES:
        _IDENTITIES[data] = _identity(data)
    return dict(_IDENTITIES[data])


def _identity(data: Data) -> dict[str, Any]:
    return {
        "train": split_hash(data.train),
        "test": split_hash(data.test),
        "pixels": [pixels_hash(split, COMPARED) for split in (data.train, data.test)],
        "shape": list(data.train.shape),
        "classes": len(data.classes),
        "mean": [float(value) for value in data.mean],
        "std": [float(value) for value in data.std],
    }


def fresh_network(model: Mapping[str, Any], data: Data, seed: int) -> torch.nn.Module:
    """Return the network of a sweep with weights drawn from a seed.

    Args:
        model: the fields of :class:`roadworthy.sweep.experiment.ModelSpec`.
        data: gives the number of classes and channels, and the normalisation.
        seed: of the weights.
    """
    return untrained(model["name"], data, seed=seed, normalize=normalization(model))


def normalization(model: Mapping[str, Any]) -> Any:
    """Return what ``normalize=`` takes, from the fields of a model."""
    given = model["normalize"]
    return tuple(tuple(part) for part in given) if isinstance(given, (list, tuple)) else given


def architecture(name: str, network: torch.nn.Module) -> str:
    """Hash what a network is made of: layers, shapes, types; of a user's own also the code that it runs.

    Args:
        name: as :func:`roadworthy.load_model` takes it.
        network: with weights drawn from seed 0, so that the weights of two calls are equal.
    """
    if ":" in name and name.partition(":")[0] not in models:
        return model_fingerprint(network)
    lines = [repr(network), *(f"{part} {tuple(v.shape)} {v.dtype}" for part, v in network.state_dict().items())]
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=8).hexdigest()


def content_hash(path: str | Path) -> str:
    """Hash a file, all files of a folder, or all files of a pattern, with their names.

    Args:
        path: of a file or folder; or a pattern, also behind ``tfrecord:``.

    Raises:
        DataError: nothing lies there.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp()) / "a.txt"
        >>> _ = file.write_text("x")
        >>> content_hash(file) == content_hash(file.parent)
        False
    """
    root, files = files_at(path)
    digest = hashlib.blake2b(digest_size=8)
    for file in files:
        if file != root:
            digest.update(f"/{file.relative_to(root)}/".encode())
        with open(file, "rb") as stream:
            while block := stream.read(1 << 22):
                digest.update(block)
    return digest.hexdigest()
