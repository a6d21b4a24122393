"""A result in a notebook: what it shows, that users' text is escaped, and that nothing valid makes it fail."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roadworthy.evaluation import Result, Scores, evaluate
from roadworthy.evaluation.notebook import card_of


def made(
    accuracy: dict[str, tuple[float, float]],
    *,
    orders: tuple[str, ...] = ("morf", "lerf"),
    fractions: tuple[float, ...] = (0.0, 0.3, 0.6),
    n: int = 200,
    repeats: int = 1,
    **fields: Any,
) -> Result:
    """A result whose methods are right with these shares once anything is removed, in MoRF and in LeRF."""
    draw = np.random.default_rng(4).random((repeats, n))
    top1 = np.ones((len(accuracy), len(orders), len(fractions), repeats, n), dtype=np.uint8)
    for m, (morf, lerf) in enumerate(accuracy.values()):
        for o, order in enumerate(orders):
            top1[m, o, 1:] = draw < (morf if order == "morf" else lerf)
    scores = Scores(top1, top1, top1.astype(np.float32), top1.astype(np.float32), *np.zeros((3, n), dtype=np.int64))
    ids = [str(i) for i in range(n)]
    settings = {"strategy": "road", "imputer": "mean", "labels": "given", "classes": 10} | fields.pop("settings", {})
    removed = [round(64 * p) for p in fractions]
    return Result(
        list(accuracy), list(orders), list(fractions), removed, repeats, ids, scores, settings=settings, **fields
    )


def rows_of(html: str) -> list[list[str]]:
    """Read the card as XML, which it must be, and return the cells of its table's body."""
    body = ET.fromstring(html.replace("&nbsp;", " ")).find(".//tbody")
    assert body is not None
    return [["".join(cell.itertext()) for cell in row] for row in body]


TWO = {"ig": (0.2, 0.9), "random": (0.5, 0.55)}


def test_the_table_has_the_numbers_of_the_ranking() -> None:
    result = made(TWO | {"grad": (0.5, 0.56)})
    ranking = result.ranking()
    rows = rows_of(result._repr_html_())
    assert [row[0] for row in rows] == ranking["method"].tolist()
    for row, found in zip(rows, ranking.to_dict(orient="records"), strict=True):
        numbers = [float(text.replace("−", "-")) for text in (*row[1:3], *row[3].split(" to "), row[5], row[6])]
        wanted = [found[name] for name in ("rank", "score", "low", "high", "morf_area", "lerf_area")]
        assert numbers == pytest.approx(wanted, abs=6e-4)
        assert row[4] == found["group"]


def test_the_first_is_named_with_those_not_told_apart_from_it() -> None:
    gain = made(TWO).ranking()["score"].iloc[0]
    assert f"ig comes first ({gain:.3f}), told apart from every other method." in card_of(made(TWO))
    close = made(TWO | {"ig-sg": (0.2, 0.91)})
    assert "not told apart from ig." in card_of(close) or "not told apart from ig-sg." in card_of(close)


def test_curves_are_drawn_where_the_numbers_are() -> None:
    result = made({"ig": (0.0, 1.0), "random": (0.5, 0.5)})
    first = ET.fromstring(card_of(result)).findall(".//svg")[0]
    solid, dashed = first.findall("polyline")
    assert solid.get("points") == "2.0,2.0 60.0,26.0 118.0,26.0"  # from 1 down to 0, x by share of the largest
    assert dashed.get("points") == "2.0,2.0 60.0,2.0 118.0,2.0"
    assert first.get("aria-label") == "ig: MoRF from 1.000 to 0.000, LeRF from 1.000 to 1.000"


ODD = {
    "one method": (made({"ig": (0.2, 0.9)}), "There is no ranking with one method"),
    "one order": (made(TWO, orders=("lerf",)), "area under the LeRF curve"),
    "alike": (made({"a": (0.5, 0.5), "b": (0.5, 0.5)}), "no two methods are told apart"),
    "one sample": (made(TWO, n=1, settings={"labels": "predicted"}), "a single sample shows no spread"),
    "no shares": (made(TWO, fractions=(0.0,)), "Nothing can be ranked: fractions"),
    "no methods": (replace(made(TWO), methods=[]), "no methods or no samples"),
    "no labels": (made(TWO, settings={"labels": "predicted"}), "no labels were given"),
    "logit": (made(TWO, settings={"readout": "logit"}), "of the logit"),
    "retrained": (made(TWO, repeats=3, settings={"training": "retrain"}), "ROAR, KAR: area under the curve"),
    "views": (
        made(TWO, repeats=2, settings={"views": [{"judge": "untouched", "imputer": x} for x in ("mean", "blur")]}),
        "asked of the model as it is",
    ),
    "missing": (made(TWO, missing=["2 of 8 trainings failed"]), "2 of 8 trainings failed"),
}


@pytest.mark.filterwarnings("ignore::roadworthy.errors.RoadworthyWarning")
@pytest.mark.parametrize("name", ODD)
def test_what_is_odd_but_valid_is_shown_and_says_so(name: str) -> None:
    result, said = ODD[name]
    html = result._repr_html_()
    ET.fromstring(html)
    assert said in html
    assert len(repr(result)) < 300


def test_an_accuracy_at_chance_ranks_nothing() -> None:
    result = made(TWO, settings={"classes": 2})
    result.scores.top1[:, :, 0] = np.arange(200) % 2
    assert "No ranking can be read" in card_of(result)


def test_what_the_gate_withholds_is_withheld_here() -> None:
    row = {"keep": 0.06, "kar": 0.9, "judge": 0.4, "gap": 0.5, "control": 0.05}
    leak, clean = ({"beyond": b, "beyond_low": b - 0.05, "beyond_high": b + 0.05} for b in (0.45, 0.01))
    gate = [{"method": name, **row, **(leak if name == "ig" else clean)} for name in (*TWO, "grad")]
    result = made(TWO | {"grad": (0.4, 0.8)}, repeats=3, settings={"training": "retrain"}, audit={"gate": gate})
    rows = {row[0]: row for row in rows_of(card_of(result))}
    assert rows["ig"][1:5] == ["–", "–", "–", "–"]
    assert rows["ig"][6] == "–"
    assert rows["grad"][1] == "1"
    assert "KAR" not in ET.fromstring(card_of(result)).findall(".//svg")[0].get("aria-label", "KAR")
    assert "grad comes first" in card_of(result)


def test_text_of_users_is_escaped_and_cut() -> None:
    evil = "<script>alert(1)</script>"
    result = made(
        {evil: (0.2, 0.9), "x" * 500: (0.5, 0.5)},
        warnings=[evil, "w" * 5000, *["more"] * 50],
        settings={"strategy": evil},
        missing=[evil],
    )
    html = card_of(result)
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "... and 46 more" in html
    assert len(html) < 10_000
    assert len(repr(result)) < 300


def test_it_stays_small_with_many_methods_and_shares() -> None:
    many = {f"method number {m}": (m / 40, 1 - m / 50) for m in range(20)}
    result = made(many, fractions=tuple(np.linspace(0, 1, 101)), n=60, warnings=["a warning " * 20] * 30)
    html = card_of(result)
    assert len(html.encode()) < 60_000
    assert not re.search(r"<(script|link|img|iframe|style)|https?:|url\(|#[0-9a-f]{3}", html)


def test_nothing_of_the_result_changes() -> None:
    result = made(TWO)
    before = result.ranking()
    card_of(result)
    pd.testing.assert_frame_equal(result.ranking(), before)


def test_the_line_names_what_it_is_about() -> None:
    assert repr(made(TWO)) == (
        "Result(road: 2 methods (ig, random), MoRF and LeRF, 2 shares removed, 200 samples, 0 warnings)"
    )
    seven = made({f"m{i}": (0.5, 0.5) for i in range(7)}, settings={"training": "retrain"}, warnings=["x"])
    assert repr(seven) == (
        "Result(road: 7 methods (m0, m1, m2, m3, m4, m5, ...), MoRF and LeRF, 2 shares removed, 200 samples, "
        "1 training of each point, 1 warning)"
    )


def test_a_notebook_takes_the_card_and_nothing_else_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    images = np.random.default_rng(0).random((30, 1, 4, 4), dtype=np.float32)
    labels = images.mean(axis=3)[:, 0].argmax(axis=1)
    result = evaluate(
        lambda x: x.mean(dim=3)[:, 0],
        images,
        labels,
        ["random", "sobel"],
        fractions=(0.5,),
        imputer="zero",
        audit="off",
    )
    shown, _ = formatters.DisplayFormatter().format(result)
    assert shown["text/html"] == card_of(result)
    assert shown["text/plain"] == repr(result)
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "")
