"""Imports run one way: every import statement of the package is read and held against the levels."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import roadworthy

ROOT = Path(roadworthy.__file__).parent
STAGES = {"data", "model", "attribution", "removal", "imputation", "statistics"}
LEVELS = {
    **dict.fromkeys(
        (
            "records",
            "types",
            "errors",
            "rng",
            "provenance",
            "fingerprints",
            "files",
            "labels",
            "registry",
            "forward",
            "hints",
            "scores",
            "tfrecord",
            "lifeline",
            "markup",
            "yaml_files",
        ),
        0,
    ),
    **dict.fromkeys(STAGES, 1),
    "evaluation": 2,
    "labelfree": 2,
    "comparison": 3,
    "probe": 3,
    "sweep": 3,
    "report": 4,
    "tracking": 4,
    "cli": 5,
}


def imported_parts(source: str) -> Iterator[str]:
    """Yield the first component below ``roadworthy`` of every import in ``source``."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the level; write the full name"
            names = [node.module or ""]
            if node.module == "roadworthy":
                names = [f"roadworthy.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            first, *rest = name.split(".")
            if first == "roadworthy":
                yield rest[0] if rest else ""


def faults(part: str, source: str) -> list[str]:
    """Return the parts that a file of ``part`` imports although its level forbids it."""
    own = LEVELS[part]
    bad = []
    for other in imported_parts(source):
        if other == part:
            continue
        if other == "" or other.startswith("__"):  # the version alone lives at the root
            continue
        if other not in LEVELS or LEVELS[other] > own or (LEVELS[other] == own and own > 0):
            bad.append(other)
    return bad


def modules() -> list[Path]:
    return sorted(
        path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("__init__.py", "__main__.py")
    )


@pytest.mark.parametrize("path", modules(), ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_keep_the_levels(path: Path) -> None:
    part = path.relative_to(ROOT).parts[0].removesuffix(".py")
    assert part in LEVELS, f"{part} has no level"
    assert faults(part, path.read_text(encoding="utf8")) == []


def test_the_check_can_fail() -> None:
    assert faults("removal", "from roadworthy.imputation import impute") == ["imputation"]
    assert faults("records", "import roadworthy.data") == ["data"]
    assert faults("cli", "from roadworthy.evaluation import evaluate") == []


def modules_loaded_by(statement: str) -> set[str]:
    code = f"import sys; {statement}; print('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_is_light() -> None:
    heavy = {"matplotlib", "captum", "torchvision", "plotly", "sklearn", "numba", "timm", "pandas", "torch"}
    assert modules_loaded_by("import roadworthy") & heavy == set()


def test_the_report_never_imports_torch() -> None:
    assert "torch" not in modules_loaded_by("import roadworthy.report")
