"""Where a result came from: versions, device, seeds, n, and a hash of the sample ids."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterable
from typing import Any

_PACKAGES = ("roadworthy", "torch", "torchvision", "captum", "numba", "numpy", "scipy", "pandas")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that a result depends on."""
    found = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            if name == "roadworthy":
                found[name] = sys.modules["roadworthy"].__version__
    return found


def ids_hash(ids: Iterable[str]) -> str:
    """Hash the sample ids, in order, to 16 hexadecimal digits.

    Example:
        >>> ids_hash(["a", "bc"]) == ids_hash(["ab", "c"])
        False
    """
    digest = hashlib.blake2b(digest_size=8)
    for sample in ids:
        text = str(sample).encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return digest.hexdigest()


def provenance(*, ids: Iterable[str], seed: int, device: str) -> dict[str, Any]:
    """Collect what a result must state about its origin.

    Args:
        ids: ids of the samples, in order.
        seed: the seed of the run.
        device: the device that ran the model.

    Returns:
        A JSON-serialisable mapping.
    """
    listed = list(ids)
    return {
        "n": len(listed),
        "ids_hash": ids_hash(listed),
        "seed": seed,
        "device": device,
        "cores": os.cpu_count(),
        "platform": platform.platform(terse=True),
        "versions": versions(),
    }
