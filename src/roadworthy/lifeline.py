"""A process that ends when the one that started it is gone, however that went: also by kill -9."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from collections.abc import Callable

_SET_PARENT_DEATH_SIGNAL = 1  # prctl(2)


def end_with(parent: int, gone: Callable[[], object]) -> None:
    """End this process as soon as its parent is gone, whatever is being computed.

    On Linux the kernel sees to it, also in code that never lets go of the interpreter lock; a thread that waits for
    the parent's end does it elsewhere. Nothing is cleaned up.

    Args:
        parent: process id of the one that started this one.
        gone: called in a thread of its own; returns when the parent is gone.

    Example:
        In a process that :mod:`multiprocessing` started::

            parent = multiprocessing.parent_process()
            end_with(parent.pid, parent.join)
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it was gone before the kernel was asked
        os._exit(1)
    threading.Thread(target=_end_after, args=(gone,), daemon=True).start()


def _end_after(gone: Callable[[], object]) -> None:
    gone()
    os._exit(0)
