from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from report_pages import HOSTILE, TAGS, Page

from roadworthy.errors import DataError, InputError
from roadworthy.evaluation import Result
from roadworthy.report import curves_figure, report

Make = Callable[..., Result]
NAMES = [
    HOSTILE,
    "</script><img src=x onerror=alert(1)>",
    "a & b \"q\" 'x' <b>bold</b>",
    "日本語 ✓",
    "%{y} $x$",
    "random",
]


def write(result: Result, folder: Path, **options: str) -> tuple[str, Page]:
    path = report(result, folder / "report.html", **options)
    text = path.read_text(encoding="utf8")
    return text, Page(text)


@pytest.fixture(scope="module")
def plain(make_result: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, str, Page]:
    result = make_result(warnings=["3 maps of gradcam are constant"], repeats=2)
    return result, *write(result, tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module")
def hostile(make_result: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, str, Page]:
    planted = {name: 1.5 - i / 4 for i, name in enumerate(NAMES)}
    result = make_result(planted, class_names=[HOSTILE] * 10, warnings=[HOSTILE], n=80, orders=["lerf", "morf"])
    result.ids[0] = result.sheet.ids[0] = HOSTILE  # type: ignore[union-attr]
    result.settings |= {"strategy": HOSTILE, "imputer": HOSTILE, HOSTILE: {HOSTILE: f'/a path/"{HOSTILE}'}}
    result.provenance["device"] = HOSTILE
    result.method_info[HOSTILE] = HOSTILE
    return result, *write(result, tmp_path_factory.mktemp("hostile"), title=f"{HOSTILE} \udc80")


def test_nothing_a_user_named_becomes_markup(hostile: tuple[Result, str, Page]) -> None:
    _, _, page = hostile
    assert {tag for tag, _ in page.tags} <= TAGS
    assert len(page.scripts) == 6
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    for name in NAMES:
        assert name in page.text


def test_nothing_a_user_named_stands_in_a_script(hostile: tuple[Result, str, Page]) -> None:
    _, _, page = hostile
    kinds = [attributes.get("type", "") for attributes, _ in page.scripts]
    assert kinds == ["application/json", "application/json", "", "", "", ""]
    assert not [script for attributes, script in page.scripts if not attributes and "pwned" in script]
    assert not [text for attributes, text in page.scripts if attributes and "<" in text]
    names = [method["name"] for method in page.data()["methods"]]
    assert names[0] == "&lt;script&gt;window.pwned=1&lt;/script&gt;"
    assert not any("<" in name or "%{" in name for name in names)


def test_the_page_asks_for_nothing_from_anywhere(
    plain: tuple[Result, str, Page], hostile: tuple[Result, str, Page]
) -> None:
    for _, text, page in (plain, hostile):
        for tag, attributes in page.tags:
            for name in ("src", "href", "action", "srcset", "data", "poster", "background", "xlink:href"):
                target = attributes.get(name, "#")
                assert target.startswith(("#", "data:")), (tag, name, target[:80])
        assert "link" not in {tag for tag, _ in page.tags}
        assert not re.search(r"url\(|@import", text[: text.index("</style>")])


def test_only_the_scripts_of_the_page_may_run(plain: tuple[Result, str, Page]) -> None:
    _, text, page = plain
    policy = next(a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1].split(";")[0]
    assert "unsafe-eval" not in policy
    for attributes, script in page.scripts:
        if not attributes:
            digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy
    assert text.count("* plotly.js v") == 1


def test_the_size_is_bounded_and_stated(plain: tuple[Result, str, Page]) -> None:
    _, text, page = plain
    size = len(text.encode("utf8"))
    assert size < 6_500_000
    stated = float(re.search(r"\(([\d.]+) MB, of which", page.text).group(1))  # type: ignore[union-attr]
    assert stated == pytest.approx(size / 1e6, abs=0.06)


def test_the_ranking_shown_is_the_ranking_of_the_result(plain: tuple[Result, str, Page]) -> None:
    result, _, page = plain
    ranking = result.ranking()
    start = next(i for i, row in enumerate(page.rows) if row[:3] == ["rank", "method", "group"])
    for row, shown in zip(ranking.to_dict("records"), page.rows[start + 1 :], strict=False):
        numbers = [cell.replace("−", "-") for cell in shown]
        assert numbers[0] == str(row["rank"])
        assert numbers[1].removesuffix(" control") == row["method"]
        assert numbers[2] == row["group"]
        assert numbers[3] == f"{row['score']:.3f}"
        assert numbers[4] == f"{row['low']:.3f} to {row['high']:.3f}".replace("-0.000", "0.000")
        assert numbers[7:] == [f"{row[key]:.3f}" for key in ("morf_area", "lerf_area", "repeat_sd")]


def test_the_pairs_and_the_agreement_shown_are_those_of_the_result(plain: tuple[Result, str, Page]) -> None:
    result, _, page = plain
    methods = result.ranking()["method"].tolist()
    start = next(i for i, row in enumerate(page.rows) if row[0] == "row minus column")
    shown = {
        (a, b): cell
        for a, row in zip(methods, page.rows[start + 1 :], strict=False)
        for b, cell in zip(methods, row[1:], strict=True)
    }
    for pair in result.pairwise().to_dict("records"):
        cell = shown[pair["method"], pair["other"]].replace("−", "-")
        expected = f"{pair['difference']:+.3f}".replace("+0.000", "0.000").replace("-0.000", "0.000")
        assert cell.startswith(expected + "p ")
    agreement = result.agreement()
    start = next(i for i, row in enumerate(page.rows) if row == ["share removed", "Spearman", "Kendall"])
    for row, rho, tau in zip(page.rows[start + 1 :], agreement.spearman[1:], agreement.kendall[1:], strict=False):
        assert [cell.replace("−", "-") for cell in row[1:]] == [f"{rho:.2f}", f"{tau:.2f}"]


def test_the_curves_drawn_are_those_of_the_result(hostile: tuple[Result, str, Page]) -> None:
    result, _, page = hostile
    data = page.data()
    assert [order["key"] for order in data["orders"]] == ["morf", "lerf"]
    assert data["fractions"] == result.fractions
    for readout in ("top1", "probability"):
        frame = result.curves(readout).set_index(["method", "order", "fraction"]).sort_index()
        for m, method in enumerate(result.methods):
            for o, order in enumerate(["morf", "lerf"]):
                for column in ("value", "low", "high"):
                    drawn = data["readouts"][readout][column][m][o]
                    assert np.allclose(drawn, frame.loc[(method, order), column].to_numpy())


def test_the_downloads_are_the_numbers(plain: tuple[Result, str, Page]) -> None:
    result, _, page = plain
    files = {a["download"]: a["href"] for tag, a in page.tags if tag == "a" and "download" in a}
    assert set(files) == {"ranking.csv", "pairwise.csv", "curves.csv"}
    text = base64.b64decode(files["ranking.csv"].removeprefix("data:text/csv;base64,")).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["method"] for row in rows] == result.ranking()["method"].tolist()
    assert [float(row["score"]) for row in rows] == pytest.approx(result.ranking()["score"].tolist())


def test_the_page_can_be_read_by_all(plain: tuple[Result, str, Page]) -> None:
    _, text, page = plain
    assert '<html lang="en">' in text
    assert [tag for tag, _ in page.tags if tag in ("h1", "h2")][:2] == ["h1", "h2"]
    for tag, attributes in page.tags:
        if tag == "img":
            assert attributes["alt"]
        if attributes.get("class") == "scroll":
            assert attributes["role"] == "region"
            assert attributes["tabindex"] == "0"
            assert attributes["aria-label"]
        if tag == "th":
            assert attributes["scope"] in ("row", "col")
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {a["href"][1:] for tag, a in page.tags if tag == "a" and a["href"].startswith("#")}
    assert links <= set(ids)
    for part in (
        "Verdict",
        "Warnings",
        "3 maps of gradcam are constant",
        "✓",
        "✗",
        "Settings and provenance",
        "fill.noise",
    ):
        assert part in page.text


@pytest.mark.parametrize(
    "options",
    [
        {"strengths": {"ig": 1.0}, "orders": ["morf"]},
        {"n": 1, "base": 1.0},
        {"samples": 0, "class_names": []},
        {"classes": 2, "readout": "logit"},
        {"fractions": [0.0, 0.5]},
        {"strengths": {"a": 1.0, "b": 1.0}, "jitter": 0.0},
    ],
    ids=["one method, one order", "one sample", "no pictures, no names", "two classes", "one share", "tie"],
)
def test_small_results_make_a_page_without_nan(make_result: Make, tmp_path: Path, options: dict) -> None:
    result = make_result(**options)
    _, page = write(result, tmp_path)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert not re.search(r"\bnan\b|None|Infinity", page.text)
    assert not [text for attributes, text in page.scripts if attributes and "NaN" in text]
    readouts = [a["value"] for _, a in page.tags if a.get("name") == "readout"]
    assert readouts[0] == result.readout
    assert ("top5" in readouts) == (result.readout == "top5" or bool(np.ptp(result.scores.top5)))


def test_a_saved_result_gives_the_same_page(make_result: Make, tmp_path: Path) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=40, samples=1)
    result.save(tmp_path / "run")
    direct = report(result, tmp_path / "a" / "direct.html").read_bytes()
    assert report(tmp_path / "run", tmp_path / "loaded.html").read_bytes() == direct


def test_paths_that_cannot_be_used(make_result: Make, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=re.escape(f"{tmp_path} is a folder, expected a file")):
        report(make_result(n=40), tmp_path)
    with pytest.raises(DataError, match="no result lies here"):
        report(tmp_path, tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_without_labels_the_page_speaks_of_agreement(make_result: Make, tmp_path: Path) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=60, samples=1)
    result.scores.top1[:, :, 0] = 1
    result.settings["labels"] = "model"
    _, page = write(result, tmp_path)
    assert "accuracy" not in page.text.lower()
    assert not [text for attributes, text in page.scripts if attributes and "accuracy" in text]
    assert "Agreement with the model's own answers100\u00a0%" in page.text
    assert "top-1 agreement" in page.text
    assert "label class" not in page.text
    assert {"right:", "wrong:"} & set(page.text.split()) == set()
    assert curves_figure(result).axes[0].get_ylabel() == "top-1 agreement"


def test_a_saved_result_edited_with_hostile_text_stays_text(make_result: Make, tmp_path: Path) -> None:
    make_result({"ig": 1.0, "random": 0.0}, n=40, samples=1).save(tmp_path / "run")
    file = tmp_path / "run" / "result.json"
    head = json.loads(file.read_text())
    head["classes"] = [HOSTILE] * 10
    head["warnings"] = [HOSTILE, "\udc80\u202e"]
    head["method_info"][HOSTILE] = [HOSTILE, None]
    head["method_info"][f"{HOSTILE}_share"] = [0.5, float("nan")]
    head["method_info"]["odd_share"] = ["<b>", None]
    strange = {"strategy": {HOSTILE: 1}, HOSTILE: [HOSTILE, float("inf")], "classes": HOSTILE, "labels": [HOSTILE]}
    head["settings"] |= strange
    head["provenance"] |= {HOSTILE: {HOSTILE: [{HOSTILE: None}]}, "versions": None}
    file.write_text(json.dumps(head))
    page = Page(report(tmp_path / "run", tmp_path / "x.html").read_text(encoding="utf8"))
    assert {tag for tag, _ in page.tags} <= TAGS
    assert len(page.scripts) == 6
    assert not [script for attributes, script in page.scripts if not attributes and "pwned" in script]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert page.text.count(HOSTILE) > 8


def test_the_ranking_to_download_says_what_its_numbers_are(plain: tuple[Result, str, Page]) -> None:
    _, _, page = plain
    (link,) = (a["href"] for tag, a in page.tags if tag == "a" and a.get("download") == "ranking.csv")
    text = base64.b64decode(link.removeprefix("data:text/csv;base64,")).decode()
    row = next(csv.DictReader(io.StringIO(text)))
    said = [row[name] for name in ("score_name", "direction", "readout", "level", "n")]
    assert said == ["symmetric gain", "higher is better", "top1", "0.95", "300"]
