"""One self-contained page: verdict first, then everything it rests on. No request leaves it, online or offline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from roadworthy.comparison import Comparison
from roadworthy.errors import InputError
from roadworthy.evaluation.result import Result, load_result
from roadworthy.evaluation.words import judges_in_words, orders_in_words
from roadworthy.files import replacing
from roadworthy.labelfree.result import HEAD, LabelFree
from roadworthy.markup import escape, number
from roadworthy.report import sections
from roadworthy.report.chart import chart_data
from roadworthy.report.compare import compare_report
from roadworthy.report.labelfree.page import labelfree_report
from roadworthy.report.material import Material
from roadworthy.report.opening import opening
from roadworthy.report.shell import page_text


def report(
    result_or_path: Result | LabelFree | Comparison | str | Path,
    path: str | Path = "report.html",
    *,
    title: str | None = None,
) -> Path:
    """Write one HTML file that reports a result: the verdict in two sentences, then everything it rests on.

    The file needs nothing else, makes no request, and works offline. It states its own size, which is bounded
    whatever the number of samples: plotly.js is about 4.8 MB, pictures of samples take at most 6 MB, the numbers of
    every sample at most 3 MB (of more samples than fit, evenly chosen ones), and curves of each judge and fill at
    most 1 MB; the rest grows with methods, shares, classes and settings alone. Without scripts the curves are a
    picture, and the samples kept for pictures are there.

    Args:
        result_or_path: a result of an evaluation or of label-free evaluation, or the folder it was saved in; or what
            :func:`roadworthy.compare` returned.
        path: the file to write; folders on the way are made. An existing file is replaced in one step.
        title: heading of the page; a question by default.

    Returns:
        The path of the file.

    Raises:
        InputError: ``path`` is a folder; a result without methods or samples.
        DataError: no readable result lies in the folder given.

    Example:
        >>> report("runs/digits", "digits.html", title="Digits")  # doctest: +SKIP
        PosixPath('digits.html')
    """
    if isinstance(result_or_path, Comparison):
        return compare_report(result_or_path, path, title=title)
    if not isinstance(result_or_path, Result | LabelFree | str | Path):
        raise InputError(
            f"report: got {type(result_or_path).__name__}, expected a result (of roadworthy.evaluate or label-free "
            "evaluation), or the folder it was saved in"
        )
    if isinstance(result_or_path, LabelFree):
        return labelfree_report(result_or_path, path, title=title)
    if not isinstance(result_or_path, Result) and _is_labelfree(Path(result_or_path).expanduser()):
        return labelfree_report(result_or_path, path, title=title)
    target = Path(path).expanduser()
    if target.is_dir():
        raise InputError(f"report: {target} is a folder, expected a file; for instance {target / 'report.html'}")
    result = result_or_path if isinstance(result_or_path, Result) else load_result(result_or_path)
    text = _page(Material.of(result), title)
    with replacing(target) as beside:
        beside.write_text(text, encoding="utf8")
    return target


def _is_labelfree(folder: Path) -> bool:
    return (folder / HEAD).exists() and not (folder / "result.json").exists()


def _page(material: Material, title: str | None) -> str:
    result = material.result
    shown = [(key, heading, html) for key, heading, html in sections.all_sections(material) if html]
    return page_text(
        title or "Which explanation of this model can be believed?",
        _about(result),
        opening(material.main, {key: heading for key, heading, _ in shown}),
        shown,
        lead=_lead(result),
        data=chart_data(material),
        script=("page.js", "explorer.js"),
    )


def _lead(result: Result) -> str:
    then = (
        "and a new model is trained without them: if the explanation was right, even that one cannot tell the classes"
        if result.retrained
        else "and the model is asked again: if the explanation was right, it soon fails"
    )
    return f"An explanation says which parts of an input a model goes by. Here those parts are taken away, {then}."


def _about(result: Result) -> str:
    filled = _filled(result.settings)
    count = len(result.methods)
    methods = f"{count} method{'s' if count > 1 else ''}"
    samples = f"{number(result.n)} sample{'s' if result.n > 1 else ''}"
    if result.retrained:
        samples += f" · {result.repeats} training{'s' if result.repeats > 1 else ''} of each point"
    asked = judges_in_words(result.views)
    whom = f" · asked of {asked}" if asked else ""
    strategy = result.settings.get("strategy")
    named = f"strategy {escape(strategy)} · " if strategy else ""
    return f"{named}{samples} · {methods} · {orders_in_words(result.orders, result.retrained)}{whom}{filled}"


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
