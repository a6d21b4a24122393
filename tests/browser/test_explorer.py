"""The switches of the curves and the explorer of samples, as people use them; no page may complain meanwhile."""

from __future__ import annotations

import csv
import html
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roadworthy.report import report

pytestmark = pytest.mark.slow

Visit = Callable[..., Any]


def rows_of(page: Any, button: str) -> list[dict[str, str]]:
    """What a button saves as CSV."""
    with page.expect_download() as saved:
        page.click(button)
    with Path(saved.value.path()).open(encoding="utf8", newline="") as file:
        return list(csv.DictReader(file))


def opened(visit: Visit, path: Path, **options: Any) -> Any:
    page = visit(path, **options).page
    page.wait_for_selector("#chart .main-svg")
    page.click("#explorer > summary")
    page.wait_for_selector("#sample-rows tr")
    return page


def test_curves_by_view_order_and_readout(visit: Visit, pages: Any) -> None:
    page = visit(pages["default"]).page
    page.wait_for_selector("#chart .main-svg")
    assert page.locator("#chart .subplot").count() == 2
    mean = rows_of(page, "button[data-save=csv]")
    assert {row["view"] for row in mean} == {"mean over 2 fills"}
    page.focus("input[name=view][value='0']")
    page.keyboard.press("ArrowDown")  # the switches are reached and turned by keyboard
    page.check("input[name=order][value=lerf]")
    page.uncheck("input[name=method] >> nth=0")
    assert page.locator("#chart .subplot").count() == 1
    one = rows_of(page, "button[data-save=csv]")
    assert {row["view"] for row in one} == {"the untouched judge with mean fill"}
    assert {row["order"] for row in one} == {"lerf"}
    assert {row["method"] for row in one} == {"grad", "random"}
    places = {(row["method"], row["order"], row["fraction"]): float(row["value"]) for row in mean}
    page.check("input[name=view][value='2']")
    other = rows_of(page, "button[data-save=csv]")
    for first, second in zip(one, other, strict=True):
        both = (float(first["value"]) + float(second["value"])) / 2
        assert places[first["method"], "lerf", first["fraction"]] == pytest.approx(both, rel=1e-4, abs=1e-6)
    with page.expect_download() as saved:
        page.click("button[data-save=svg]")
    assert "noisy-linear fill" in Path(saved.value.path()).read_text(encoding="utf8")


def test_a_sample_is_found_and_looked_at(visit: Visit, pages: Any) -> None:
    page = opened(visit, pages["default"])
    assert page.inner_text("#found") == "40 of 40 samples found: 1 to 20 below"
    assert page.locator("#sample-rows tr").count() == 20
    apart = [float(row["disagreement"]) for row in rows_of(page, "#list-csv")]
    assert apart == sorted(apart, reverse=True)
    page.click("#sample-head button >> nth=0")
    assert page.locator("#sample-head th").first.get_attribute("aria-sort") == "ascending"
    assert page.inner_text("#sample-rows button >> nth=0").split()[0] == "0"
    page.click("#page-after")
    assert page.inner_text("#page-at") == "page 2 of 2"
    page.fill("#find-id", "7")
    assert page.inner_text("#found") == "4 of 40 samples found: 1 to 4 below"
    page.select_option("#find-class", label="1")
    assert page.locator("#sample-rows tr").count() == 4
    page.select_option("#find-class", label="0")
    assert page.inner_text("#found") == "0 of 40 samples found; clear a filter"
    page.click("#find-all")
    page.check("#find-kept")
    kept = page.locator("#sample-rows tr").count()
    assert kept == page.locator("details[data-kept]").count() > 3
    page.focus("#sample-rows button >> nth=1")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "sample-name"
    page.wait_for_selector("#sample-chart .main-svg")
    assert (
        page.locator("#sample-pictures img").count()
        == page.locator("details[data-kept] >> nth=1").locator("img").count()
    )
    lines = page.locator("#sample-chart .scatterlayer .trace").count()
    page.uncheck("#share-rows input >> nth=0")
    assert page.locator("#sample-chart .scatterlayer .trace").count() == lines - 2
    page.click("#sample-after")
    assert page.inner_text("#sample-name") == f"Sample {page.inner_text('#sample-rows button >> nth=2').split()[0]}"
    page.click("#sample-list")
    assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"


def test_the_numbers_of_a_sample_are_those_of_the_view_chosen(visit: Visit, pages: Any) -> None:
    page = opened(visit, pages["default"])
    page.click("#sample-rows button >> nth=0")
    found = []
    for view in ("0", "1", "2"):
        page.select_option("#find-layer", view)
        rows = rows_of(page, "button[data-sample-save=csv]")
        assert {row["right"] for row in rows} <= {"0", "1"}
        found.append([float(row["probability"]) for row in rows])
    mean = [(one + other) / 2 for one, other in zip(found[1], found[2], strict=True)]
    assert found[0] == pytest.approx(mean, abs=1.5 / 255)
    assert found[1] != found[2]


def test_trainings_are_counted(visit: Visit, pages: Any) -> None:
    page = opened(visit, pages["roar"], viewport={"width": 390, "height": 844})
    page.click("#sample-rows button >> nth=0")
    assert "how many of 5 trainings are right" in page.inner_text("#sample-caption")
    rows = rows_of(page, "button[data-sample-save=csv]")
    assert {round(5 * float(row["right"]), 6) for row in rows} <= {0, 1, 2, 3, 4, 5}
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_hostile_names_are_text(visit: Visit, pages: Any) -> None:
    page = opened(visit, pages["hostile"])
    page.fill("#find-id", "<script>")
    assert page.locator("#sample-rows tr").count() == 1
    page.click("#sample-rows button")
    page.wait_for_selector("#sample-chart .main-svg")
    assert page.inner_text("#sample-name").startswith("Sample <script>window.pwned=1")
    assert page.evaluate("window.pwned") is None
    assert page.locator("#explorer img[src=x]").count() == 0
    with page.expect_download() as saved:
        page.click("button[data-sample-save=svg]")
    drawn = Path(saved.value.path()).read_text(encoding="utf8")
    assert "<script" not in drawn
    assert "Sample <script>window.pwned=1" in html.unescape(drawn)


def test_nothing_is_read_before_it_is_opened_and_nothing_is_lost_without_scripts(visit: Visit, pages: Any) -> None:
    page = visit(pages["default"]).page
    assert page.locator("#sample-rows tr").count() == 0
    still = visit(pages["default"], java_script_enabled=False).page
    assert not still.is_visible("#explorer")
    assert still.is_visible("details[data-kept] >> nth=0 >> table")


@pytest.mark.parametrize("readout", ["top1", "probability"])
def test_scores_in_the_list_are_those_of_the_result(
    visit: Visit, make_result: Any, tmp_path: Path, readout: str
) -> None:
    result = make_result({"ig": 1.2, "grad": 0.5, "random": 0.0}, n=60, samples=0, orders=["lerf", "morf"])
    result.scores.probability[:, :, 0] = result.scores.probability[:1, :1, 0]
    page = opened(visit, report(result, tmp_path / "page.html"))
    page.select_option("#find-readout", index=["top1", "probability"].index(readout))
    rows = {row["sample"]: row for row in rows_of(page, "#list-csv")}
    scores, _, _ = result.method_scores(readout)
    rounding = 0 if readout == "top1" else 1 / 255
    for place, sample in enumerate(result.ids):
        shown = [float(rows[sample][method]) for method in result.methods]
        assert shown == pytest.approx(scores[:, place], abs=rounding + 1e-6)
        apart = abs(scores[0, place] - scores[1, place])  # random is a control
        assert float(rows[sample]["disagreement"]) == pytest.approx(apart, abs=2 * rounding + 1e-6)
        assert rows[sample]["label"] == result.classes[result.scores.labels[place]]
        assert rows[sample]["intact input"] == str(result.scores.top1[0, 0, 0, 0, place])
