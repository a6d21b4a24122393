"""The agreement of strategies as a heat map: a section of a page, and a figure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from roadworthy.errors import InputError
from roadworthy.markup import clean, escape, number, percent
from roadworthy.report.tables import head_cell, interval, name, row_head, table
from roadworthy.report.text import listed, p_value
from roadworthy.statistics import Concordance, Matrix

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STATISTICS = {
    "spearman": "Spearman, mean over the shares",
    "kendall": "Kendall, mean over the shares",
    "spearman_area": "Spearman of the areas",
    "kendall_area": "Kendall of the areas",
}
_HEAT = 0.5  # of the colour at an agreement of 1: text on it stays readable, light and dark
_SHADES = ["#ff9a56", "#ffffff", "#56b4e9"]  # black text on them has a contrast of 9 or more
_NAME = 34  # characters of a name in the figure
_NAMED = 12  # sources named before the rest is counted
_PAIRING = {
    "removed": "MoRF and LeRF are paired by the share removed.",
    "kept": "MoRF at the share p removed is paired with LeRF at the share p kept, as the ROAD paper's code does.",
}


def concordance_section(found: Concordance, statistic: str = "spearman") -> str:
    """Return the heat map, every pair's numbers, and the ranks they come from, as HTML.

    Args:
        found: what was compared.
        statistic: of the heat map: ``"spearman"``, ``"kendall"``, ``"spearman_area"`` or ``"kendall_area"``.

    Returns:
        An HTML fragment for the page of :func:`roadworthy.report`, names escaped.

    Raises:
        InputError: an unknown statistic.
    """
    said = "".join(f"<p>{escape(sentence)}</p>" for sentence in (*oddities(found), spread(found), overall(found)))
    return said + concordance_tables(found, statistic)


def concordance_tables(found: Concordance, statistic: str = "spearman") -> str:
    """Return the heat map and what is folded away below it, without the sentences; as :func:`concordance_section`."""
    return (
        f"{_heat_map(found, _checked(statistic))}"
        f"<details><summary>Every pair</summary>{_pairs(found)}</details>"
        f"<details><summary>Ranks of the methods</summary>{_ranks(found)}</details>"
    )


def concordance_figure(found: Concordance, statistic: str = "spearman") -> Figure:
    """Draw the matrix as a heat map: the value in each cell, its standard error below.

    Args:
        found: what was compared.
        statistic: as in :func:`concordance_section`.

    Returns:
        A matplotlib figure; blue is agreement, orange the reverse, hatched where undefined.

    Raises:
        InputError: an unknown statistic.
    """
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    chosen: Matrix = getattr(found, _checked(statistic))
    count = len(found.sources)
    labels = [_short(source) for source in found.sources]
    margin = 0.075 * max(map(len, labels))
    side = 0.72 * count
    figure = Figure(figsize=(side + margin + 0.9, side + margin + 0.6), layout="constrained")
    axes = figure.subplots()
    colours = LinearSegmentedColormap.from_list("agreement", _SHADES)
    picture = axes.imshow(np.nan_to_num(chosen.value), cmap=colours, vmin=-1, vmax=1)
    for i, j in np.ndindex(count, count):
        if np.isnan(chosen.value[i, j]):
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, hatch="////", edgecolor="#bbbbbb", lw=0))
        se = "" if i == j or np.isnan(chosen.se[i, j]) else f"\n±{chosen.se[i, j]:.3f}"
        axes.text(j, i, f"{number(chosen.value[i, j], 2)}{se}", ha="center", va="center", fontsize=7)
    axes.set_xticks(range(count), labels, rotation=90, fontsize=8)
    axes.set_yticks(range(count), labels, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(f"{STATISTICS[statistic]}; W = {number(found.w, 2)}", fontsize=9)
    figure.colorbar(picture, ax=axes, shrink=0.7).ax.tick_params(labelsize=8)
    return figure


def overall(found: Concordance) -> str:
    """Say how far all sources that rank the methods agree, in one line of plain text."""
    left = f" ({len(found.unranked)} left out)" if found.unranked else ""
    count = len(found.sources) - len(found.unranked)
    what = (
        f"Kendall's W of the areas, {count} source{'' if count == 1 else 's'}{left} and {len(found.methods)} methods,"
    )
    if np.isnan(found.w):
        return f"{what} is undefined: there is no ranking that could agree."
    ends = "" if np.isnan(found.w_low) else f", {percent(found.level)} interval {interval(found.w_low, found.w_high)}"
    return (
        f"{what} is {number(found.w, 2)} (1 is the same ranking{ends}); rankings that have nothing to do with each "
        f"other reach that with {p_value(found.w_p)}."
    )


def oddities(found: Concordance) -> list[str]:
    """Say which sources rank nothing and which are one thing under several names, a line of plain text each."""
    said = []
    if found.unranked:
        several = len(found.unranked) > 1
        said.append(
            f"Left out, for {'they give' if several else 'it gives'} every method the same score everywhere: "
            f"{_listed(found.unranked)}."
        )
    said += [f"The same scores, so that their agreement says nothing: {_listed(group)}." for group in found.twins]
    return said


def _listed(names: Iterable[str]) -> str:
    return listed([clean(name) for name in names], _NAMED)


def ranking_sources(found: Concordance) -> list[int]:
    """Return the places of the sources that rank the methods."""
    return [place for place, source in enumerate(found.sources) if source not in found.unranked]


def spread(found: Concordance) -> str:
    """Say the mean agreement of all pairs, and which pair agrees least, in one line of plain text."""
    first, second = np.triu_indices(len(found.sources), 1)
    values = found.spearman.value[first, second]
    if np.isnan(values).all():
        return "No two sources have an agreement: there is no share at which both rank the methods."
    least = int(np.nanargmin(values))
    i, j = int(first[least]), int(second[least])
    ends = interval(float(found.spearman.low[i, j]), float(found.spearman.high[i, j]))
    what = (
        f"{clean(found.sources[i])} with {clean(found.sources[j])}: Spearman {number(float(values[least]), 2)} "
        f"(se {number(float(found.spearman.se[i, j]))}, {percent(found.level)} interval {ends}; "
        f"{found.used[i, j]} shares)"
    )
    return (
        f"{what}."
        if len(values) == 1
        else f"Mean of all pairs {number(float(np.nanmean(values)), 2)}; least, {what}."
    )


def _checked(statistic: str) -> str:
    if statistic not in STATISTICS:
        raise InputError(f"statistic: got {statistic!r}, expected one of {', '.join(STATISTICS)}")
    return statistic


def _heat_map(found: Concordance, statistic: str) -> str:
    chosen: Matrix = getattr(found, statistic)
    shown = ranking_sources(found)
    if not shown:
        return ""
    head = [head_cell("source", "left"), *(f'<th scope="col">{name(found.sources[i])}</th>' for i in shown)]
    rows = []
    for i in shown:
        cells = "".join(_cell(found, chosen, i, j) for j in shown)
        rows.append(f'<tr><th scope="row">{name(found.sources[i])}</th>{cells}</tr>')
    caption = (
        f"{STATISTICS[statistic]}, {len(found.methods)} methods: 1 is the same ranking, −1 its reverse, – undefined. "
        f"Below it the {percent(found.level)} interval. {_PAIRING[found.pairing]} {_shares(found)}"
    )
    left = [f"<li>{name(source)}: every method has the same score everywhere.</li>" for source in found.unranked]
    below = f'<p class="small">Not shown:</p><ul class="warnings">{"".join(left)}</ul>' if left else ""
    return table(caption, head, rows, label="Agreement of all strategies", css="matrix") + below


def _cell(found: Concordance, chosen: Matrix, i: int, j: int) -> str:
    value = float(chosen.value[i, j])
    if i == j or np.isnan(value):
        return f'<td class="self">{number(value, 2)}</td>'
    css = "better" if value >= 0 else "worse"
    ends = f"<small>{interval(float(chosen.low[i, j]), float(chosen.high[i, j]))}</small>"
    return f'<td class="cell {css}" style="--heat:{_HEAT * abs(value):.2f}"><b>{number(value, 2)}</b>{ends}</td>'


def _shares(found: Concordance) -> str:
    shown = ranking_sources(found)
    if len(shown) < 2:
        return ""
    used = found.used[np.ix_(shown, shown)][np.triu_indices(len(shown), 1)]
    least, most = int(used.min()), int(used.max())
    over = f"{least}" if least == most else f"{least} to {most}"
    return f"Each pair is compared at the shares that both have: {over} of {len(found.shares)}."


def _pairs(found: Concordance) -> str:
    heads = [
        "with",
        "Spearman",
        "se",
        "interval",
        "Kendall",
        "Spearman of areas",
        "Kendall of areas",
        "shares",
        "se over",
    ]
    head = [head_cell("source", "left"), head_cell(heads[0], "left"), *map(head_cell, heads[1:])]
    rows = []
    for row in found.pairs().to_dict("records"):
        over = f"{row['trainings']} trainings" if row["trainings"] else "resamples"
        cells = [
            number(row["spearman"], 2),
            number(row["spearman_se"]),
            interval(row["spearman_low"], row["spearman_high"]),
            *(number(row[key], 2) for key in ("kendall", "spearman_area", "kendall_area")),
            number(row["shares"]),
            over,
        ]
        other = f'<td class="left">{name(row["other"])}</td>'
        rows.append(f'<tr><th scope="row">{name(row["source"])}</th>{other}{_cells(cells)}</tr>')
    return table("Agreement of every pair, with its standard error and interval.", head, rows, label="Every pair")


def _ranks(found: Concordance) -> str:
    head = [head_cell("method", "left"), *(f'<th scope="col">{name(source)}</th>' for source in found.sources)]
    rows = [
        f"<tr>{row_head(method)}{_cells(f'{rank:g}' if rank == rank else '–' for rank in ranks)}</tr>"
        for method, ranks in zip(found.methods, found.ranks.T, strict=True)
    ]
    return table("Rank by the area under the whole curve; 1 is the best.", head, rows, label="Ranks of the methods")


def _cells(texts: Iterable[str]) -> str:
    return "".join(f"<td>{text}</td>" for text in texts)


def _short(text: str) -> str:
    shown = clean(text).replace("$", r"\$")
    return shown if len(shown) <= _NAME else shown[: _NAME - 1] + "…"
