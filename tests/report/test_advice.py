"""Advice, and the sections that show its numbers: each sentence comes from a number that stands below it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from report_audits import made_gate, made_leakage, made_patches
from report_pages import HOSTILE, TAGS, Page

from roadworthy.evaluation import Result, load_result
from roadworthy.report import report, verdict
from roadworthy.report.advice import advise
from roadworthy.report.audits import gate_of, leakage_of, patches_of
from roadworthy.report.findings import Findings

Make = Callable[..., Result]
PLANTED = {"ig": 1.6, "grad": 0.8, "random": 0.0, "sobel": 0.1, "inverse:ig": -1.6}


def page_of(result: Result, folder: Path) -> Page:
    return Page(report(result, folder / "report.html").read_text(encoding="utf8"))


def rows_after(page: Page, *heads: str) -> list[list[str]]:
    start = next(i for i, row in enumerate(page.rows) if tuple(row[: len(heads)]) == heads)
    return page.rows[start + 1 :]


def said(result: Result, start: str) -> str:
    return next((piece for piece in verdict(result).advice if piece.startswith(start)), "")


@pytest.fixture
def leaky(make_result: Make) -> Result:
    result = make_result(PLANTED, base=0.94, samples=1)
    result.audit = {"leakage": made_leakage(result, ["mean", "noisy-linear"], {"ig": 0.81})}
    return result


def test_a_leak_is_told_in_points_with_what_to_use_instead(leaky: Result, tmp_path: Path) -> None:
    rho = leaky.agreement().spearman_mean
    assert said(leaky, "The mean fill") == (
        "The mean fill leaks 71 of 84 points through the mask (ig by MoRF at 30\u00a0%): do not use ROAR with it "
        f"here; ROAD with noisy-linear agrees in both orders (mean Spearman {rho:.2f})."
    )
    assert said(leaky, "No leak was found") == (
        "No leak was found behind the noisy-linear fill (5 methods audited): ROAR may be used with it."
    )
    page = page_of(leaky, tmp_path)
    assert "it for 94\u00a0%: 84 points above chance" in page.text
    (row, *_) = rows_after(page, "method", "order", "removed")
    assert row[:4] + row[-1:] == ["ig", "MoRF", "30\u00a0%", "81\u00a0%", "71"]
    verdicts = {row[0].removesuffix(" control"): row[1:] for row in rows_after(page, "method", "mean fill")[:5]}
    assert verdicts["ig"] == ["leakswhy of ig behind mean", "does not leakwhy of ig behind noisy-linear"]
    fills = rows_after(page, "fill", "removed")[:2]
    assert [[row[0], row[-1]] for row in fills] == [["mean", "90\u00a0%"], ["noisy-linear", "10\u00a0%"]]
    assert "Masks that leak1 of 10" in page.text


def test_fills_of_which_the_same_is_said_are_named_together(leaky: Result) -> None:
    leaky.audit["leakage"] = made_leakage(
        leaky, ["mean", "zero", "noisy-linear", "blur"], {"ig": 0.81}, hidden=["blur"]
    )
    assert said(leaky, "The mean, zero and noisy-linear fills leak 71 of 84 points through the mask (ig by MoRF at")
    assert ": do not use ROAR with them here; ROAD with" in said(leaky, "The mean, zero and noisy-linear")
    leaky.audit["leakage"] = made_leakage(leaky, ["mean", "blur"], unsure=["ig", "grad"])
    assert said(
        leaky, "Whether the mean and blur fills leak the masks of ig and grad cannot be told: audit thoroughly"
    )
    leaky.audit["leakage"] = made_leakage(leaky, ["mean", "blur"])
    assert said(
        leaky, "No leak was found behind the mean and blur fills (5 methods audited): ROAR may be used with them."
    )


def test_without_retraining_a_leak_takes_no_trust_away_but_is_told(leaky: Result) -> None:
    leaky.settings["views"] = [{"judge": "untouched", "imputer": "mean"}]
    found = verdict(leaky)
    assert found.level == "good"
    assert found.trust.endswith(
        "; masks of ig give the class away behind the mean fill (71 of 84 points, ig by MoRF at 30\u00a0%), which "
        "misleads where networks are trained on them, not here."
    )


@pytest.mark.parametrize(
    "audit", [{}, {"leakage": {}}, {"leakage": None}, {"leakage": []}, {"leakage": {"verdicts": 3}}]
)
def test_what_was_not_audited_is_told(audit: dict, make_result: Make, tmp_path: Path) -> None:
    result = make_result(PLANTED, samples=1)
    result.audit = audit
    assert "whether masks give the class away was not audited" in verdict(result).trust
    assert verdict(result).level == "good"
    page = page_of(result, tmp_path)
    assert ["masks that give the class away", "not looked for", "leakage was not audited"] in page.rows
    assert "Masks that leak–not audited" in page.text


def test_orders_that_disagree_recommend_nothing_instead(make_result: Make) -> None:
    result = make_result({"a": (2.0, 0.2), "b": (1.0, 0.9), "c": (0.2, 2.0)})
    result.audit = {"leakage": made_leakage(result, ["mean"], {"a": 0.6})}
    assert said(result, "The mean fill").endswith("do not use ROAR with it here.")
    found = verdict(result)
    assert "the orders contradict each other on a above b by MoRF, below by LeRF, and 2 more pairs" in found.trust
    assert any(piece.startswith("Read the two orders side by side") for piece in found.advice)


def test_orders_that_agree_contradict_each_other_nowhere(make_result: Make) -> None:
    assert not Findings.of(make_result(PLANTED)).order_disputes
    assert "contradict" not in verdict(make_result(PLANTED)).trust


@pytest.mark.parametrize(
    ("leaks", "unsure", "level", "said_of_it"),
    [
        ({}, [], "good", "no mask was found to give the class away behind the mean fill"),
        ({}, ["grad"], "care", "whether the masks of grad give the class away behind the mean fill cannot be told"),
        ({"ig": 0.81}, ["grad"], "little", "masks of ig give the class away behind the mean fill (71 of 86 points"),
    ],
    ids=["clean", "cannot tell", "leaks"],
)
def test_retraining_is_trusted_as_far_as_its_masks(
    leaks: dict, unsure: list, level: str, said_of_it: str, make_retrained: Make
) -> None:
    result = make_retrained(PLANTED)
    result.audit["leakage"] = made_leakage(result, ["mean"], leaks, unsure=unsure)
    found = verdict(result)
    assert (found.level, said_of_it in found.trust) == (level, True), found.trust
    if leaks:
        assert "do not believe ROAR with it here; ROAD beside it" in said(result, "The mean fill leaks 71 of 86")


def test_a_doubt_about_random_masks_is_none(make_retrained: Make) -> None:
    result = make_retrained(PLANTED)
    result.audit["leakage"] = made_leakage(result, ["mean"], unsure=["random"])
    assert verdict(result).level == "good"
    assert said(result, "No leak was found behind the mean fill")
    result.audit["leakage"] = made_leakage(result, ["mean"], {"random": 0.4})
    assert "masks of random give the class away" in verdict(result).trust


def test_a_leak_behind_another_fill_is_no_matter_for_this_one(make_retrained: Make) -> None:
    result = make_retrained(PLANTED)
    result.audit["leakage"] = made_leakage(result, ["mean", "zero"], {"ig": 0.8}, hidden=["mean"])
    assert verdict(result).level == "good"
    assert "do not use ROAR with it here" in said(result, "The zero fill")


def test_the_gate_withholds_kar(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained({"leak": 1.7} | PLANTED)
    result.audit["gate"] = made_gate(result, {"leak": 0.54, "grad": 0.09})
    found = verdict(result)
    assert found.leaders == ("ig",)
    assert "withheld: leak (its mask adds 0.54 of accuracy at 12\u00a0% kept)" in found.leads
    assert "10 of 10 pairwise differences" in found.leads
    assert (found.level, "leak" in found.above_random) == ("little", False)
    assert said(result, "Do not read KAR") == (
        "Do not read KAR of leak: with 12\u00a0% of the pixels kept, networks trained on its masks are right for "
        "94\u00a0%, a judge blind to masks for 40\u00a0% on the same pixels."
    )
    page = page_of(result, tmp_path)
    shown = {row[1]: row for row in rows_after(page, "rank", "method")[:6]}
    assert shown["leak"][0] == shown["leak"][3] == shown["leak"][4] == "–"
    assert shown["ig"][0] != "–"
    gates = {(row[0], row[1]): row[-1] for row in rows_after(page, "method", "kept")[:12]}
    assert gates["leak", "12\u00a0%"] == "withheld"
    assert gates["grad", "12\u00a0%"] == "passes"


def test_a_gate_says_nothing_where_kar_was_not_run(make_retrained: Make, make_result: Make) -> None:
    result = make_retrained(PLANTED, orders=["morf"])
    result.audit["gate"] = made_gate(result, {"ig": 0.5})
    assert not Findings.of(result).gated
    plain = make_result(PLANTED)
    plain.audit = {"gate": made_gate(plain, {"ig": 0.5})}
    assert not Findings.of(plain).gated


@pytest.mark.parametrize("held", [["ig", "grad", "random", "sobel", "inverse:ig"], ["ig", "grad", "random", "sobel"]])
def test_no_ranking_where_the_gate_leaves_less_than_two(held: list, make_retrained: Make) -> None:
    result = make_retrained(PLANTED)
    result.audit["gate"] = made_gate(result, dict.fromkeys(held, 0.3))
    found = verdict(result)
    assert found.leads.startswith(
        f"No ranking: KAR of every {'method' if len(held) == 5 else 'other method'} is withheld"
    )
    assert found.leaders == ()
    assert str(found)


def test_retraining_without_a_gate_is_a_trap(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(PLANTED, audited=False)
    assert said(result, "Audit the masks before ROAR and KAR is believed")
    assert verdict(result).level == "care"
    trap = next(row for row in page_of(result, tmp_path).rows if row[0] == "retraining without a gate")
    assert trap[1] == "found"
    result.audit = {"leakage": made_leakage(result, ["mean"])}
    assert said(result, "Hold KAR against a judge")
    trap = next(row for row in page_of(result, tmp_path).rows if row[0] == "retraining without a gate")
    assert trap[1] == "found"
    full = make_retrained(PLANTED)
    assert not said(full, "Hold KAR")
    trap = next(row for row in page_of(full, tmp_path).rows if row[0] == "retraining without a gate")
    assert trap[1] == "not found"


def test_single_patches_are_a_second_view(make_result: Make, tmp_path: Path) -> None:
    result = make_result(PLANTED, samples=0)
    result.audit = {"idsds": made_patches({"ig": 0.1, "grad": 0.3, "random": 0.0, "elsewhere": 0.2})}
    rows = rows_after(page_of(result, tmp_path), "method", "rank", "score", "interval", "undefined")
    shown = {row[0].removesuffix(" control"): row[1:] for row in rows[:4]}
    assert shown["grad"] == ["1", "0.300", "0.250 to 0.350", "1", "2"]
    assert (shown["ig"][0], shown["ig"][-1], shown["elsewhere"][-1]) == ("3", "1", "–")
    text = page_of(result, tmp_path).text
    assert "Spearman with the ranking above: 0.50 over 3 methods" in text
    assert "on a grid of 4 × 4" in text


def test_every_sentence_links_to_a_section_that_is_there(leaky: Result, make_retrained: Make, tmp_path: Path) -> None:
    retrained = make_retrained({"leak": 1.7} | PLANTED)
    retrained.audit["gate"] = made_gate(retrained, {"leak": 0.54})
    for result in (leaky, retrained, make_retrained(PLANTED, repeats=1, audited=False)):
        page = page_of(result, tmp_path)
        ids = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
        assert {piece.section for piece in advise(Findings.of(result))} <= ids
        assert {a["href"][1:] for tag, a in page.tags if tag == "a" and a["href"].startswith("#")} <= ids
        for piece in verdict(result).advice:
            assert piece in page.text
            assert piece.endswith(".")


def test_what_is_not_fit_for_use_is_not_recommended(make_result: Make) -> None:
    result = make_result(
        {"good": 1.5, "poor": 0.02, "beaten": 0.5, "sobel": 1.0, "random": 0.0, "inverse:good": -1.5}
    )
    assert said(result, "Prefer good for this model and data.")
    assert said(result, "Do not rely on poor") or "poor" in said(result, "Do not rely on")
    assert "beaten" in said(result, "Do not rely on")
    assert not said(make_result(dict.fromkeys(["a", "b", "random"], 0.0)), "Prefer")
    assert said(make_result(dict.fromkeys(["a", "b", "random"], 0.0)), "Take more than 300 samples")
    assert verdict(make_result(base=0.11)).advice[0].startswith("Look for the fault in model, labels")
    assert said(make_result(PLANTED, orders=["morf"]), "Run both orders")


@pytest.mark.parametrize(
    ("methods", "missing"),
    [
        (PLANTED, ""),
        ({"ig": 1.0, "random": 0.0, "sobel": 0.1}, "the control inverse:NAME is missing"),
        ({"ig": 1.0, "grad": 0.5}, "the controls random, sobel and inverse:NAME are missing"),
    ],
)
def test_missing_controls_are_named(methods: dict, missing: str, make_result: Make) -> None:
    trust = verdict(make_result(methods)).trust
    assert trust.endswith(f"; {missing}.") if missing else "missing" not in trust
    assert bool(said(make_result(methods), "Add the control")) == bool(missing)


def test_edges_are_asked_for_of_pictures_only(make_result: Make) -> None:
    table = make_result({"ig": 1.0, "random": 0.0}, samples=0)
    table.settings["imputer"] = "mean"
    assert "the control inverse:NAME is missing" in verdict(table).trust


def test_an_audit_from_a_file_may_hold_anything(make_result: Make, tmp_path: Path) -> None:
    result = make_result({HOSTILE: 1.0, "b": 0.5, "random": 0.0}, n=60, samples=1)
    audit = made_leakage(result, [HOSTILE], {HOSTILE: 0.9})
    audit["masks"] += [{"method": HOSTILE, "order": HOSTILE, "accuracy": "high"}, 3, None]
    audit["verdicts"] += [{"imputer": HOSTILE, "method": "c", "verdict": HOSTILE, "why": [HOSTILE]}, "x"]
    audit["imputers"] += [{"imputer": HOSTILE, "base": 0}, {}]
    audit |= {"effort": HOSTILE, "n": "many", "chance_low": None}
    gate = [{"method": HOSTILE, "gap": True}, {"gap": 10**400}, "x"]
    patches = {"grid": HOSTILE, "scores": {HOSTILE: {"score": HOSTILE, "undefined": None}, "b": 3, "random": {}}}
    result.audit = {"leakage": audit, "gate": gate, "idsds": patches}
    result.save(tmp_path / "run")
    loaded = load_result(tmp_path / "run")
    assert leakage_of(loaded) is not None
    assert len(gate_of(loaded)) == 2
    assert patches_of(loaded) is not None
    page = page_of(loaded, tmp_path)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert len(page.scripts) == 3
    assert not re.search(r"\bnan\b|\binf\b", page.text)
    assert page.text.count(HOSTILE) > 8
