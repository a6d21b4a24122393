"""``rw.report`` is a function and a package at once; both must do the same, and importing it must stay light."""

from __future__ import annotations

import inspect
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import roadworthy as rw
import roadworthy.report
from roadworthy.evaluation import Result

SCRIPT = """
import sys
from pathlib import Path
import roadworthy as rw
run, out = Path(sys.argv[1]), Path(sys.argv[2])
rw.report(run, out / "before.html")
import roadworthy.report
rw.report(run, out / "after.html", title="T")
from roadworthy.report import report
report(run, out / "function.html")
print(*(name for name in ("torch", "matplotlib.pyplot") if name in sys.modules))
"""


def test_it_can_be_called_before_and_after_the_package_is_imported(
    make_result: Callable[..., Result], tmp_path: Path
) -> None:
    make_result({"ig": 1.0, "random": 0.0}, n=40, samples=1).save(tmp_path / "run")
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "run"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
    assert (tmp_path / "before.html").read_bytes() == (tmp_path / "function.html").read_bytes()
    assert "<h1>T</h1>" in (tmp_path / "after.html").read_text(encoding="utf8")


def test_the_package_reads_like_the_function() -> None:
    assert inspect.signature(rw.report) == inspect.signature(roadworthy.report.report)
    assert type(rw.report).__call__.__doc__ == roadworthy.report.report.__doc__
    assert inspect.ismodule(roadworthy.report)
    assert rw.report.verdict is not None


def test_importing_the_package_is_light() -> None:
    code = "import sys, roadworthy.report; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "matplotlib", "plotly", "PIL", "scipy.stats"} & set(done.stdout.split())
