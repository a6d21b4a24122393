"""Cells of the label-free page's tables: undefined numbers are a dash, texts are escaped."""

from __future__ import annotations

from collections.abc import Sequence

from roadworthy.markup import escape, percent
from roadworthy.report.tables import head_cell, name
from roadworthy.report.text import signed


def table_heads(texts: Sequence[str], *, left: Sequence[int]) -> list[str]:
    """Return head cells; those at the positions ``left`` stand to the left."""
    return [head_cell(text, "left" if k in left else "") for k, text in enumerate(texts)]


def table_row(head: object, cells: Sequence[str], *texts: str) -> str:
    """Return a row: its name, numbers, then running text; a head may be plain text of a user's."""
    told = "".join(f"<td>{cell}</td>" for cell in cells)
    words = "".join(f'<td class="left reason">{escape(text)}</td>' for text in texts)
    return f'<tr><th scope="row">{name(head)}</th>{told}{words}</tr>'


def share(value: float | None) -> str:
    """Return a share in per cent.

    Example:
        >>> share(None)
        '–'
    """
    return "–" if value is None else percent(value)


def difference(value: float | None) -> str:
    """Return a number with its sign.

    Example:
        >>> difference(None)
        '–'
    """
    return "–" if value is None else signed(value)
