"""What every verb prints with: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from roadworthy.markup import clean

if TYPE_CHECKING:
    import pandas as pd


class _Output(Console):
    def on_broken_pipe(self) -> None:
        """Let the command end quietly where the reader has left; rich would exit with 1."""
        self.quiet = True
        raise BrokenPipeError


out = _Output()
err = Console(stderr=True)
_LEFT = ("method", "group", "run", "kind", "best", "state")  # columns of names
MIN_WIDTH = 80  # a table squeezed into less shows nothing
_EVERY = 15.0  # seconds between lines where standard error is no terminal


class Bar:
    """Progress on standard error, with time left: a bar on a terminal, else a line now and then.

    Nothing is shown before there is a total.
    """

    def __init__(self, what: str, total: int | None = None) -> None:
        self._progress: Progress | None = None
        self._task = TaskID(0)
        self._what, self._total, self._done = what, 0, 0
        self._started = self._said = time.monotonic()
        if total is not None:
            self.begin(total, what)

    def begin(self, total: int, what: str) -> None:
        """Start over with a new total and a new description."""
        self.close()
        self._what, self._total, self._done = what, total, 0
        self._started = self._said = time.monotonic()
        if err.is_terminal:
            self._progress = Progress(*_columns(), console=err, transient=True)
            self._progress.start()
            self._task = self._progress.add_task(what, total=total)

    def __call__(self, done: int, /) -> None:
        """Report ``done`` more items."""
        self._done += done
        if self._progress is not None:
            self._progress.advance(self._task, done)
        elif self._total and time.monotonic() - self._said > _EVERY:
            self._said = time.monotonic()
            left = (self._said - self._started) * (self._total - self._done) / max(1, self._done)
            say(f"{self._what}: {self._done} of {self._total}, about {left:.0f} s left")

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None


def _columns() -> tuple[ProgressColumn, ...]:
    text = TextColumn("{task.description}", markup=False)
    return (text, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())


@contextmanager
def bar(what: str, total: int | None = None) -> Iterator[Bar]:
    """Show progress while the block runs."""
    shown = Bar(what, total)
    try:
        yield shown
    finally:
        shown.close()


def say(text: str) -> None:
    """Print a line on standard error; control characters in it do nothing."""
    err.print(clean(text), markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    """Print a value as JSON, alone on standard output."""
    try:
        print(json.dumps(value, indent=1, default=str), flush=True)
    except BrokenPipeError:
        raise BrokenPipeError from None  # without its number, by which click would exit with 1


def print_frame(frame: pd.DataFrame, title: str) -> None:
    """Print a table; text from users is printed as it is, never as markup."""
    table = Table(title=title, title_justify="left")
    for column in frame.columns:
        table.add_column(str(column), justify="left" if column in _LEFT else "right")
    for row in frame.itertuples(index=False):
        table.add_row(*(Text(_cell(value)) for value in row))
    wide = out if out.width >= MIN_WIDTH else _Output(width=MIN_WIDTH)
    wide.print(table)


def _cell(value: Any) -> str:
    return f"{value:.3f}" if isinstance(value, float) else str(value)
