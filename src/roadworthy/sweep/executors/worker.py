"""The other end of a worker process: jobs come in and what became of them goes out, as JSON over a socket."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
from functools import partial
from multiprocessing.connection import Connection

from roadworthy.lifeline import end_with
from roadworthy.sweep.executors.base import perform_elsewhere


def main(descriptor: int, parent: int) -> None:
    """Do jobs until the parent closes its end or dies.

    Args:
        descriptor: of the socket to the parent.
        parent: its process id.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all of a terminal; the parent ends its workers
    os.set_inheritable(descriptor, False)
    end_with(parent, partial(_await_hang_up, descriptor))
    channel = Connection(descriptor)
    channel.send_bytes(b"ready")
    while True:
        try:
            order = json.loads(channel.recv_bytes())
        except EOFError:
            return
        _forget_output()
        done = perform_elsewhere(**order)
        channel.send_bytes(json.dumps(done).encode())


def _await_hang_up(descriptor: int) -> None:
    watched = select.poll()
    watched.register(descriptor, 0)  # hang-up is reported unasked
    watched.poll()


def _forget_output() -> None:
    """Empty the file that stands in for the terminal, so that it holds what the job at hand printed."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    with contextlib.suppress(OSError):
        os.ftruncate(1, 0)
        os.lseek(1, 0, os.SEEK_SET)
