"""``roadworthy eval``: test curves of a sweep's trainings, beside it or afterwards."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from roadworthy.cli.console import out, print_frame, print_json, say
from roadworthy.cli.options import DeviceOption, JsonOption, pick_device
from roadworthy.errors import InputError

if TYPE_CHECKING:
    from roadworthy.sweep.watch import Row

_PAUSE = 0.5  # seconds between looks for a sweep's plan


def evaluate(
    folder: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a sweep that keeps snapshots.")],
    watch: Annotated[
        bool,
        typer.Option("--watch", help="Wait for the sweep and for new snapshots until its last training has ended."),
    ] = False,
    device: DeviceOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score each snapshot of each training once on its own degraded test split, into RUN/curves.csv.

    Snapshots are kept by experiments with 'snapshots' above 0. Nothing is chosen by these curves.
    """
    from roadworthy.sweep.watch import CURVES, evaluate_snapshots

    place = pick_device(device)
    if watch:
        _await_sweep(folder)
    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give the folder of a sweep")
    rows = evaluate_snapshots(folder, watch=watch, device=place, on_row=_tell)
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    if not rows:
        out.print("No snapshot is there yet.")
        return
    _show(rows)
    out.print(f"all epochs: {folder / CURVES}", markup=False, highlight=False, soft_wrap=True)


def _await_sweep(folder: Path) -> None:
    """Wait for the plan of a sweep that is to begin; a folder of something else is left to be refused."""
    from roadworthy.sweep.collate import is_sweep

    if is_sweep(folder) or (folder / "result.json").exists() or (folder.exists() and not folder.is_dir()):
        return
    say(f"No sweep lies in {folder} yet; waiting for one to begin.")
    while not is_sweep(folder):
        time.sleep(_PAUSE)


def _tell(row: Row) -> None:
    say(f"{row.training}, epoch {row.epoch}: top-1 {row.top1:.3f}, top-5 {row.top5:.3f}, loss {row.loss:.3f}")


def _show(rows: list[Row]) -> None:
    import pandas as pd

    last = {row.key: row for row in rows}  # rows of a training are in the order of its epochs
    counts = {key: sum(row.key == key for row in rows) for key in last}
    table = [
        {"training": row.training, "snapshots": counts[key], "epoch": row.epoch, "top-1": row.top1, "top-5": row.top5,
         "loss": row.loss}
        for key, row in last.items()
    ]  # fmt: skip
    print_frame(pd.DataFrame(table), f"last snapshot of each training, n = {rows[0].n}")
