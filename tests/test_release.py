"""What is released: the files it holds, that it runs without the repository, and how it asks to be cited."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
import yaml

import roadworthy

ROOT = Path(__file__).resolve().parents[1]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf8"))
# of the schema of CFF 1.2.0: what is needed, and the keys that are used here
NEEDED = {"cff-version", "message", "title", "authors"}
ALLOWED = NEEDED | {"type", "abstract", "version", "license", "keywords", "references"}
REFERENCE = {"type", "title", "authors", "year", "notes", "collection-title", "journal", "identifiers"}


class TestCitation:
    def test_it_has_what_the_format_needs_and_nothing_it_does_not_know(self) -> None:
        assert set(CITATION) >= NEEDED
        assert set(CITATION) <= ALLOWED
        assert CITATION["cff-version"] == "1.2.0"
        assert CITATION["type"] == "software"
        assert CITATION["authors"] == [{"name": "The roadworthy authors"}]
        assert all(isinstance(word, str) for word in CITATION["keywords"])

    def test_it_is_of_this_version_and_licence(self) -> None:
        assert CITATION["version"] == roadworthy.__version__
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
        assert CITATION["license"] == project["license"]
        assert [author["name"] for author in project["authors"]] == [author["name"] for author in CITATION["authors"]]

    def test_it_refers_to_the_papers_of_the_methods(self) -> None:
        found = {}
        for reference in CITATION["references"]:
            assert {"type", "title", "authors"} <= set(reference) <= REFERENCE
            assert all(set(author) == {"family-names", "given-names"} for author in reference["authors"])
            (identifier,) = reference["identifiers"]
            assert set(identifier) == {"type", "value", "description"}
            assert re.fullmatch(r"arXiv:\d{4}\.\d{5}", identifier["value"])
            found[reference["authors"][0]["family-names"], reference["year"]] = identifier["value"]
        assert found == {
            ("Rong", 2022): "arXiv:2202.00449",
            ("Hooker", 2019): "arXiv:1806.10758",
            ("Bluecher", 2024): "arXiv:2401.06654",
        }


def call(*command: str | Path, cwd: Path, **extra: str) -> str:
    """Run a command in a folder that is not the repository, without what would lead back to it."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=clean | extra, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def build(source: Path, out: Path, *what: str) -> Path:
    """Build a wheel or an archive of the sources, and return it."""
    out.mkdir()
    call(sys.executable, "-m", "build", "--no-isolation", *what, "--outdir", out, source, cwd=out)
    (made,) = out.iterdir()
    return made


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    return build(ROOT, tmp_path_factory.mktemp("release") / "sdist", "--sdist")


@pytest.fixture(scope="module")
def wheel(sdist: Path) -> Path:
    return build(ROOT, sdist.parents[1] / "wheel", "--wheel")


@pytest.fixture(scope="module")
def unpacked(sdist: Path) -> Path:
    with tarfile.open(sdist) as archive:
        safe: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}  # since Python 3.11.4
        archive.extractall(sdist.parents[1] / "unpacked", **safe)
    return sdist.parents[1] / "unpacked" / f"roadworthy-{roadworthy.__version__}"


def contents(wheel: Path) -> dict[str, str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}


def sources() -> set[str]:
    """Every file of the package, as the wheel must hold it."""
    package = ROOT / "src"
    files = (path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {path.relative_to(package).as_posix() for path in files if not path.name.startswith(".")}


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    held = set(contents(wheel))
    about = {name for name in held if name.startswith(f"roadworthy-{roadworthy.__version__}.dist-info/")}
    assert held - about == sources()
    assert {
        "roadworthy/py.typed",
        "roadworthy/report/assets/page.html",
        "roadworthy/model/recipes/small.yaml",
    } <= held
    assert {PurePosixPath(name).name for name in about} == {
        "METADATA",
        "WHEEL",
        "RECORD",
        "entry_points.txt",
        "LICENSE",
    }
    with zipfile.ZipFile(wheel) as archive:
        told = archive.read(next(name for name in about if name.endswith("METADATA"))).decode()
    assert "License-Expression: Apache-2.0" in told
    assert "Classifier: Typing :: Typed" in told
    assert "Provides-Extra: mlflow" in told
    assert wheel.stat().st_size < 3 << 20


@pytest.mark.slow
def test_the_sources_hold_what_is_needed_to_build_and_to_test(unpacked: Path) -> None:
    for name in (
        "CITATION.cff",
        "SECURITY.md",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "tests/conftest.py",
        "docs/cli.md",
    ):
        assert (unpacked / name).is_file(), name
    leftovers = [
        path for path in unpacked.rglob("*") if path.name == "__pycache__" or path.suffix in (".pyc", ".npz")
    ]
    assert leftovers == []


@pytest.mark.slow
def test_a_wheel_made_of_the_sources_is_the_same(unpacked: Path, wheel: Path) -> None:
    again = build(unpacked, unpacked.parents[1] / "again", "--wheel")
    assert contents(again) == contents(wheel)


RUN = """
import sys, torch, roadworthy as rw
from roadworthy.cli import main
assert rw.__file__.startswith(sys.prefix), rw.__file__
for verb in ("doctor", "sources"):
    try:
        main([verb])
    except SystemExit as stop:
        assert not stop.code, verb
images = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
labels = (images[:, 0, :, 4:].mean((1, 2)) > images[:, 0, :, :4].mean((1, 2))).long()
model = lambda x: torch.stack([x[:, 0, :, :4].mean((1, 2)), x[:, 0, :, 4:].mean((1, 2))], 1)
result = rw.evaluate(model, images, labels, ["grad", "random"], fractions=(0.3, 0.6), imputer="mean", audit="off")
print("first:", result.ranking()["method"][0], rw.report(result, "report.html").name, len(result._repr_html_()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_and_runs_without_the_repository(kind: str, tmp_path: Path, request: Any) -> None:
    """The new environment has the libraries of this one, and no roadworthy but the one installed there."""
    made: Path = request.getfixturevalue(kind)
    home = tmp_path / "home"
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    libraries = sysconfig.get_path("purelib")
    # nothing of this environment is touched: --ignore-installed uninstalls nothing
    command = ["pip", "--python", python, "install", "--no-deps", "--no-index", "--ignore-installed", "--quiet"]
    tools = ("--no-build-isolation",) if kind == "sdist" else ()
    call(sys.executable, "-m", *command, *tools, made, cwd=tmp_path, PYTHONPATH=libraries)
    site = next((home / "lib").glob("python*/site-packages"))
    (site / "libraries.pth").write_text(libraries + "\n")
    own = {"ROADWORTHY_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    script = home / "bin" / "roadworthy"
    assert call(script, "--version", cwd=tmp_path, **own) == f"roadworthy {roadworthy.__version__}\n"
    assert call(python, "-c", "import roadworthy; print(roadworthy.__file__)", cwd=tmp_path).startswith(str(site))
    if kind == "wheel":
        printed = call(python, "-c", RUN, cwd=tmp_path, **own)
        assert "All that is needed works." in printed
        assert {"noisy-linear", "ig-sg", "fast-cifar"} <= set(printed.split())
        assert "first: grad report.html" in printed
