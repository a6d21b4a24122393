"""kill -9 of everything, again and again: the sweep ends with what an uninterrupted one has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from toy_jobs import logged, tree

from roadworthy.sweep import SerialExecutor, Store, run_jobs

HERE = str(Path(__file__).parent)
SWEEP = """
import sys
sys.path.insert(0, sys.argv[2])
from roadworthy.sweep import ProcessExecutor, Record, Store, run_jobs
from toy_jobs import tree
"""
RUN = SWEEP + "run_jobs(tree(), Store(sys.argv[1]), ProcessExecutor(2), work='toy_jobs:toy')\n"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "trials").iterdir()}


@pytest.mark.parametrize("groups", [1, pytest.param(2, marks=pytest.mark.slow)], ids=["one run", "two at a time"])
def test_killed_at_random_moments(tmp_path: Path, groups: int) -> None:
    straight, killed = tmp_path / "straight", tmp_path / "killed"
    straight.mkdir(), killed.mkdir()
    subprocess.run([sys.executable, "-c", RUN, str(straight), HERE], check=True, timeout=120)
    generator = np.random.default_rng(7 + groups)
    command = [sys.executable, "-c", RUN, str(killed), HERE]
    kills = 0
    while kills < 8 * groups:
        begun = len(logged(killed))
        running = [subprocess.Popen(command, start_new_session=True) for _ in range(groups)]
        while len(logged(killed)) == begun and running[0].poll() is None:
            time.sleep(0.005)
        time.sleep(generator.uniform(0, 0.1))  # all takes 0.6 s at least
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                kills += 1
        codes = [process.wait() for process in running]
        assert set(codes) <= {0, -signal.SIGKILL}
        if codes[0] == 0:
            break
    assert kills >= 3
    assert len(logged(killed)) > len(logged(straight))  # some hit jobs at work
    subprocess.run(command, check=True, timeout=120)
    assert contents(killed) == contents(straight)
    assert len(contents(killed)) == 10
    assert Store(killed).failures().keys() == Store(straight).failures().keys()
    assert [path for part in ("scratch", "writing") for path in (killed / part).iterdir()] == []
    assert not (killed / "damaged").exists()


def test_a_write_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    """Writers of large records are killed in the act, time and again."""
    code = SWEEP + "import numpy as np\nprint('go', flush=True)\n"
    code += "for number in range(1000):\n"
    code += "    key = f'{number:016x}'\n"
    code += "    Store(sys.argv[1]).write(key, Record({'n': number}, {'a': np.full(400_000, number)}))\n"
    generator = np.random.default_rng(3)
    for _ in range(6):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path), HERE], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(generator.uniform(0.02, 0.3))
            writer.kill()
    store = Store(tmp_path)
    keys = store.finished()
    assert len(keys) >= 2
    for key in keys:
        record = store.read(key)
        assert record.head["n"] == int(key, 16)
        assert (record.arrays["a"] == int(key, 16)).all()
    store.tidy()
    assert list((tmp_path / "writing").iterdir()) == []


FULL = (
    SWEEP
    + """
from toy_jobs import toys
def sweep(**options):
    plan = toys(3, "large", bytes=100_000) + toys(2, "large", bytes=600_000) + toys(3, "large", bytes=50_000)
    outcome = run_jobs(plan, store, ProcessExecutor(1), work="toy_jobs:toy", **options)
    whole = all(store.check(key) for key in store.finished())
    print(len(outcome.finished), len(outcome.skipped), len(outcome.failed), whole, len(store.failures()))
    return outcome
store = Store(sys.argv[1])
outcome = sweep()
print({failure.error for failure in outcome.failed.values()})
sweep()
(store.folder / "ballast").unlink()
sweep()
"""
)


def test_a_disk_that_fills_up(tmp_path: Path) -> None:
    """Of a sweep on a tiny file system, what fits is finished; the rest follows when there is room."""
    try:
        subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this machine lets nobody mount a file system of one's own")
    script = (
        'mount -t tmpfs -o size=2m tmpfs "$1" && head -c 1200000 /dev/zero > "$1/ballast" && "$2" -c "$3" "$1" "$4"'
    )
    command = ["unshare", "-rm", "sh", "-c", script, "sh", str(tmp_path), sys.executable, FULL, HERE]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[0] == "6 0 2 True 0"
    assert "the disk is full, or a quota is used up; what is finished is safe. Make room and run again" in lines[1]
    assert lines[2:] == ["0 6 2 True 0", "2 6 0 True 0"]


def test_each_start_of_a_job_that_ran_undisturbed_is_its_only_one(tmp_path: Path) -> None:
    for _ in range(2):
        run_jobs(tree(), Store(tmp_path), SerialExecutor(), work="toy_jobs:toy")
    starts = Counter(line.rsplit(" ", 1)[0] for line in logged(tmp_path))
    assert set(starts.values()) == {1}
    assert len(starts) == 11
