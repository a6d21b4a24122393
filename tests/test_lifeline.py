"""A process ends with its parent: by the kernel, by the thread that watches, and if the parent was gone before."""

from __future__ import annotations

import subprocess
import sys
import time

import psutil
import pytest

CHILD = """
import os, sys, time
from roadworthy.lifeline import end_with
{before}
print(os.getpid(), flush=True)
end_with({parent}, {gone})
{do}
"""
PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdin=subprocess.PIPE)
time.sleep(600)
"""
FOREVER = "time.sleep(600)"
STUCK = "sum(range(4 * 10**10))"  # one call of C that never lets go of the interpreter lock
END_OF_INPUT = "sys.stdin.read"


def ended(pid: int, seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("gone", "do", "before"),
    [
        pytest.param(
            "lambda: time.sleep(600)", STUCK, "", marks=pytest.mark.skipif(sys.platform != "linux", reason="")
        ),
        (END_OF_INPUT, FOREVER, "sys.platform = 'other'"),
    ],
    ids=["by the kernel", "by the thread"],
)
def test_a_child_ends_with_a_killed_parent(gone: str, do: str, before: str) -> None:
    code = CHILD.format(parent="os.getppid()", gone=gone, do=do, before=before)
    with subprocess.Popen([sys.executable, "-c", PARENT, code], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        time.sleep(0.2)
        assert not ended(child, 0.1)
        parent.kill()
        parent.wait()
        assert ended(child)


def test_a_child_whose_parent_is_gone_already_ends_at_once() -> None:
    code = CHILD.format(parent="-1", gone="lambda: time.sleep(600)", do=FOREVER, before="")
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60, capture_output=True).returncode == 1
