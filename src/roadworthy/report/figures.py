"""Figures for papers (matplotlib): the curves of both orders and the sheet of samples.

Built on ``Figure`` objects without pyplot: the caller's backend, style and open figures are left alone.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from roadworthy.errors import InputError
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import chance, within_range
from roadworthy.files import replacing
from roadworthy.markup import clean
from roadworthy.report.facts import orders_of, words_of
from roadworthy.report.pictures import image_array, map_array, resized, spread
from roadworthy.report.sheet import class_name
from roadworthy.report.styles import method_styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DASHES: dict[str, Any] = {
    "solid": "-",
    "dash": (0, (5, 2)),
    "dashdot": (0, (6, 2, 1.5, 2)),
    "longdash": (0, (10, 3)),
    "dot": (0, (1.5, 1.5)),
}
MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "star": "*",
    "triangle-down": "v",
    "x": "X",
}
_LEGEND = 28  # characters of a name in the legend
_SHEET_SAMPLES, _SHEET_METHODS, _SHEET_SHARES = 3, 10, 3


def curves_figure(result: Result, readout: str | None = None, *, level: float = 0.95) -> Figure:
    """Draw the curves with their bands: a panel per order (MoRF left), the share removed from 0 on the x axis.

    Args:
        result: what an evaluation found.
        readout: ``"top1"``, ``"top5"``, ``"probability"`` or ``"logit"``; the result's own by default.
        level: coverage of the bands (pointwise, see :meth:`Result.curves`; cut off where a probability ends).

    Returns:
        A matplotlib figure; a dashed line marks the chance level of accuracies.

    Raises:
        InputError: the readout is unknown.
    """
    from matplotlib.figure import Figure

    readout = readout or result.readout
    frame = within_range(result.curves(readout, level=level), readout)
    orders = orders_of(result)
    width = 3.6 * len(orders) + 0.6
    longest = max(len(_short(method, _LEGEND)) for method in result.methods)
    columns = max(1, min(5, int(13 * width / (longest + 8))))  # about 13 characters of the legend go into an inch
    rows = -(-(len(result.methods) + 1) // columns)
    figure = Figure(figsize=(width, 3.1 + 0.18 * rows), layout="constrained")
    panels = figure.subplots(1, len(orders), sharey=True, squeeze=False)[0]
    for axes, (order, words) in zip(panels, orders.items(), strict=True):
        _draw_order(axes, frame[frame["order"] == order], result)
        axes.set_title(f"{words.short}: {words.first}", fontsize=9)
        axes.set_xlabel("share removed", fontsize=9)
        if words_of(result, readout).has_chance:
            axes.axhline(chance(result), color="#555555", linewidth=0.8, linestyle=(0, (4, 3)), label="chance")
    panels[0].set_ylabel(words_of(result, readout).name, fontsize=9)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
    return figure


def sheet_figure(result: Result) -> Figure:
    """Draw a few samples: a row per method with the map and degraded copies, the model's answer below each.

    Args:
        result: an evaluation that kept samples for pictures.

    Returns:
        A matplotlib figure of at most 3 samples, 10 methods and 3 shares in each order.

    Raises:
        InputError: the result holds no pictures.
    """
    from matplotlib.figure import Figure

    sheet = result.sheet
    if sheet is None:
        raise InputError(
            "sheet_figure: this result holds no pictures (sheet is None); run the evaluation with sheet=4"
        )
    samples = min(len(sheet.ids), _SHEET_SAMPLES)
    methods = min(len(result.methods), _SHEET_METHODS)
    shares = [1 + p for p in spread(len(result.fractions) - 1, _SHEET_SHARES)]
    copies = [
        (o, p) for order in orders_of(result) for o, name in enumerate(result.orders) if name == order for p in shares
    ]
    raster = _Raster(samples * methods, 2 + len(copies), sheet.images.shape[-2:])
    figure = Figure(figsize=(1.05 * (raster.columns + 1.3), 1.05 * (raster.row * raster.rows + 0.3)))
    axes = figure.add_axes((0, 0, 1, 1))
    for s in range(samples):
        for m in range(methods):
            _sheet_row(axes, raster, result, (s, m, s * methods + m), copies)
    heads = [
        "image",
        "map",
        *(f"{orders_of(result)[result.orders[o]].short} {100 * result.fractions[p]:g} %" for o, p in copies),
    ]
    for column, head in enumerate(heads):
        axes.text(column + 0.46, -0.08, head, fontsize=7, ha="center", va="bottom")
    axes.imshow(raster.picture, extent=(0, raster.columns, raster.row * raster.rows, 0), interpolation="none")
    axes.set(xlim=(-1.3, raster.columns), ylim=(raster.row * raster.rows, -0.3), aspect="equal")
    axes.axis("off")
    return figure


class _Raster:
    """All pictures of a sheet in one: with axes for each, layout would take longer than many evaluations.

    Cells are 1 unit wide, of which the picture takes 0.92, and leave room for a caption below.
    """

    def __init__(self, rows: int, columns: int, shape: tuple[int, ...]) -> None:
        height, width = shape
        self.rows, self.columns = rows, columns
        self.aspect = height / width
        self.row = 0.92 * self.aspect + 0.26
        side = width * -(-70 // width) if width < 160 else 160  # whole multiples keep small pixels square
        self.cell = round(side / 0.92)
        self.size = round(side * self.aspect), side
        self.picture = np.full((round(rows * self.row * self.cell), columns * self.cell, 3), 255, dtype=np.uint8)

    def place(self, picture: np.ndarray, row: int, column: int) -> None:
        height, width = max(1, self.size[0]), self.size[1]
        scaled = resized(picture, height, width)
        top, left = round(row * self.row * self.cell), column * self.cell
        part = self.picture[top : top + height, left : left + width]
        part[:] = (scaled if scaled.ndim == 3 else scaled[..., None])[: len(part)]
        part[[0, -1]] = part[:, [0, -1]] = 200  # a frame, or a white copy would vanish on white paper


def _sheet_row(
    axes: Axes, raster: _Raster, result: Result, cell: tuple[int, int, int], copies: list[tuple[int, int]]
) -> None:
    s, m, row = cell
    sheet = result.sheet
    assert sheet is not None
    label, top = int(sheet.labels[s]), row * raster.row
    middle, below = top + 0.46 * raster.aspect, top + 0.92 * raster.aspect + 0.03
    caption: dict[str, Any] = {"fontsize": 6, "ha": "center", "va": "top"}
    axes.text(-0.08, middle, _plain(_short(result.methods[m], 16)), fontsize=7, ha="right", va="center")
    if m == 0:
        raster.place(image_array(sheet.images[s]), row, 0)
        axes.text(0.46, below, _plain(_short(class_name(result, label), 16)), **caption)
    raster.place(map_array(sheet.maps[s, m]), row, 1)
    for column, (o, p) in enumerate(copies, start=2):
        raster.place(image_array(sheet.copies[s, m, o, p]), row, column)
        answer = int(sheet.answers[s, m, o, p])
        text = f"{'✓' if answer == label else '✗'} {_short(class_name(result, answer), 14)}"
        axes.text(column + 0.46, below, _plain(text), **caption)


def save_figure(figure: Figure, stem: Path) -> dict[str, Path]:
    """Write a figure as SVG and PNG (200 dots per inch) beside each other, each in one step.

    Args:
        figure: the figure.
        stem: path without a suffix.

    Returns:
        ``{"NAME.svg": path, "NAME.png": path}``.
    """
    written = {}
    for kind in ("svg", "png"):
        path = stem.with_suffix(f".{kind}")
        with replacing(path) as beside:
            write_figure(figure, beside, kind)
        written[path.name] = path
    return written


def write_figure(figure: Figure, file: Path | BinaryIO, kind: str) -> None:
    """Write a figure as ``"svg"`` or ``"png"``; the same figure gives the same bytes."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    FigureCanvasAgg(figure)
    # a date and unsalted element ids would differ from run to run; rc_context restores what the caller had set
    with matplotlib.rc_context({"svg.hashsalt": "roadworthy"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(file, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)


def _draw_order(axes: Axes, frame: Any, result: Result) -> None:
    styles = method_styles(result.methods)
    for method in result.methods:
        rows, style = frame[frame["method"] == method], styles[method]
        x = rows["fraction"].to_numpy()
        axes.plot(
            x,
            rows["value"].to_numpy(),
            color=style.light,
            linestyle=_DASHES[style.dash],
            marker=MARKERS[style.marker],
            markersize=3.5,
            linewidth=1.3,
            label=legend_text(method),
        )
        axes.fill_between(
            x, rows["low"].to_numpy(), rows["high"].to_numpy(), color=style.light, alpha=0.13, linewidth=0
        )
    axes.set_xlim(-0.015, result.fractions[-1] + 0.015)
    axes.tick_params(labelsize=8)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def legend_text(name: str) -> str:
    """Return a name as a legend or an axis shows it: shortened, and never read as mathematics."""
    return _plain(_short(name, _LEGEND))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _plain(text: str) -> str:
    # a dollar sign would start mathematics, a leading underscore would hide a label from the legend
    shown = clean(text).replace("$", r"\$")
    return "\u200b" + shown if shown.startswith("_") else shown
