"""The documentation as a tested surface: every Python block runs, and the command reference is not stale."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = ["README.md", "docs/howto.md", "docs/roar.md", "docs/audits.md", "docs/labelfree.md", "docs/rank_k.md"]


def blocks(page: str, language: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf8")
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.filterwarnings("ignore::roadworthy.errors.RoadworthyWarning")
def test_every_python_block_runs(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    found = blocks(page, "python")
    assert found
    for block in found:
        exec(compile(block, page, "exec"), names)


def test_the_readme_has_exactly_two_set_up_commands() -> None:
    commands = [block for block in blocks("README.md", "sh") if block.startswith("python3 -m venv")]
    assert len(commands) == 2
    assert all(len(command.strip().splitlines()) == 1 for command in commands)
    assert "roadworthy demo" in commands[0]
    assert '".[test]"' in commands[1]
    assert "pytest" in commands[1]


def test_links_between_pages_exist() -> None:
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+\.md)", page.read_text(encoding="utf8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_command_reference_is_what_help_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "make_cli.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_command_is_in_the_reference() -> None:
    from roadworthy.cli.app import app

    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf8")
    for command in app.registered_commands:
        assert f"## roadworthy {command.name}" in text


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
            path.suffix in (".py", ".md", ".toml", ".yml", ".txt", ".css", ".js")
            and path.exists()
            and name != "tests/test_docs.py"
        ):
            assert not pattern.search(path.read_text(encoding="utf8")), name
