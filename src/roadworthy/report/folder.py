"""Everything a run leaves behind, in one folder."""

from __future__ import annotations

from pathlib import Path

from roadworthy.errors import InputError
from roadworthy.evaluation.result import Result
from roadworthy.report.figures import curves_figure, save_figure, sheet_figure
from roadworthy.report.page import report


def write_all(result: Result, folder: str | Path) -> dict[str, Path]:
    """Write a result, its figures and its report into one folder.

    Args:
        result: what an evaluation found.
        folder: made when missing; an earlier result there is replaced once the new one is written, then each picture.

    Returns:
        Paths by file name: those of :meth:`Result.save`, ``curves.svg``, ``curves.png``, ``report.html``, and
        ``sheet.svg`` and ``sheet.png`` where samples were kept for pictures.

    Raises:
        InputError: the folder is a file, or the result is empty.

    Example:
        >>> write_all(result, "runs/digits")["report.html"]  # doctest: +SKIP
        PosixPath('runs/digits/report.html')
    """
    place = result.save(folder)
    saved = ("results.parquet", "per_sample.parquet", "ranking.csv", "result.json", "sheet.npz")
    return {name: place / name for name in saved if (place / name).exists()} | write_pictures(result, place)


def write_pictures(result: Result, folder: str | Path) -> dict[str, Path]:
    """Write the figures and the report of a result into a folder, and leave the result's own files alone.

    Args:
        result: what an evaluation found.
        folder: an existing folder.

    Returns:
        Paths by file name: ``curves.svg``, ``curves.png``, ``report.html``, and ``sheet.svg`` and ``sheet.png``
        where samples were kept for pictures.

    Raises:
        InputError: there is no such folder, or the result is empty.

    Example:
        >>> write_pictures(load_result("runs/digits"), "runs/digits")["curves.png"]  # doctest: +SKIP
        PosixPath('runs/digits/curves.png')
    """
    place = Path(folder).expanduser()
    if not place.is_dir():
        raise InputError(f"write_pictures: {place} is no folder; give that of a saved result, or use write_all")
    written = dict(save_figure(curves_figure(result), place / "curves"))
    if result.sheet is not None:
        written |= save_figure(sheet_figure(result), place / "sheet")
    else:
        for kind in ("svg", "png"):
            (place / f"sheet.{kind}").unlink(missing_ok=True)
    written["report.html"] = report(result, place / "report.html")
    return written
