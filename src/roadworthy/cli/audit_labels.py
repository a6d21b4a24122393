"""``roadworthy audit labels``: do labels bear out what was estimated without them?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_json
from roadworthy.cli.options import JsonOption


def labels(
    folder: Annotated[Path, typer.Argument(help="Folder that 'roadworthy labelfree' wrote.")],
    plan: Annotated[
        Path | None, typer.Option("--plan", help="The plan with its labels filled in; plan.csv of the folder.")
    ] = None,
    partial: Annotated[
        bool, typer.Option("--partial", help="Take the first labels of the plan where the rest has none yet.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Hold an estimate made without labels against labels of its plan, and write the report anew."""
    from roadworthy.cli.claim import claimed
    from roadworthy.cli.labelfree import PAGE
    from roadworthy.labelfree import audited, load_labelfree
    from roadworthy.labelfree.labelling import load_plan
    from roadworthy.labelfree.result import PLAN
    from roadworthy.report.labelfree import labelfree_report

    load_labelfree(folder)  # before anything is written: a mistyped folder is not made
    with claimed(folder):
        result = audited(load_labelfree(folder), load_plan(plan or folder / PLAN), partial=partial)
        result.save(folder)
        page = labelfree_report(result, folder / PAGE)
    audit = result.record["audit"]
    if as_json:
        print_json({**audit, "files": {PAGE: str(page)}})
        return
    found = audit["estimate"]
    for name in ("alone", "combined"):
        one = found[name]
        text = f"{name}: {one['value']:.3f} ({one['low']:.3f} to {one['high']:.3f}), {found['n']} labels"
        out.print(text, markup=False, highlight=False, soft_wrap=True)
    out.print(f"the estimate without labels: {audit['verdict']}", markup=False, highlight=False, soft_wrap=True)
    out.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)
