"""The audits as sections of the page: leakage through the masks, the gate of KAR, and single patches."""

from __future__ import annotations

import math

from roadworthy import statistics
from roadworthy.evaluation.audit.gate_rule import THRESHOLD, GateRow
from roadworthy.evaluation.words import order_words
from roadworthy.markup import escape, number, percent
from roadworthy.report.audits import CLEAN, LEAKS, FillRow, Leakage, MaskRow, gate_of, leakage_of, patches_of
from roadworthy.report.findings import Findings
from roadworthy.report.gate import PASSES, WITHHELD, fill_words, gate_verdicts
from roadworthy.report.leaks import intact, leaked, reach, why
from roadworthy.report.tables import head_cell, interval, name, row_head, table
from roadworthy.report.text import signed

_MARKS = {LEAKS: "bad", CLEAN: "good"}
_TARGETS = {"predicted": "the class that the model answers", "label": "the label", "given": "the explained class"}


def leakage_section(found: Findings) -> str:
    """What the masks tell by themselves, how far each fill hides them, and the verdicts."""
    audit = leakage_of(found.result)
    if audit is None:
        return ""
    low, high = (percent(value) for value in audit.chance[1:])
    target = _TARGETS.get(audit.target, "the class")
    intro = (
        f"<p>A small classifier that sees only where units were removed, and no pixel, tries to tell {target}; what "
        "it can tell, a retrained network may learn too, wherever the fill lets the mask be seen. Guessing the "
        f"commonest class is right for {percent(audit.chance[0])} (band {low} to {high}). With nothing removed the "
        "model itself "
        f"tells it for {percent(intact(found.result))}: <b>{number(100 * reach(found.result, audit), 0)} percentage "
        "points</b> above chance. "
        f'<span class="muted">{number(audit.n)} samples, {escape(audit.effort)} audit.</span></p>'
    )
    return intro + _verdicts(audit) + _worst(found, audit) + _fills(audit) + _all_masks(audit)


def _verdicts(audit: Leakage) -> str:
    if not audit.verdicts:
        return ""
    said = {(row.method, row.imputer): row for row in audit.verdicts}
    head = [
        head_cell("method", "left"),
        *(f'<th class="left" scope="col">{name(i)} fill</th>' for i in audit.imputers),
    ]
    rows = []
    for method in dict.fromkeys(row.method for row in audit.verdicts):
        cells = []
        for imputer in audit.imputers:
            row = said.get((method, imputer))
            verdict, reason = (row.verdict, why(row)) if row else ("–", "")
            cells.append(
                f'<td class="left reason"><b class="{_MARKS.get(verdict, "")}">{escape(verdict)}</b>'
                f'<br><small class="muted">{escape(reason)}</small></td>'
            )
        rows.append(f"<tr>{row_head(method)}{''.join(cells)}</tr>")
    caption = "Verdict: whether the masks of a method give the class away behind a fill, and why."
    return table(caption, head, rows, label="Verdicts on leakage")


def _worst(found: Findings, audit: Leakage) -> str:
    methods = list(dict.fromkeys(row.method for row in audit.masks))
    rows = [row for row in (audit.worst([method]) for method in methods) if row is not None]
    if not rows:
        return ""
    rows.sort(key=lambda row: -row.ahead)
    caption = (
        "The mask of each method that tells most beyond a random mask of its size: accuracy of the mask alone with "
        "its interval, of random masks, the least and the most information about the class that this accuracy "
        "allows, in bits, and the percentage points that the mask alone is above chance, of the "
        f"{number(100 * reach(found.result, audit), 0)} that the model is."
    )
    return table(
        caption,
        _mask_head("points above chance"),
        [_mask_row(row, audit) for row in rows],
        label="What masks tell at most",
    )


def _all_masks(audit: Leakage) -> str:
    if not audit.masks:
        return ""
    heads = _mask_head("mean recall over classes (guessing)")
    body = table(
        "Every method, order and share.",
        heads,
        [_mask_row(row) for row in audit.masks],
        label="What every mask tells",
    )
    return f"<details><summary>Every method, order and share</summary>{body}</details>"


def _mask_head(last: str) -> list[str]:
    left = [head_cell(text, "left") for text in ("method", "order")]
    return [*left, *map(head_cell, ("removed", "mask alone", "interval", "random masks", "interval", "bits", last))]


def _mask_row(row: MaskRow, audit: Leakage | None = None) -> str:
    words = order_words()
    order = words[row.order].short if row.order in words else escape(row.order)
    recall, guessed = row.balanced
    last = number(100 * leaked(audit, row), 0) if audit else f"{percent(recall)} ({percent(guessed)})"
    cells = (
        percent(row.fraction),
        percent(row.accuracy),
        _band(row.low, row.high),
        percent(row.random),
        _band(row.random_low, row.random_high),
        interval(*row.bits),
        last,
    )
    return (
        f'<tr>{row_head(row.method)}<td class="left">{order}</td>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'
    )


def _band(low: float, high: float) -> str:
    return "–" if math.isnan(low) or math.isnan(high) else f"{percent(low)} to {percent(high)}"


def _fills(audit: Leakage) -> str:
    if not audit.fills:
        return ""
    heads = ("fill", "removed", "error per unit", "interval", "error of guessing", "mask revealed")
    rows = [_fill_row(row) for row in audit.fills]
    caption = (
        "A small network tries to tell which units were filled: its error per unit against that of guessing. "
        "Revealed: 0 % hides the mask, 100 % lets it be read off the image."
    )
    return table(caption, [head_cell(text, "" if i else "left") for i, text in enumerate(heads)], rows, label="Fills")


def _fill_row(row: FillRow) -> str:
    shown = max(0.0, row.revealed) if not math.isnan(row.revealed) else math.nan
    cells = (
        percent(row.fraction),
        number(row.error),
        interval(row.low, row.high),
        number(row.base),
        percent(shown),
    )
    return f'<tr><th scope="row">{name(row.imputer)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def gate_section(found: Findings) -> str:
    """Retrained networks against the fine-tuned judge on the same kept pixels."""
    rows = gate_of(found.result)
    if not rows:
        return ""
    heads = (
        "method",
        "kept",
        "retrained (KAR)",
        "fine-tuned judge",
        "gap",
        "on random masks",
        "beyond",
        "interval",
        "gate",
    )
    fill = fill_words(rows)
    filled = f", all others replaced by {escape(fill)}" if fill else ""
    caption = (
        "Accuracy of a network retrained on the kept pixels of a method (KAR) and of one judge that was fine-tuned "
        f"on random masks, on the same pixels{filled}. The judge is blind to where a method puts its mask, so a gap "
        "is what the mask adds; but a judge that is weak on every mask is behind too. So the gap on random masks, "
        "which hold no code, is taken off where it is above 0: <i>beyond</i> is what is left, with its interval. KAR "
        f"of a method is withheld where that is above {number(THRESHOLD, 2)} at any share kept; where only the "
        "interval reaches beyond, it cannot be told."
    )
    head = [head_cell(text, "" if 0 < i < len(heads) - 1 else "left") for i, text in enumerate(heads)]
    said = gate_verdicts(found.result)
    return table(caption, head, [_gate_row(row, said[row.method]) for row in rows], label="Gate of KAR")


def _gate_row(row: GateRow, word: str) -> str:
    mark = {WITHHELD: "bad", PASSES: "good"}.get(word, "")
    cells = (
        percent(row.keep),
        percent(row.kar),
        percent(row.judge),
        *("–" if math.isnan(value) else signed(value) for value in (row.gap, row.control, row.beyond)),
        interval(row.beyond_low, row.beyond_high),
    )
    filled = "".join(f"<td>{cell}</td>" for cell in cells)
    return f'<tr>{row_head(row.method)}{filled}<td class="left {mark}">{word}</td></tr>'


def patches_section(found: Findings) -> str:
    """Single-patch deletion beside the ranking."""
    patches = patches_of(found.result)
    if patches is None:
        return ""
    known = {row.method: row for row in patches.scores}
    order = sorted(known.values(), key=lambda row: (math.isnan(row.score), -row.score))
    ranks = {
        row.method: "–" if math.isnan(row.score) else str(1 + sum(other.score > row.score for other in order))
        for row in order
    }
    shared = [method for method in found.counted if method in known]
    rows = [
        f"<tr>{row_head(row.method)}<td>{ranks[row.method]}</td><td>{number(row.score)}</td>"
        f"<td>{interval(row.low, row.high)}</td><td>{number(row.undefined)}</td>"
        f"<td>{found.rank(row.method) if row.method in shared else '–'}</td></tr>"
        for row in order
    ]
    sign = 1 if found.ranking.attrs["higher_is_better"] else -1
    own = [sign * float(found.row(method)["score"]) for method in shared]
    rho = float(statistics.spearman(own, [known[method].score for method in shared])) if len(shared) > 1 else math.nan
    heads = ("method", "rank", "score", "interval", "undefined", "rank by removal")
    caption = (
        f"Single-patch deletion (IDSDS) on a grid of {patches.grid} × {patches.grid}: per sample the rank "
        "correlation of "
        "what a map gives each patch with the fall of the output when that patch alone is taken out, asked of a "
        "model that "
        f"saw such images in training; higher is better. Spearman with the ranking above: {number(rho, 2)} over "
        f"{len(shared)} methods. Undefined: samples whose patches all get the same, which count as 0."
    )
    intro = (
        "<p>A second view, for coarse maps: one patch at a time, so that no image is far from what the model "
        "knows. It is "
        "blind to anything finer than a patch.</p>"
    )
    return intro + table(
        caption, [head_cell(text, "" if i else "left") for i, text in enumerate(heads)], rows, label="IDSDS"
    )
