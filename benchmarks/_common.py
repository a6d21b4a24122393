"""What the benchmarks share: alternating timed runs, medians, and a record of every figure with its n and machine."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def _nothing() -> None:
    """Wait for nothing: the CPU is done when a call returns."""


def alternate(
    contenders: dict[str, Callable[[], object]], *, rounds: int, wait: Callable[[], None] = _nothing
) -> dict[str, float]:
    """Time the contenders in turn, so that a slow spell of the machine hits all of them.

    Args:
        contenders: names to calls; each is called once before, untimed.
        rounds: timed calls of each.
        wait: returns when the device is done (``torch.cuda.synchronize``).

    Returns:
        Median seconds of each.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for call in contenders.values():
        call()
    for _ in range(rounds):
        for name, call in contenders.items():
            wait()
            start = time.perf_counter()
            call()
            wait()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def environment(*packages: str) -> str:
    """Name the machine and the versions that a figure depends on."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    threads = os.environ.get("OMP_NUM_THREADS", "unset")
    return (
        f"python {platform.python_version()}, {versions}; {os.cpu_count()} cores ({_processor()}), "
        f"OMP_NUM_THREADS {threads}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next(
        (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine()
    )


@dataclass
class Record:
    """Prints figures and keeps them for ``results/NAME.txt``."""

    name: str
    lines: list[str] = field(default_factory=list)

    def line(self, text: str) -> None:
        """Print and keep one line."""
        print(text, flush=True)
        self.lines.append(text)

    def ratio(
        self, what: str, ours: float, reference: float, *, n: int, unit: str = "image", note: str = ""
    ) -> float:
        """Print seconds per unit, the reference's, and how many times faster; return that ratio.

        Args:
            what: the case.
            ours: seconds per unit.
            reference: seconds per unit of the reference, measured in the same run.
            n: units in one timed call.
            unit: what is counted.
            note: anything else, such as the error.
        """
        ratio = reference / ours
        self.line(
            f"{what:<34} {1e3 * ours:9.3f} ms/{unit}  reference {1e3 * reference:9.3f} ms/{unit}  "
            f"{ratio:7.1f} x  n={n}{'  ' + note if note else ''}"
        )
        return ratio

    def save(self) -> Path:
        """Write everything printed to ``results/NAME.txt``."""
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.txt"
        path.write_text("\n".join(self.lines) + "\n", encoding="utf8")
        return path


def parser(description: str) -> argparse.ArgumentParser:
    """Return the options that all benchmarks have."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--rounds", type=int, default=5, help="timed calls of each contender")
    options.add_argument("--save", action="store_true", help="write the output to benchmarks/results/")
    return options
