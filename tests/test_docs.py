"""The documentation as a tested surface: blocks run, commands and links exist, the command reference is not stale."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from roadworthy.cli.app import app
from roadworthy.sweep import load_experiment

ROOT = Path(__file__).resolve().parents[1]
TUTORIAL = "docs/tutorial.md"
PAGES = ["README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]
# all other pages are run by the slow tests
FAST = {
    "README.md",
    "docs/audits.md",
    "docs/howto/strategy.md",
    "docs/labelfree.md",
    "docs/rank_k.md",
    "docs/roar.md",
}
FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", flags=re.DOTALL | re.MULTILINE)


def text(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf8")


def blocks(page: str, *languages: str) -> list[tuple[str, str]]:
    """Return (language, code) of the fenced blocks in these languages, in order."""
    return [(language, code) for language, code in FENCED.findall(text(page)) if language in languages]


@pytest.mark.parametrize("page", PAGES)
def test_no_block_is_in_a_language_that_nothing_checks(page: str) -> None:
    assert {language for language, _ in FENCED.findall(text(page))} <= {"python", "sh", "yaml", "text", "bibtex"}


def pages_to_run() -> list[Any]:
    with_code = [page for page in PAGES if page != TUTORIAL and blocks(page, "python")]
    return [pytest.param(page, marks=[] if page in FAST else pytest.mark.slow) for page in with_code]


@pytest.mark.parametrize("page", pages_to_run())
@pytest.mark.filterwarnings("ignore::roadworthy.errors.RoadworthyWarning")
def test_every_python_block_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "page"}
    for _, code in blocks(page, "python"):
        exec(compile(code, page, "exec"), names)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::roadworthy.errors.RoadworthyWarning")
def test_the_tutorial_runs_from_its_first_line_to_its_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    names: dict[str, object] = {"__name__": "page"}
    printed = ""
    for language, code in blocks(TUTORIAL, "python", "sh"):
        if language == "python":
            exec(compile(code, TUTORIAL, "exec"), names)
            continue
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{code}\n{done.stdout}\n{done.stderr}"
        printed += done.stdout
    for promised in ("Intact accuracy", "report: runs/photos/report.html", "inverse:ixg", "n = 40"):
        assert promised in printed
    for written in ("report.html", "ranking.csv", "results.parquet", "per_sample.parquet", "curves.svg", "sheet.png"):
        assert (tmp_path / "runs" / "photos" / written).stat().st_size > 0
    # what the page says of its network, so that the reader's first look at the report is a good one
    result: Any = names["result"]
    assert result.intact_accuracy > 0.9


def command_lines(page: str) -> list[list[str]]:
    """Return the words of every call of the command in the page's shell blocks."""
    found = []
    for _, code in blocks(page, "sh", "bash", "console"):
        for line in re.split(r"\n|&&|;", code.replace("\\\n", " ")):
            words = shlex.split(line, comments=True)
            if words and Path(words[0]).name == "roadworthy":
                found.append(words[1:])
    return found


def named_inline(page: str) -> list[list[str]]:
    """Return the words of every call that is named in running text, such as ``roadworthy audit self``."""
    prose = FENCED.sub("", text(page))
    return [found.split()[1:] for found in re.findall(r"`(roadworthy [a-z][^`]*)`", prose)]


@functools.cache
def whole_command() -> Any:
    return typer.main.get_command(app)


def leaf(words: list[str]) -> tuple[Any, list[str]]:
    """Return the command that the words name, and the words that are left for it."""
    command = whole_command()
    while words and hasattr(command, "commands"):
        assert words[0] in command.commands, f"there is no command {words[0]!r} in: roadworthy {' '.join(words)}"
        command, words = command.commands[words[0]], words[1:]
    return command, words


@pytest.mark.parametrize("page", PAGES)
def test_every_command_line_can_be_parsed(page: str) -> None:
    for words in command_lines(page):
        if words == ["--help"]:
            continue
        command, rest = leaf([word for word in words if word != "--debug"])
        if hasattr(command, "commands"):
            pytest.fail(f"{page}: roadworthy {' '.join(words)} names no command")
        try:
            command.make_context(command.name, rest)
        except Exception as error:
            pytest.fail(f"{page}: roadworthy {' '.join(words)}: {getattr(error, 'message', error)}")


@pytest.mark.parametrize("page", PAGES)
def test_commands_named_in_running_text_exist(page: str) -> None:
    for words in named_inline(page):
        command, rest = leaf(words)
        known = {option for part in getattr(command, "params", []) for option in (*part.opts, *part.secondary_opts)}
        for word in rest:
            assert not word.startswith("--") or word in known | {"--help"}, f"{page}: {' '.join(words)}"


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "yaml")])
def test_experiments_can_be_read(page: str, tmp_path: Path) -> None:
    for _, code in blocks(page, "yaml"):
        if "strategy:" in code:
            (tmp_path / "experiment.yaml").write_text(code, encoding="utf8")
            (tmp_path / "photos").mkdir(exist_ok=True)
            load_experiment(tmp_path / "experiment.yaml")


def test_the_readme_has_exactly_two_set_up_commands() -> None:
    commands = [code for _, code in blocks("README.md", "sh") if code.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert all(len(command.strip().splitlines()) == 1 for command in commands)
    assert "roadworthy demo" in commands[0]
    assert '".[test]"' in commands[1]
    assert "pytest" in commands[1]


def test_links_between_pages_exist() -> None:
    for page in [*PAGES, "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:\s]+)[)#]", text(page)):
            assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="the site's builder is not installed")
def test_the_site_builds_strictly_and_fetches_nothing(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 20
    fetched = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=\"?(?:https?:)?//|<link[^>]*\shref=\"?(?:https?:)?//"
    )
    for page in pages:
        found = fetched.search(page.read_text(encoding="utf8"))
        assert found is None, f"{page.name}: {found and found[0]}"


def test_the_command_reference_is_what_help_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_cli.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_is_in_the_reference() -> None:
    reference = text("docs/cli.md")
    for command in app.registered_commands:
        assert f"## roadworthy {command.name}" in reference


def test_no_text_names_a_machine() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    if not tracked:
        pytest.skip("not a git checkout")
    pattern = re.compile(r"(?<![\w.])/(?:work|root|home)/")
    for name in tracked:
        path = ROOT / name
        if (
            path.suffix in (".py", ".md", ".toml", ".yml", ".txt", ".css", ".js", ".ipynb")
            and path.exists()
            and name != "tests/test_docs.py"
        ):
            assert not pattern.search(path.read_text(encoding="utf8")), name
