"""The reliability-completeness curves, for the page's script and as a figure for papers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from roadworthy.errors import InputError
from roadworthy.labelfree.result import LabelFree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# light, dark and dash of each curve; told apart without colour too
_STYLES = (("#0072b2", "#7db7ff", "solid"), ("#c44e00", "#ff9a56", "dash"), ("#1a6b3f", "#63d297", "dot"))
_DASHES: dict[str, Any] = {"solid": "-", "dash": "--", "dot": ":"}


def curves_of(record: Mapping[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """Return the curves with their names, the one to read first."""
    found = [] if record["curve"] is None else [(f"reliability ({record['curve']['estimator']})", record["curve"])]
    return found + [(f"as described in the guide: {curve['estimator']}", curve) for curve in record["described"]]


def chart_curves(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what the page's script draws."""
    return [
        {
            "name": name,
            "x": curve["coverage"],
            "y": curve["reliability"],
            "low": curve["low"],
            "high": curve["high"],
            "thresholds": curve["thresholds"],
            "light": light,
            "dark": dark,
            "dash": dash,
        }
        for (name, curve), (light, dark, dash) in zip(curves_of(record), _STYLES, strict=False)
    ]


def reliability_figure(result: LabelFree) -> Figure:
    """Draw reliability against coverage.

    Args:
        result: a label-free result whose samples were perturbed.

    Returns:
        A matplotlib figure: the ranked curve with its band, and the guide's curves dashed.

    Raises:
        InputError: nothing was perturbed.
    """
    from matplotlib.figure import Figure

    curves = curves_of(result.record)
    if not curves:
        raise InputError("reliability_figure: nothing was perturbed; run labelfree on samples, with a model")
    figure = Figure(figsize=(5.2, 4.2), layout="constrained")
    axes = figure.subplots()
    for (name, curve), (colour, _, dash) in zip(curves, _STYLES, strict=False):
        x, y = (_numbers(curve[key]) for key in ("coverage", "reliability"))
        axes.plot(x, y, _DASHES[dash], color=colour, linewidth=1.6, label=name)
        if curve["low"] is not None:
            axes.fill_between(
                x, _numbers(curve["low"]), _numbers(curve["high"]), color=colour, alpha=0.15, linewidth=0
            )
    axes.set(xlim=(0, 1), ylim=(-0.02, 1.02), xlabel="coverage (share of the samples kept)", ylabel="reliability")
    axes.grid(alpha=0.3)
    figure.legend(loc="outside lower center", fontsize=8, frameon=False)
    return figure


def _numbers(values: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in values]
