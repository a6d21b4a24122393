"""The agreement of strategies as a file: a page in the style of every other, or the figure alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from roadworthy.errors import InputError
from roadworthy.files import replacing
from roadworthy.markup import escape, number
from roadworthy.provenance import versions
from roadworthy.report.concordance import (
    STATISTICS,
    concordance_figure,
    concordance_tables,
    oddities,
    overall,
    ranking_sources,
    spread,
)
from roadworthy.report.downloads import download_bar, figure_uri
from roadworthy.report.figures import write_figure
from roadworthy.report.shell import page_text
from roadworthy.report.tables import settings_table
from roadworthy.report.text import asset
from roadworthy.report.thresholds import AGREE, COMPARABLE, PARTLY
from roadworthy.statistics import Concordance

_LEAD = (
    "Runs, orders, judges and fills each rank the same methods. Where their rankings differ, the choice of the "
    "evaluation decides which method wins, and no single one of them should be believed by itself."
)


def write_concordance(found: Concordance, path: str | Path, statistic: str = "spearman") -> Path:
    """Write the heat map to a file, in one step.

    Args:
        found: what was compared.
        path: ``.html`` for a page with all numbers, that needs no other file and makes no request; ``.svg`` or
            ``.png`` for the figure. Folders on the way are made.
        statistic: as in :func:`roadworthy.report.concordance.concordance_section`.

    Returns:
        The path.

    Raises:
        InputError: another kind of file.
    """
    target = Path(path).expanduser()
    kind = target.suffix.lower().removeprefix(".")
    if kind not in ("html", "svg", "png"):
        raise InputError(f"write_concordance: {target} came, expected a file that ends in .html, .svg or .png")
    with replacing(target) as beside:
        if kind == "html":
            beside.write_text(_page(found, statistic), encoding="utf8")
        else:
            write_figure(concordance_figure(found, statistic), beside, kind)
    return target


def _page(found: Concordance, statistic: str) -> str:
    over = f"{number(found.n)} samples" if found.n else "over trainings"
    sections = [
        ("warnings", "Warnings", _warnings(found)),
        ("matrix", "Every source against every other", concordance_tables(found, statistic)),
        ("settings", "Settings and provenance", _settings(found, statistic)),
        ("reading", "How to read this", asset("reading-agreement.html")),
        ("downloads", "Download the numbers", _downloads(found, statistic)),
    ]
    return page_text(
        "Do the strategies agree?",
        f"{len(found.sources)} sources · {len(found.methods)} methods · {over}",
        _opening(found),
        [section for section in sections if section[2]],
        lead=_LEAD,
    )


def _opening(found: Concordance) -> str:
    said, css = _verdict(found)
    sentences = "".join(f"<p>{escape(sentence)}</p>" for sentence in (said, spread(found), overall(found)))
    shown = '<p class="small muted">Shown in: <a href="#matrix">Every source against every other</a></p>'
    return f'<section id="verdict" class="verdict {css}"><h2>Verdict</h2>{sentences}{shown}</section>'


def _verdict(found: Concordance) -> tuple[str, str]:
    """Return what the agreement comes to, in plain words, and the class of its colour."""
    places = ranking_sources(found)
    values = found.spearman.value[np.ix_(places, places)][np.triu_indices(len(places), 1)]
    if len(found.methods) < COMPARABLE:
        return f"Too few methods ({len(found.methods)}) to speak of agreement.", "none"
    if not len(values) or np.isnan(values).all():
        return "There is nothing to compare: fewer than two sources rank the methods.", "none"
    mean, least = float(np.nanmean(values)), float(np.nanmin(values))
    if least >= AGREE:
        return "The sources rank the methods alike: each of them gives much the same answer.", "good"
    if mean >= PARTLY:
        return "The sources agree in part: read the ranking together with what each of them says by itself.", "care"
    return "The sources do not agree: which method comes first depends on how it is evaluated.", "little"


def _warnings(found: Concordance) -> str:
    lines = "".join(f"<li>{escape(line)}</li>" for line in oddities(found))
    return f'<ul class="warnings">{lines}</ul>' if lines else ""


def _settings(found: Concordance, statistic: str) -> str:
    settings = {
        "heat map": STATISTICS[statistic],
        "pairing": found.pairing,
        "shares": [float(share) for share in found.shares],
        "level": found.level,
        "draws": found.draws,
        "sources": list(found.sources),
        "methods": list(found.methods),
    }
    provenance = {"seed": found.seed, "n": found.n, "versions": versions()}
    return "".join(
        f"<details><summary>{title}</summary>{settings_table(values, title)}</details>"
        for title, values in (("Settings", settings), ("Provenance", provenance))
    )


def _downloads(found: Concordance, statistic: str) -> str:
    ranks = pd.DataFrame(found.ranks.T, columns=list(found.sources)).assign(method=list(found.methods))
    frames = {"pairs.csv": found.pairs(), "ranks.csv": ranks[["method", *found.sources]]}
    return download_bar(frames, {"agreement.svg": figure_uri(concordance_figure(found, statistic))})
