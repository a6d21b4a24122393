"""One look for every method, the same in the page and in the figures: colour, line, marker; controls in grey.

Colours are kept apart by hue and by lightness under the common colour-vision deficiencies, and never stand alone:
each method also has its own line and marker.
"""

from __future__ import annotations

from dataclasses import dataclass

from roadworthy.evaluation.standing import is_control

# Okabe and Ito's hues, darkened or lightened until the line stands 3:1 or more against its background
_COLOURS = (
    ("#0072b2", "#56b4e9"),
    ("#c44e00", "#ff9a56"),
    ("#00795a", "#2cc5a0"),
    ("#a3457f", "#e79ac8"),
    ("#8c6a00", "#e3b23c"),
    ("#4b3fa7", "#a9a1f5"),
)
_GREYS = (("#5c5c5c", "#b4b4b4"), ("#767676", "#d0d0d0"), ("#3a3a3a", "#989898"))
_DASHES = ("solid", "dash", "dashdot", "longdash")
_MARKERS = ("circle", "square", "diamond", "triangle-up", "cross", "star", "triangle-down", "x")


@dataclass(frozen=True)
class Style:
    """How a method is drawn; dashes and markers by plotly's names."""

    light: str
    dark: str
    dash: str
    marker: str


def method_styles(methods: list[str]) -> dict[str, Style]:
    """Give each method its own combination of colour, line and marker; controls are grey and dotted."""
    styles: dict[str, Style] = {}
    real = grey = 0
    for position, method in enumerate(methods):
        marker = _MARKERS[position % len(_MARKERS)]
        if is_control(method):
            styles[method] = Style(*_GREYS[grey % len(_GREYS)], "dot", marker)
            grey += 1
        else:
            dash = _DASHES[real // len(_COLOURS) % len(_DASHES)]
            styles[method] = Style(*_COLOURS[real % len(_COLOURS)], dash, marker)
            real += 1
    return styles
