"""One self-contained page: verdict first, then everything it rests on. No request leaves it, online or offline."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from string import Template
from typing import Any

import roadworthy
from roadworthy.errors import InputError
from roadworthy.evaluation.result import Result, load_result
from roadworthy.files import replacing
from roadworthy.report import sections
from roadworthy.report.chart import chart_data
from roadworthy.report.material import Material
from roadworthy.report.opening import opening
from roadworthy.report.text import asset, escape, json_block, number
from roadworthy.report.words import orders_in_words


def report(
    result_or_path: Result | str | Path, path: str | Path = "report.html", *, title: str | None = None
) -> Path:
    """Write one HTML file that reports a result: the verdict in two sentences, then everything it rests on.

    The file needs nothing else, makes no request, and works offline: plotly.js (about 4.8 MB) is inside, pictures
    of samples take at most 6 MB. It states its own size. Without scripts it shows the curves as a picture.

    Args:
        result_or_path: a result, or the folder it was saved in.
        path: the file to write; folders on the way are made. An existing file is replaced in one step.
        title: heading of the page; by default made of the strategy.

    Returns:
        The path of the file.

    Raises:
        InputError: ``path`` is a folder; a result without methods or samples.
        DataError: no readable result lies in the folder given.

    Example:
        >>> report("runs/digits", "digits.html", title="Digits")  # doctest: +SKIP
        PosixPath('digits.html')
    """
    target = Path(path).expanduser()
    if target.is_dir():
        raise InputError(f"report: {target} is a folder, expected a file; for instance {target / 'report.html'}")
    result = result_or_path if isinstance(result_or_path, Result) else load_result(result_or_path)
    text = _page(Material.of(result), title)
    with replacing(target) as beside:
        beside.write_text(text, encoding="utf8")
    return target


def _page(material: Material, title: str | None) -> str:
    from plotly.offline import get_plotlyjs

    result = material.result
    scripts = [get_plotlyjs(), asset("page.js")]
    shown = [(key, heading, html) for key, heading, html in sections.all_sections(material) if html]
    parts = {
        "title": escape(title or f"{result.settings.get('strategy', 'removal')}: which explanation can be believed?"),
        "about": _about(result),
        "style": asset("page.css"),
        "verdict": opening(material.main, {key: heading for key, heading, _ in shown}),
        "links": "".join(f'<li><a href="#{key}">{escape(heading)}</a></li>' for key, heading, _ in shown),
        "sections": "\n".join(
            f'<section id="{key}"><h2>{escape(head)}</h2>{html}</section>' for key, head, html in shown
        ),
        "version": escape(roadworthy.__version__),
        "data": json_block(chart_data(material)),
        "scripts": "\n".join(f"<script>{script}</script>" for script in scripts),
        "policy": _policy(scripts),
    }
    size = sum(len(part.encode("utf8")) for part in parts.values())
    parts["size"] = (
        f"{size / 1e6:.1f} MB, of which {len(scripts[0].encode('utf8')) / 1e6:.1f} MB are the library plotly.js"
    )
    return Template(asset("page.html")).substitute(parts)


def _about(result: Result) -> str:
    filled = _filled(result.settings)
    count = len(result.methods)
    methods = f"{count} method{'s' if count > 1 else ''}"
    samples = f"{number(result.n)} sample{'s' if result.n > 1 else ''}"
    if result.retrained:
        samples += f" · {result.repeats} training{'s' if result.repeats > 1 else ''} of each point"
    return f"{samples} · {methods} · {orders_in_words(result.orders, result.retrained)}{filled}"


def _filled(settings: dict[str, Any]) -> str:
    imputer = settings.get("imputer")
    if not imputer:
        return ""
    values = settings.get("fill_mean") or settings.get("mean")
    if imputer == "mean" and isinstance(values, list):
        return f" · removed units filled by the mean ({', '.join(escape(_short(value)) for value in values)})"
    return f" · removed units filled by {'the mean' if imputer == 'mean' else escape(imputer)}"


def _short(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, int | float) else str(value)


def _policy(scripts: list[str]) -> str:
    """Let only the scripts written here run, and nothing be fetched, even if an escape were missed."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode("utf8")).digest()).decode("ascii") for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
