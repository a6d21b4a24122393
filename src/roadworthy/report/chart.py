"""What the page's script draws the curves from, and the switches above them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from roadworthy.evaluation.result import Result
from roadworthy.report.facts import chance, orders_of, within_range, words_of
from roadworthy.report.material import Material
from roadworthy.report.styles import Style, method_styles
from roadworthy.report.tables import name
from roadworthy.report.text import chart_text

_DASH_ARRAYS = {"solid": "none", "dash": "7 3", "dashdot": "8 3 2 3", "longdash": "12 4", "dot": "2 2"}


def chart_data(material: Material) -> dict[str, Any]:
    """Return the curves of every readout as plain lists [method][order][fraction], names safe for plotly."""
    result = material.result
    styles = method_styles(result.methods)
    orders = orders_of(result)
    return {
        "headline": result.readout,
        "fractions": [float(p) for p in result.fractions],
        "removed": [int(k) for k in result.removed],
        "orders": [
            {"key": order, "title": f"{words.short}: {words.first}", "better": words.better}
            for order, words in orders.items()
        ],
        "methods": [{"name": chart_text(method), **vars(styles[method])} for method in result.methods],
        "readouts": {
            key: {
                "name": words_of(result, key).name,
                "chance": chance(result) if words_of(result, key).has_chance else None,
                **{column: _values(result, frame, column, list(orders)) for column in ("value", "low", "high")},
            }
            for key, frame in ((key, within_range(frame, key)) for key, frame in material.curves.items())
        },
    }


def _values(result: Result, frame: pd.DataFrame, column: str, orders: list[str]) -> Any:
    shape = (len(result.methods), len(result.orders), len(result.fractions))
    return frame[column].to_numpy(dtype=float).reshape(shape)[:, [result.orders.index(o) for o in orders]].tolist()


def switches(material: Material) -> str:
    """Readout, methods and axis, as form controls; the curves' own legend cannot be reached by keyboard."""
    result = material.result
    readouts = "".join(
        f'<label><input type="radio" name="readout" value="{key}"{" checked" if key == result.readout else ""}>'
        f"{words_of(result, key).name}</label>"
        for key in material.curves
    )
    styles = method_styles(result.methods)
    methods = "".join(
        f'<label><input type="checkbox" name="method" checked>{_swatch(styles[method])}{name(method)}</label>'
        for method in result.methods
    )
    order, paper = ("KAR", "ROAR") if result.retrained else ("LeRF", "ROAD")
    axis = f"{order} axis as share kept (as in the {paper} paper)"
    kept = f'<label><input type="checkbox" id="kept">{axis}</label>'
    return (
        f'<fieldset class="no-js-hidden"><legend>Readout</legend>{readouts}</fieldset>'
        f'<fieldset class="no-js-hidden"><legend>Methods</legend>{methods}</fieldset>'
        '<div class="bar no-js-hidden"><button type="button" data-methods="all">All methods</button>'
        '<button type="button" data-methods="none">No methods</button>'
        '<button type="button" data-save="svg">Save as SVG</button>'
        '<button type="button" data-save="png">Save as PNG</button>'
        '<label><input type="checkbox" id="bands" checked>Bands</label>'
        f"{kept if 'lerf' in result.orders else ''}</div>"
    )


def _swatch(style: Style) -> str:
    lines = "".join(
        f'<line class="{theme}-only" x1="0" x2="34" y1="6" y2="6" stroke="{colour}" stroke-width="3" '
        f'stroke-dasharray="{_DASH_ARRAYS[style.dash]}"/>'
        for theme, colour in (("light", style.light), ("dark", style.dark))
    )
    return f'<svg class="swatch" viewBox="0 0 34 12" aria-hidden="true">{lines}</svg>'
