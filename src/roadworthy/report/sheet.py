"""The image sheet of the page: samples, maps and degraded copies as embedded pictures, within a byte budget."""

from __future__ import annotations

from typing import NamedTuple

from roadworthy.evaluation.result import Result, Sheet
from roadworthy.evaluation.standing import labelled
from roadworthy.markup import clean, escape, percent
from roadworthy.report.facts import orders_of
from roadworthy.report.pictures import data_uri, image_array, map_array, most_bytes, spread
from roadworthy.report.tables import name

BUDGET = 6_000_000  # bytes of embedded pictures at most, whatever the data
_SAMPLES = 12
_METHODS = 16
_PIXELATED = 64  # smaller pictures are enlarged with sharp pixels


class Plan(NamedTuple):
    """What of the sheet is shown: so much that the pictures stay within the budget."""

    samples: list[int]
    methods: int
    shares: list[int]
    side: int


def sheet_plan(result: Result, sheet: Sheet) -> Plan:
    """Choose which samples and shares are shown, and how large: the best that fits the budget.

    Samples are positions in the sheet, spread evenly; shares are positions in ``result.fractions``, without 0.
    """
    height, width = sheet.images.shape[-2:]
    methods = min(len(result.methods), _METHODS)
    kept = len(sheet.ids)
    largest = min(kept, _SAMPLES)
    for most in (5, 3):
        shares = [1 + p for p in spread(len(result.fractions) - 1, most)]
        for samples in range(largest, min(largest, 2) - 1, -1):
            for side in (112, 96, 80):
                pictures = samples * (1 + methods * (1 + len(result.orders) * len(shares)))
                if pictures * most_bytes(height, width, side) <= BUDGET:
                    return Plan(spread(kept, samples), methods, shares, side)
    return Plan(spread(kept, 1), methods, shares, 64)


def sheet_section(result: Result, sheet: Sheet) -> str:
    """The samples as HTML, the first one open."""
    plan = sheet_plan(result, sheet)
    height, width = sheet.images.shape[-2:]
    reduced = f", pictures reduced to at most {plan.side} pixels" if max(height, width) > plan.side else ""
    shown = (
        f"{len(plan.samples)} of {len(sheet.ids)} kept samples, {plan.methods} of {len(result.methods)} methods, "
        f"{len(plan.shares)} of {len(result.fractions) - 1} shares{reduced}."
    )
    intro = (
        f"<p>What {'the trained models saw and what they' if result.retrained else 'the model saw and what it'} "
        "answered. In the maps, "
        '<span class="scale" role="img" aria-label="scale from blue over white to red"></span> '
        "blue speaks against the explained class, white is nothing, red speaks for it. "
        f'<span class="muted">{escape(asked(result))} Shown: {shown}</span></p>'
    )
    return intro + "".join(_sample(result, sheet, plan, s) for s in plan.samples)


def asked(result: Result) -> str:
    """Say in plain text whose copies and answers the pictures are, where there are several judges or fills."""
    first, *others = result.views
    if not others:
        return ""
    return f"Pictures are of the {first['judge']} judge with {first['imputer']} fill."


def _sample(result: Result, sheet: Sheet, plan: Plan, s: int) -> str:
    label = int(sheet.labels[s])
    intact = int(sheet.answers[s, 0, 0, 0])
    words = orders_of(result)
    orders = [o for order in words for o, known in enumerate(result.orders) if known == order]
    columns = [(o, p) for o in orders for p in plan.shares]
    first = {(o, plan.shares[0]) for o in orders[1:]}
    head = '<th class="left" scope="col">method</th><th scope="col">map</th>' + "".join(
        f'<th scope="col"{_line(column in first)}>{words[result.orders[column[0]]].short}<br>'
        f"{percent(result.fractions[column[1]])}</th>"
        for column in columns
    )
    rows = []
    for m in range(plan.methods):
        what = f"map of {clean(result.methods[m])}"
        cells = [f"<td>{_picture(data_uri(map_array(sheet.maps[s, m]), plan.side), what, sheet)}</td>"]
        for o, p in columns:
            copy = data_uri(image_array(sheet.copies[s, m, o, p]), plan.side)
            alt = f"{words[result.orders[o]].short}, {percent(result.fractions[p])} removed"
            answer = _answer(result, int(sheet.answers[s, m, o, p]), label)
            cells.append(f"<td{_line((o, p) in first)}>{_picture(copy, alt, sheet)}{answer}</td>")
        rows.append(f'<tr><th scope="row">{name(result.methods[m])}</th>{"".join(cells)}</tr>')
    original = _picture(data_uri(image_array(sheet.images[s]), plan.side), "the intact image", sheet)
    return (
        f'<details data-kept="{s}"{" open" if s == 0 else ""}><summary>Sample {name(sheet.ids[s])}: '
        f"{f'label {name(class_name(result, label))}, ' if labelled(result) else ''}"
        f"answer on the intact image {name(class_name(result, intact))}</summary>"
        f'<div class="original">{original}<span>Intact image<br>{_answer(result, intact, label)}</span></div>'
        f'<div class="scroll" role="region" aria-label="Sample {escape(sheet.ids[s])}" tabindex="0">'
        '<table class="sheet">'
        f'<caption class="sr">Degraded copies and answers</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></details>"
    )


def class_name(result: Result, index: int) -> str:
    """Return the name of a class, or its number where names are unknown."""
    return result.classes[index] if 0 <= index < len(result.classes) else str(index)


def _answer(result: Result, answer: int, label: int) -> str:
    words = ("right", "wrong") if labelled(result) else ("as without removal", "changed")
    mark, word, colour = ("✓", words[0], "good") if answer == label else ("✗", words[1], "bad")
    return (
        f'<span class="answer {colour}"><span aria-hidden="true">{mark}</span><span class="sr">{word}:</span> '
        f"{name(class_name(result, answer))}</span>"
    )


def _picture(uri: str, alt: str, sheet: Sheet) -> str:
    pixel = ' class="pixel"' if max(sheet.images.shape[-2:]) < _PIXELATED else ""
    return f'<img{pixel} src="{uri}" alt="{escape(alt)}" decoding="async">'


def _line(first: bool) -> str:
    return ' class="first-lerf"' if first else ""
