"""``roadworthy report``: the report of a finished run, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import print_json
from roadworthy.cli.options import JsonOption


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of a sweep that need not be finished.")],
    as_json: JsonOption = False,
) -> None:
    """Write report.html and the figures of a run anew, and print its verdict; of a sweep, what there is so far."""
    from roadworthy.sweep.collate import is_sweep

    if is_sweep(folder):
        _report_sweep(folder, as_json)
    else:
        _report_run(folder, as_json)


def _report_sweep(folder: Path, as_json: bool) -> None:
    from roadworthy.cli.sweep_report import refreshed, show_records

    records = refreshed(folder)
    if as_json:
        print_json({"results": records})
    else:
        show_records(records)


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
