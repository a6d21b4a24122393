"""``roadworthy compare``: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from roadworthy.cli.claim import claimed
from roadworthy.cli.console import out, print_frame, print_json, say
from roadworthy.cli.options import JsonOption, SeedOption, out_option, parse_list
from roadworthy.errors import DataError, InputError

if TYPE_CHECKING:
    import pandas as pd

    from roadworthy.comparison import Comparison

PAGE = "compare.html"
_SCORES = ["run", "method", "score", "low", "high", "rank"]
_DIFFERENCES = ["method", "run", "difference", "low", "high", "p_holm", "different", "n"]
_ESTIMATES = ["run", "accuracy", "low", "high", "estimator", "n"]
_APART = ["run", "difference", "low", "high", "level", "disagree", "n"]


def compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of two or more runs of road, roar, run or labelfree; the first is the base.",
        ),
    ],
    names: Annotated[
        str | None,
        typer.Option("--names", help="What to call the runs, comma separated; the folders' names by default."),
    ] = None,
    readout: Annotated[
        str | None,
        typer.Option("--readout", help="top1, top5, probability or logit; each run's own by default."),
    ] = None,
    level: Annotated[float, typer.Option("--level", help="Of intervals and differences, between 0 and 1.")] = 0.95,
    seed: SeedOption = 0,
    folder: Annotated[Path, out_option("roadworthy-compare")] = Path("roadworthy-compare"),
    as_json: JsonOption = False,
) -> None:
    """Hold runs against the first: other models, versions, methods or strategies; differences with intervals."""
    from roadworthy.comparison import compare as compare_runs
    from roadworthy.report.compare import compare_report

    found = compare_runs(_opened(runs, names), readout=readout, level=level, seed=seed)
    with claimed(folder, "compare"):
        place = found.save(folder)
        page = compare_report(found, place / PAGE)
    if as_json:
        print_json({**found.as_dict(), "files": {"folder": str(place), PAGE: str(page)}})
    else:
        show(found, page)


def show(found: Comparison, page: Path) -> None:
    """Print the verdict, scores and differences side by side, and where the page lies."""
    from roadworthy.markup import clean

    for sentence in found.verdict:
        out.print(clean(sentence), markup=False, highlight=False, soft_wrap=True)
    free = found.kind == "label-free"
    print_frame(_cells(found.table[_ESTIMATES if free else _SCORES]), found.score_name)
    if len(found.differences):
        title = f"difference from {clean(found.runs[0])}"
        print_frame(_cells(found.differences[_APART if free else _DIFFERENCES]), title)
    for warning in found.warnings:
        say(f"note: {clean(warning)}")
    out.print(f"report: {page}", markup=False, highlight=False, soft_wrap=True)


def _cells(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table as it is printed: a dash where a number is withheld or not known, names without controls."""
    from roadworthy.markup import clean

    shown = frame.astype(object).where(frame.notna(), "–")
    return shown.map(lambda value: clean(value) if isinstance(value, str) else value)


def _opened(runs: list[Path], names: str | None) -> dict[str, Any]:
    """Return every result that lies in the folders: a sweep holds one a fill."""
    from roadworthy.comparison.front import run_names

    called = run_names(runs) if names is None else parse_list(names, "names")
    if len(called) != len(runs):
        raise InputError(f"--names: {len(called)} names came for {len(runs)} runs; give one a run")
    twice = sorted({name for name in called if called.count(name) > 1})
    if twice:
        raise InputError(f"--names: {', '.join(twice)} came twice; give each run a name of its own")
    found: dict[str, Any] = {}
    for name, run in zip(called, runs, strict=True):
        for inside, result in _inside(run).items():
            found.setdefault(f"{name} / {inside}" if inside else name, result)
    return found


def _inside(run: Path) -> dict[str, Any]:
    from roadworthy.sweep.collate import collate, is_sweep, read_plan
    from roadworthy.sweep.store import Store

    if not is_sweep(run):
        return {"": run}
    found = collate(read_plan(run), Store(run)).results
    if not found:
        raise DataError(f"{run}: no method's curve is complete yet, so there is nothing to compare")
    return {"": next(iter(found.values()))} if len(found) == 1 else dict(found)
