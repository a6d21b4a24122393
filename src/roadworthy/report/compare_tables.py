"""The tables of the comparison page, as HTML."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import pandas as pd

from roadworthy.comparison import Comparison
from roadworthy.markup import escape, number, percent
from roadworthy.report.labelfree.cells import table_heads
from roadworthy.report.tables import interval, name, row_head, table
from roadworthy.report.text import p_value, signed

Row = Mapping[Hashable, Any]
_STATUS = {"pass": "good", "warn": "", "refuse": "bad"}


def scores_table(found: Comparison) -> str:
    """A row per method, the score with interval and rank in each run."""
    rows = {(row["run"], row["method"]): row for row in found.table.to_dict("records")}
    body = []
    for method in dict.fromkeys(found.table["method"]):
        cells = "".join(_score(rows.get((run, method))) for run in found.runs)
        body.append(f"<tr>{row_head(method)}{cells}</tr>")
    names = dict.fromkeys(found.table["score_name"])
    caption = (
        f"Score: {escape('; '.join(names))}. Below each its {percent(found.level)} interval and its rank in that run."
    )
    held = [f"<li>{name(row['run'])}, {name(row['method'])}: withheld, {escape(row['withheld'])}</li>"
            for row in rows.values() if row["withheld"]]  # fmt: skip
    below = f'<ul class="warnings">{"".join(held)}</ul>' if held else ""
    return (
        table(caption, ['<th scope="col" class="left">method</th>', *_run_heads(found)], body, label="Scores") + below
    )


def _run_heads(found: Comparison, css: str = "") -> list[str]:
    return [f'<th scope="col" class="{css}">{name(run)}</th>' for run in found.runs]


def _score(row: Row | None) -> str:
    if row is None:
        return '<td class="self">–</td>'
    rank = f"rank {'–' if pd.isna(row['rank']) else row['rank']}"
    ends = f"{interval(row['low'], row['high'])} · {rank}"
    return f"<td>{number(row['score'])}<br><small class='muted'>{ends}</small></td>"


def differences_table(found: Comparison) -> str:
    """A row per method and run: what it differs by from the first run, and whether that is told apart."""
    if not len(found.differences):
        reasons = "".join(f"<li>{name(run)}: {escape(why)}</li>" for run, why in found.refused.items())
        return f'<p>No score can be subtracted.</p><ul class="warnings">{reasons}</ul>' if reasons else ""
    several = len(found.runs) > 2
    texts = [
        "method",
        *(["run"] if several else []),
        "difference",
        "interval",
        "p",
        "p, corrected",
        "told apart",
        "over",
    ]
    heads = table_heads(texts, left=(0, 1) if several else (0,))
    rows = [_difference(found, row, several) for row in found.differences.to_dict("records")]
    better = "positive: the run is better" if found.higher_is_better else "negative: the run is better"
    caption = (
        f"Score less that of {name(found.runs[0])} with the same method; {better}. {percent(found.level)} intervals; "
        f"told apart: p of at most {number(1 - found.level, 2)} after Holm's correction for all rows."
    )
    refused = "".join(f"<li>{name(run)}: {escape(why)}</li>" for run, why in found.refused.items())
    below = f'<p class="small">Not subtracted:</p><ul class="warnings">{refused}</ul>' if refused else ""
    return table(caption, heads, rows, label="Differences") + below


def _difference(found: Comparison, row: Row, several: bool) -> str:
    run = f'<td class="left">{name(row["run"])}</td>' if several else ""
    if row["withheld"]:
        why = f'<td class="left reason" colspan="6">withheld, {escape(row["withheld"])}</td>'
        return f"<tr>{row_head(row['method'])}{run}{why}</tr>"
    better = (row["difference"] > 0) == found.higher_is_better
    told = ("better" if better else "worse") if row["different"] else "no"
    css = {"better": "good", "worse": "bad"}.get(told, "")
    cells = [
        signed(row["difference"]), interval(row["low"], row["high"]), p_value(row["p"]), p_value(row["p_holm"]),
    ]  # fmt: skip
    numbers = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr>{row_head(row["method"])}{run}{numbers}<td class="{css}">{told}</td><td>{_over(row)}</td></tr>'


def _over(row: Row) -> str:
    if row["paired"]:
        return f"{number(int(row['n']))} {row.get('unit', 'samples')}, paired"
    return f"{number(int(row['n']))} and {number(int(row['n_against']))} {row.get('unit', 'samples')}, not paired"


def intact_table(found: Comparison) -> str:
    """The accuracy with nothing removed of each run, and its difference from the first."""
    texts = ["run", "accuracy", "interval", "difference", "interval", "p, corrected", "alone right", "over"]
    rows = []
    for row in found.intact.to_dict("records"):
        alone = (
            "–"
            if math.isnan(row["only_run"])
            else f"{number(int(row['only_run']))} : {number(int(row['only_against']))}"
        )
        cells = [
            number(row["accuracy"]),
            interval(row["low"], row["high"]),
            "–" if math.isnan(row["difference"]) else signed(row["difference"]),
            interval(row["difference_low"], row["difference_high"]),
            p_value(row["p_holm"]),
            alone,
            f"{number(int(row['n']))} {row['unit']}",
        ]
        rows.append(
            f'<tr><th scope="row">{name(row["run"])}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        )
    caption = (
        f"Top-1 accuracy with nothing removed, less that of {name(found.runs[0])}; {percent(found.level)} intervals. "
        "<i>Alone right</i>: samples that this run alone gets right, and the first run alone."
    )
    return table(caption, table_heads(texts, left=(0,)), rows, label="Intact accuracy")


def agreement_table(found: Comparison) -> str:
    """How alike each two runs rank the methods that both have."""
    if not len(found.agreement):
        return ""
    texts = ["run", "with", "Spearman", "interval", "Kendall", "methods", "over"]
    rows = []
    for row in found.agreement.to_dict("records"):
        over = f"{number(int(row['n']))} units" if row["n"] else "no shared samples"
        cells = [
            number(row["spearman"], 2), interval(row["low"], row["high"]), number(row["kendall"], 2),
            number(int(row["methods"])), over,
        ]  # fmt: skip
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        other = f'<td class="left">{name(row["against"])}</td>'
        rows.append(f'<tr><th scope="row">{name(row["run"])}</th>{other}{numbers}</tr>')
    caption = "Rank correlation of the methods' scores: 1 is the same ranking, −1 the reverse, – undefined."
    return table(caption, table_heads(texts, left=(0, 1)), rows, label="Agreement of the rankings")


def labelfree_table(found: Comparison) -> str:
    """The estimate of each run and what it rests on."""
    texts = [
        "run",
        "accuracy",
        "interval",
        "level",
        "estimator",
        "off by",
        "source",
        "by labels",
        "stands",
        "samples",
    ]
    rows, reasons = [], []
    for row in found.table.to_dict("records"):
        stands = (
            "–" if math.isnan(row["coverage"]) else f"{percent(row['coverage'])} at {number(row['reliability'], 2)}"
        )
        cells = [
            _share(row["accuracy"]), _range(row), _share(row["level"]), escape(row["estimator"] or "–"),
            _share(row["expected_error"]), _share(row["source_accuracy"]), _share(row["truth"]), stands,
            number(int(row["n"])),
        ]  # fmt: skip
        rows.append(
            f'<tr><th scope="row">{name(row["run"])}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
        )
        if row["reason"]:
            reasons.append(f"<li>{name(row['run'])}: {escape(row['reason'])}</li>")
    caption = (
        "Accuracy without labels. <i>Off by</i>: error of the estimator on shifts like this. <i>Source</i>: accuracy "
        "on labelled samples. <i>By labels</i>: those that came along, used for nothing. <i>Stands</i>: share of the "
        "samples whose predictions stand firm under perturbation, at the reliability named."
    )
    below = f'<ul class="warnings">{"".join(reasons)}</ul>' if reasons else ""
    return table(caption, table_heads(texts, left=(0,)), rows, label="Estimates") + below


def labelfree_differences(found: Comparison) -> str:
    """What each estimate differs by from the first run's."""
    texts = ["run", "difference", "interval", "level", "predictions differ", "over", "what to know"]
    rows = []
    for row in found.differences.to_dict("records"):
        cells = [
            "–" if math.isnan(row["difference"]) else signed(row["difference"]), interval(row["low"], row["high"]),
            "–" if math.isnan(row["level"]) else f"≥ {percent(row['level'])}", _share(row["disagree"]),
            _over(row),
        ]  # fmt: skip
        numbers = "".join(f"<td>{cell}</td>" for cell in cells)
        reason = f'<td class="left reason">{escape(row["reason"])}</td>'
        rows.append(f'<tr><th scope="row">{name(row["run"])}</th>{numbers}{reason}</tr>')
    caption = (
        f"Accuracy less that of {name(found.runs[0])}. The interval reaches from the least to the most that both "
        "intervals allow, cut off where predictions on the same samples do not differ enough for more."
    )
    return table(caption, table_heads(texts, left=(0, 6)), rows, label="Differences")


def _share(value: float) -> str:
    return "–" if math.isnan(value) else percent(value)


def _range(row: Row) -> str:
    return "–" if math.isnan(row["low"]) else f"{percent(row['low'])} to {percent(row['high'])}"


def gates_table(found: Comparison) -> str:
    """The status of each gate in each run."""
    rows = []
    for row in found.gates.to_dict("records"):
        cells = "".join(
            f'<td class="{_STATUS.get(row[run], "")}">{escape(row[run] or "–")}</td>' for run in found.runs
        )
        rows.append(f'<tr><th scope="row">{name(row["name"])}</th>{cells}</tr>')
    heads = ['<th scope="col" class="left">gate</th>', *_run_heads(found)]
    return table("Each run's own page says why.", heads, rows, label="Gates")


def settings_of_runs(found: Comparison) -> str:
    """What is not the same in all runs."""
    if not len(found.settings):
        return "<p>Nothing that is recorded differs.</p>"
    rows = []
    for row in found.settings.itertuples(index=False, name=None):
        cells = "".join(f'<td class="wrap">{escape(value) or "–"}</td>' for value in row[1:])
        rows.append(f'<tr><th scope="row">{escape(row[0])}</th>{cells}</tr>')
    heads = ['<th scope="col" class="left">name</th>', *_run_heads(found, "left")]
    return table("Settings and facts of origin that are not the same in all runs.", heads, rows, label="Settings")
