"""What every verb prints with: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    import pandas as pd

out = Console()
err = Console(stderr=True)


class Bar:
    """A progress bar on standard error, with time left; called with the number of items just finished."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress, self._task = progress, task

    def begin(self, total: int, what: str) -> None:
        """Start over with a new total and a new description."""
        self._progress.reset(self._task, total=total, description=what, visible=True)

    def __call__(self, done: int, /) -> None:
        """Report ``done`` more items."""
        self._progress.advance(self._task, done)


@contextmanager
def bar(what: str, total: int | None = None) -> Iterator[Bar]:
    """Show a bar while the block runs."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:
        yield Bar(progress, progress.add_task(what, total=total, visible=total is not None))


def print_json(value: Any) -> None:
    """Print a value as JSON, alone on standard output."""
    print(json.dumps(value, indent=1, default=str))


def print_frame(frame: pd.DataFrame, title: str) -> None:
    """Print a table; text from users is printed as it is, never as markup."""
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        table.add_column(str(column), justify="left" if column in ("method", "group") else "right")
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(_cell(value)) for value in row))
    out.print(table)


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
