from __future__ import annotations

import errno
import fcntl
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from roadworthy.errors import RoadworthyWarning
from roadworthy.sweep.locks import held

HOLD = "import sys, time; from pathlib import Path; from roadworthy.sweep.locks import held\n"
HOLD += "with held(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"


def test_the_kernel_frees_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    path = tmp_path / "a.lock"
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as other:
        try:
            assert other.stdout is not None
            assert other.stdout.readline() == "held\n"
            with held(path, wait=False) as mine:
                assert not mine
        finally:
            other.kill()
    with held(path, wait=False) as mine:
        assert mine
    assert list(tmp_path.iterdir()) == []


def test_one_holder_at_a_time_although_the_file_comes_and_goes(tmp_path: Path) -> None:
    inside, most, done = 0, 0, 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most, done
        for _ in range(100):
            with held(tmp_path / "a.lock"):
                with guard:
                    inside += 1
                    most = max(most, inside)
                time.sleep(0)
                with guard:
                    inside -= 1
                    done += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, done) == (1, 400)


def test_an_error_inside_lets_go(tmp_path: Path) -> None:
    with pytest.raises(KeyError), held(tmp_path / "a.lock"):
        raise KeyError
    with held(tmp_path / "a.lock", wait=False) as mine:
        assert mine


def test_a_file_system_without_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.warns(RoadworthyWarning, match="no file locks"), held(tmp_path / "a.lock", wait=False) as mine:
        assert mine
