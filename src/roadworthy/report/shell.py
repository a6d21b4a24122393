"""What every page has around its contents: styles, scripts, and the promise that no request leaves it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from string import Template
from typing import Any

import roadworthy
from roadworthy.markup import escape
from roadworthy.report.text import asset, json_block


def page_text(
    title: str,
    about: str,
    opening: str,
    sections: Sequence[tuple[str, str, str]],
    *,
    lead: str = "",
    data: Any = None,
    script: str | Sequence[str] | None = None,
) -> str:
    """Return a whole page that needs no other file and makes no request.

    Args:
        title: heading, plain text.
        about: the line below it, HTML.
        opening: verdict and tiles, HTML.
        sections: (id, heading as plain text, HTML) in order; each is linked from the top.
        lead: what the page is about, in a sentence for a reader who knows none of its words; plain text.
        data: what the script draws from, JSON.
        script: asset, or several, that draws with plotly.js; without one the page has no chart, and plotly.js stays
            out.
    """
    named = [script] if isinstance(script, str) else script or []
    drawing = [_plotly(), *map(asset, named)] if named else []
    scripts = [*drawing[:1], asset("theme.js"), *drawing[1:]]
    parts = {
        "title": escape(title),
        "lead": _lead(lead, [key for key, _, _ in sections]),
        "about": about,
        "style": asset("page.css") + asset("explorer.css"),
        "verdict": opening,
        "links": "".join(f'<li><a href="#{key}">{escape(heading)}</a></li>' for key, heading, _ in sections),
        "sections": "\n".join(
            f'<section id="{key}"><h2>{escape(head)}</h2>{html}</section>' for key, head, html in sections
        ),
        "version": escape(roadworthy.__version__),
        "data": json_block(data),
        "scripts": "\n".join(f"<script>{text}</script>" for text in scripts),
        "policy": _policy(scripts),
    }
    size = sum(len(part.encode("utf8")) for part in parts.values())
    library = f", of which {_megabytes(drawing[0])} are the library plotly.js" if drawing else ""
    parts["size"] = f"{size / 1e6:.1f} MB{library}"
    return Template(asset("page.html")).substitute(parts)


def _lead(text: str, sections: Sequence[str]) -> str:
    if not text:
        return ""
    words = ' <a href="#reading">What the words mean</a>' if "reading" in sections else ""
    return f'<p class="lead">{escape(text)}{words}</p>'


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    return get_plotlyjs()


def _megabytes(text: str) -> str:
    return f"{len(text.encode('utf8')) / 1e6:.1f} MB"


def _policy(scripts: list[str]) -> str:
    """Let only the scripts written here run, and nothing be fetched, even if an escape were missed."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode("utf8")).digest()).decode("ascii") for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
