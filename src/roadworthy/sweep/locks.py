"""Locks that go with the process that holds them, however it ends.

They are ``flock`` locks: the kernel frees them when the process dies. Over NFS they hold between machines where the
lock service runs (always with NFS 4), but a machine that vanishes keeps its locks until its lease has run out, a
minute or two. Where a file system knows no locks, one warning says so and the work goes on: the store still keeps
the first record only, and what is lost is time.
"""

from __future__ import annotations

import contextlib
import errno
import os
import warnings
from collections.abc import Iterator
from pathlib import Path

from roadworthy.errors import RoadworthyWarning

_UNKNOWN = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.EINVAL}


@contextlib.contextmanager
def held(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock file ``path``; it is made when missing and goes when it is let go of.

    Args:
        path: in a folder that is there.
        wait: wait for another holder; else come back at once.

    Yields:
        Whether the lock is held; only without ``wait`` can it be False.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "a.lock"
        >>> with held(path) as first, held(path, wait=False) as second:
        ...     first, second
        (True, False)
    """
    descriptor = _locked(path, wait)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            with contextlib.suppress(OSError):
                path.unlink()  # still locked: nobody else can hold this file
            os.close(descriptor)


def _locked(path: Path, wait: bool) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            if take(descriptor, wait=wait) is False:
                os.close(descriptor)
                return None
            if is_still(path, descriptor):  # else the holder before removed it while we waited
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def take(descriptor: int, *, wait: bool) -> bool | None:
    """Lock an open file; False if another holds it and we are not to wait, None where there are no locks."""
    try:
        import fcntl
    except ImportError:
        _no_locks("this platform")
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _UNKNOWN:
            raise
        _no_locks("this file system")
        return None
    return True


def is_still(path: Path, descriptor: int) -> bool:
    """Tell whether ``path`` is the open file, and not one that took its name."""
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    ours = os.fstat(descriptor)
    return (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)


def _no_locks(where: str) -> None:
    warnings.warn(
        f"{where} has no file locks (flock): two runs in one folder may do the same job twice. Each result is still "
        "kept once.",
        RoadworthyWarning,
        stacklevel=2,
    )
