"""One page on a classifier and data without labels: verdict first, then everything it rests on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roadworthy.errors import InputError
from roadworthy.files import replacing
from roadworthy.labelfree.result import LabelFree, load_labelfree
from roadworthy.labelfree.verdict import level, sentences
from roadworthy.markup import escape, number
from roadworthy.report.labelfree.cells import share
from roadworthy.report.labelfree.figure import chart_curves
from roadworthy.report.labelfree.sections import all_sections
from roadworthy.report.shell import page_text

_CSS = {"good": "good", "mixed": "care", "bad": "none"}


def labelfree_report(
    result_or_path: LabelFree | str | Path, path: str | Path = "labelfree.html", *, title: str | None = None
) -> Path:
    """Write one HTML file that reports a label-free result.

    The file needs nothing else, makes no request, and works offline: plotly.js (about 4.8 MB) is inside.

    Args:
        result_or_path: a result, or the folder it was saved in.
        path: the file to write; folders on the way are made. An existing file is replaced in one step.
        title: heading of the page.

    Returns:
        The path of the file.

    Raises:
        InputError: ``path`` is a folder.
        DataError: no readable result lies in the folder given.

    Example:
        >>> labelfree_report("runs/wards", "wards.html")  # doctest: +SKIP
        PosixPath('wards.html')
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise InputError(f"report: {target} is a folder, expected a file; for instance {target / 'labelfree.html'}")
    result = result_or_path if isinstance(result_or_path, LabelFree) else load_labelfree(result_or_path)
    shown = [part for part in all_sections(result) if part[2]]
    text = page_text(
        title or "How far can its predictions be believed here?",
        _about(result.record),
        _opening(result.record, {key: heading for key, heading, _ in shown}),
        shown,
        lead=_lead(result.record),
        data={"curves": chart_curves(result.record)},
        script="labelfree.js",
    )
    with replacing(target) as beside:
        beside.write_text(text, encoding="utf8")
    return target


def _lead(record: dict[str, Any]) -> str:
    known = "" if record["source"] is None else ", and checked on labelled samples, where the truth is known"
    return (
        "How often is a classifier right on samples that nobody has labelled? This is estimated from how sure it is "
        f"of them and how firmly it keeps to its answers{known}."
    )


def _about(record: dict[str, Any]) -> str:
    asked = record["consistency"]
    how = "" if asked is None else f" · {escape(asked['perturbation'])}, {asked['passes']} passes"
    source = "" if record["source"] is None else f" · {number(record['source']['n'])} labelled samples beside"
    return f"{number(record['n'])} samples without labels · {len(record['classes'])} classes{source}{how}"


def _opening(record: dict[str, Any], headings: dict[str, str]) -> str:
    """The sentences, each with a link to its numbers, and the tiles."""
    said = "".join(
        f"<p>{escape(sentence.text)}</p>{_link(sentence.section, headings)}" for sentence in sentences(record)
    )
    tiles = "".join(
        f"<div><dt>{term}</dt><dd>{value}<small>{more}</small></dd></div>" for term, value, more in _tiles(record)
    )
    return (
        f'<section id="verdict" class="verdict {_CSS[level(record)]}"><h2>Verdict</h2>{said}</section>'
        f'<dl id="numbers" class="tiles">{tiles}</dl>'
    )


def _link(section: str, headings: dict[str, str]) -> str:
    if section not in headings:
        return ""
    return f'<p class="small muted">Shown in: <a href="#{section}">{escape(headings[section])}</a></p>'


def _tiles(record: dict[str, Any]) -> list[tuple[str, str, str]]:
    live, source, plan = record["estimate"], record["source"], record["plan"]
    found = record["threshold"]["agreement"]
    statuses = [gate["status"] for gate in record["gates"]]
    known = live is not None and live["accuracy"] is not None
    band = f"{share(live['low'])} to {share(live['high'])}" if known else "no number is given"
    tiles = [
        ("Accuracy here, estimated", share(live["accuracy"]) if known else "–", band),
        ("Accuracy on the source", "–" if source is None else share(source["accuracy"]), "by its labels"),
        *([] if found is None else [_coverage_tile(found)]),
        ("Gates", f"{statuses.count('pass')} pass", _counts(statuses)),
        ("Samples", number(record["n"]), "without labels"),
        ("To label", number(plan["n"]), f"for ±{100 * plan['half_width']:.0f} points"),
    ]
    if record["truth"] is not None:
        tiles.append(("By labels that came along", share(record["truth"]), "not used for anything"))
    return tiles


def _coverage_tile(found: dict[str, Any]) -> tuple[str, str, str]:
    return f"Stand with reliability {found['target']:g}", share(found["coverage"]), "of the samples"


def _counts(statuses: list[str]) -> str:
    said = [f"{statuses.count(word)} {verb}" for word, verb in (("warn", "warn"), ("refuse", "refuse"))]
    return ", ".join(said) + (f", {statuses.count('not run')} not run" if "not run" in statuses else "")
