"""One page on runs side by side: verdict first, then everything it rests on."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from roadworthy.comparison import Comparison
from roadworthy.comparison.record import TABLES
from roadworthy.comparison.words import Sentence, sentences, told_apart
from roadworthy.errors import InputError
from roadworthy.files import replacing
from roadworthy.markup import escape, number, percent
from roadworthy.report.compare_chart import compare_chart, compare_figure, run_styles
from roadworthy.report.compare_tables import (
    agreement_table,
    differences_table,
    gates_table,
    intact_table,
    labelfree_differences,
    labelfree_table,
    scores_table,
    settings_of_runs,
)
from roadworthy.report.downloads import download_bar, figure_uri
from roadworthy.report.shell import page_text
from roadworthy.report.tables import name
from roadworthy.report.text import asset

_CSS = {"some": "good", "none": "care", "unknown": "none"}
_LEAD = {
    "evaluations": "Each run scores explanations of a model; another model, version, method or strategy gives other "
    "scores. This page says which differences between the runs are real.",
    "label-free": "Each run estimates, without labels, how accurate a classifier is. This page says how much the "
    "estimates can differ in truth.",
}
Row = Mapping[Hashable, Any]


def compare_report(found: Comparison, path: str | Path = "compare.html", *, title: str | None = None) -> Path:
    """Write one HTML file that shows runs side by side: the verdict, then everything it rests on.

    The file needs nothing else, makes no request, and works offline: plotly.js (about 4.8 MB) is inside.

    Args:
        found: what :func:`roadworthy.compare` returned.
        path: the file to write; folders on the way are made. An existing file is replaced in one step.
        title: heading of the page.

    Returns:
        The path of the file.

    Raises:
        InputError: ``path`` is a folder.

    Example:
        >>> compare_report(rw.compare(["runs/old", "runs/new"]), "compare.html")  # doctest: +SKIP
        PosixPath('compare.html')
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise InputError(f"report: {target} is a folder, expected a file; for instance {target / 'compare.html'}")
    shown = [section for section in _sections(found) if section[2]]
    text = page_text(
        title or "What do these runs differ in?",
        _about(found),
        _opening(found, {key: heading for key, heading, _ in shown}),
        shown,
        lead=_LEAD[found.kind],
        data=compare_chart(found),
        script="compare.js",
    )
    with replacing(target) as beside:
        beside.write_text(text, encoding="utf8")
    return target


def _sections(found: Comparison) -> list[tuple[str, str, str]]:
    free = found.kind == "label-free"
    return [
        ("warnings", "Warnings", _warnings(found)),
        ("scores", "Estimates side by side" if free else "Scores side by side", _scores(found)),
        ("differences", "Differences", labelfree_differences(found) if free else differences_table(found)),
        ("intact", "Accuracy with nothing removed", "" if free else intact_table(found)),
        ("agreement", "Do the runs rank the methods alike?", "" if free else agreement_table(found)),
        ("gates", "Gates", gates_table(found) if free else ""),
        ("settings", "What differs in settings and provenance", settings_of_runs(found)),
        ("reading", "How to read this", asset(f"reading-compare{'-labelfree' if free else ''}.html")),
        ("downloads", "Download the numbers", _downloads(found)),
    ]


def _about(found: Comparison) -> str:
    runs = ", ".join(name(run) for run in found.runs)
    if found.kind == "label-free":
        return f"{len(found.runs)} label-free runs: {runs}"
    methods = found.table["method"].nunique()
    return f"{len(found.runs)} runs: {runs} · {methods} method{'s' if methods > 1 else ''}"


def _opening(found: Comparison, headings: dict[str, str]) -> str:
    told = sentences(found)
    said = "".join(f"<p>{escape(sentence.text)}</p>" for sentence in told) + _links(told, headings)
    tiles = "".join(
        f"<div><dt>{term}</dt><dd>{value}<small>{more}</small></dd></div>" for term, value, more in _tiles(found)
    )
    return (
        f'<section id="verdict" class="verdict {_CSS[told_apart(found)]}"><h2>Verdict</h2>{said}</section>'
        f'<dl id="numbers" class="tiles">{tiles}</dl>'
    )


def _links(told: list[Sentence], headings: dict[str, str]) -> str:
    known = [key for key in dict.fromkeys(sentence.section for sentence in told) if key in headings]
    links = ", ".join(f'<a href="#{key}">{escape(headings[key])}</a>' for key in known)
    return f'<p class="small muted">Shown in: {links}</p>' if links else ""


def _tiles(found: Comparison) -> list[tuple[str, str, str]]:
    rows = found.table.to_dict("records")
    if found.kind == "label-free":
        return [(name(row["run"]), _share(row["accuracy"]), _ends(row)) for row in rows]
    tiles = [
        (name(row["run"]), _share(row["accuracy"]), f"right with nothing removed, {_ends(row)}")
        for row in found.intact.to_dict("records")
    ]
    known, apart = (int(column.sum()) for column in (found.differences["p"].notna(), found.differences["different"]))
    return [*tiles, ("Told apart", number(apart), f"of {number(known)} differences in score")]


def _share(value: float) -> str:
    return "–" if math.isnan(value) else percent(value)


def _ends(row: Row) -> str:
    return "no interval" if math.isnan(row["low"]) else f"{percent(row['low'])} to {percent(row['high'])}"


def _warnings(found: Comparison) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in found.warnings)
    return f'<ul class="warnings">{lines}</ul>' if lines else ""


def _scores(found: Comparison) -> str:
    alt = f"{found.score_name} of {len(found.runs)} runs, with intervals; the numbers are in the table below"
    table = labelfree_table(found) if found.kind == "label-free" else scores_table(found)
    return (
        f"{_switches(found)}"
        f'<div id="chart" class="no-js-hidden" role="figure" aria-label="{escape(alt)}"></div>'
        f'<img class="static" src="{figure_uri(compare_figure(found))}" alt="{escape(alt)}">{table}'
    )


def _switches(found: Comparison) -> str:
    views = {"scores": "scores", "differences": "differences from the first run"}
    known = compare_chart(found)["views"]
    chosen = "".join(
        f'<label><input type="radio" name="view" value="{key}"{" checked" if key == "scores" else ""}>{words}</label>'
        for key, words in views.items()
        if key in known
    )
    runs = "".join(
        f'<label><input type="checkbox" name="run" value="{place}" checked>{_swatch(place, found)}{name(run)}</label>'
        for place, run in enumerate(found.runs)
    )
    return (
        f'<fieldset class="no-js-hidden"><legend>Show</legend>{chosen}</fieldset>'
        f'<fieldset class="no-js-hidden"><legend>Runs</legend>{runs}</fieldset>'
        '<div class="bar no-js-hidden"><button type="button" data-save="svg">Save as SVG</button>'
        '<button type="button" data-save="png">Save as PNG</button></div>'
    )


def _swatch(place: int, found: Comparison) -> str:
    style = run_styles(found)[place]
    lines = "".join(
        f'<line class="{theme}-only" x1="0" x2="34" y1="6" y2="6" stroke="{colour}" stroke-width="3"/>'
        for theme, colour in (("light", style.light), ("dark", style.dark))
    )
    return f'<svg class="swatch" viewBox="0 0 34 12" aria-hidden="true">{lines}</svg>'


def _downloads(found: Comparison) -> str:
    frames = {f"{table}.csv": getattr(found, table) for table in TABLES}
    others = {
        "comparison.json": json.dumps(found.as_dict(), indent=1),
        "comparison.svg": figure_uri(compare_figure(found)),
    }
    return download_bar(frames, others)
