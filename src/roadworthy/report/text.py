"""Text and numbers as a page may show them: whatever came from a user is cleaned and escaped here."""

from __future__ import annotations

import html
import importlib.resources
import json
import math
from typing import Any

from roadworthy.markup import clean, number


def chart_text(value: object) -> str:
    """Return ``value`` as text that plotly shows as it is: plotly reads a subset of HTML in every label.

    Example:
        >>> chart_text("<b>x</b> %{y}")
        '&lt;b&gt;x&lt;/b&gt; %&#123;y}'
    """
    return html.escape(clean(value), quote=False).replace("%{", "%&#123;").replace("$", "&#36;")


def json_block(data: Any) -> str:
    """Return ``data`` as JSON that cannot end the ``<script>`` element it stands in; NaN becomes null.

    Example:
        >>> json_block({"x": "</script>"})
        '{"x":"\\\\u003c/script\\\\u003e"}'
    """
    text = json.dumps(_finite(data), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def signed(value: float, digits: int = 3) -> str:
    """Return a difference with its sign.

    Example:
        >>> signed(0.25), signed(-0.25), signed(0.0)
        ('+0.250', '−0.250', '0.000')
    """
    shown = number(float(value), digits)
    return f"+{shown}" if value > 0 and float(f"{value:.{digits}f}") else shown


def duration(seconds: float) -> str:
    """Return a wall time in two units that suit its size.

    Example:
        >>> duration(0.04), duration(61.4), duration(7321), duration(200_000)
        ('0.04\xa0s', '1\xa0min 1\xa0s', '2\xa0h 2\xa0min', '2\xa0d 7\xa0h')
    """
    if seconds < 10:
        return f"{seconds:.2f}\u00a0s"
    whole = round(seconds)
    for size, name, part, small in ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size}\u00a0{name} {whole % size // part}\u00a0{small}"
    return f"{whole}\u00a0s"


def p_value(value: float) -> str:
    """Return a p-value, never as zero.

    Example:
        >>> p_value(0.0), p_value(0.0312), p_value(1.0)
        ('p < 0.001', 'p = 0.031', 'p = 1.000')
    """
    if math.isnan(value):
        return "–"
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}"


def listed(names: list[str], most: int = 6) -> str:
    """Return names as a phrase, the rest counted.

    Example:
        >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d"], most=2)
        ('a', 'a, b and c', 'a, b and 2 others')
    """
    if len(names) > most:
        rest = len(names) - most
        names = [*names[:most], f"{rest} other{'s' if rest > 1 else ''}"]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"


def asset(file: str) -> str:
    """Return a text file that belongs to the page: template, style or script."""
    return (importlib.resources.files("roadworthy.report") / "assets" / file).read_text(encoding="utf8")


def _finite(data: Any) -> Any:
    if isinstance(data, dict):
        return {clean(key): _finite(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_finite(value) for value in data]
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    return data
