from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from report_pages import HOSTILE, TAGS, Page

from roadworthy.errors import InputError
from roadworthy.evaluation import Result
from roadworthy.evaluation.concordance import concordance_of
from roadworthy.markup import number
from roadworthy.report import concordance as drawing
from roadworthy.report.concordance import (
    concordance_figure,
    concordance_section,
    oddities,
    overall,
    spread,
)
from roadworthy.report.concordance_page import write_concordance
from roadworthy.report.text import asset
from roadworthy.statistics import Concordance, Source, concordance

Make = Callable[..., Result]


@pytest.fixture(scope="module")
def found(make_result: Make) -> Concordance:
    other = {"ig": 0.4, "ig-sg": 1.5, "grad": 0.8, "gradcam": 1.4, "random": 0.0, "sobel": 0.1}
    return concordance_of({"a": make_result(samples=0), HOSTILE: make_result(other, samples=0)}, draws=100)


@pytest.fixture(scope="module")
def undefined() -> Concordance:
    rng = np.random.default_rng(1)
    flat, real = np.ones((3, 2, 8)), rng.random((3, 2, 8))
    return concordance([Source("flat", flat, [0.2, 0.4]), Source("real", real, [0.2, 0.4])], draws=20)


def test_each_cell_has_its_number_interval_and_colour(found: Concordance) -> None:
    page = Page(concordance_section(found))
    cells = page.rows[1]
    assert cells[1] == "1.00"
    value = found.spearman.value[0, 1]
    ends = f"{number(float(found.spearman.low[0, 1]))} to {number(float(found.spearman.high[0, 1]))}"
    assert cells[2] == f"{number(float(value), 2)}{ends}"
    styled = [attrs for tag, attrs in page.tags if tag == "td" and "--heat" in attrs.get("style", "")]
    assert len(styled) == 4 * 3
    assert styled[0]["class"] == ("cell better" if value >= 0 else "cell worse")
    heats = [float(attrs["style"].removeprefix("--heat:")) for attrs in styled]
    assert max(heats) <= 0.5
    assert heats[0] == pytest.approx(abs(value) / 2, abs=0.01)


def test_names_are_escaped_and_only_known_tags_are_used(found: Concordance) -> None:
    text = concordance_section(found)
    assert HOSTILE not in text
    page = Page(text)
    assert page.scripts == []
    assert {tag for tag, _ in page.tags} <= TAGS
    assert HOSTILE in page.text


def test_pairs_and_ranks_stand_below(found: Concordance) -> None:
    page = Page(concordance_section(found))
    assert sum(row[:1] == ["a / MoRF"] for row in page.rows) == 1 + 3  # the matrix, and three pairs
    ranks = [row for row in page.rows if row[0].startswith("ig-sg")]
    assert ranks == [["ig-sg", *(f"{rank:g}" for rank in found.ranks[:, 1])]]
    assert "5 of 5" in page.text


def test_another_statistic_can_be_shown(found: Concordance) -> None:
    page = Page(concordance_section(found, "kendall_area"))
    assert page.rows[1][2].startswith(number(float(found.kendall_area.value[0, 1]), 2))
    with pytest.raises(InputError, match="statistic: got 'pearson'"):
        concordance_section(found, "pearson")
    with pytest.raises(InputError, match="statistic: got 'pearson'"):
        concordance_figure(found, "pearson")


def test_what_is_undefined_is_a_dash_without_colour(undefined: Concordance) -> None:
    page = Page(concordance_section(undefined))
    assert page.rows[:2] == [["source", "real"], ["real", "1.00"]]
    assert "Not shown:flat: every method has the same score everywhere." in page.text
    assert page.text.startswith("Left out, for it gives every method the same score everywhere: flat.")
    assert overall(undefined).startswith(
        "Kendall's W of the areas, 1 source (1 left out) and 3 methods, is undefined"
    )
    assert spread(undefined) == "No two sources have an agreement: there is no share at which both rank the methods."
    one = concordance([Source(name, np.ones((2, 1, 3)), [0.5]) for name in "ab"], draws=5)
    assert overall(one).endswith("is undefined: there is no ranking that could agree.")
    assert (
        "Left out, for they give every method the same score everywhere: a and b."
        in Page(concordance_section(one)).text
    )


def test_one_thing_under_two_names_is_told() -> None:
    scores = np.random.default_rng(3).random((3, 2, 8))
    made = [Source(label, scores, [0.2, 0.4]) for label in ("a", HOSTILE)]
    found = concordance([*made, Source("b", scores[::-1], [0.2, 0.4])], draws=10)
    assert oddities(found) == [f"The same scores, so that their agreement says nothing: a and {HOSTILE}."]
    assert oddities(found)[0] in Page(concordance_section(found)).text


def test_headings_of_columns_break_between_words_only() -> None:
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", re.sub(r"/\*.*?\*/", "", asset("page.css")))
    of_heads = [
        body for selectors, body in rules if "thead th bdi" in [part.strip() for part in selectors.split(",")]
    ]
    wraps = re.findall(r"overflow-wrap: ([a-z-]+)", " ".join(of_heads))
    assert wraps[-1] == "break-word"


def test_sentences_hold_the_numbers(found: Concordance) -> None:
    first, second = np.triu_indices(4, 1)
    values = found.spearman.value[first, second]
    least = int(values.argmin())
    text = spread(found)
    assert f"Mean of all pairs {number(float(values.mean()), 2)}" in text
    assert f"{found.sources[first[least]]} with {found.sources[second[least]]}: Spearman" in text
    assert f"is {number(found.w, 2)} (1 is the same ranking, 95\xa0% interval" in overall(found)


def test_the_figure_shows_the_matrix(found: Concordance, undefined: Concordance) -> None:
    axes = concordance_figure(found).axes[0]
    texts = [text.get_text() for text in axes.texts]
    assert len(texts) == 16
    assert texts[0] == "1.00"
    assert texts[1] == f"{number(float(found.spearman.value[0, 1]), 2)}\n±{found.spearman.se[0, 1]:.3f}"
    assert np.array_equal(axes.images[0].get_array(), found.spearman.value)
    hatched = concordance_figure(undefined).axes[0]
    assert [text.get_text() for text in hatched.texts] == ["–", "–", "–", "1.00"]
    assert len(hatched.patches) == 3


@pytest.mark.parametrize("kind", ["svg", "png", "html"])
def test_files_are_valid_and_the_same_every_time(found: Concordance, tmp_path: Path, kind: str) -> None:
    path = write_concordance(found, tmp_path / "deep" / f"agreement.{kind}")
    first = path.read_bytes()
    assert write_concordance(found, path).read_bytes() == first
    if kind == "svg":
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    elif kind == "png":
        with Image.open(path) as image:
            image.verify()
    else:
        page = Page(first.decode("utf8"))
        assert len(page.scripts) == 2  # the data, which are none, and light and dark
        assert {tag for tag, _ in page.tags} <= TAGS
        assert "default-src 'none'" in first.decode("utf8")
        assert "plotly" not in first.decode("utf8")
        assert page.text.index("Verdict") < page.text.index(spread(found)) < page.text.index("Every pair")
        files = {a["download"] for tag, a in page.tags if tag == "a" and "download" in a}
        assert files == {"pairs.csv", "ranks.csv", "agreement.svg"}
        assert "6 methods · 300 samples" in page.text


def test_other_files_are_refused(found: Concordance, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"ends in \.html, \.svg or \.png"):
        write_concordance(found, tmp_path / "agreement.pdf")


def luminance(colour: tuple[float, ...]) -> float:
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in colour]
    return float(np.dot((0.2126, 0.7152, 0.0722), linear))


def contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


def shade(text: str) -> tuple[float, ...]:
    return tuple(int(text[i : i + 2], 16) / 255 for i in (1, 3, 5))


def test_text_on_the_darkest_cell_can_be_read() -> None:
    for colour in drawing._SHADES:
        assert contrast(shade(colour), (0, 0, 0)) > 9
    css = asset("page.css")
    for theme in (css[: css.index("@media")], css[css.index(':root[data-theme="dark"] {') :]):
        values = dict(re.findall(r"--([a-z]+): ([^;]+);", theme)[::-1])  # the first of each name counts
        paper, ink = shade(values["bg"]), shade(values["fg"])
        for name in ("better", "worse"):
            colour = [int(c) / 255 for c in values[name].split()]
            cell = tuple(drawing._HEAT * c + (1 - drawing._HEAT) * p for c, p in zip(colour, paper, strict=True))
            assert contrast(cell, ink) > 4.5
