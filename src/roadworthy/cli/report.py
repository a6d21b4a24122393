"""``roadworthy report``: the report of a finished run, made anew."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import print_json
from roadworthy.cli.options import JsonOption


def report(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    as_json: JsonOption = False,
) -> None:
    """Write report.html and the figures of a finished run anew, and print its verdict."""
    from roadworthy.cli.road import as_record, show
    from roadworthy.evaluation import load_result
    from roadworthy.report import write_pictures

    result = load_result(folder)
    written = write_pictures(result, folder)
    if as_json:
        print_json(as_record(result, written))
    else:
        show(result, written)
