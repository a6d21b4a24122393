"""The page of runs side by side: what it says is what the comparison found, and names stay text."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from report_pages import HOSTILE, TAGS, Page

import roadworthy as rw
from roadworthy.comparison import Comparison
from roadworthy.errors import InputError
from roadworthy.evaluation import Result
from roadworthy.labelfree import Outputs, labelfree
from roadworthy.markup import number
from roadworthy.report.compare_chart import compare_chart, compare_figure
from roadworthy.report.text import signed

Make = Callable[..., Result]


def write(found: Comparison, folder: Path, **options: str) -> tuple[str, Page]:
    text = rw.report(found, folder / "compare.html", **options).read_text(encoding="utf8")
    return text, Page(text)


@pytest.fixture(scope="module")
def found(make_result: Make) -> Comparison:
    weaker = {"ig": 0.9, "ig-sg": 1.5, "grad": 0.8, "mine": 1.0, "random": 0.0}
    other = make_result(samples=0)
    other.settings["imputer"] = "zero"
    return rw.compare({"old": make_result(samples=0), HOSTILE: make_result(weaker, samples=0), "fill": other})


@pytest.fixture(scope="module")
def page(found: Comparison, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    return write(found, tmp_path_factory.mktemp("compare"), title=f"{HOSTILE} \udc80")


def test_it_opens_with_the_verdict_of_the_comparison(found: Comparison, page: tuple[str, Page]) -> None:
    for sentence in found.verdict:
        assert sentence in page[1].text
    assert f"old is better than {HOSTILE} with ig by" in found.verdict[0]
    assert page[1].text.index("Verdict") < page[1].text.index("Scores side by side")


def test_the_numbers_shown_are_those_of_the_comparison(found: Comparison, page: tuple[str, Page]) -> None:
    rows = page[1].rows
    start = next(place for place, row in enumerate(rows) if row[:3] == ["method", "run", "difference"])
    for shown, row in zip(rows[start + 1 :], found.differences.to_dict("records"), strict=False):
        assert shown[0].removesuffix(" control") == row["method"]
        assert shown[2] == signed(row["difference"])
        assert shown[3] == f"{number(row['low'])} to {number(row['high'])}"
        assert shown[6] == (("worse" if row["difference"] < 0 else "better") if row["different"] else "no")
    scores = next(row for row in rows if row[0] == "mine")
    assert scores[1] == scores[3] == "–"
    assert scores[2].startswith(number(float(found.table.set_index("method").loc["mine", "score"])))


def test_what_cannot_be_compared_is_said(found: Comparison, page: tuple[str, Page]) -> None:
    assert found.refused["fill"] in page[1].text
    assert "not in both, so not compared" in page[1].text


def test_nothing_a_user_named_becomes_markup(page: tuple[str, Page]) -> None:
    _, seen = page
    assert {tag for tag, _ in seen.tags} <= TAGS
    assert not [name for _, attributes in seen.tags for name in attributes if name.startswith("on")]
    assert not [script for attributes, script in seen.scripts if not attributes and "pwned" in script]
    assert "<" not in seen.scripts[0][1]
    assert HOSTILE in seen.text


def test_the_page_asks_for_nothing_and_runs_its_own_scripts_only(page: tuple[str, Page]) -> None:
    text, seen = page
    for _, attributes in seen.tags:
        for name in ("src", "href"):
            assert attributes.get(name, "#").startswith(("#", "data:"))
    assert "default-src 'none'" in text
    assert len(text) < 6_500_000


def test_the_chart_has_the_scores_and_the_differences(found: Comparison, page: tuple[str, Page]) -> None:
    data = json.loads(page[1].scripts[0][1])
    assert data["views"].keys() == {"scores", "differences"}
    run = data["views"]["scores"]["runs"][0]
    assert run["value"] == pytest.approx(found.table[found.table["run"] == "old"]["score"].tolist())
    assert [part["key"] for part in data["views"]["differences"]["runs"]] == ["1"]
    assert "<" not in json.dumps(data["views"]["scores"]["runs"][1]["name"])
    keys = [attributes["value"] for tag, attributes in page[1].tags if attributes.get("name") == "run"]
    assert keys == ["0", "1", "2"]


def test_the_downloads_hold_the_tables(found: Comparison, page: tuple[str, Page]) -> None:
    links = {a["download"]: a["href"] for _, a in page[1].tags if "download" in a}
    held = base64.b64decode(links["differences.csv"].split(",")[1])
    back = pd.read_csv(io.BytesIO(held), keep_default_na=False)
    np.testing.assert_allclose(back["difference"], found.differences["difference"])
    head = json.loads(base64.b64decode(links["comparison.json"].split(",")[1]))
    assert head["runs"] == list(found.runs)
    assert links["comparison.svg"].startswith("data:image/svg")


def test_what_the_gate_withholds_is_not_shown(make_retrained: Make, tmp_path: Path) -> None:
    from report_audits import made_gate

    runs = [make_retrained(repeats=3, missing=()) for _ in range(2)]
    runs[1].audit["gate"] = made_gate(runs[1], {"ig": 0.5})
    found = rw.compare({"old": runs[0], "new": runs[1]})
    _, seen = write(found, tmp_path)
    start = next(place for place, row in enumerate(seen.rows) if row[:2] == ["method", "difference"])
    row = next(row for row in seen.rows[start:] if row[0] == "ig")
    assert len(row) == 2
    assert row[1].startswith("withheld, new: ")
    scores = next(row for row in seen.rows if row[0] == "ig")
    assert "rank –" in scores[2]


def test_where_nothing_can_be_subtracted_the_page_says_so(make_result: Make, tmp_path: Path) -> None:
    other = make_result({"ig": 1.0, "random": 0.0}, samples=0)
    other.settings["unit"] = "channel"
    found = rw.compare([make_result({"ig": 1.0, "random": 0.0}, samples=0), other])
    text, seen = write(found, tmp_path)
    assert "No score can be subtracted." in seen.text
    assert 'class="verdict none"' in text
    assert compare_chart(found)["views"].keys() == {"scores"}


def test_label_free_runs_have_a_page(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)

    def said(n: int, labelled: bool) -> Outputs:
        p = rng.uniform(size=n)
        return Outputs.of(p, labels=(rng.uniform(size=n) < p).astype(int) if labelled else None)

    one = labelfree(data=said(80, False), source=said(150, True), corruptions=())
    found = rw.compare({"a": one, HOSTILE: one})
    _, seen = write(found, tmp_path)
    for sentence in found.verdict:
        assert sentence in seen.text
    assert {tag for tag, _ in seen.tags} <= TAGS
    gates = next(place for place, row in enumerate(seen.rows) if row[0] == "gate")
    assert seen.rows[gates] == ["gate", "a", HOSTILE]
    assert seen.rows[gates + 1][1:] == found.gates.iloc[0].tolist()[1:]
    assert re.search(r"≥ 80.%", seen.text)


def test_the_figure_marks_every_score(found: Comparison) -> None:
    axes = compare_figure(found).axes[0]
    marks = np.concatenate([line.get_xdata() for line in axes.lines if line.get_marker() not in ("None", "|")])
    assert sorted(marks) == pytest.approx(sorted(found.table["score"]))


def test_a_folder_is_refused(found: Comparison, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, expected a file"):
        rw.report(found, tmp_path)
