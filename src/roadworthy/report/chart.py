"""What the page's script draws the curves from, and the switches above them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import chance, within_range
from roadworthy.markup import clean, escape
from roadworthy.report.facts import orders_of, words_of
from roadworthy.report.findings import Findings
from roadworthy.report.material import Material
from roadworthy.report.styles import Style, method_styles
from roadworthy.report.tables import name
from roadworthy.report.text import chart_text

_DASH_ARRAYS = {"solid": "none", "dash": "7 3", "dashdot": "8 3 2 3", "longdash": "12 4", "dot": "2 2"}
VIEWS_BYTES = 1_000_000  # of the curves of each view at most
_NUMBER = 10  # bytes of a number in the page


def chart_data(material: Material) -> dict[str, Any]:
    """Return the curves of every readout as plain lists [method][order][fraction], names safe for plotly.

    Beside the mean over the views that count stand the curves of each view: of every readout where these fit
    ``VIEWS_BYTES``, else of the result's own readout, else none.
    """
    result = material.result
    styles = method_styles(result.methods)
    each = viewed_readouts(material)
    return {
        "headline": result.readout,
        "fractions": [float(p) for p in result.fractions],
        "removed": [int(k) for k in result.removed],
        "orders": [
            {
                "key": order,
                "short": words.short,
                "title": f"{words.short}: {words.first}",
                "better": words.better,
            }
            for order, words in orders_of(result).items()
        ],
        "methods": [
            {"name": chart_text(method), "label": clean(method), **vars(styles[method])} for method in result.methods
        ],
        "views": [{"name": chart_text(text), "label": clean(text)} for text in _view_names(material)],
        "readouts": {
            key: {
                "name": words_of(result, key).name,
                "mean": _mean(material.findings[key]),
                "chance": chance(result) if words_of(result, key).has_chance else None,
                **_values(result, frame, key),
                "views": [
                    _values(view.found.result, view.found.result.curves(key), key)
                    for view in material.findings[key].views
                    if key in each
                ],
            }
            for key, frame in material.curves.items()
        },
    }


def viewed_readouts(material: Material) -> list[str]:
    """Return the readouts whose curves are drawn for each view too; none with one view."""
    result = material.result
    one = 3 * len(result.methods) * len(result.orders) * len(result.fractions) * len(material.main.views) * _NUMBER
    for readouts in (list(material.curves), [result.readout]):
        if one and one * len(readouts) <= VIEWS_BYTES:
            return readouts
    return []


def _values(result: Result, frame: pd.DataFrame, readout: str) -> dict[str, Any]:
    shown = within_range(frame, readout)
    shape = (len(result.methods), len(result.orders), len(result.fractions))
    orders = [result.orders.index(order) for order in orders_of(result)]
    return {
        column: _rounded(shown[column].to_numpy(dtype=float).reshape(shape)[:, orders].tolist())
        for column in ("value", "low", "high")
    }


def _rounded(values: Any) -> Any:
    return [_rounded(value) for value in values] if isinstance(values, list) else float(f"{values:.6g}")


def _view_names(material: Material) -> list[str]:
    """What is drawn, in words: the mean first; empty with one view."""
    found = material.main
    return [_mean(found), *(view.label for view in found.views)] if viewed_readouts(material) else []


def _mean(found: Findings) -> str:
    """What the curves of a readout are the mean over, in words: views that say nothing of it do not count."""
    return f"mean over {found.mean_of}" if found.views else ""


def judges_word(found: Findings) -> str:
    """What one of the views is: "Judge and fill", "Judge" or "Fill"."""
    return found.views_word.replace("judges", "judge").replace("fills", "fill").capitalize()


def switches(material: Material) -> str:
    """Readout, view, order, methods and axis, as form controls; a legend could not be reached by keyboard."""
    result = material.result
    readouts = [(key, words_of(result, key).name) for key in material.curves]
    views = [(str(place), f"<span>{escape(text)}</span>") for place, text in enumerate(_view_names(material))]
    orders = [(order, words.short) for order, words in orders_of(result).items()]
    orders = [("both", "both"), *orders] if len(orders) > 1 else []
    styles = method_styles(result.methods)
    methods = "".join(
        f'<label><input type="checkbox" name="method" checked>{_swatch(styles[method])}{name(method)}</label>'
        for method in result.methods
    )
    order, paper = ("KAR", "ROAR") if result.retrained else ("LeRF", "ROAD")
    axis = f"{order} axis as share kept (as in the {paper} paper)"
    kept = f'<label><input type="checkbox" id="kept">{axis}</label>'
    return (
        f"{_radios('Readout', 'readout', readouts)}{_radios(judges_word(material.main), 'view', views)}"
        f"{_radios('Order', 'order', orders)}"
        f'<fieldset class="no-js-hidden"><legend>Methods</legend>{methods}</fieldset>'
        '<div class="bar no-js-hidden"><button type="button" data-methods="all">All methods</button>'
        '<button type="button" data-methods="none">No methods</button>'
        '<button type="button" data-save="svg">Save as SVG</button>'
        '<button type="button" data-save="png">Save as PNG</button>'
        '<button type="button" data-save="csv">Save as CSV</button>'
        '<label><input type="checkbox" id="bands" checked>Bands</label>'
        f"{kept if 'lerf' in result.orders else ''}</div>"
    )


def _radios(legend: str, called: str, choices: list[tuple[str, str]]) -> str:
    """One of several, the first chosen; nothing where there is no choice.

    Args:
        legend: what is chosen.
        called: name of the control.
        choices: value and words of each, as HTML.
    """
    buttons = "".join(
        f'<label><input type="radio" name="{called}" value="{value}"{"" if place else " checked"}>{words}</label>'
        for place, (value, words) in enumerate(choices)
    )
    return f'<fieldset class="no-js-hidden"><legend>{legend}</legend>{buttons}</fieldset>' if choices else ""


def _swatch(style: Style) -> str:
    lines = "".join(
        f'<line class="{theme}-only" x1="0" x2="34" y1="6" y2="6" stroke="{colour}" stroke-width="3" '
        f'stroke-dasharray="{_DASH_ARRAYS[style.dash]}"/>'
        for theme, colour in (("light", style.light), ("dark", style.dark))
    )
    return f'<svg class="swatch" viewBox="0 0 34 12" aria-hidden="true">{lines}</svg>'
