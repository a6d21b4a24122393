"""The reference: every public name has an entry, every entry a thing, and every page a place in the navigation."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

import pytest

import roadworthy

ROOT = Path(__file__).resolve().parents[1]
API = ROOT / "docs" / "api"
# what takes part in an evaluation and what lies beside it; errors are on the page of the front door
STAGES = sorted(name for name in roadworthy._STAGES if name != "errors")


def entries(page: Path) -> list[str]:
    return re.findall(r"^::: (\S+)$", page.read_text(encoding="utf8"), flags=re.MULTILINE)


@pytest.mark.parametrize("stage", STAGES)
def test_every_public_name_has_an_entry(stage: str) -> None:
    module = importlib.import_module(f"roadworthy.{stage}")
    said = {path.rpartition(".")[2] for path in entries(API / f"{stage}.md")}
    assert not set(module.__all__) - said, f"docs/api/{stage}.md lacks these names of roadworthy.{stage}"


@pytest.mark.parametrize("stage", STAGES)
def test_every_entry_is_what_the_stage_offers(stage: str) -> None:
    module = importlib.import_module(f"roadworthy.{stage}")
    for path in entries(API / f"{stage}.md"):
        home, _, name = path.rpartition(".")
        found = getattr(importlib.import_module(home), name)
        if home.startswith(f"roadworthy.{stage}"):
            assert name in module.__all__, f"{path} is on the page and not public"
            assert found is getattr(module, name)
        if inspect.isclass(found) or inspect.isroutine(found):
            assert found.__doc__, path


def test_the_front_door_is_on_its_page() -> None:
    text = (API / "index.md").read_text(encoding="utf8")
    for name in roadworthy.__all__:
        if name in ("__version__", "errors"):
            continue
        assert f"`rw.{name}`" in text or f"({name}.md)" in text, f"docs/api/index.md lacks {name}"
    assert "::: roadworthy.errors" in text
    for name, found in vars(roadworthy.errors).items():
        if inspect.isclass(found) and issubclass(found, Exception):
            assert f"- {name}\n" in text, f"docs/api/index.md lacks the error {name}"


def test_every_page_has_a_place() -> None:
    places = (ROOT / "mkdocs.yml").read_text(encoding="utf8")
    for page in sorted((ROOT / "docs").rglob("*.md")):
        name = page.relative_to(ROOT / "docs").as_posix()
        assert re.search(rf"(?m)[ -]{re.escape(name)}$", places), f"mkdocs.yml has no place for {name}"
