"""The command ``roadworthy roar`` is killed three times at random moments, and ends with the table of a quiet run."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

import roadworthy as rw
from roadworthy.sweep.collate import read_plan
from roadworthy.sweep.store import Store

COMMAND = [
    sys.executable, "-m", "roadworthy", "roar", "--methods", "grad,ig,random", "--fractions", "0.3,0.7", "--order",
    "both", "--repeats", "2", "--workers", "2", "--set", "data.train=400", "--set", "data.test=100", "--set",
    "recipe={base: digits, epochs: 4, warmup_epochs: 1}", "--set", "snapshots=2",
]  # fmt: skip


def start(folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*COMMAND, "--out", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip


def finish(folder: Path) -> str:
    process = start(folder)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    return output


def group_alive(group: int) -> bool:
    listed = subprocess.run(["ps", "-eo", "pgid,stat"], capture_output=True, text=True, check=True).stdout
    return any(line.split()[0] == str(group) and "Z" not in line.split()[1] for line in listed.splitlines()[1:])


@pytest.mark.slow
@pytest.mark.parametrize("whole_group", [True, False])
def test_killed_three_times_the_table_is_the_same(tmp_path: Path, whole_group: bool) -> None:
    began = time.monotonic()
    finish(tmp_path / "quiet")
    length = time.monotonic() - began
    moments = random.Random(1 + whole_group)
    kills = 0
    while kills < 3:
        process = start(tmp_path / "killed")
        try:
            process.wait(timeout=moments.uniform(0.15, 0.55) * length)
        except subprocess.TimeoutExpired:
            if whole_group:
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()  # the parent alone: its workers must end by themselves
            process.wait()
            kills += 1
            deadline = time.monotonic() + 30
            while group_alive(process.pid) and time.monotonic() < deadline:
                time.sleep(0.2)
            assert not group_alive(process.pid), "workers outlived their parent"
        else:
            break  # finished before the third kill
    assert kills >= 2
    output = finish(tmp_path / "killed")
    assert "report:" in output
    quiet, killed = (rw.load_result(tmp_path / name) for name in ("quiet", "killed"))
    pd.testing.assert_frame_equal(quiet.table, killed.table)
    pd.testing.assert_frame_equal(quiet.ranking(), killed.ranking())
    assert (quiet.scores.probability == killed.scores.probability).all()
    assert killed.missing == []
    keys = {job.key for job in read_plan(tmp_path / "killed").jobs}
    assert Store(tmp_path / "killed").finished() == keys
    assert not list((tmp_path / "killed" / "writing").iterdir())
    assert snapshots_of(tmp_path / "quiet") == snapshots_of(tmp_path / "killed") != []


def snapshots_of(folder: Path) -> list[Path]:
    return sorted(path.relative_to(folder) for path in folder.glob("snapshots/*/*"))
