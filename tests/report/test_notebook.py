"""The card of a notebook withholds what the report withholds, and names the same leaders."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest
from report_audits import made_gate

from roadworthy.evaluation import Result
from roadworthy.evaluation.notebook import card_of
from roadworthy.evaluation.standing import contradicted
from roadworthy.report.findings import Findings
from roadworthy.report.printed import printed_ranking
from roadworthy.report.verdict import verdict

STRONG = {"ig": 1.6, "grad": 0.8, "random": 0.0}
TURNED = {"ig": 0.8, "grad": 1.6, "random": 0.0}


def cells(result: Result) -> dict[str, list[str]]:
    body = ET.fromstring(card_of(result)).find(".//tbody")
    assert body is not None
    rows = [["".join(cell.itertext()) for cell in row] for row in body]
    return {row[0]: row for row in rows}


def results(make_result: Any, make_retrained: Any, make_views: Any) -> dict[str, Result]:
    leaky = make_retrained(STRONG | {"sobel": 0.3}, n=120)
    leaky.audit = {"gate": made_gate(leaky, {"grad": 0.4})}
    all_but_one = make_retrained({"ig": 1.0, "grad": 0.8}, n=120)
    all_but_one.audit = {"gate": made_gate(all_but_one, {"grad": 0.4})}
    return {
        "plain": make_result(STRONG, n=120),
        "one": make_result({"ig": 1.0}, n=120),
        "alike": make_result({"ig": 1.0, "grad": 1.0}, n=30),
        "chance": make_result(STRONG, n=60, base=0.1),
        "morf": make_result(STRONG, orders=("morf",), n=120),
        "retrained": make_retrained(STRONG, n=120),
        "leaky": leaky,
        "all but one": all_but_one,
        "views agree": make_views([STRONG] * 4, n=120),
        "views contradict": make_views([STRONG, STRONG, TURNED, TURNED], n=120),
        "a dead view": make_views([STRONG, STRONG, dict.fromkeys(STRONG, 0.0), STRONG], n=120, jitter=0.0),
    }


def test_it_says_what_the_report_says(
    make_result: Callable[..., Result], make_retrained: Callable[..., Result], make_views: Callable[..., Result]
) -> None:
    seen = set()
    for name, result in results(make_result, make_retrained, make_views).items():
        found = Findings.of(result)
        told = printed_ranking(found).set_index("method")
        shown = cells(result)
        assert {method: row[1] for method, row in shown.items()} == told["rank"].to_dict(), name
        withheld = {method for method, row in shown.items() if row[2] == "–"}
        assert withheld == set(told.index[told["score"] == "–"]) == set(found.gated), name
        assert contradicted(result) == {method for method, why in found.withheld.items() if why == "views"}, name
        judged = verdict(result)
        headline = card_of(result).split("<p")[1]
        if judged.leaders:
            assert f"{judged.leaders[0]} comes first" in headline, name
            assert all(method in headline for method in judged.leaders[1:]), name
        else:
            assert "o ranking" in headline or "contradict" in headline, (name, headline)
        seen |= {
            "gate" if found.gated else "",
            "views" if contradicted(result) else "",
            "" if judged.leaders else "none",
        }
    assert seen == {"", "gate", "views", "none"}


@pytest.mark.parametrize("part", ["strategy", "warnings"])
def test_it_is_there_for_a_result_without_settings(part: str, make_result: Callable[..., Result]) -> None:
    result = make_result(STRONG, n=40)
    result.settings.pop(part, None)
    assert "comes first" in card_of(result) or "o ranking" in card_of(result)


def test_the_card_says_how_far_the_orders_agree(make_result: Any) -> None:
    made = make_result({"ig": 1.0, "grad": 0.5, "random": 0.0}, n=60)
    rho = made.agreement().spearman_mean
    assert f"The two orders agree by {rho:.3f} on the ranking".replace("-", "−") in made._repr_html_()
    assert "The two orders" not in make_result({"ig": 1.0, "random": 0.0}, n=60)._repr_html_()
