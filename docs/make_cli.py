"""Write docs/cli.md from the live ``--help``; with ``--check``, fail if it is stale."""

from __future__ import annotations

import difflib
import sys
from pathlib import Path
from typing import Any

import typer.main

from roadworthy.cli.app import app

PAGE = Path(__file__).parent / "cli.md"


def reference() -> str:
    """Return the whole page."""
    group: Any = typer.main.get_command(app)
    parts = [
        "# Command line",
        "",
        "Made from `roadworthy --help` by `docs/make_cli.py`. Errors of the user print one line and exit with 2; "
        "`--debug`, anywhere on the line, shows the traceback. A sweep of which jobs failed exits with 1, an "
        "interrupted command with 130. A run that was stopped goes on when the same command is given again. "
        "`roadworthy --install-completion` has the shell complete commands, options, methods, fills, strategies, "
        "data sets and models; `roadworthy doctor` says what works on this machine; `python -m roadworthy` is the "
        "same command.",
        "",
    ]
    for name in group.commands:
        command = group.commands[name]
        for inner in getattr(command, "commands", {}) or [""]:
            parts += section(f"{name} {inner}".strip(), command.commands[inner] if inner else command)
    return "\n".join(parts).rstrip() + "\n"


def section(name: str, command: Any) -> list[str]:
    """Return the lines of one command."""
    lines = [f"## roadworthy {name}", "", (command.help or "").strip(), ""]
    arguments = [part for part in command.params if part.param_type_name == "argument"]
    if arguments:
        lines += [f"Arguments: {', '.join(f'`{part.name.upper()}`' for part in arguments)}", ""]
    lines += ["| option | default | meaning |", "|---|---|---|"]
    for part in command.params:
        if part.param_type_name == "option":
            default = "" if part.default is None or part.is_flag else f"`{part.default}`"
            lines.append(f"| `{', '.join(part.opts)}` | {default} | {(part.help or '').replace('|', '/')} |")
    return [*lines, ""]


if __name__ == "__main__":
    wanted = reference()
    if "--check" not in sys.argv:
        PAGE.write_text(wanted, encoding="utf8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf8") != wanted:
        kept = PAGE.read_text(encoding="utf8") if PAGE.exists() else ""
        sys.stdout.writelines(
            difflib.unified_diff(kept.splitlines(True), wanted.splitlines(True), "docs/cli.md", "--help")
        )
        sys.exit("docs/cli.md is stale: run python docs/make_cli.py")
