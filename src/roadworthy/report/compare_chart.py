"""Runs side by side as a picture: a row per method, a mark with its interval per run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pandas as pd

from roadworthy.comparison import Comparison
from roadworthy.report.figures import MARKERS, legend_text
from roadworthy.report.styles import Style, method_styles
from roadworthy.report.text import chart_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SPREAD = 0.62  # of a row's height that its runs take up
ESTIMATE = "accuracy"


def run_styles(found: Comparison) -> list[Style]:
    """Return how each run is drawn; the name of a run says nothing of its look."""
    names = [f"run {place}" for place in range(len(found.runs))]
    return list(method_styles(names).values())


def compare_chart(found: Comparison) -> dict[str, Any]:
    """Return what the page's script draws: scores, and differences where there are some."""
    shown = {"scores": _score_rows(found)}
    if len(found.differences) and found.differences["difference"].notna().any():
        shown["differences"] = _difference_rows(found)
    styles = run_styles(found)
    return {
        "views": {
            key: {
                "title": chart_text(_title(found, key)),
                "short": "score" if key == "scores" else "difference",
                "groups": [chart_text(group) for group in _groups(frame)],
                "runs": [
                    {
                        "key": str(place),
                        "name": chart_text(run),
                        "dodge": _dodge(found, place),
                        **vars(styles[place]),
                        **_values(part),
                    }
                    for place, run in enumerate(found.runs)
                    if len(part := frame[frame["run"] == run])
                ],
            }
            for key, frame in shown.items()
        }
    }


def compare_figure(found: Comparison) -> Figure:
    """Draw the scores of all runs with their intervals.

    Args:
        found: the comparison.

    Returns:
        A matplotlib figure: a row per method, or one for estimates of accuracy, with a mark per run.
    """
    from matplotlib.figure import Figure

    frame, styles = _score_rows(found), run_styles(found)
    groups = _groups(frame)
    figure = Figure(figsize=(6.4, 0.9 + 0.22 * len(groups) * (1 + len(found.runs))), layout="constrained")
    axes = figure.subplots()
    for place, run in enumerate(found.runs):
        rows = frame[(frame["run"] == run) & frame["value"].notna()]
        y = [groups.index(group) + _dodge(found, place) for group in rows["group"]]
        left, right = (
            rows["value"] - rows["low"].fillna(rows["value"]),
            rows["high"].fillna(rows["value"]) - rows["value"],
        )
        axes.errorbar(
            rows["value"], y, xerr=[(-left).clip(0), right.clip(0)], fmt=MARKERS[styles[place].marker],
            color=styles[place].light, markersize=4.5, elinewidth=1.3, label=legend_text(run),
        )  # fmt: skip
    axes.set_yticks(range(len(groups)), [legend_text(group) for group in groups], fontsize=8)
    axes.set_ylim(len(groups) - 0.5, -0.5)
    axes.set_xlabel(_title(found, "scores"), fontsize=9)
    axes.tick_params(labelsize=8)
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=min(4, len(found.runs)), fontsize=8, frameon=False)
    return figure


def _score_rows(found: Comparison) -> pd.DataFrame:
    table = found.table
    if found.kind == "label-free":
        return table.assign(group=ESTIMATE, value=table["accuracy"])[["run", "group", "value", "low", "high"]]
    return table.assign(group=table["method"], value=table["score"])[["run", "group", "value", "low", "high"]]


def _difference_rows(found: Comparison) -> pd.DataFrame:
    table = found.differences
    group = ESTIMATE if found.kind == "label-free" else table["method"]
    return table.assign(group=group, value=table["difference"])[["run", "group", "value", "low", "high"]]


def _groups(frame: pd.DataFrame) -> list[str]:
    """The rows of the picture: the first run's in its own order, best first, then what others have besides."""
    return list(dict.fromkeys(frame["group"]))


def _values(frame: pd.DataFrame) -> dict[str, list[Any]]:
    values = frame[["value", "low", "high"]].astype(float)
    plain = {str(name): [None if math.isnan(x) else x for x in values[name]] for name in values}
    return {**plain, "group": [chart_text(group) for group in frame["group"]]}


def _dodge(found: Comparison, place: int) -> float:
    count = len(found.runs)
    return _SPREAD * (place / (count - 1) - 0.5) if count > 1 else 0.0


def _title(found: Comparison, key: str) -> str:
    what = found.score_name if found.kind == "label-free" else f"{found.score_name} ({found.readout})"
    return what if key == "scores" else f"difference of {what} from the first run"
