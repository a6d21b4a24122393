"""The tables of the page, as HTML: ranking, pairwise differences, agreement, curves, methods, settings."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import is_control, within_range
from roadworthy.markup import clean, escape, number, percent
from roadworthy.report.facts import interval_kind, interval_notes, orders_of, units_of, words_of
from roadworthy.report.findings import Findings, Standing
from roadworthy.report.text import listed, p_value, signed

_STANDING: dict[Standing, str] = {"above": "better", "open": "not told apart", "below": "worse", "unknown": "–"}
_COLUMNS = {"tied_share": "tied units"}


def name(value: object) -> str:
    """A user's name, isolated so that its writing direction changes nothing around it."""
    return f"<bdi>{escape(value)}</bdi>"


def table(caption: str, head: Iterable[str], rows: Iterable[str], *, label: str, css: str = "") -> str:
    """A table in a region that scrolls sideways and can be reached by keyboard.

    Args:
        caption: HTML.
        head: header cells, as HTML elements.
        rows: rows, as HTML elements.
        label: name of the region for screen readers, plain text.
        css: class of the table.
    """
    return (
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0"><table class="{css}">'
        f"<caption><span>{caption}</span></caption><thead><tr>{''.join(head)}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )


def ranking_table(found: Findings) -> str:
    """The ranking: score with interval, group, standing against random maps, and the area of each order."""
    head = [head_cell(text, css) for text, css in _ranking_head(found)]
    caption = (
        f"Score: {escape(found.score_name)} of the {found.words.name}, "
        f"{found.ranking.attrs['direction']}; {percent(found.level)} {interval_kind(found.result)} over "
        f"{units_of(found.result)}{_mean_of_views(found)}.{_not_areas(found)} "
        "Methods that share a letter in <i>group</i> are not told apart."
        f"{_aoc_words(found)}{_shared_random(found)}{_smoothness_words(found)}"
        f"{interval_notes(found.ranking, found.shown, lowest='−1' if found.both_orders else '0')}"
    )
    bounds = _bounds(found.shown)
    rows = [_ranking_row(found, found.row(method), bounds) for method in found.methods]
    return table(caption, head, rows, label=f"Ranking by {found.words.name}") + _withheld(found)


def _not_areas(found: Findings) -> str:
    """The areas beside the score are not its parts where every share counts alike."""
    if found.result.settings.get("average") != "shares" or not found.both_orders:
        return ""
    return " It is LeRF less MoRF, every share removed counting alike; the areas beside it weigh the middle more."


def _mean_of_views(found: Findings) -> str:
    if not found.views:
        return ""
    dead = [clean(view.label) for view in found.views if view.found.dead]
    left = f" ({listed(dead)} left out: every method has the same score there)" if found.live_views and dead else ""
    return escape(f", the mean over {found.mean_of}{left}")


_WITHHELD = {
    "gate": "retrained networks read the class off its mask (see the gate of KAR): KAR, score and rank are withheld",
    "views": "judges and fills contradict each other on it (see each of them by itself): its rank is withheld",
}


def _withheld(found: Findings) -> str:
    lines = [f"<li>{name(method)}: {_WITHHELD[why]}.</li>" for method, why in found.withheld.items()]
    return f'<ul class="warnings">{"".join(lines)}</ul>' if lines else ""


def smoothness(found: Findings) -> dict[str, float]:
    """How smooth the maps of each method are, 1 at the most; empty where it was not measured."""
    info = found.result.method_info
    if not {"method", "smoothness"} <= set(info.columns):
        return {}
    return {
        str(method): float(value)
        for method, value in info[["method", "smoothness"]].itertuples(index=False, name=None)
        if isinstance(value, int | float) and not math.isnan(value)
    }


def _smoothness_words(found: Findings) -> str:
    if not smoothness(found):
        return ""
    return (
        " <i>Smoothness</i>: correlation of neighbouring units of a map, 1 at the most; some scores like smooth maps "
        "whether or not they are right."
    )


def _aoc_words(found: Findings) -> str:
    if "aoc" not in found.ranking:
        return ""
    first, *_ = orders_of(found.result).values()
    better = "higher" if first.better.startswith("lower") else "lower"
    return (
        f" AOC is the area over the curve of {first.short}: the mean loss against the unmodified training, {better} "
        "is better."
    )


def _shared_random(found: Findings) -> str:
    result = found.result
    if not (result.retrained and found.both_orders and "random" in result.methods):
        return ""
    values = result.scores[found.readout][result.methods.index("random")]
    if not np.array_equal(values[0], values[1]):
        return ""
    return " Both orders share the trainings of random, so its gain is exactly 0, without spread."


# columns of the ranking that only some results have
_EXTRA = {"aoc": "AOC", "sd": "sd", "repeat_sd": "sd of repeats"}


def _ranking_head(found: Findings) -> list[tuple[str, str]]:
    spread = [(text, "") for column, text in _EXTRA.items() if column in found.ranking]
    areas = [(f"{words.short} area", "") for words in orders_of(found.result).values()]
    areas += [("smoothness", "")] if smoothness(found) else []
    start = [
        ("rank", ""),
        ("method", "left"),
        ("group", "left"),
        ("score", ""),
        ("interval", ""),
        ("drawn, 0 dotted", "left"),
    ]
    return [*start, ("against random", "left"), *areas, *spread]


def _ranking_row(found: Findings, row: pd.Series, bounds: tuple[float, float]) -> str:
    method = row["method"]
    standing = found.against_random(method)
    held = method in found.gated
    smooth = smoothness(found)
    colour = {"above": "good", "below": "bad"}.get(standing, "")
    cells = [
        f"<td>{found.rank(method)}</td>",
        row_head(method),
        f'<td class="left">{"–" if held else escape(row["group"])}</td>',
        f"<td>{'–' if held else number(row['score'])}</td>",
        f"<td>{'–' if held else interval(row['low'], row['high'])}</td>",
        f'<td class="left">{"" if held else _range_picture(row, bounds)}</td>',
        f'<td class="left {colour}">{_STANDING[standing]}</td>',
        *(f"<td>{_area(row, order, held)}</td>" for order in orders_of(found.result)),
        *([f"<td>{number(smooth.get(method), 2)}</td>"] if smooth else []),
        *(
            f"<td>{'–' if held and not (column == 'aoc' and 'morf_area' in row) else number(row[column])}</td>"
            for column in _EXTRA
            if column in row
        ),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _area(row: pd.Series, order: str, held: bool) -> str:
    return "–" if held and order == "lerf" else number(row[f"{order}_area"])


def interval(low: float, high: float) -> str:
    """An interval, or a dash where it is not known."""
    return "–" if math.isnan(low) else f"{number(low)} to {number(high)}"


def _bounds(ranking: pd.DataFrame) -> tuple[float, float]:
    values = ranking[["score", "low", "high"]].to_numpy(dtype=float)
    values = values[~pd.isna(values)]
    low, high = min(0.0, float(values.min())), max(0.0, float(values.max()))
    return (low, high) if high > low else (low, low + 1)


def _range_picture(row: pd.Series, bounds: tuple[float, float]) -> str:
    """Interval, score and zero line as a small picture; hidden from screen readers, the numbers stand beside it."""
    low, high = bounds

    def x(value: float) -> str:
        return f"{4 + 142 * (value - low) / (high - low):.1f}"

    line = "" if math.isnan(row["low"]) else f'<line x1="{x(row["low"])}" x2="{x(row["high"])}" y1="9" y2="9"/>'
    return (
        '<svg class="range" viewBox="0 0 150 18" aria-hidden="true">'
        f'<line class="zero" x1="{x(0)}" x2="{x(0)}" y1="0" y2="18"/>{line}'
        f'<circle cx="{x(row["score"])}" cy="9" r="3"/></svg>'
    )


def pairwise_matrix(found: Findings) -> str:
    """Differences of all pairs: row minus column, shaded where told apart, with Holm's p below each."""
    better = "the row is better" if found.ranking.attrs["higher_is_better"] else "the column is better"
    caption = (
        f"Difference in {escape(found.score_name)} ({found.words.name}), row minus column; a positive "
        f"difference means {better}. Bold and shaded: told apart, p ≤ {number(1 - found.level, 2)} after Holm's "
        f"correction for all pairs.{_flat_differences(found)}{_gated_differences(found)}"
    )
    head = [
        '<th class="left" scope="col">row minus column</th>',
        *(f'<th scope="col">{name(m)}</th>' for m in found.methods),
    ]
    top = max((abs(found.pair(a, b)[0]) for a in found.methods for b in found.methods), default=0.0) or 1.0
    rows = []
    for method in found.methods:
        cells = [_pair_cell(found, method, other, top) for other in found.methods]
        rows.append(f"<tr>{row_head(method)}{''.join(cells)}</tr>")
    return table(caption, head, rows, label="Pairwise differences", css="matrix")


def _flat_differences(found: Findings) -> str:
    if not found.by_trainings or not np.isnan(found.ranking.attrs["difference_low"]).any():
        return ""
    return (
        " Where all trainings give the same difference its spread and its interval are not known; p, before the "
        f"correction, is then that of the sign-flip test, {2.0 ** (1 - found.result.repeats):.3g}, and 1 for no "
        "difference."
    )


def _gated_differences(found: Findings) -> str:
    if not found.gated:
        return ""
    return (
        f" Nothing can be read from differences with {escape(listed(list(found.gated)))}, of which KAR is withheld."
    )


def _pair_cell(found: Findings, method: str, other: str, top: float) -> str:
    if method == other:
        return '<td class="self">–</td>'
    difference, _, _, p = found.pair(method, other)
    if not found.apart(method, other):
        return f'<td class="cell open"><b>{signed(difference)}</b><small>{p_value(p)}</small></td>'
    good = (difference > 0) == bool(found.ranking.attrs["higher_is_better"])
    heat = 0.12 + 0.3 * min(1.0, abs(difference) / top)
    return (
        f'<td class="cell real {"better" if good else "worse"}" style="--heat:{heat:.2f}">'
        f"<b>{signed(difference)}</b><small>{p_value(p)}</small></td>"
    )


def agreement_table(found: Findings) -> str:
    """Rank agreement of the two orders at each share removed."""
    agreement = found.agreement
    assert agreement is not None
    head = [head_cell("share removed", "left"), head_cell("Spearman"), head_cell("Kendall")]
    rows = [
        f'<tr><th scope="row">{percent(p)}</th><td>{number(float(rho), 2)}</td><td>{number(float(tau), 2)}</td></tr>'
        for p, rho, tau in zip(agreement.fractions, agreement.spearman, agreement.kendall, strict=True)
        if p > 0
    ]
    for text, rho, tau in (
        ("mean", agreement.spearman_mean, agreement.kendall_mean),
        ("areas", agreement.spearman_area, agreement.kendall_area),
    ):
        rows.append(
            f'<tr><th scope="row">{text}</th><td><b>{number(rho, 2)}</b></td><td><b>{number(tau, 2)}</b></td></tr>'
        )
    caption = (
        f"Rank correlation over {agreement.methods} methods between the orders, at equal shares removed "
        f"({found.words.name}): 1 is the same ranking, −1 the reverse, – undefined."
    )
    return table(caption, head, rows, label="Agreement of the orders", css="narrow")


def curve_table(result: Result, curves: pd.DataFrame, readout: str) -> str:
    """The numbers of the curves: a row per method and order, a column per share."""
    head = [
        head_cell("method", "left"),
        head_cell("order", "left"),
        *(head_cell(percent(p)) for p in result.fractions),
    ]
    rows = []
    for (method, order), part in within_range(curves, readout).groupby(["method", "order"], sort=False):
        cells = "".join(
            f"<td>{number(v)}<br><small class='muted'>{number(a)} – {number(b)}</small></td>"
            for v, a, b in part[["value", "low", "high"]].itertuples(index=False)
        )
        rows.append(f'<tr>{row_head(method)}<td class="left">{orders_of(result)[str(order)].short}</td>{cells}</tr>')
    what = words_of(result, readout).name
    caption = f"Mean {what} at each share removed; below it the 95\u00a0% band, point by point."
    return table(caption, head, rows, label=f"Curves, {what}")


def frame_table(frame: pd.DataFrame, caption: str, label: str) -> str:
    """Any small frame as it comes; the first column heads the rows."""
    head = [
        head_cell(_COLUMNS.get(str(c), str(c).replace("_", " ")), "" if i else "left")
        for i, c in enumerate(frame.columns)
    ]
    rows = []
    shares = [str(column).endswith("_share") for column in frame.columns[1:]]
    for first, *rest in frame.itertuples(index=False, name=None):
        cells = (
            percent(value) if share and isinstance(value, float) else _value(value)
            for share, value in zip(shares, rest, strict=True)
        )
        rows.append(f"<tr>{row_head(first)}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>")
    return table(escape(caption), head, rows, label=label)


def settings_table(settings: Mapping[str, Any], caption: str) -> str:
    """Settings by name, nested ones with a dotted name."""
    rows = [
        f'<tr><th scope="row">{escape(key)}</th><td class="wrap">{escape(value)}</td></tr>'
        for key, value in _flat(settings)
    ]
    return table(escape(caption), [head_cell("name", "left"), head_cell("value", "left")], rows, label=caption)


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield (
                f"{prefix}{key}",
                value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False),
            )


def _value(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return "–" if value is None else ("yes" if value else "no")
    if isinstance(value, int):
        return number(value)
    if isinstance(value, float):
        return number(value, 4)
    return escape(value)


def head_cell(text: str, css: str = "") -> str:
    """The head of a column."""
    return f'<th scope="col" class="{css}">{escape(text)}</th>'


def row_head(method: object) -> str:
    """The head of a row: a method's name, marked where it is a control."""
    control = ' <small class="muted">control</small>' if is_control(str(method)) else ""
    return f'<th scope="row">{name(method)}{control}</th>'
