"""Each judge with each fill by itself: the rankings side by side, and how far they agree."""

from __future__ import annotations

from roadworthy.markup import escape, number, percent
from roadworthy.report.findings import Dispute, Findings, View
from roadworthy.report.tables import head_cell, interval, name, row_head, table

_SHOWN = 8  # disputes before the rest is folded away


def views_section(found: Findings) -> str:
    """The ranking under each judge and fill, where they contradict each other, and their rank correlations."""
    if not found.views:
        return ""
    intro = (
        f"<p>The score is the mean over {found.mean_of}. A rank is printed only where none of them turns round "
        "a pair of methods that another tells apart: what depends on who is asked is no property of a method.</p>"
    )
    return _dead(found) + intro + _side_by_side(found) + _disputes(found.disputes) + _agreement(found)


def _dead(found: Findings) -> str:
    lines = [
        f"<li>{escape(view.label)} gives every method the same score everywhere: it ranks nothing, and counts in no "
        f"agreement{' and not in the mean' if found.live_views else ''}. Look for the fault in this judge first.</li>"
        for view in found.views
        if view.found.dead
    ]
    return f'<ul class="warnings">{"".join(lines)}</ul>' if lines else ""


def _side_by_side(found: Findings) -> str:
    head = [head_cell("method", "left"), head_cell("rank, all"), *(_view_head(view) for view in found.views)]
    rows = [_row(found, method) for method in found.methods]
    rows += [_facts_row("with nothing removed", [percent(v.found.result.intact_accuracy) for v in found.views])]
    if found.both_orders:
        rhos = [v.found.agreement.spearman_mean if v.found.agreement else float("nan") for v in found.views]
        rows += [_facts_row("agreement of the orders", [number(rho, 2) for rho in rhos])]
    judges = "the <i>untouched</i> model is the one given"
    if any(view.judge == "fine-tuned" for view in found.views):
        judges += "; the <i>fine-tuned</i> one is a copy that saw random masks in training, blind to every map"
    caption = (
        f"Rank, and below it the {escape(found.score_name)} ({escape(found.words.name)}) with its "
        f"{percent(found.level)} interval and its group, under each judge and fill: {judges}. "
        f"– in the second column: {found.views_word} contradict each other on this method. "
        "Agreement of the orders: mean Spearman over the shares."
    )
    return table(caption, head, rows, label="Ranking under each judge and fill")


def _view_head(view: View) -> str:
    return f'<th scope="col">{name(view.judge)}<br>{name(view.imputer)}</th>'


def _row(found: Findings, method: str) -> str:
    cells = []
    for view in found.views:
        row = view.found.row(method)
        rank = "–" if view.found.dead else row["rank"]
        shown = f"{number(row['score'])} ({interval(row['low'], row['high'])}) {escape(row['group'])}"
        cells.append(f"<td>{rank}<br><small class='muted'>{shown}</small></td>")
    return f"<tr>{row_head(method)}<td><b>{found.rank(method)}</b></td>{''.join(cells)}</tr>"


def _facts_row(what: str, values: list[str]) -> str:
    cells = "".join(f"<td>{value}</td>" for value in values)
    return f'<tr><th scope="row"><i>{what}</i></th><td></td>{cells}</tr>'


def _disputes(disputes: list[Dispute]) -> str:
    if not disputes:
        return "<p>No pair of methods is ranked one way here and the other way there, told apart both times.</p>"
    lines = [
        f"<li>{name(d.above)} is above {name(d.below)} for {escape(d.here)}, below for {escape(d.there)}</li>"
        for d in disputes
    ]
    more = ""
    if len(lines) > _SHOWN:
        more = f"<details><summary>{len(lines) - _SHOWN} more</summary><ul>{''.join(lines[_SHOWN:])}</ul></details>"
    shown = f'<ul class="warnings">{"".join(lines[:_SHOWN])}</ul>{more}'
    return f"<p>Where they do not agree, both times told apart:</p>{shown}"


def _agreement(found: Findings) -> str:
    live = [i for i, view in enumerate(found.views) if not view.found.dead]
    if len(live) < 2:
        return ""
    head = [head_cell("judge, fill", "left"), *(_view_head(found.views[i]) for i in live)]
    rows = []
    for i in live:
        view = found.views[i]
        cells = "".join(_cell(float(found.view_agreement[i, j]), i == j) for j in live)
        rows.append(f'<tr><th scope="row">{name(f"{view.judge}, {view.imputer}")}</th>{cells}</tr>')
    caption = (
        f"Spearman's rank correlation of the scores of {len(found.methods)} methods between {found.views_word}: 1 is "
        "the same ranking, −1 the reverse, – undefined."
    )
    return table(caption, head, rows, label="Agreement of judges and fills", css="matrix")


def _cell(rho: float, own: bool) -> str:
    return '<td class="self">–</td>' if own else f'<td class="cell">{number(rho, 2)}</td>'
