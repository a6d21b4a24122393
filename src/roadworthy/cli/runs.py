"""``roadworthy runs``: what lies in a folder."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from roadworthy.cli.console import out, print_frame, print_json
from roadworthy.cli.listing import DEPTH, Listed, listed
from roadworthy.cli.options import JsonOption
from roadworthy.errors import DataError


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look; the current folder by default.")] = Path(),
    depth: Annotated[int, typer.Option("--depth", min=0, help="Levels of folders below it to look through.")] = DEPTH,
    as_json: JsonOption = False,
) -> None:
    """List the runs, sweeps, stores of maps and files of features in a folder, finished or not."""
    if not folder.is_dir():
        raise DataError(f"{folder}: {'not a folder' if folder.exists() else 'there is no such folder'}")
    found = list(listed(folder, depth=depth))
    if as_json:
        print_json([{**asdict(row), "path": str(row.path)} for row in found])
    elif found:
        _show(found, folder)
    else:
        out.print(f"No run lies in {folder} or {depth} levels below.", markup=False, highlight=False, soft_wrap=True)


def _show(found: list[Listed], folder: Path) -> None:
    import pandas as pd

    from roadworthy.markup import clean, number

    rows = [
        {
            "run": clean(_relative(row.path, folder)),
            "kind": clean(row.kind),
            "when": row.when[:16].replace("T", " "),
            "n": "" if row.n is None else str(row.n),
            "methods": "" if row.methods is None else str(row.methods),
            "best": clean(row.best if row.value is None else f"{row.best} {number(row.value)}"),
            "state": clean(row.state),
        }
        for row in found
    ]
    print_frame(pd.DataFrame(rows), f"{len(rows)} in {clean(folder)}")


def _relative(path: Path, folder: Path) -> str:
    return str(path.relative_to(folder))
