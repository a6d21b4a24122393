"""Advice, and the sections that show its numbers: each sentence comes from a number that stands below it."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from report_audits import every_reason, made_gate, made_leakage, made_patches
from report_pages import HOSTILE, TAGS, Page

from roadworthy.evaluation import Result, load_result
from roadworthy.report import report, verdict
from roadworthy.report.advice import advise
from roadworthy.report.audits import LeakVerdict, gate_of, leakage_of, patches_of
from roadworthy.report.beside import road_agreement
from roadworthy.report.findings import Findings
from roadworthy.report.leaks import why
from roadworthy.report.printed import printed_ranking

Make = Callable[..., Result]
MASK = "46\u00a0% at 30\u00a0% removed (MoRF), chance 10\u00a0%, random masks 11\u00a0%"
GIVEN = f"the mask alone gives the class away: {MASK}"
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


def test_where_the_models_answer_is_explained_nothing_is_said_to_be_right(leaky: Result) -> None:
    leaky.scores = replace(leaky.scores, predicted=leaky.scores.targets)
    text = said(leaky, "The mean fill").replace("\xa0", " ")
    assert "the mask alone tells the model's answer for 81 % (chance 10 %)): do not use" in text


def test_a_leak_is_told_in_points_with_what_to_use_instead(leaky: Result, tmp_path: Path) -> None:
    rho = leaky.agreement().spearman_mean
    assert said(leaky, "The mean fill") == (
        "The mean fill leaks 71 of 84 points through the mask (percentage points above chance; ig by MoRF at "
        "30\u00a0%: the mask alone is right for 81\u00a0% (chance 10\u00a0%), the model for 94\u00a0%): do not use "
        f"ROAR with it here; ROAD with noisy-linear agrees in both orders (mean Spearman {rho:.2f})."
    )
    assert said(leaky, "No leak was found") == (
        "No leak was found behind the noisy-linear fill (5 methods audited): the audit's small classifier found "
        "none, which does not say that a larger network would not."
    )
    page = page_of(leaky, tmp_path)
    assert "A small classifier that sees only where units were removed" in page.text
    assert "it for 94\u00a0%: 84 percentage points above chance" in page.text
    (row, *_) = rows_after(page, "method", "order", "removed")
    assert row[:4] + row[-1:] == ["ig", "MoRF", "30\u00a0%", "81\u00a0%", "71"]
    verdicts = {row[0].removesuffix(" control"): row[1:] for row in rows_after(page, "method", "mean fill")[:5]}
    numbers = "81\u00a0% at 30\u00a0% removed (MoRF), chance 10\u00a0%, random masks 10\u00a0%"
    given = f"the mask alone gives the class away: {numbers}"
    assert verdicts["ig"] == [
        f"leaks{given}; mean fill shows the mask: error 0.03 against 0.30",
        f"does not leak{given}; but noisy-linear fill hides the mask: error 0.03 against 0.30",
    ]
    fills = rows_after(page, "fill", "removed")[:2]
    assert [[row[0], row[-1]] for row in fills] == [["mean", "90\u00a0%"], ["noisy-linear", "10\u00a0%"]]
    assert "Masks that leak1 of 10" in page.text


def test_fills_of_which_the_same_is_said_are_named_together(leaky: Result) -> None:
    leaky.audit["leakage"] = made_leakage(
        leaky, ["mean", "zero", "noisy-linear", "blur"], {"ig": 0.81}, hidden=["blur"]
    )
    assert said(leaky, "The mean, zero and noisy-linear fills leak 71 of 84 points through the mask (percentage")
    assert ": do not use ROAR with them here; ROAD with" in said(leaky, "The mean, zero and noisy-linear")
    leaky.audit["leakage"] = made_leakage(leaky, ["mean", "blur"], unsure=["ig", "grad"])
    assert said(
        leaky, "Whether the mean and blur fills leak the masks of ig and grad cannot be told: audit thoroughly"
    )
    leaky.audit["leakage"] = made_leakage(leaky, ["mean", "blur"])
    assert said(leaky, "No leak was found behind the mean and blur fills (5 methods audited): the audit's small")


@pytest.mark.parametrize(("accuracy", "points"), [(0.93, True), (0.94, False), (0.97, False)])
def test_a_mask_that_tells_as_much_as_the_model_has_no_points(accuracy: float, points: bool, leaky: Result) -> None:
    leaky.audit["leakage"] = made_leakage(leaky, ["mean"], {"ig": accuracy})
    text = said(leaky, "The mean fill leaks")
    assert ("leaks 83 of 84 points through the mask (percentage points above chance; ig by" in text) == points
    assert ("leaks as much as the model itself can do through the mask (ig by MoRF at 30" in text) != points
    assert f"the mask alone is right for {100 * accuracy:.0f}\u00a0% (chance 10\u00a0%), the model for 94" in text


def test_a_leak_names_the_mask_that_its_verdict_rests_on(leaky: Result) -> None:
    leakage = leaky.audit["leakage"]
    row = next(row for row in leakage["masks"] if (row["order"], row["fraction"]) == ("lerf", 0.5))
    row["accuracy"] = 0.46  # MoRF at 30 % tells more, but there the fill hides the mask
    verdict_ = next(row for row in leakage["verdicts"] if row["verdict"] == "leaks")
    verdict_ |= {"order": "lerf", "fraction": 0.5}
    assert "leaks 36 of 84 points through the mask (percentage points above chance; ig by LeRF at 50" in said(
        leaky, "The mean fill"
    )
    leaky.settings["views"] = [{"judge": "untouched", "imputer": "mean"}]
    assert "(ig by LeRF at 50\u00a0%: the mask alone is right for 46\u00a0%" in verdict(leaky).trust


def test_without_retraining_a_leak_takes_no_trust_away_but_is_told(leaky: Result) -> None:
    leaky.settings["views"] = [{"judge": "untouched", "imputer": "mean"}]
    found = verdict(leaky)
    assert found.level == "good"
    assert found.trust.endswith(
        "; masks of ig give the class away behind the mean fill (ig by MoRF at 30\u00a0%: the mask alone is right "
        "for 81\u00a0% (chance 10\u00a0%), the model for 94\u00a0%), which misleads where networks are trained on "
        "them, not here."
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
        ({"ig": 0.81}, ["grad"], "little", "masks of ig give the class away behind the mean fill (ig by MoRF at 30"),
    ],
    ids=["clean", "cannot tell", "leaks"],
)
def test_retraining_is_trusted_as_far_as_its_masks(
    leaks: dict, unsure: list, level: str, said_of_it: str, make_retrained: Make
) -> None:
    result = make_retrained(PLANTED)
    result.audit["leakage"] = made_leakage(result, ["mean"], leaks, unsure=unsure)
    found = verdict(result)
    assert (found.level, said_of_it in every_reason(result)) == (level, True), found.trust
    assert (said_of_it in found.trust) == (level != "good")
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
        "Do not read KAR of leak: with 12\u00a0% of the pixels kept and the mean fill for the others, networks "
        "trained on its masks are right for 96\u00a0%, a judge blind to masks for 40\u00a0% on the same pixels (on "
        "random masks they are ahead of it by 0.02)."
    )
    assert said(result, "Read KAR of grad with care, or run the gate on more test samples: with 12").endswith(
        ", a gap that may be as wide as 0.12 beyond random masks."
    )
    assert "whether retrained networks read the class off the masks of grad the gate cannot tell" in found.trust
    page = page_of(result, tmp_path)
    shown = {row[1]: row for row in rows_after(page, "rank", "method")[:6]}
    assert shown["leak"][0] == shown["leak"][3] == shown["leak"][4] == "–"
    assert shown["ig"][0] == "1"
    assert "the same pixels, all others replaced by the mean fill." in page.text
    assert page.text.count("a judge that is weak on every mask is behind too") == 1
    gates = {(row[0], row[1]): row[-1] for row in rows_after(page, "method", "kept")[:12]}
    assert gates["leak", "12\u00a0%"] == "withheld"
    assert gates["grad", "12\u00a0%"] == "cannot tell"
    assert gates["ig", "12\u00a0%"] == "passes"
    trap = next(row for row in page.rows if row[0] == "retraining without a gate")
    assert trap[1:] == [
        "cannot tell",
        "the gate was run; KAR of leak is withheld; of grad it cannot tell, for want of test samples",
    ]


def test_what_is_withheld_is_printed_nowhere(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained({"leak": 1.7} | PLANTED)
    result.audit["gate"] = made_gate(result, {"leak": 0.54})
    found = Findings.of(result)
    printed = printed_ranking(found).set_index("method")
    held = printed.loc["leak"]
    assert set(held[["rank", "score", "low", "high", "group", "sd", "lerf_area"]]) == {"–"}
    assert held["morf_area"] == pytest.approx(found.row("leak")["morf_area"])
    assert printed["rank"].drop("leak").tolist() == ["1", "2", "3", "4", "5"]
    assert printed.loc["ig", "score"] == found.row("ig")["score"]
    page = page_of(result, tmp_path)
    road = {row[0].removesuffix(" control"): row[1:] for row in rows_after(page, "method", "rank, ROAR and KAR")[:6]}
    assert road["leak"][:2] == ["–", "–"]
    assert road["leak"][2] == "1"
    assert road["ig"][0] == "1"
    assert road_agreement(found)[2] == 5
    files = {
        known["download"]: pd.read_csv(io.BytesIO(base64.b64decode(known["href"].partition("base64,")[2])))
        for _, known in page.tags
        if "download" in known
    }
    row = files["ranking.csv"].set_index("method").loc["leak"]
    assert row[["rank", "score", "low", "high", "group", "sd", "lerf_area"]].isna().all()
    assert row["withheld"].endswith("the mask itself adds 0.54 (0.51 to 0.57)")
    pairs = files["pairwise.csv"]
    assert pairs.loc[(pairs[["method", "other"]] == "leak").any(axis=1), "difference"].isna().all()
    assert pairs["difference"].notna().sum() == 10


def test_a_gap_of_which_nothing_is_known_does_not_pass(make_retrained: Make) -> None:
    result = make_retrained(PLANTED)
    for row in result.audit["gate"]:
        row |= {"beyond_high": None} if row["method"] == "grad" else {}
    assert list(Findings.of(result).gate_open) == ["grad"]
    assert verdict(result).level == "care"
    assert said(result, "Read KAR of grad with care").endswith("ahead of it by 0.02).")


def test_roar_alone_has_no_gate(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(PLANTED, orders=["morf"])
    trap = next(row for row in page_of(result, tmp_path).rows if row[0] == "retraining without a gate")
    assert trap[1:] == ["not looked for", "no gate was run for ROAR in MoRF order; the masks were audited"]


def test_a_gate_says_nothing_where_kar_was_not_run(make_retrained: Make, make_result: Make) -> None:
    result = make_retrained(PLANTED, orders=["morf"])
    result.audit["gate"] = made_gate(result, {"ig": 0.5})
    assert not Findings.of(result).gated
    plain = make_result(PLANTED)
    plain.audit = {"gate": made_gate(plain, {"ig": 0.5})}
    assert not Findings.of(plain).gated


@pytest.mark.parametrize("held", [["ig", "grad", "random", "sobel", "inverse:ig"], ["ig", "grad", "random", "sobel"]])
def test_no_ranking_where_the_gate_leaves_less_than_two(held: list, make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(PLANTED)
    result.audit["gate"] = made_gate(result, dict.fromkeys(held, 0.3))
    found = verdict(result)
    assert found.leads.startswith(
        f"No ranking: KAR of every {'method' if len(held) == 5 else 'other method'} is withheld"
    )
    assert found.leaders == ()
    assert set(printed_ranking(Findings.of(result))["rank"]) == {"–"}
    page = page_of(result, tmp_path)
    assert {row[0] for row in rows_after(page, "rank", "method")[:5]} == {"–"}
    assert "Pairs told apart–fewer than two methods count" in page.text
    assert "0 of 0" not in page.text
    assert "chance alone" not in found.trust
    assert not said(result, "Take more")


def test_what_is_not_told_apart_needs_more_of_what_was_counted(make_result: Make, make_retrained: Make) -> None:
    alike = dict.fromkeys(["a", "b", "random"], 0.0)
    for repeats, count in ((1, "1 training"), (3, "3 trainings")):
        result = make_retrained(alike, repeats=repeats, spread=0.0, jitter=0.0)
        assert said(result, "Take more") == (
            f"Take more repeats than {count} of each point, or say that no method was shown to be better."
        )
    assert said(make_result(alike), "Take more").startswith("Take more than 300 samples")


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
        ({"grad": 0.5, "ig": 1.0, "random": 0.0, "sobel": 1.1}, "control inverse:ig"),
        ({"ig": 1.0, "grad": 0.5}, "controls random, sobel and inverse:ig"),
        ({"random": 0.0, "sobel": 0.1}, ""),
    ],
)
def test_missing_controls_are_named(methods: dict, missing: str, make_result: Make) -> None:
    found = verdict(make_result(methods))
    assert "missing" not in found.trust
    asked = [piece for piece in found.advice if "control" in piece and piece.startswith("Add")]
    assert asked == ([f"Add the {missing} to see what the scores are worth."] if missing else [])


def test_edges_are_asked_for_of_pictures_only(make_result: Make) -> None:
    table = make_result({"ig": 1.0, "random": 0.0}, samples=0)
    table.settings["imputer"] = "mean"
    assert said(table, "Add the control inverse:ig to see")


def test_an_audit_from_a_file_may_hold_anything(make_result: Make, tmp_path: Path) -> None:
    result = make_result({HOSTILE: 1.0, "b": 0.5, "random": 0.0}, n=60, samples=1)
    audit = made_leakage(result, [HOSTILE], {HOSTILE: 0.9})
    audit["masks"] += [{"method": HOSTILE, "order": HOSTILE, "accuracy": "high"}, 3, None]
    audit["verdicts"] += [{"imputer": HOSTILE, "method": "c", "verdict": HOSTILE, "ground": [HOSTILE]}, "x"]
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
    assert len(page.scripts) == 6
    assert not re.search(r"\bnan\b|\binf\b", page.text)
    assert page.text.count(HOSTILE) > 8


@pytest.mark.parametrize(
    ("ground", "text"),
    [
        ("unfit", "a note"),
        ("shown", f"{GIVEN}; mean fill shows the mask: error 0.02 against 0.30"),
        ("partly shown", f"{GIVEN}; mean fill shows part of the mask: error 0.02 against 0.30"),
        ("hidden", f"{GIVEN}; but mean fill hides the mask: error 0.02 against 0.30"),
        ("not known", f"{GIVEN}; how far the mean fill shows the mask is not known: a note"),
        ("few samples", f"only 2.0 samples a class; {MASK}"),
        ("wide", f"{MASK}; it may be up to 12 points above, with more samples or effort it may show"),
        ("no mask", f"no mask tells over 8 points more than guessing: {MASK}"),
        ("something newer", ""),
    ],
)
def test_what_a_verdict_on_masks_rests_on_in_words(ground: str, text: str) -> None:
    row = LeakVerdict(
        "mean", "ig", "leaks", ground, "a note", "morf", 0.3, 0.46, 0.11, 0.1, 0.12, 0.08, 0.02, 0.3, 2.0
    )
    assert why(row) == text


def test_numbers_of_a_verdict_that_are_not_there_are_dashes() -> None:
    audited: Any = SimpleNamespace(audit={"leakage": {"verdicts": [{"ground": "wide", "above": None}]}})
    (row,) = leakage_of(audited).verdicts
    assert "up to – points above" in why(row)
