"""One process at a time in a folder that a run writes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from roadworthy.errors import InputError


@contextlib.contextmanager
def claimed(folder: Path, name: str = "run") -> Iterator[None]:
    """Hold a lock on what is written below ``folder``; it goes with the process, however that ends.

    Args:
        folder: made when missing.
        name: what is written there; each has a lock of its own.

    Raises:
        InputError: another process is at it, or the folder is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out: {folder} is a file, expected a folder")
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w") as handle:
        try:
            import fcntl
        except ImportError:  # no such locks on this platform
            yield
            return
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"--out: another process is working in {folder}; wait for it or name another") from error
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                os.unlink(handle.name)
