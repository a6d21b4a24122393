"""``roadworthy doctor``: whether this machine has what runs need."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.text import Text

from roadworthy.cli.console import out, print_json
from roadworthy.cli.options import JsonOption

if TYPE_CHECKING:
    from roadworthy.cli.checkup import Finding

_STYLES = {"ok": "", "note": "yellow", "broken": "red"}
_SIGNS = {"ok": " ", "note": "-", "broken": "!"}


def doctor(as_json: JsonOption = False) -> None:
    """Look at versions, devices, memory, disk and optional packages; exit with 1 if something needed is broken."""
    from roadworthy.cli.checkup import as_record, checkup

    findings = checkup()
    record = as_record(findings)
    if as_json:
        print_json(record)
    else:
        _show(findings)
        broken = len(record["broken"])
        verdict = f"{broken} broken, marked ! above" if broken else "All that is needed works."
        out.print(Text(f"\n{verdict}", style="red" if broken else "green"))
    if not record["ok"]:
        raise typer.Exit(1)


def _show(findings: list[Finding]) -> None:
    width = max(len(found.name) for found in findings)
    part = ""
    for found in findings:
        if found.part != part:
            part = found.part
            out.print(Text(part, style="bold"))
        line = f"{_SIGNS[found.status]} {found.name:<{width}}  {found.value}"
        way_out = f"  ->  {found.way_out}" if found.way_out else ""
        out.print(Text(line + way_out, style=_STYLES[found.status]), soft_wrap=True)
