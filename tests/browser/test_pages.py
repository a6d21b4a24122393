"""What every page owes its readers: the same order of things, and nobody shut out."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

pytestmark = pytest.mark.slow

WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def axe_faults(page: Any, rules: list[str]) -> list[str]:
    """Return what axe-core finds: rule, place and why."""
    runner = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-playwright-python is missing")
    kind = "tag" if rules is WCAG else "rule"
    options = {"runOnly": {"type": kind, "values": rules}, "resultTypes": ["violations"]}
    return [
        f"{fault['id']}: {node['target']} {node['failureSummary']}"
        for fault in runner.Axe().run(page, options=options).response["violations"]
        for node in fault["nodes"]
    ]


def test_the_same_things_stand_on_every_page_in_the_same_order(shown: Any) -> None:
    heads = shown.locator("main h2").all_inner_texts()
    assert heads[0] == "Verdict"
    assert "settings and provenance" in heads[-3].lower()
    assert heads[-2:] == ["How to read this", "Download the numbers"]
    assert heads.index("Warnings") < 3 if "Warnings" in heads else True
    assert shown.locator("header .lead").inner_text().endswith("What the words mean")
    assert "MB" in shown.locator("footer").inner_text()
    links = shown.locator("nav a").evaluate_all("all => all.map(one => one.getAttribute('href').slice(1))")
    assert links == shown.locator("main > section").evaluate_all("all => all.map(one => one.id)")[1:]


def test_headings_are_nested(shown: Any) -> None:
    levels = shown.locator("h1, h2, h3, h4").evaluate_all("all => all.map(one => Number(one.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_the_numbers_can_be_saved(shown: Any) -> None:
    link = shown.locator("#downloads a[download$='.csv']").first
    with shown.expect_download() as saved:
        link.click()
    assert saved.value.suggested_filename == link.get_attribute("download")
    assert saved.value.path().read_text(encoding="utf8").count("\n") > 1


def test_it_can_be_read_by_all_in_light_and_dark_and_on_a_phone(shown: Any) -> None:
    shown.evaluate("document.querySelectorAll('details').forEach(part => { part.open = true; })")
    assert axe_faults(shown, WCAG) == []
    shown.click("#theme")
    assert shown.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert axe_faults(shown, ["color-contrast"]) == []
    shown.set_viewport_size({"width": 390, "height": 844})
    # the chart follows a moment after the window
    shown.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
