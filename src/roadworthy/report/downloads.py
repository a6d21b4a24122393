"""What a page hands on: numbers and figures as links that hold the whole file, so that they work offline."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from roadworthy.markup import escape
from roadworthy.report.figures import write_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_KINDS = {"csv": "text/csv", "json": "application/json", "svg": "image/svg+xml"}


def figure_uri(figure: Figure) -> str:
    """Return a figure as a data URI of SVG."""
    file = io.BytesIO()
    write_figure(figure, file, "svg")
    return _uri("svg", file.getvalue())


def download_bar(frames: Mapping[str, pd.DataFrame], others: Mapping[str, str] | None = None) -> str:
    """Return a row of links to files.

    Args:
        frames: tables by the name of their file, which ends in .csv; empty ones are left out.
        others: data URIs, or texts of .json files, by the name of their file.

    Returns:
        HTML; a lone surrogate in a name becomes a question mark.

    Example:
        >>> download_bar({"a.csv": pd.DataFrame({"x": [1]})})
        '<div class="bar"><a class="button" download="a.csv" href="data:text/csv;base64,eAoxCg==">a.csv</a></div>'
    """
    uris = {
        file: _uri("csv", frame.to_csv(index=False).encode("utf8", "replace"))
        for file, frame in frames.items()
        if len(frame)
    }
    for file, text in (others or {}).items():
        uris[file] = text if text.startswith("data:") else _uri("json", text.encode("utf8", "replace"))
    links = (
        f'<a class="button" download="{escape(file)}" href="{uri}">{escape(file)}</a>' for file, uri in uris.items()
    )
    return f'<div class="bar">{"".join(links)}</div>'


def _uri(kind: str, content: bytes) -> str:
    return f"data:{_KINDS[kind]};base64,{base64.b64encode(content).decode('ascii')}"
