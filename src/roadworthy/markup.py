"""Text and numbers as HTML may show them, and the small card that a result shows itself with in a notebook."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral

# control characters, lone surrogates and the marks that reorder text: a name must not change how others read
_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def clean(value: object) -> str:
    """Return ``value`` as text without control characters, lone surrogates and marks that reorder text.

    Example:
        >>> clean("a\\x00b")
        'a\ufffdb'
    """
    return _UNPRINTABLE.sub("\ufffd", str(value))


def escape(value: object) -> str:
    """Return ``value`` as text that is safe in HTML, between tags and inside quoted attributes.

    Example:
        >>> escape('<b> & "x"')
        '&lt;b&gt; &amp; &quot;x&quot;'
    """
    return html.escape(clean(value), quote=True)


def number(value: object, digits: int = 3) -> str:
    """Return a number with a fixed count of decimals and a true minus sign; ``–`` where it is undefined.

    Example:
        >>> number(-0.12345), number(float("nan")), number(3), number(-0.0001)
        ('−0.123', '–', '3', '0.000')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, Integral):  # of Python or NumPy
        return f"{int(value):,}".replace(",", "\u202f").replace("-", "−")
    shown = f"{float(value):.{digits}f}"  # type: ignore[arg-type]
    if not float(shown):
        shown = shown.lstrip("-")
    return shown.replace("-", "−")


def percent(value: float) -> str:
    """Return a share in percent, without decimals that say nothing.

    Example:
        >>> percent(0.1), percent(0.875), percent(float("nan"))
        ('10\xa0%', '87.5\xa0%', '–')
    """
    if math.isnan(value):
        return "–"
    return f"{100 * value:.1f}".removesuffix(".0") + "\u00a0%"


def card(heading: str, parts: Iterable[str]) -> str:
    """Return a piece of HTML for a notebook: no scripts, nothing fetched, the colours of whatever is around it.

    Args:
        heading: plain text.
        parts: HTML.
    """
    inside = "".join(part for part in parts if part)
    return (
        '<div class="roadworthy" style="max-width:62em;line-height:1.5">'
        f'<div style="font-weight:600;font-size:1.1em">{escape(heading)}</div>{inside}</div>'
    )


def paragraph(text: str, *, quiet: bool = False) -> str:
    """Return a paragraph of plain text, small where it is ``quiet``."""
    return f'<p style="margin:.4em 0{";font-size:.9em" if quiet else ""}">{escape(text)}</p>'


def grid(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of a card; the first cell of a row names it.

    Args:
        caption: plain text.
        columns: plain text.
        rows: cells as HTML.
    """
    cell = "text-align:left;padding:.15em .8em .15em 0;border-bottom:1px solid currentColor;vertical-align:top"
    head = "".join(f'<th scope="col" style="{cell}">{escape(name)}</th>' for name in columns)
    body = "".join(
        f'<tr><th scope="row" style="{cell};font-weight:600">{first}</th>'
        + "".join(f'<td style="{cell}">{other}</td>' for other in rest)
        + "</tr>"
        for first, *rest in rows
    )
    return (
        '<table style="border-collapse:collapse;margin:.5em 0;font-variant-numeric:tabular-nums">'
        '<caption style="caption-side:bottom;text-align:left;font-size:.9em;color:inherit">'
        f"{escape(caption)}</caption>"
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    )


def bullets(title: str, lines: Sequence[str], *, most: int = 6, length: int = 400) -> str:
    """Return lines of plain text as a list under a title, the rest counted; empty where there are none."""
    if not lines:
        return ""
    shown = [line if len(line) <= length else f"{line[: length - 1]}…" for line in lines[:most]]
    if len(lines) > most:
        shown.append(f"... and {len(lines) - most} more")
    items = "".join(f"<li>{escape(line)}</li>" for line in shown)
    return f'<div style="margin-top:.5em;font-weight:600">{escape(title)}</div><ul style="margin:.2em 0">{items}</ul>'


def spark(
    lines: Sequence[tuple[Sequence[float], Sequence[float]]], label: str, *, low: float = 0.0, high: float = 1.0
) -> str:
    """Return small curves as an SVG drawing in the colour of the text; the first is solid, the second dashed.

    Args:
        lines: x in [0, 1] and y of each curve; points that are not finite are left out.
        label: what a screen reader says instead.
        low: y at the lower edge.
        high: y at the upper edge.
    """
    width, height, edge = 120, 28, 2
    drawn = []
    for place, (across, up) in enumerate(lines):
        points = " ".join(
            f"{edge + x * (width - 2 * edge):.1f},{height - edge - _share(y, low, high) * (height - 2 * edge):.1f}"
            for x, y in zip(across, up, strict=True)
            if math.isfinite(y)
        )
        dash = ' stroke-dasharray="4 2"' if place else ""
        drawn.append(f'<polyline points="{points}" fill="none" stroke="currentColor" stroke-width="1.5"{dash}/>')
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}">{"".join(drawn)}</svg>'
    )


def _share(value: float, low: float, high: float) -> float:
    return min(1.0, max(0.0, (value - low) / (high - low))) if high > low else 0.5
