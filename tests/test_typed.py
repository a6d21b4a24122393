"""The public API is typed: every public callable in full, and as mypy sees it from outside."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import roadworthy as rw
from roadworthy import _STAGES

ROOT = Path(__file__).resolve().parents[1]


def public() -> Iterator[tuple[str, Any]]:
    """Yield every public name of the front door and of the stages, with what it stands for."""
    for stage in _STAGES:
        module = importlib.import_module(f"roadworthy.{stage}")
        for name in getattr(module, "__all__", []):
            yield f"{stage}.{name}", getattr(module, name)
    for name in rw.__all__:
        yield name, getattr(rw, name)


def callables() -> Iterator[tuple[str, Any]]:
    """Yield public functions, and the public methods that public classes of ours define themselves."""
    for name, value in public():
        if inspect.isclass(value) and value.__module__.startswith("roadworthy"):
            fields = vars(value).get("__annotations__", {})  # whose types stand there
            for part, method in vars(value).items():
                inner = getattr(method, "__func__", getattr(method, "fget", method))
                if inspect.isfunction(inner) and not part.startswith("_") and part not in fields:
                    yield f"{name}.{part}", inner
        elif inspect.isfunction(value):
            yield name, value


def test_every_public_callable_is_annotated_in_full() -> None:
    seen = 0
    for name, function in callables():
        seen += 1
        signature = inspect.signature(function)
        bare = [
            parameter.name
            for parameter in signature.parameters.values()
            if parameter.annotation is parameter.empty and parameter.name not in ("self", "cls")
        ]
        assert not bare, f"{name}: {bare}"
        assert signature.return_annotation is not signature.empty, name
    assert seen > 100


def test_the_check_can_fail() -> None:
    def bare(x):  # type: ignore[no-untyped-def]
        return x

    assert inspect.signature(bare).parameters["x"].annotation is inspect.Parameter.empty


def test_the_types_are_shipped() -> None:
    assert (Path(rw.__file__).parent / "py.typed").is_file()


@pytest.mark.slow
def test_code_of_a_user_passes_mypy_strict(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    code = (ROOT / "tests" / "typed_consumer.py").read_text(encoding="utf8")
    front = {name for name in rw.__all__ if not name.startswith("_")}
    assert {name for name in front if f"rw.{name}" not in code} == set(), "the consumer calls the whole front door"
    (tmp_path / "consumer.py").write_text(code, encoding="utf8")
    command = [sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={ROOT / '.mypy_cache'}"]
    done = subprocess.run([*command, "consumer.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
