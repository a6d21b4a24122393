"""A page in use: by mouse, by keyboard, on paper, without scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.slow

Visit = Callable[..., Any]
POINTS = "#chart .points path.point"
FOCUS = "document.activeElement.id || document.activeElement.name || document.activeElement.className"


def test_curves_are_switched_and_saved(visit: Visit, pages: Any) -> None:
    page = visit(pages["road"]).page
    assert page.locator("#ranking [data-readout]:visible").count() == 1
    page.check("input[name=readout][value=probability]")
    assert page.locator("#ranking [data-readout]:visible").get_attribute("data-readout") == "probability"
    page.wait_for_function("document.querySelector('#chart .ytitle').textContent === 'probability'")

    everything = page.locator(POINTS).count()
    page.locator("input[name=method]").first.uncheck()
    page.wait_for_function(f"document.querySelectorAll('{POINTS}').length < {everything}")
    page.click("button[data-methods=none]")
    page.wait_for_function(f"document.querySelectorAll('{POINTS}').length === 0")
    page.click("button[data-methods=all]")
    page.wait_for_function(f"document.querySelectorAll('{POINTS}').length === {everything}")

    with page.expect_download() as saved:
        page.click("button[data-save=svg]")
    assert saved.value.suggested_filename == "curves.svg"
    text = saved.value.path().read_text(encoding="utf8")
    assert text.startswith("<svg")
    assert "gradcam" in text  # a picture has no switches beside it: its legend names the lines


def test_it_can_be_used_by_keyboard(visit: Visit, pages: Any) -> None:
    page = visit(pages["road"]).page
    page.keyboard.press("Tab")
    assert page.evaluate(FOCUS) == "skip"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") >= 0
    page.keyboard.press("Enter")
    assert page.url.endswith("#main")
    page = visit(pages["road"]).page
    reached = []
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.append(page.evaluate(FOCUS))
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
        if reached[-1] == "method":
            break
    assert reached.index("theme") < reached.index("readout") < reached.index("method")
    page.keyboard.press("Space")
    assert not page.locator("input[name=method]").first.is_checked()

    folded = page.locator("#settings details").first
    folded.locator("summary").focus()
    page.keyboard.press("Enter")
    assert folded.locator("table").is_visible()
    for region in page.locator(".scroll").all()[:3]:  # what scrolls sideways is reached and named
        assert region.get_attribute("tabindex") == "0"
        assert region.get_attribute("aria-label")


def test_light_and_dark_follow_the_reader_then_the_button(visit: Visit, pages: Any) -> None:
    page = visit(pages["labelfree"], color_scheme="dark").page
    assert page.inner_text("#theme") == "Light page"
    page.click("#theme")
    assert page.inner_text("#theme") == "Dark page"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


@pytest.mark.parametrize("kind", ["road", "labelfree", "agreement"])
def test_paper_has_the_pictures_and_what_is_folded_away(visit: Visit, pages: Any, kind: str) -> None:
    page = visit(pages[kind]).page
    page.click("#theme")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in ("nav", "#theme", "#downloads", "#chart"):
        assert page.locator(hidden).is_visible() is False
    if kind != "agreement":
        assert page.locator("img.static").is_visible()
    seen = "all => all.map(one => one.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true}))"
    folded = page.locator("details:not(#explorer) table:not([data-readout][hidden] *)").evaluate_all(seen)
    assert folded
    assert all(folded)
    assert page.pdf(format="A4").startswith(b"%PDF")


@pytest.mark.parametrize(("kind", "table"), [("road", "#ranking table"), ("labelfree", "#estimates table")])
def test_without_scripts_all_that_counts_is_there(visit: Visit, pages: Any, kind: str, table: str) -> None:
    page = visit(pages[kind], java_script_enabled=False).page
    assert page.locator("#verdict p").first.is_visible()
    assert page.locator("img.static").is_visible()
    assert page.locator(table).first.is_visible()
    for hidden in ("#theme", "#chart", "fieldset", ".bar button"):
        assert not any(one.is_visible() for one in page.locator(hidden).all())
    page.locator("#settings summary").first.click()
    assert page.locator("#settings table").first.is_visible()


def test_names_from_users_change_nothing(visit: Visit, pages: Any) -> None:
    page = visit(pages["hostile"], viewport={"width": 390, "height": 844}, has_touch=True).page
    assert page.locator("img[src='x']").count() == 0
    assert page.locator("main script:not([type='application/json'])").count() == 0
    assert '"><img src=x onerror="window.pwned=1">' in page.inner_text("h1")
    assert "<script>window.pwned=1</script>" in page.inner_text("#ranking")
    assert "\u202e" not in page.inner_text("body")
    page.wait_for_function("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
