"""``roadworthy report``: the report of a finished run, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import print_json
from roadworthy.cli.options import JsonOption
from roadworthy.errors import DataError

_SHOWN = 5  # folders named


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of a sweep that need not be finished.")],
    as_json: JsonOption = False,
) -> None:
    """Write report.html and the figures of a run anew, and print its verdict; of a sweep, what there is so far."""
    from roadworthy.sweep.collate import is_sweep

    if is_sweep(folder):
        _report_sweep(folder, as_json)
    elif (folder / "result.json").exists():
        _report_run(folder, as_json)
    elif (folder / "labelfree.json").exists():
        _report_labelfree(folder, as_json)
    else:
        raise DataError(_nothing_there(folder))


def _nothing_there(folder: Path) -> str:
    if folder.is_file():
        return f"{folder}: is a file; give the folder it lies in, {folder.parent}"
    if not folder.exists():
        return f"{folder}: there is no such folder; give the folder of a run or of a sweep"
    files = ("result.json", "plan.json")
    below = [found.parent for name in files for found in sorted(folder.glob(f"*/{name}"))]
    there = f"; below it are {', '.join(map(str, sorted(set(below))[:_SHOWN]))}" if below else ""
    return (
        f"{folder}: neither a result nor a sweep lies here (no {' and no '.join(files)}); give the folder that "
        f"'roadworthy road', 'roar' or 'run' wrote{there}"
    )


def _report_sweep(folder: Path, as_json: bool) -> None:
    from roadworthy.cli.sweep_report import refreshed, show_records

    records = refreshed(folder)
    if as_json:
        print_json({"results": records})
    else:
        show_records(records)


def _report_labelfree(folder: Path, as_json: bool) -> None:
    from roadworthy.cli.labelfree import PAGE, show
    from roadworthy.labelfree import load_labelfree
    from roadworthy.report.labelfree import labelfree_report

    result = load_labelfree(folder)
    page = labelfree_report(result, folder / PAGE)
    if as_json:
        print_json({**result.as_dict(), "files": {PAGE: str(page)}})
    else:
        show(result, page)


def _report_run(folder: Path, as_json: bool) -> None:
    from roadworthy.cli.road import as_record, show
    from roadworthy.evaluation import load_result
    from roadworthy.report import write_pictures

    result = load_result(folder)
    written = write_pictures(result, folder)
    if as_json:
        print_json(as_record(result, written))
    else:
        show(result, written)
