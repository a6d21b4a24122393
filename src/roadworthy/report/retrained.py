"""What the page says of retraining alone: what is missing, each point over its trainings, ROAD beside, the cost."""

from __future__ import annotations

import math

import pandas as pd

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import within_range
from roadworthy.markup import escape, number, percent
from roadworthy.report.beside import road_agreement, road_beside
from roadworthy.report.facts import interval_notes, orders_of, words_of
from roadworthy.report.material import Material
from roadworthy.report.tables import head_cell, interval, row_head, table
from roadworthy.report.text import duration, listed
from roadworthy.report.thresholds import COMPARABLE

_SHOWN = 12  # missing points before the rest is folded away


def missing_section(result: Result) -> str:
    """The points that are not there: those that failed, and those that are not done yet."""
    if not result.missing:
        return ""
    failed = _folded(
        "Failed. These do not come by themselves, nor does what needs them: the same command with --retry-failed "
        "does them again. The tracebacks are in failures.txt in the sweep's folder.",
        result.failed,
    )
    waiting = _folded("Not done yet:", [line for line in result.missing if line not in result.failed])
    intro = "<p>This is what there is so far: all numbers below are of the points that are there.</p>"
    return f"{intro}{failed}{waiting}"


def _folded(what: str, lines: list[str]) -> str:
    if not lines:
        return ""
    items = [f"<li>{escape(line)}</li>" for line in lines]
    more = ""
    if len(items) > _SHOWN:
        rest = "".join(items[_SHOWN:])
        more = f"<details><summary>{len(items) - _SHOWN} more</summary><ul>{rest}</ul></details>"
    return f'<p>{what}</p><ul class="warnings">{"".join(items[:_SHOWN])}</ul>{more}'


def points_section(material: Material) -> dict[str, str]:
    """Mean, spread and t-interval of every point, a table a readout; empty where nothing was retrained."""
    if not material.result.retrained:
        return {}
    return {readout: _points(material.result, readout) for readout in material.curves}


def _points(result: Result, readout: str) -> str:
    frame, words = result.over_repeats(readout), orders_of(result)
    shown = within_range(frame, readout)
    head = [
        head_cell("method", "left"),
        head_cell("evaluation", "left"),
        *map(head_cell, map(percent, result.fractions)),
    ]
    rows = []
    for (method, order), part in shown.groupby(["method", "order"], sort=False):
        cells = "".join(
            f"<td>{number(mean)}{'' if math.isnan(sd) else f' ± {number(sd)}'}<br>"
            f"<small class='muted'>{interval(low, high)}</small></td>"
            for mean, sd, low, high in part[["mean", "sd", "low", "high"]].itertuples(index=False)
        )
        rows.append(f'<tr>{row_head(method)}<td class="left">{words[str(order)].short}</td>{cells}</tr>')
    what = words_of(result, readout).name
    several = f"mean ± standard deviation over n = {result.repeats} trainings, below it the 95\u00a0% t-interval"
    one = "of n = 1 training, which has neither a standard deviation nor an interval"
    caption = (
        f"{what[:1].upper()}{what[1:]} on {number(result.n)} test samples by the share removed: "
        f"{several if result.repeats > 1 else one}. 0\u00a0% is the unmodified training, the same in every row."
        f"{interval_notes(frame, shown)}"
    )
    return table(escape(caption), head, rows, label=f"Points, {what}")


def beside_section(material: Material) -> str:
    """ROAD's ranking beside the one of retraining."""
    found, road = material.main, road_beside(material.result)
    agreed = road_agreement(found)
    if road is None or agreed is None:
        return ""
    shared = [method for method in found.methods if method in road.score]
    scores = {method: float(road.score[method]) for method in shared}
    own_scores = {method: float(found.row(method)["score"]) for method in shared}
    counted = {method: own_scores[method] for method in shared if method in found.counted}
    own_ranks = _ranks(counted, bool(found.ranking.attrs["higher_is_better"]))
    ranks = _ranks(scores, road.higher_is_better)
    own = _retraining(material.result)
    heads = ("method", f"rank, {own}", f"score, {own}", "rank, ROAD", "score, ROAD")
    head = [head_cell(text, "" if i else "left") for i, text in enumerate(heads)]
    rows = [
        f"<tr>{row_head(method)}<td>{own_ranks.get(method, '–')}</td><td>{number(counted.get(method))}</td>"
        f"<td>{ranks[method]}</td><td>{number(scores[method])}</td></tr>"
        for method in shared
    ]
    said = [f"{found.score_name}, {found.ranking.attrs['direction']}", f"{road.name}, {road.direction}"]
    score = said[0] if said[0] == said[1] else f"{said[0]}; of ROAD: {said[1]}"
    caption = f"Score: {score}. {_agreed(*agreed)}"
    same = "shares and orders" if road.same_orders else "and shares, if not in the same orders"
    return (
        f"<p>ROAD asks one model, with the same maps, test samples, {same}, and trains nothing. It shows "
        "the model images that it was not trained on. Retraining avoids this, but a new model can learn from where "
        "the holes are. Where the two disagree, neither should be believed by itself.</p>"
        + table(escape(caption), head, rows, label="ROAD beside retraining")
    )


def _ranks(scores: dict[str, float], higher_is_better: bool) -> dict[str, int]:
    sign = 1 if higher_is_better else -1
    return {name: 1 + sum(sign * other > sign * value for other in scores.values()) for name, value in scores.items()}


def _agreed(rho: float, tau: float, count: int) -> str:
    if count < COMPARABLE:
        return f"Too few methods ({count}) for a rank correlation."
    return (
        f"Over {count} methods the rank correlation of the two scores, each in its own direction, is "
        f"{number(rho, 2)} (Spearman) and {number(tau, 2)} (Kendall)."
    )


def cost_section(result: Result) -> str:
    """Wall time and images of each treatment, of the maps and of ROAD, and the ratio of ROAD to retraining."""
    if result.cost.empty:
        return ""
    cost = result.cost
    trained = cost[cost["work"] == "retrain"]
    groups = [("unmodified", trained[trained["method"] == ""])]
    groups += [(str(method), part) for method, part in trained.groupby("method", sort=False) if method]
    rows = [_cost_row(name, part) for name, part in groups if len(part)]
    rows += [_cost_row(name, part, total=True) for name, part in _totals(cost)]
    heads = ("work", "pieces", "images", "wall time", "wall time of a piece")
    caption = (
        "Trainings by treatment: a piece is one training, its images are counted once an epoch. Wall times are "
        "summed over pieces, whether they ran one after the other or side by side."
    )
    head = [head_cell(text, "" if i else "left") for i, text in enumerate(heads)]
    return table(escape(caption), head, rows, label="Cost") + _ratio(result) + _shared_cost(result)


def _shared_cost(result: Result) -> str:
    imputers = result.settings.get("imputers")
    if not isinstance(imputers, list) or len(imputers) < 2:
        return ""
    return (
        f"<p>The sweep fills in {len(imputers)} ways ({escape(listed([str(name) for name in imputers]))}), with a "
        "result for each. They share the unmodified trainings, the attribution maps and ROAD: every result counts "
        "these, but they were paid once.</p>"
    )


def _totals(cost: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    names = {
        "retrain": "all trainings",
        "maps": "attribution maps",
        "road": "ROAD on one model",
        "judge": "judge of the gate",
        "audit": "audits",
    }
    parts = [(name, cost[cost["work"] == work]) for work, name in names.items()]
    return [*((name, part) for name, part in parts if len(part)), ("everything", cost)]


def _cost_row(name: str, part: pd.DataFrame, *, total: bool = False) -> str:
    seconds, images = float(part["seconds"].sum()), int(part["images"].sum())
    head = f'<th scope="row">{escape(name)}</th>' if total or name == "unmodified" else row_head(name)
    each = "–" if part["work"].nunique() > 1 else duration(seconds / len(part))
    cells = (number(len(part)), number(images), duration(seconds), each)
    open_, close = ("<td><b>", "</b></td>") if total else ("<td>", "</td>")
    return f"<tr>{head}{''.join(f'{open_}{cell}{close}' for cell in cells)}</tr>"


def _ratio(result: Result) -> str:
    trained = result.cost[result.cost["work"] == "retrain"]
    seconds, images = road_cost(result)
    if not seconds or not trained["seconds"].sum():
        return ""
    share = seconds / float(trained["seconds"].sum())
    seen = images / max(1, int(trained["images"].sum()))
    own = _retraining(result)
    own = f"({own})" if len(result.orders) > 1 else own
    return (
        f"<p>On the same work ROAD took {duration(seconds)} and scored {number(images)} images: "
        f"<b>ROAD / {own} = {_small(share)}</b> of the wall time and {_small(seen)} of the images"
        f"{f', for {result.repeats} trainings of each point' if result.repeats > 1 else ''}. The maps count for "
        "neither.</p>"
    )


def road_cost(result: Result) -> tuple[float, int]:
    """Seconds and images of ROAD on the same work; 0 and 0 where it was not run."""
    rows = result.cost[result.cost["work"] == "road"]
    if len(rows):
        return float(rows["seconds"].sum()), int(rows["images"].sum())
    beside = (result.settings.get("beside") or {}).get("road") or {}
    return float(beside.get("seconds", 0)), int(beside.get("images", 0))


def _small(share: float) -> str:
    """A share in percent, with two digits that count."""
    return f"{100 * share:.2g}\u00a0%" if share < 0.1 else percent(share)


def _retraining(result: Result) -> str:
    return " and ".join(words.short for words in orders_of(result).values())
