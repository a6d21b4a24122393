"""The sections of the page, each an HTML fragment made of numbers worked out elsewhere."""

from __future__ import annotations

import pandas as pd

from roadworthy.evaluation.concordance import concordance_of
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.result_files import handed_on
from roadworthy.evaluation.standing import within_range
from roadworthy.evaluation.withheld import pairs_without_withheld, withheld_by_gate
from roadworthy.evaluation.words import orders_in_words
from roadworthy.markup import escape, number, percent
from roadworthy.report import audit_sections, retrained, tables
from roadworthy.report.chart import switches
from roadworthy.report.concordance import concordance_section
from roadworthy.report.downloads import download_bar, figure_uri
from roadworthy.report.explorer import explorer_section
from roadworthy.report.facts import interval_kind, orders_of, units_of
from roadworthy.report.fidelity import fidelity_section
from roadworthy.report.figures import curves_figure
from roadworthy.report.material import Material
from roadworthy.report.sheet import sheet_section
from roadworthy.report.text import asset
from roadworthy.report.traps import traps_section
from roadworthy.report.views import views_section
from roadworthy.statistics import pairwise_table

_ONE_TRAINING = (
    "There is one training of each point: intervals and differences are over test samples, and say nothing about the "
    "spread between trainings. Take 5 repeats or more.",
)


def all_sections(material: Material) -> list[tuple[str, str, str]]:
    """Return (id, heading, HTML) of every section after the verdict; the HTML is empty where nothing is to say."""
    result = material.result
    rankings = {key: tables.ranking_table(found) for key, found in material.findings.items()}
    return [
        ("missing", "What is missing", retrained.missing_section(result)),
        ("warnings", "Warnings", _warnings(result)),
        ("curves", "Curves", _curves(material)),
        ("ranking", "Ranking", _per_readout(rankings)),
        ("views", "Each judge and fill by itself", views_section(material.main)),
        ("points", "Every point over its trainings", _per_readout(retrained.points_section(material))),
        ("pairs", "Which differences are real", _pairs(material)),
        ("agreement", "Do the two orders agree?", _agreement(material)),
        ("strategies", "Every order, judge and fill against every other", _strategies(material)),
        ("fidelity", "Fid+ and Fid−", fidelity_section(material.main)),
        ("leakage", "Do masks give the class away?", audit_sections.leakage_section(material.main)),
        ("gate", "The gate of KAR", audit_sections.gate_section(material.main)),
        ("idsds", "One patch at a time", audit_sections.patches_section(material.main)),
        ("traps", "Traps that were looked for", traps_section(material.main)),
        ("road", "Beside ROAD, which trains nothing", retrained.beside_section(material)),
        ("cost", "Cost", retrained.cost_section(result)),
        ("samples", "Samples", _samples(material)),
        ("methods", "The maps themselves", _methods(result)),
        ("settings", "Settings and provenance", _settings(result)),
        ("reading", "How to read this", asset(f"reading{'-retrained' if result.retrained else ''}.html")),
        ("downloads", "Download the numbers", _downloads(material)),
    ]


def _warnings(result: Result) -> str:
    lines = [*_ONE_TRAINING, *result.warnings] if result.retrained and result.repeats == 1 else result.warnings
    if not lines:
        return ""
    failed = "<p>What failed does not come by itself: see What is missing.</p>" if result.failed else ""
    return f'<ul class="warnings">{"".join(f"<li>{escape(line)}</li>" for line in lines)}</ul>{failed}'


def _curves(material: Material) -> str:
    result = material.result
    named = orders_in_words(result.orders, result.retrained)
    alt = f"Curves of {len(result.methods)} methods: {named}. The table below has the numbers."
    numbers = ""
    if not result.retrained:  # a section of its own has them
        parts = {key: tables.curve_table(result, frame, key) for key, frame in material.curves.items()}
        numbers = f"<details><summary>The numbers of these curves</summary>{_per_readout(parts)}</details>"
    cut = any(not within_range(frame, key).equals(frame) for key, frame in material.curves.items())
    return (
        f"{_orders_line(result)}"
        f"<p>{_question(result)}{_mean_of_views(material)} Bands are 95\u00a0% {interval_kind(result)}s over "
        f"{units_of(result)}, point by "
        f"point{', cut off at 0 and 1, beyond which nothing is possible' if cut else ''}; controls are grey.</p>"
        f"{switches(material)}"
        f'<div id="chart" class="no-js-hidden" role="figure" aria-label="{escape(alt)}"></div>'
        f'<img class="static" src="{figure_uri(curves_figure(result))}" alt="{escape(alt)}">'
        f"{numbers}"
    )


def _mean_of_views(material: Material) -> str:
    over = material.main.mean_of
    return f" The mean over {over}, each of which has a ranking of its own below." if over else ""


def _question(result: Result) -> str:
    if not result.retrained:
        return "What the model can still do after a share of each input is removed."
    return (
        "What a newly trained model can still reach when a share of every training and test image is removed; at "
        "0\u00a0% the training on unmodified images, the same for all."
    )


# what an order does and what a good method then looks like, for a reader who knows neither word
_PLAIN = {
    "morf": "removes first what a method calls most relevant: if it is right, the curve falls soon",
    "lerf": "removes the least relevant ones first: if the method is right, the curve stays high for long",
}


def _orders_line(result: Result) -> str:
    said = " ".join(f"<b>{words.short}</b> {_PLAIN[order]}." for order, words in orders_of(result).items())
    return f"<p>{said} The share removed is how much of each input is gone.</p>"


def _pairs(material: Material) -> str:
    if len(material.result.methods) < 2:
        return ""
    return _per_readout({key: tables.pairwise_matrix(found) for key, found in material.findings.items()})


def _agreement(material: Material) -> str:
    if material.main.agreement is None or len(material.result.methods) < 2:
        return ""
    why = (
        "<p>A method that finds what the model uses does well in both orders. Where the orders rank the methods "
        "differently, the choice of the order decides the ranking as much as the methods do.</p>"
    )
    return why + _per_readout({key: tables.agreement_table(found) for key, found in material.findings.items()})


def _strategies(material: Material) -> str:
    if not material.main.views or len(material.result.methods) < 2:
        return ""
    return concordance_section(concordance_of({"": material.result}))


def _samples(material: Material) -> str:
    sheet = material.result.sheet
    return explorer_section(material) + ("" if sheet is None else sheet_section(material.result, sheet))


def _methods(result: Result) -> str:
    if result.method_info.empty:
        return ""
    caption = (
        "Tied units are ordered by a seeded draw; a constant map says nothing. The completeness gap is how far the "
        "sum of a map is from the change of the output that it should explain, where a method promises to match it."
    )
    return tables.frame_table(result.method_info, caption, "Facts about the maps of each method")


def _settings(result: Result) -> str:
    counts = zip(result.fractions, result.removed, strict=True)
    removed = ", ".join(f"{number(count)} at {percent(share)}" for share, count in counts)
    return (
        f"<p>Units removed: {removed}.</p>"
        f"<details><summary>Settings</summary>{tables.settings_table(result.settings, 'Settings')}</details>"
        f"<details><summary>Provenance</summary>{tables.settings_table(result.provenance, 'Provenance')}</details>"
    )


def _downloads(material: Material) -> str:
    main = material.main.ranking
    curves = [frame.assign(readout=key) for key, frame in material.curves.items()]
    frames = {"ranking.csv": handed_on(material.result, main), "curves.csv": pd.concat(curves, ignore_index=True)}
    if material.result.retrained:
        points = [material.result.over_repeats(key).assign(readout=key) for key in material.curves]
        frames["points.csv"] = pd.concat(points, ignore_index=True)
    if len(material.result.cost):
        frames["cost.csv"] = material.result.cost
    if len(main) > 1:
        frames["pairwise.csv"] = pairs_without_withheld(pairwise_table(main), withheld_by_gate(material.result))
    readout = material.main.words.name
    return f"<p>Ranking and pairs by {readout}; curves of every readout.</p>{download_bar(frames)}"


def _per_readout(parts: dict[str, str]) -> str:
    """One part a readout; the first is shown until another is chosen."""
    return "".join(
        f'<div data-readout="{key}"{" hidden" if position else ""}>{html}</div>'
        for position, (key, html) in enumerate(parts.items())
    )
