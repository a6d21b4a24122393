"""The sections of the page, each made of the record's numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.labelfree.result import LabelFree, Pictures
from roadworthy.markup import clean, escape, number, percent
from roadworthy.report.downloads import download_bar, figure_uri
from roadworthy.report.labelfree.cells import difference, share, table_heads, table_row
from roadworthy.report.labelfree.figure import curves_of, reliability_figure
from roadworthy.report.pictures import data_uri, image_array
from roadworthy.report.tables import name, settings_table, table
from roadworthy.report.text import asset

_SIDE = 112
_STATUS = {
    "pass": ("✓", "passes", "good"),
    "warn": ("!", "warns", ""),
    "refuse": ("✗", "refuses", "bad"),
    "not run": ("–", "not run", ""),
}
_ROWS = 400  # of the long table of self-validation


def all_sections(result: LabelFree) -> list[tuple[str, str, str]]:
    """Return (id, heading, HTML) of every section after the verdict; the HTML is empty where nothing is to say."""
    record = result.record
    return [
        ("warnings", "Warnings", _notes(record["notes"])),
        ("curve", "Reliability against coverage", _curve(result)),
        ("estimates", "Accuracy without labels", _estimates(record)),
        ("validation", "How estimators did where the truth is known", _validation(record["validation"])),
        ("gates", "Gates: may the figures be believed?", _gates(record["gates"])),
        ("diagnosis", "Diagnosis", _diagnosis(record["diagnosis"])),
        ("clusters", "Do classes follow clusters?", _clusters(record["clusters"])),
        ("discrepancy", "Pseudo-label discrepancy", _discrepancy(record["discrepancy"])),
        ("classes", "Class by class", _classes(record)),
        ("samples", "Samples", "" if result.pictures is None else _pictures(result, result.pictures)),
        ("plan", "What to label", _plan(record)),
        ("settings", "Settings and provenance", _settings(record)),
        ("reading", "How to read this", asset("reading-labelfree.html")),
        ("downloads", "Download the numbers", _downloads(result)),
    ]


def _notes(notes: Sequence[str]) -> str:
    return f'<ul class="warnings">{"".join(f"<li>{escape(note)}</li>" for note in notes)}</ul>' if notes else ""


def _estimates(record: Mapping[str, Any]) -> str:
    rows = record["estimates"]
    if not rows:
        return ""
    head = ["estimator", "says", "off by, on average", "bias", "worst", "rank correlation", "note"]
    body = [
        table_row(
            f"{row['estimator']}{' (chosen here)' if row['chosen'] else ''}",
            [
                share(row["accuracy"]),
                number(row["mae"]),
                difference(row["bias"]),
                difference(row["worst"]),
                number(row["rank_correlation"], 2),
            ],
            row["note"],
        )
        for row in sorted(rows, key=lambda row: (row["mae"] is None, row["mae"]))
    ]
    live = record["estimate"]
    shift = ", ".join(f"{key} {number(value, 2)}" for key, value in live["shift"].items())
    caption = (
        "What each says of these samples, and what it was off by on pseudo-targets made of the labelled source "
        "(error is estimate minus truth; kinds of shift count alike). The chosen one had the least error on shifts "
        f"like this one: {escape(', '.join(live['similar']))}. How far these samples are from the source: "
        f"{escape(shift)}."
    )
    return table(caption, table_heads(head, left=(0, 6)), body, label="Estimates of accuracy")


def _validation(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    kinds = list(found["summary"][0]["by_kind"]) if found["summary"] else []
    body = [
        table_row(row["estimator"], [number(row["mae"]), *(number(row["by_kind"][kind]) for kind in kinds)])
        for row in found["summary"]
    ]
    summary = table(
        "Mean absolute error by kind of shift. The honest figure for a choice made so, on kinds of shift that had "
        f"no part in it: {number(found['left_out_error'])}.",
        table_heads(["estimator", "all kinds", *kinds], left=(0,)),
        body,
        label="Self-validation by kind",
    )
    rows = found["table"][:_ROWS]
    long = [
        table_row(
            row["target"],
            [
                number(row["n"]),
                escape(row["estimator"]),
                share(row["estimate"]),
                share(row["truth"]),
                difference(row["error"]),
            ],
        )
        for row in rows
    ]
    cut = "" if len(rows) == len(found["table"]) else f" The first {_ROWS} of {len(found['table'])} rows."
    every = table(
        f"Every pseudo-target.{cut}",
        table_heads(["pseudo-target", "n", "estimator", "estimate", "truth", "error"], left=(0,)),
        long,
        label="Every pseudo-target",
    )
    left = "".join(f"<p>Left out: {escape(text)}.</p>" for text in found["left_away"])
    return f"{summary}{left}<details><summary>Every pseudo-target</summary>{every}</details>"


def _gates(gates: Sequence[Mapping[str, Any]]) -> str:
    order = ("refuse", "warn", "pass", "not run")
    body = []
    for gate in sorted(gates, key=lambda gate: order.index(gate["status"])):
        mark, word, colour = _STATUS[gate["status"]]
        value = number(gate["value"])
        if gate["low"] is not None:
            value += f" ({number(gate['low'])} to {number(gate['high'])})"
        status = f'<span class="{colour}"><span aria-hidden="true">{mark}</span> {word}</span>'
        body.append(table_row(gate["name"], [status, value], gate["expected"], gate["why"]))
    caption = (
        "Each looks at one number. A shift that is seen may or may not harm; a change of concept, where the same "
        "samples now belong to other classes, cannot be seen without labels."
    )
    return table(
        caption, table_heads(["gate", "verdict", "number", "rule", "in words"], left=(0, 3, 4)), body, label="Gates"
    )


def _curve(result: LabelFree) -> str:
    record = result.record
    if record["curve"] is None:
        return ""
    static = figure_uri(reliability_figure(result))
    curve, alt = record["curve"], "Reliability against coverage; the numbers stand in the table below."
    facts = [
        table_row(
            name_,
            [
                number(one["area"]),
                "–" if one["area_low"] is None else f"{number(one['area_low'])} to {number(one['area_high'])}",
            ],
            " ".join(note if note.endswith(".") else f"{note}." for note in one["notes"]),
        )
        for name_, one in curves_of(record)
    ]
    picked = np.unique(np.linspace(0, len(curve["coverage"]) - 1, 11).round().astype(int))
    points = [
        table_row(
            percent(curve["coverage"][k]),
            [number(curve["reliability"][k]), _ends(curve, k), number(curve["thresholds"][k])],
        )
        for k in picked
    ]
    return (
        "<p>Samples are kept by falling confidence; reliability is how far the perturbed answers agree with the "
        "clean class beyond chance: by default the mean probability that the clean class gets in the passes. 0 is "
        "chance, 1 is sure and never moved; an unsure model has little of it however steady it is. It is not "
        "correctness.</p>"
        f'<div id="chart" class="single no-js-hidden" role="figure" aria-label="{alt}"></div>'
        f'<img class="static" src="{static}" alt="{alt}">'
        '<div class="bar no-js-hidden"><button type="button" data-save="svg">Save as SVG</button>'
        '<button type="button" data-save="png">Save as PNG</button></div>'
        + table(
            f"Areas; {percent(curve['level'])} intervals over samples.",
            table_heads(["curve", "area", "interval", "what to know"], left=(0, 3)),
            facts,
            label="Areas of the curves",
        )
        + _threshold(record["threshold"])
        + f"<details><summary>Points of the curve</summary>{_points(points)}</details>"
    )


def _points(points: list[str]) -> str:
    head = table_heads(["coverage", "reliability", "interval", "scores from"], left=(0,))
    return table("Points of the ranked curve.", head, points, label="Points of the ranked curve")


def _ends(curve: Mapping[str, Any], k: int) -> str:
    return "–" if curve["low"] is None else f"{number(curve['low'][k])} to {number(curve['high'][k])}"


def _threshold(found: Mapping[str, Any]) -> str:
    rows = [
        table_row(
            one["measure"],
            [
                number(one["target"], 2),
                percent(one["coverage"]),
                "–" if one["low"] is None else f"{percent(one['low'])} to {percent(one['high'])}",
                number(one["threshold"]),
            ],
            one["reason"],
        )
        for one in (found["agreement"], found["accuracy"])
        if one is not None
    ]
    caption = (
        "On how much of the data the wanted reliability is reached, keeping the samples with the highest scores."
    )
    head = table_heads(["by", "wanted", "coverage", "interval", "scores from", "note"], left=(0, 5))
    return table(caption, head, rows, label="Coverage at a wanted reliability")


def _diagnosis(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    body = [table_row(one["symptom"], [], one["cause"], one["next_step"], one["rule"]) for one in found["findings"]]
    head = table_heads(["symptom", "likely cause", "next step", "rule"], left=(0, 1, 2, 3))
    return table("What is known to go wrong, looked for in the curve.", head, body, label="Diagnosis")


def _clusters(found: Mapping[str, Any] | None) -> str:
    if found is None:
        return ""
    facts = {
        key: found[key] for key in ("purity", "null_mean", "adjusted", "p", "method", "cluster_count", "unclustered")
    }
    caption = (
        "Purity: share of samples whose predicted class is the commonest of their cluster, beside what the same "
        "clusters reach with the classes dealt out anew. Features of the judged network are parted by its own head, "
        "so high purity is no proof."
    )
    return settings_table(facts, caption)


def _discrepancy(found: Mapping[str, Any] | None) -> str:
    """Return pseudo-label discrepancy per interval; empty where it was not asked for."""
    if found is None:
        return ""
    return "".join(_discrepancy_class(one) for one in found["classes"])


def _discrepancy_class(one: Mapping[str, Any]) -> str:
    rows = [
        table_row(
            f"{number(row['low'], 2)} to {number(row['high'], 2)}",
            [
                number(row["n"]),
                number(row["midpoint"], 2),
                number(row["discrepancy"]),
                _interval(row),
                share(row["share"]),
            ],
            row["note"],
        )
        for row in one["intervals"]
    ]
    caption = (
        f"Class {name(one['name'])}: the discrepancy of each interval of its probability. Above 0 the interval looks "
        "empty of the class, below 0 full of it; near 0 it is mixed. Correlation of discrepancy and midpoint, which "
        f"is what the classifier says by itself: {number(one['baseline_correlation'])}; near −1 it adds nothing."
        f"{_learned(one)} Area of reliability over completeness: {number(one['curve']['area'])}."
    )
    texts = ["probability", "n", "midpoint", "discrepancy", "interval", "share of the class, learned", "note"]
    notes = "".join(f"<p>{escape(note)}.</p>" for note in one["notes"])
    return table(caption, table_heads(texts, left=(0, 6)), rows, label=f"Discrepancy of {clean(one['name'])}") + notes


def _learned(one: Mapping[str, Any]) -> str:
    learned = one["learned"]
    if learned is None:
        return ""
    return (
        f" The learned share was off by {number(learned['error'])} on source intervals left out, a line from the "
        f"interval's midpoint, what the classifier says by itself, by {number(learned['baseline_error'])}."
    )


def _interval(row: Mapping[str, Any]) -> str:
    return (
        "–"
        if row["discrepancy_low"] is None
        else f"{number(row['discrepancy_low'])} to {number(row['discrepancy_high'])}"
    )


def _classes(record: Mapping[str, Any]) -> str:
    """Predictions, recall and F1 of each class, by every estimator that says something of single classes."""
    able = [row for row in record["estimates"] if any(value is not None for value in row["recall"])]
    rows = []
    for k, label in enumerate(record["classes"]):
        cells = [number(record["predicted"][k])]
        for row in able:
            cells += [share(row["recall"][k]), number(row["f1"][k])]
        rows.append(table_row(label, cells))
    head = ["class", "predicted", *(f"{what}, {row['estimator']}" for row in able for what in ("recall", "F1"))]
    by = " Recall and F1 as estimated; of source they are those of the labelled samples." if able else ""
    caption = f"How often each class is predicted.{by}{' They have no interval.' if able else ''}"
    return table(caption, table_heads(head, left=(0,)), rows, label="Classes")


def _pictures(result: LabelFree, shown: Pictures) -> str:
    facts_of = result.per_sample.set_index("id").to_dict(orient="index")
    pixel = ' class="pixel"' if max(shown.clean.shape[-2:]) < 64 else ""
    count = shown.perturbed.shape[1]
    rows = []
    for k, sample in enumerate(shown.ids):
        facts = facts_of[sample]
        said = result.record["classes"][int(facts["predicted"])]
        cells = [f"<td>{_picture(shown.clean[k], f'sample {sample}', pixel)}</td>"]
        cells += [f"<td>{_picture(shown.perturbed[k, p], 'perturbed', pixel)}</td>" for p in range(count)]
        agreement = f"<td>{percent(facts['agreement'])}</td>" if "agreement" in facts else ""
        rows.append(
            f'<tr><th scope="row">{name(sample)}<br><small class="muted">{escape(shown.band[k])}</small></th>'
            f"<td>{name(said)}</td><td>{percent(facts['confidence'])}</td>{agreement}{''.join(cells)}</tr>"
        )
    head = [
        "sample",
        "predicted",
        "confidence",
        *(["passes that agree"] if "agreement" in result.per_sample else []),
        "clean",
    ]
    head += [f"perturbed {p + 1}" for p in range(count)]
    caption = (
        "Samples of high, middle and low confidence, drawn. If a person cannot tell what the perturbed ones are, the "
        "perturbation is too strong."
    )
    return table(caption, table_heads(head, left=(0,)), rows, label="Samples", css="sheet")


def _picture(image: np.ndarray, alt: str, pixel: str) -> str:
    uri = data_uri(image_array(image), _SIDE)
    return f'<img{pixel} src="{uri}" alt="{escape(alt)}" decoding="async">'


def _plan(record: Mapping[str, Any]) -> str:
    plan, audit = record["plan"], record["audit"]
    words = (
        f"<p>plan.csv names {number(plan['n'])} of the {number(record['n'])} samples, drawn with known chances from "
        f"{len(plan['strata'])} bands of confidence. Fill in its column <i>label</i>; "
        "<code>roadworthy audit labels</code> reads it and says whether the estimate is confirmed. Labels of the "
        "middle band, picked for training, are unfit for this.</p>"
    )
    return words + ("" if audit is None else settings_table(audit, "What the labels say"))


def _settings(record: Mapping[str, Any]) -> str:
    asked = record["consistency"]
    parts = [("Settings", record["settings"]), ("Provenance", record["provenance"])]
    if asked is not None:
        parts.insert(
            1, ("Perturbation", {**asked["settings"], **{f"mean {k}": v for k, v in asked["means"].items()}})
        )
    return "".join(
        f"<details><summary>{title}</summary>{settings_table(values, title)}</details>" for title, values in parts
    )


def _downloads(result: LabelFree) -> str:
    frames = {
        "estimates.csv": result.estimates,
        "gates.csv": result.gates,
        "curves.csv": _curves_frame(result.record),
    }
    return download_bar(frames, {"labelfree.json": json.dumps(result.as_dict())})


def _curves_frame(record: dict[str, Any]) -> pd.DataFrame:
    """Return every curve of the chart, a row a point; empty where nothing was perturbed."""
    columns = ("coverage", "reliability", "low", "high", "thresholds")
    parts = [
        pd.DataFrame({"curve": name_, **{key: curve[key] for key in columns}}) for name_, curve in curves_of(record)
    ]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()
