"""``roadworthy audit agreement``: how far runs agree on the ranking of methods."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from roadworthy.cli.console import out, print_frame, print_json
from roadworthy.cli.options import JsonOption, SeedOption
from roadworthy.errors import DataError

if TYPE_CHECKING:
    from roadworthy.evaluation import Result
    from roadworthy.statistics import Concordance

_NAMED = 6  # sources whose names stand in the table
_COLUMNS = 8  # that fit the narrowest terminal beside the numbers of the rows


def agreement(
    runs: Annotated[list[Path], typer.Argument(help="Folders of saved results or of sweeps.", metavar="RUN...")],
    pairing: Annotated[
        Literal["removed", "kept"],
        typer.Option(
            "--pairing", help="Compare MoRF and LeRF at the same share removed, or as the paper at p removed, p kept."
        ),
    ] = "removed",
    by: Annotated[
        Literal["order", "gain"], typer.Option("--by", help="Compare each order, or the symmetric gain of both.")
    ] = "order",
    seed: SeedOption = 0,
    as_json: JsonOption = False,
    out_file: Annotated[
        Path | None, typer.Option("--out", help="Write the heat map too: FILE.html, FILE.svg or FILE.png.")
    ] = None,
) -> None:
    """Say how far runs agree on the ranking: every order, judge, imputer and model against every other.

    One run is enough if it has both orders or several judges or imputers.
    """
    from roadworthy.evaluation.concordance import concordance_of
    from roadworthy.report.concordance_page import write_concordance

    found = concordance_of(_results(runs), by=by, pairing=pairing, seed=seed)
    written = None if out_file is None else write_concordance(found, out_file)
    if as_json:
        print_json(_record(found) | {"file": None if written is None else str(written)})
        return
    _show(found)
    if written is not None:
        out.print(f"heat map: {written}", markup=False, highlight=False, soft_wrap=True)


def _results(runs: list[Path]) -> dict[str, Result]:
    """Return every result that lies in the folders, by the folder and what it is there."""
    names = _names(runs)
    return {
        f"{name}{' / ' if inside else ''}{inside}": result
        for name, run in zip(names, runs, strict=True)
        for inside, result in _inside(run).items()
    }


def _names(runs: list[Path]) -> list[str]:
    """Call each folder by its name; by its path where two have the same."""
    names = [run.resolve().name for run in runs]
    if len(set(names)) == len(names):
        return names
    paths = [str(run) for run in runs]
    twice = sorted({path for path in paths if paths.count(path) > 1})
    if twice:
        raise DataError(f"{', '.join(twice)}: named twice; a run agrees with itself, name each folder once")
    return paths


def _inside(run: Path) -> dict[str, Result]:
    from roadworthy.evaluation import load_result
    from roadworthy.sweep.collate import collate, is_sweep, read_plan
    from roadworthy.sweep.store import Store

    if not is_sweep(run):
        if not (run / "result.json").is_file():
            raise DataError(
                f"{run}: neither a result nor a sweep lies here (no result.json and no plan.json); give the folders "
                "that 'roadworthy road', 'roar' or 'run' wrote"
            )
        return {"": load_result(run)}
    collected = collate(read_plan(run), Store(run))
    found = dict(collected.results)
    if len(found) == 1 and collected.road is None:
        found = {"": next(iter(found.values()))}
    if collected.road is not None:
        found["road"] = collected.road
    if not found:
        raise DataError(f"{run}: no method's curve is complete yet, so there is nothing to compare")
    return found


def _record(found: Concordance) -> dict[str, Any]:
    """Return all that was found, undefined numbers as None."""
    return _plain(asdict(found) | {"pairs": found.pairs().to_dict(orient="records")})


def _plain(value: Any) -> Any:
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _show(found: Concordance) -> None:
    """Print the matrix, its columns numbered as its rows, and what all of it comes to.

    Where names would squeeze the numbers they stand below; where there are more columns than fit, the rest follows.
    """
    import pandas as pd

    from roadworthy.markup import clean, number
    from roadworthy.report.concordance import oddities, overall, ranking_sources, spread

    shown = ranking_sources(found)
    names = [f"{i + 1} {clean(found.sources[i])}" for i in shown]
    short = len(shown) > _NAMED
    over = f"n = {found.n}" if found.n else "over trainings"
    title = f"Spearman of the ranks of {len(found.methods)} methods, share {found.pairing}, {over}"
    for start in range(0, len(shown), _COLUMNS):
        columns = shown[start : start + _COLUMNS]
        cells = {str(j + 1): [number(float(found.spearman.value[i, j]), 2) for i in shown] for j in columns}
        rows = [str(i + 1) for i in shown] if short else names
        print_frame(pd.DataFrame({"source": rows} | cells), title if start == 0 else "and the other columns")
    for sentence in (*(names if short else []), *oddities(found), spread(found), overall(found)):
        out.print(sentence, markup=False, highlight=False, soft_wrap=True)
