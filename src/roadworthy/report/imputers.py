"""The audit of imputers as a page in the style of every other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from roadworthy.files import replacing
from roadworthy.markup import escape, number, percent
from roadworthy.provenance import versions
from roadworthy.report.downloads import download_bar
from roadworthy.report.shell import page_text
from roadworthy.report.tables import head_cell, interval, row_head, settings_table, table
from roadworthy.report.text import asset

_LEAD = (
    "To test an explanation, parts of an image are replaced by a fill. A good fill does not show which parts were "
    "replaced, and lies near to what stood there. Here each fill is tried on images whose truth is known."
)
_HEADS = (
    "fill",
    "share removed",
    "error of a predictor",
    "interval",
    "guessing",
    "off by",
    "interval",
    "ms an image",
)


def imputers_report(found: pd.DataFrame, settings: Mapping[str, Any], path: str | Path = "imputers.html") -> Path:
    """Write one HTML file that shows what :func:`roadworthy.evaluation.audit.imputers.audit_imputers` found.

    The file needs nothing else, makes no request, and works offline.

    Args:
        found: the table, a row per imputer and share, with its ``.attrs``.
        settings: of each imputer, by name.
        path: the file to write; an existing one is replaced in one step.

    Returns:
        The path of the file.

    Example:
        >>> imputers_report(audit_imputers(images, ["mean", "zero"]), {})  # doctest: +SKIP
        PosixPath('imputers.html')
    """
    known = found.attrs
    provenance = {"seed": known["seed"], "n": known["n"], "versions": versions()}
    settings = {"masks": known["masks"], "effort": known["effort"], "imputers": dict(settings)}
    folded = "".join(
        f"<details><summary>{title}</summary>{settings_table(values, title)}</details>"
        for title, values in (("Settings", settings), ("Provenance", provenance))
    )
    text = page_text(
        "What do the fills give away?",
        f"{number(known['n'])} samples · {found['imputer'].nunique()} fills · {escape(known['masks'])} masks",
        _opening(known["verdicts"]),
        [
            ("fills", "Every fill at every share removed", _fills(found)),
            ("settings", "Settings and provenance", folded),
            ("reading", "How to read this", asset("reading-imputers.html")),
            ("downloads", "Download the numbers", download_bar({"imputers.csv": found})),
        ],
        lead=_LEAD,
    )
    target = Path(path).expanduser()
    with replacing(target) as beside:
        beside.write_text(text, encoding="utf8")
    return target


def _opening(verdicts: Mapping[str, str]) -> str:
    lines = "".join(f"<li>{escape(line)}.</li>" for line in verdicts.values())
    return (
        f'<section id="verdict" class="verdict"><h2>Verdict</h2><ul class="advice">{lines}</ul>'
        '<p class="small muted">Shown in: <a href="#fills">Every fill at every share removed</a></p></section>'
    )


def _fills(found: pd.DataFrame) -> str:
    asked = [name for name in ("agreement", "accuracy") if name in found]
    heads = [*_HEADS, *(text for name in asked for text in (name, "interval"))]
    rows = [
        f"<tr>{row_head(row['imputer'])}{''.join(f'<td>{cell}</td>' for cell in _cells(row, asked))}</tr>"
        for row in found.to_dict("records")
    ]
    intact = found.attrs.get("intact_accuracy")
    told = "" if intact is None else f" With nothing removed the model is right for {percent(intact)}."
    caption = (
        "A small predictor tries to tell which units were filled; its error is held against that of guessing. "
        f"<i>Off by</i>: root mean square error against the true pixels.{told} Intervals are at 95\u00a0%."
    )
    return table(caption, [head_cell(text, "" if i else "left") for i, text in enumerate(heads)], rows, label="Fills")


def _cells(row: Mapping[Any, Any], asked: list[str]) -> list[str]:
    return [
        percent(row["fraction"]),
        number(row["predictor_error"]),
        interval(row["predictor_low"], row["predictor_high"]),
        number(row["base"]),
        number(row["rmse"]),
        interval(row["rmse_low"], row["rmse_high"]),
        f"{row['ms']:.2g}",
        *(cell for name in asked for cell in (percent(row[name]), interval(row[f"{name}_low"], row[f"{name}_high"]))),
    ]
