"""How the page opens: the verdict, what to do, and the numbers both rest on."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import above_chance, chance, labelled
from roadworthy.markup import clean, escape, number, percent
from roadworthy.report.advice import advise
from roadworthy.report.audits import LEAKS, OPEN, leakage_of
from roadworthy.report.findings import Findings
from roadworthy.report.text import listed
from roadworthy.report.trust import folded, notes, reasons
from roadworthy.report.verdict import judge


def opening(found: Findings, headings: dict[str, str]) -> str:
    """The answer in short, the two sentences it comes from, the advice, and the tiles.

    Args:
        found: the findings of the result's own readout.
        headings: of the sections that are on the page, by id; each sentence links to those that show its numbers.
    """
    judged = judge(found)
    ranked = ["ranking", "pairs", *(["views"] if found.views else []), *(["gate"] if found.gated else [])]
    rests = [reason.section for reason in (*reasons(found), *notes(found))]
    short = "".join(f"<p>{escape(sentence)}</p>" for sentence in judged.short)
    full = (
        f"<details><summary>The verdict in full, with its numbers</summary><p>{escape(judged.leads)}</p>"
        f"{_links(ranked, headings)}<p>{escape(judged.trust)}</p>{_links(rests, headings)}{_folded(found)}</details>"
    )
    return (
        f'<section id="verdict" class="verdict {judged.level}"><h2>Verdict</h2>{short}{full}'
        f"{_advice(found, headings)}</section>"
        f'<dl id="numbers" class="tiles">{_tiles(found, len(judged.above_random), judged.leaders)}</dl>'
    )


def _links(sections: Iterable[str], headings: dict[str, str]) -> str:
    known = [key for key in dict.fromkeys(sections) if key in headings or key == "numbers"]
    links = ", ".join(_link(key, headings) for key in known)
    return f'<p class="small muted">Shown in: {links}</p>' if links else ""


def _folded(found: Findings) -> str:
    """The reasons that the sentence only counts."""
    rest = folded(found)
    if not rest:
        return ""
    items = "".join(f"<li>{escape(reason.text)}</li>" for reason in rest)
    more = f"{len(rest)} more reason{'s' if len(rest) > 1 else ''}"
    return f"<details><summary>{more}</summary><ul>{items}</ul></details>"


def _link(key: str, headings: dict[str, str]) -> str:
    return f'<a href="#{key}">{escape(headings.get(key, "the numbers below"))}</a>'


def _advice(found: Findings, headings: dict[str, str]) -> str:
    pieces = [
        f"<li>{escape(piece.text)}"
        + (
            f" <small>{_link(piece.section, headings)}</small></li>"
            if piece.section in (*headings, "numbers")
            else "</li>"
        )
        for piece in advise(found)
    ]
    return f'<h3>What to do</h3><ul class="advice">{"".join(pieces)}</ul>' if pieces else ""


def _tiles(found: Findings, better: int, leaders: Collection[str]) -> str:
    result = found.result
    real, pairs = found.pairs
    rho = "–" if found.agreement is None else number(found.agreement.spearman_mean, 2)
    note = "one order only" if found.agreement is None else "mean Spearman, 1 is alike"
    known = any(found.against_random(method) != "unknown" for method in found.methods)
    others = [method for method in found.counted if method != "random"]
    tiles = [
        ("Leading", _leading(leaders), _groups(found)),
        _intact_tile(result),
        *([_trainings_tile(result)] if result.retrained else []),
        ("Samples", number(result.n), "the same for all methods"),
        ("Pairs told apart", f"{real} of {pairs}" if pairs else "–", _pairs_note(pairs)),
        (
            "Better than random",
            f"{better} of {len(others)}" if known else "–",
            "other controls included" if known else "not known without a control",
        ),
        ("Orders agree", rho, note),
        *([_views_tile(found)] if found.views else []),
        _leakage_tile(result),
    ]
    return "".join(f"<div><dt>{term}</dt><dd>{value}<small>{more}</small></dd></div>" for term, value, more in tiles)


def _pairs_note(pairs: int) -> str:
    return "after Holm's correction" if pairs else "fewer than two methods count"


def _leading(leaders: Collection[str]) -> str:
    return escape(listed([clean(name) for name in leaders], 2)) if leaders else "–"


def _groups(found: Findings) -> str:
    groups = [group for group in (found.leading(), *found.other_groups()) if len(group) > 1]
    return f"{len(groups)} group{'' if len(groups) == 1 else 's'} not told apart"


def _views_tile(found: Findings) -> tuple[str, str, str]:
    count = len(found.disputes)
    note = f"lowest Spearman; {count} pair{'' if count == 1 else 's'} turned round"
    return f"{len(found.live_views)} {found.views_word} agree", number(found.least_view_agreement, 2), note


def _leakage_tile(result: Result) -> tuple[str, str, str]:
    audit = leakage_of(result)
    if audit is None or not audit.verdicts:
        return "Masks that leak", "–", "not audited"
    hit = sum(row.verdict == LEAKS for row in audit.verdicts)
    open_ = sum(len(audit.said(imputer, OPEN)) for imputer in audit.imputers)
    note = f"{open_} cannot be told" if open_ else "methods by fills"
    return "Masks that leak", f"{hit} of {len(audit.verdicts)}", note


def _intact_tile(result: Result) -> tuple[str, str, str]:
    shown = percent(result.intact_accuracy)
    if not labelled(result):
        return "Agreement with the model's own answers", shown, "nothing removed, no labels given"
    clear = "clearly above chance" if above_chance(result) else "not clearly above chance"
    return (
        "Unmodified training" if result.retrained else "Intact accuracy",
        shown,
        f"{clear}, {percent(chance(result))}",
    )


def _trainings_tile(result: Result) -> tuple[str, str, str]:
    return "Trainings", number(result.repeats), "of each point, seeds shared by all methods"
