"""Randomness: counter-based streams derived from a seed and from what the draw is for.

Every draw that belongs to a sample comes from a stream of its own, keyed by the seed, the purpose and the
sample's id. So it does not depend on batch size, worker count or row order, and the global generators of
torch, NumPy and ``random`` are neither read nor changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.errors import InputError

if TYPE_CHECKING:
    import torch

    from roadworthy.types import Seed


def resolve_seed(seed: Seed) -> int:
    """Turn what a user passes as ``seed`` into an integer.

    Args:
        seed: an integer, or a NumPy or torch generator (one draw is taken from it, which advances it).

    Returns:
        A non-negative integer.

    Raises:
        InputError: for anything else.

    Example:
        >>> resolve_seed(7)
        7
    """
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool):
        return int(seed)
    if isinstance(seed, np.random.Generator):
        return int(seed.integers(2**63))
    import torch

    if isinstance(seed, torch.Generator):
        return int(torch.randint(2**62, (1,), generator=seed, device=seed.device).item())
    raise InputError(
        f"seed: got {type(seed).__name__}, expected an integer, a numpy.random.Generator or a torch.Generator"
    )


def derive(seed: int, *keys: str | int) -> int:
    """Hash a seed and keys to a 128-bit integer that is the same on every machine and run.

    Example:
        >>> derive(0, "ties", "a") == derive(0, "ties", "a") != derive(0, "ties", "b")
        True
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in (seed, *keys):
        text = f"{type(part).__name__[0]}{part}".encode()
        digest.update(len(text).to_bytes(4, "little") + text)
    return int.from_bytes(digest.digest(), "little")


def numpy_generator(seed: int, *keys: str | int) -> np.random.Generator:
    """Return a NumPy generator (Philox, counter-based) for this seed and purpose."""
    return np.random.Generator(np.random.Philox(key=derive(seed, *keys)))


def torch_generator(seed: int, *keys: str | int, device: str = "cpu") -> torch.Generator:
    """Return a torch generator for this seed and purpose."""
    import torch

    return torch.Generator(device=device).manual_seed(derive(seed, *keys) % 2**63)


def normal_fields(seed: int, purpose: str, ids: Sequence[str], shape: tuple[int, ...]) -> np.ndarray:
    """Draw a standard normal field for each sample from the sample's own stream.

    Args:
        seed: the run's seed.
        purpose: what the noise is for; different purposes are independent.
        ids: sample ids.
        shape: shape of one field.

    Returns:
        float32 array (N, *shape).

    Example:
        >>> a = normal_fields(0, "noise", ["x", "y"], (2, 2))
        >>> b = normal_fields(0, "noise", ["y"], (2, 2))
        >>> bool((a[1] == b[0]).all())
        True
    """
    out = np.empty((len(ids), *shape), dtype=np.float32)
    for row, generator in enumerate(_generators(seed, purpose, ids)):
        generator.standard_normal(dtype=np.float32, out=out[row])
    return out


def permutations(seed: int, purpose: str, ids: Sequence[str], size: int) -> np.ndarray:
    """Draw a random permutation of ``range(size)`` for each sample from the sample's own stream.

    Returns:
        int64 array (N, size).
    """
    out = np.empty((len(ids), size), dtype=np.int64)
    for row, generator in enumerate(_generators(seed, purpose, ids)):
        out[row] = generator.permutation(size)
    return out


def _generators(seed: int, purpose: str, ids: Sequence[str]) -> Iterator[np.random.Generator]:
    """Yield the generator of each sample; one that is set anew, since making one takes longer."""
    bits = np.random.Philox(key=0)
    generator = np.random.Generator(bits)
    for sample in ids:
        key = derive(seed, purpose, sample)
        bits.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.zeros(4, dtype=np.uint64),
                "key": np.array([key & (2**64 - 1), key >> 64], dtype=np.uint64),
            },
            "buffer": np.zeros(4, dtype=np.uint64),
            "buffer_pos": 4,  # nothing is left of it
            "has_uint32": 0,
            "uinteger": 0,
        }
        yield generator


@contextlib.contextmanager
def seeded_globals(seed: int, *keys: str | int) -> Iterator[None]:
    """Seed the global generators for a library that only reads those, and put their states back after.

    Yields:
        Nothing; torch (CPU and CUDA), NumPy and ``random`` are restored on the way out, also after an error.
    """
    import torch

    value = derive(seed, *keys)
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices):
        try:
            torch.manual_seed(value % 2**63)
            np.random.seed(value % 2**32)  # noqa: NPY002
            random.seed(value)
            yield
        finally:
            np.random.set_state(numpy_state)  # noqa: NPY002
            random.setstate(python_state)
