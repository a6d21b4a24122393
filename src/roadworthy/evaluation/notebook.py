"""How a result shows itself: a line in a terminal, a small card in a notebook. The report says far more."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import RoadworthyError
from roadworthy.evaluation.standing import above_chance, chance, contradicted, labelled, shown_ranking
from roadworthy.evaluation.withheld import withheld_by_gate, without_withheld
from roadworthy.evaluation.words import judges_in_words, order_words, readout_words
from roadworthy.markup import bullets, card, clean, escape, grid, number, paragraph, percent, spark

if TYPE_CHECKING:
    import pandas as pd

    from roadworthy.evaluation.result import Result

_NAMED = 6  # methods that a line names
_LENGTH = 60  # letters of a name in a card, and of all names in a line
_POINTS = 41  # of a curve
_COMPARABLE = 3  # methods: an agreement of fewer is no evidence


def line_of(result: Result) -> str:
    """Return the result in one line; nothing is worked out for it."""
    names = ", ".join(result.methods[:_NAMED]) + (", ..." if len(result.methods) > _NAMED else "")
    orders = " and ".join(words.short for order, words in order_words().items() if order in result.orders)
    parts = [
        f"{_counted(len(result.methods), 'method')} ({_short(names)})",
        orders,
        _counted(sum(share > 0 for share in result.fractions), "share") + " removed",
        _counted(result.n, "sample"),
        *([_counted(result.repeats, "training") + " of each point"] if result.retrained else []),
        *([_counted(len(result.views), "judge and fill", "judges and fills")] if len(result.views) > 1 else []),
        _counted(len(result.warnings), "warning"),
    ]
    return f"Result({result.settings.get('strategy', 'evaluation')}: {', '.join(parts)})"


def card_of(result: Result) -> str:
    """Return the result as HTML for a notebook: what leads, the ranking, small curves, warnings.

    What the report withholds is withheld here. Nothing of a result makes it fail: where there is nothing to rank, it
    says why.

    Args:
        result: what an evaluation found.

    Returns:
        HTML without scripts, in the colours around it; everything from users is escaped.
    """
    strategy = clean(result.settings.get("strategy", "evaluation"))
    judges = judges_in_words(result.views)
    asked = f", asked of {judges}" if judges else ""
    try:
        parts = _ranked(result)
    except RoadworthyError as error:
        parts = [paragraph(f"Nothing can be ranked: {error}")]
    return card(
        f"{strategy}: {_counted(len(result.methods), 'method')} on {_counted(result.n, 'sample')}{asked}",
        [
            *parts,
            bullets("Missing", result.missing),
            bullets("Warnings", result.warnings),
            paragraph(
                'More: rw.report(result, "report.html") writes the page with the verdict; result.ranking(), '
                "result.table and result.per_sample are DataFrames.",
                quiet=True,
            ),
        ],
    )


def _ranked(result: Result) -> list[str]:
    if not result.methods or not result.n:
        return [paragraph("Nothing can be ranked: there are no methods or no samples.")]
    reasons = withheld_by_gate(result)
    ranking = shown_ranking(result.ranking(), result.readout)
    against = contradicted(result)
    said = (_headline(result, ranking, set(reasons), against), _orders(result), _intact(result))
    return [paragraph(text) for text in said if text] + [
        _table(result, without_withheld(ranking, reasons), set(reasons), against),
        bullets(
            "Withheld",
            [f"{_short(name)}: {why}" for name, why in reasons.items()]
            + [
                f"{_short(name)}: judges and fills contradict each other on it, so it has no rank"
                for name in ranking["method"]
                if name in against and name not in reasons
            ],
        ),
    ]


def _headline(result: Result, ranking: pd.DataFrame, held: set[str], against: set[str]) -> str:
    """Say what leads, or why nothing does."""
    names, different = ranking["method"].tolist(), np.asarray(ranking.attrs["different"])
    counted = [place for place, name in enumerate(names) if name not in held]
    if not above_chance(result):
        share = percent(chance(result))
        return f"No ranking can be read: accuracy with nothing removed is not clearly above chance ({share})."
    if len(names) == 1:
        return "There is no ranking with one method."
    if len(counted) < 2:
        return "No ranking: the gate withholds all methods but one." if counted else "No ranking: all is withheld."
    if result.n == 1:
        return "No ranking: a single sample shows no spread."
    if not different[np.ix_(counted, counted)].any():
        return "No ranking: no two methods are told apart."
    best, *others = counted
    alike = [_short(names[place]) for place in others if not different[best][place]]
    apart = f"not told apart from {', '.join(alike[:_NAMED])}" if alike else "told apart from every other method"
    if len(alike) > _NAMED:
        apart += f" and {len(alike) - _NAMED} more"
    but = "; but judges and fills contradict each other on it" if names[best] in against else ""
    return f"{_short(names[best])} comes first ({number(float(ranking['score'].iloc[best]))}), {apart}{but}."


def _orders(result: Result) -> str:
    """Say how far the two orders agree, without which a leader means little; empty where they cannot be compared."""
    if len(result.orders) < 2 or len(result.methods) < _COMPARABLE:
        return ""
    rho = result.agreement().spearman_mean
    return f"The two orders agree by {_number(rho)} on the ranking (mean Spearman: 1 is alike, 0 nothing in common)."


def _intact(result: Result) -> str:
    share = percent(result.intact_accuracy)
    if not labelled(result):
        return f"With nothing removed {share} of the answers are the model's own; no labels were given."
    return f"Accuracy with nothing removed: {share}."


def _table(result: Result, ranking: pd.DataFrame, held: set[str], against: set[str]) -> str:
    orders = {order: words.short for order, words in order_words(result.retrained).items() if order in result.orders}
    alone = len(ranking) - len(held & set(ranking["method"])) < 2 and bool(held)
    draw = _drawing(result, held)
    rows = []
    for row in ranking.to_dict(orient="records"):
        name = str(row["method"])
        interval = f"{_number(row['low'])} to {_number(row['high'])}" if _known(row["low"]) else "–"
        cells = [
            "–" if name in against or alone or not _known(row["rank"]) else str(int(row["rank"])),
            _number(row["score"]),
            interval,
            escape(row["group"] or "–"),
            *(_number(row[f"{order}_area"]) for order in orders),
            draw(name),
        ]
        rows.append([escape(_short(name)), *cells])
    attrs = ranking.attrs
    readout = readout_words(attrs["readout"], labelled(result)).name
    columns = ["method", "rank", "score", f"{percent(attrs['level'])} interval", "group"]
    lines = ", ".join(f"{text} {line}" for text, line in zip(orders.values(), ("solid", "dashed"), strict=False))
    return grid(
        f"Score: {attrs['score']} of the {readout}, {attrs['direction']}. Methods that share a letter in group are "
        f"not told apart. {', '.join(orders.values())}: area under the curve. Curves: {lines}, by share removed.",
        [*columns, *orders.values(), "curves"],
        rows,
    )


def _drawing(result: Result, held: set[str]) -> Callable[[str], str]:
    """Return a function that draws the curves of a method, all in the same frame."""
    points = result.over_repeats()
    low, high = (
        (0.0, 1.0) if result.readout != "logit" else (float(points["mean"].min()), float(points["mean"].max()))
    )
    words = order_words(result.retrained)
    step = max(1, -(-len(result.fractions) // _POINTS))
    span = max(result.fractions) or 1.0

    def draw(name: str) -> str:
        lines, said = [], []
        for order in (order for order in words if order in result.orders):
            if order == "lerf" and name in held:
                continue
            part = points[(points["method"] == name) & (points["order"] == order)]
            values = part["mean"].to_numpy(dtype=float)
            across = part["fraction"].to_numpy(dtype=float) / span
            lines.append((across[::step].tolist(), values[::step].tolist()))
            said.append(f"{words[order].short} from {number(float(values[0]))} to {number(float(values[-1]))}")
        return spark(lines, f"{_short(name)}: {', '.join(said)}", low=low, high=high)

    return draw


def _known(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not math.isnan(value)


def _number(value: Any) -> str:
    return number(float(value)) if _known(value) else "–"


def _counted(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _short(text: str) -> str:
    shown = clean(text)
    return shown if len(shown) <= _LENGTH else f"{shown[: _LENGTH - 1]}…"
