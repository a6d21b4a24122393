from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import matplotlib
import numpy as np
import pytest
from PIL import Image

from roadworthy.errors import InputError
from roadworthy.evaluation import Result
from roadworthy.report import curves_figure, sheet_figure, write_all
from roadworthy.report.figures import save_figure
from roadworthy.report.styles import method_styles

Make = Callable[..., Result]


def test_curves_show_both_orders_with_the_numbers_of_the_result(make_result: Make) -> None:
    result = make_result(orders=["lerf", "morf"])
    left, right = curves_figure(result).axes
    assert left.get_title() == "MoRF: most relevant first"
    assert right.get_title() == "LeRF: least relevant first"
    frame = result.curves()
    for axes, order in ((left, "morf"), (right, "lerf")):
        for line, method in zip(axes.lines, result.methods, strict=False):
            rows = frame[(frame["order"] == order) & (frame["method"] == method)]
            assert np.array_equal(line.get_xdata(), rows["fraction"])
            assert np.array_equal(line.get_ydata(), rows["value"])
        assert axes.get_xlim()[0] <= 0 < 0.9 <= axes.get_xlim()[1]
        assert len(axes.collections) == len(result.methods)
        assert np.allclose(axes.lines[-1].get_ydata(), 0.1)
        assert axes.lines[-1].get_label() == "chance"


def test_a_readout_without_a_chance_level_has_no_line_for_it(make_result: Make) -> None:
    axes = curves_figure(make_result(), "logit").axes[0]
    assert len(axes.lines) == 6
    assert axes.get_ylabel() == "logit"
    with pytest.raises(InputError, match="'top3'"):
        curves_figure(make_result(), "top3")


def test_files_are_valid_and_the_same_every_time(make_result: Make, tmp_path: Path) -> None:
    result = make_result({"ig": 1.0, "<b>&$x_1$": 0.5, "_日本": 0.2}, n=40, channels=3, size=20)
    for name, figure in (("curves", curves_figure(result)), ("sheet", sheet_figure(result))):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            written = save_figure(figure, tmp_path / name)
        assert set(written) == {f"{name}.svg", f"{name}.png"}
        assert ElementTree.parse(written[f"{name}.svg"]).getroot().tag == "{http://www.w3.org/2000/svg}svg"
        with Image.open(written[f"{name}.png"]) as image:
            image.verify()
            assert min(image.size) > 300
        first = written[f"{name}.svg"].read_bytes()
        again = curves_figure(result) if name == "curves" else sheet_figure(result)
        assert save_figure(again, tmp_path / name)[f"{name}.svg"].read_bytes() == first


def test_the_sheet_shows_pictures_and_answers(make_result: Make) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, samples=2)
    texts = [text.get_text() for text in sheet_figure(result).axes[0].texts]
    assert [text for text in texts if text in ("image", "map")] == ["image", "map"]
    assert sum("MoRF" in text for text in texts) == sum("LeRF" in text for text in texts) == 3
    answers = [text for text in texts if text.startswith(("✓", "✗"))]
    assert len(answers) == 2 * 2 * 6
    sheet = result.sheet
    assert sheet is not None
    right = int((sheet.answers[:, :, :, [1, 3, 5]] == sheet.labels[:, None, None, None]).sum())
    assert sum(text.startswith("✓") for text in answers) == right


def test_a_result_without_pictures_has_no_sheet(make_result: Make) -> None:
    with pytest.raises(InputError, match="holds no pictures"):
        sheet_figure(make_result(samples=0))


def test_figures_leave_matplotlib_as_it_was(make_result: Make, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams), matplotlib.get_backend()
    save_figure(curves_figure(make_result(n=40)), tmp_path / "curves")
    assert (dict(matplotlib.rcParams), matplotlib.get_backend()) == before


def test_styles_are_distinct_and_controls_are_grey() -> None:
    methods = [f"m{i}" for i in range(20)] + ["random", "sobel", "inverse:m1"]
    styles = method_styles(methods)
    assert len({(style.light, style.dash, style.marker) for style in styles.values()}) == len(methods)
    for name, style in styles.items():
        grey = len({style.light[1:3], style.light[3:5], style.light[5:7]}) == 1
        assert grey == (name in ("random", "sobel", "inverse:m1"))


@pytest.mark.parametrize(("theme", "background"), [("light", "#ffffff"), ("dark", "#14181d")])
def test_lines_stand_out_from_the_background(theme: str, background: str) -> None:
    def luminance(colour: str) -> float:
        parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
        return float(linear @ [0.2126, 0.7152, 0.0722])

    for style in method_styles([*"abcdefghij", "random", "sobel", "center"]).values():
        low, high = sorted((luminance(getattr(style, theme)), luminance(background)))
        assert (high + 0.05) / (low + 0.05) >= 3


def test_write_all_leaves_everything_in_one_folder(make_result: Make, tmp_path: Path) -> None:
    written = write_all(make_result({"ig": 1.0, "random": 0.0}, n=40, samples=1), tmp_path / "run")
    assert set(written) == {
        *("results.parquet", "per_sample.parquet", "ranking.csv", "result.json", "sheet.npz"),
        *("curves.svg", "curves.png", "sheet.svg", "sheet.png", "report.html"),
    }
    assert all(path.parent == tmp_path / "run" and path.stat().st_size for path in written.values())
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(written)
    again = write_all(make_result({"ig": 1.0, "random": 0.0}, n=40, samples=0), tmp_path / "run")
    assert set(written) - set(again) == {"sheet.npz", "sheet.svg", "sheet.png"}
    assert {path.name for path in (tmp_path / "run").iterdir()} == set(again)
