"""The table: every cell, whom to believe, and files that say the same."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from roadworthy.evaluation.selftest import SelfTest, Trial


def found() -> SelfTest:
    """Return two strategies, of which the second reverses a ladder."""
    trials = [
        Trial("M1", "gain", 0.98, "mean at least 0.97", True, "", 300, (0, 1)),
        Trial("M3a ig", "gain", 1.0, "mean at least 0.9", True, "", 300, (0, 1)),
        Trial("M15 ig", "gain", 75.0, "at most 300 images", True, "", 300, (0, 1)),
        Trial("M5 ig", "gain", 0.04, "no verdict", None, "", 300, (0, 1)),
        Trial("M6", "gain", 0.01, "within 0.03 of 0", None, "+0.01 +- 0.05", 300, (0, 1)),
        Trial("M1", "morf | x", 0.99, "mean at least 0.97", True, "", 300, (0, 1)),
        Trial("M3a ig", "morf | x", -0.66, "mean at least 0.9", False, "", 300, (0, 1)),
        Trial("M15 ig", "morf | x", float("nan"), "at most 300 images", False, "", 300, (0, 1)),
    ]
    return SelfTest(trials, ["gain", "morf | x"], "quick", (0, 1), "planted", ["gradcam: left out"], 3.2)


def test_the_strategy_that_fails_least_is_believed_then_the_one_with_the_best_order() -> None:
    assert found().standing() == [("gain", 0, 0.99), ("morf | x", 2, (0.99 - 0.66) / 2)]
    assert found().believed == "gain"
    assert found().verdict().startswith("Believe 'gain' here: it passes 3 of 3 tests; mean rank correlation")
    even = SelfTest(
        [Trial("M1", "a", 0.97, "", True), Trial("M1", "b", 0.98, "", True), Trial("M4", "b", 1, "", True)],
        ["a", "b"],
        "quick",
        (0,),
        "planted",
    )
    assert even.believed == "b"


def test_an_undefined_order_counts_as_none_and_a_failure_is_named() -> None:
    only = SelfTest(
        [Trial("M3a", "x", float("nan"), "", False), Trial("M4", "x", 1, "", True)], ["x"], "quick", (0,), "p"
    )
    assert only.standing() == [("x", 1, 0.0)]
    assert "passes 1 of 2 tests, failing M3a" in only.verdict()
    none = SelfTest([Trial("M7", "x", 0.5, "", None)], ["x"], "quick", (0,), "p")
    assert none.verdict().startswith("No meta-test could be held")


def test_the_text_marks_what_failed_and_explains_the_tests() -> None:
    text = found().to_text()
    lines = text.splitlines()
    assert lines[0].split() == ["strategy", "M1", "M6", "M3a", "ig", "M5", "ig", "M15", "ig", "failed"]
    assert lines[1].split() == ["gain", "0.980", "0.010?", "1.000", "0.040", "75", "0"]
    assert lines[2].split() == ["morf", "|", "x", "0.990", "–", "-0.660!", "–", "undefined!", "2"]
    assert "M3a ig: permuted ladder in its order (Spearman); mean at least 0.9" in lines
    assert "gradcam: left out" in lines


def test_markdown_sets_failures_off_and_keeps_its_columns() -> None:
    rows = [line for line in found().to_markdown().splitlines() if line.startswith("|")]
    assert "**-0.660 ✗**" in rows[3]
    assert {row.replace("\\|", "").count("|") for row in rows} == {8}


def test_files_hold_every_trial(tmp_path: Path) -> None:
    written = found().save(tmp_path / "new")
    assert set(written) == {"csv", "json", "md", "txt"}
    rows = list(csv.DictReader(io.StringIO(written["csv"].read_text())))
    assert [row["measured"] for row in rows][-1] == ""
    assert rows[0]["seeds"] == "0 1"
    read = json.loads(written["json"].read_text())
    assert read["trials"][6]["measured"] == -0.66
    assert read["trials"][7]["measured"] is None
    assert read["verdict"] == found().verdict()


def test_strategies_with_tests_of_their_own_kind_are_shown_and_not_believed() -> None:
    held = [Trial("M1", "gain", 0.9, "", False), Trial("M10", "kar", 1.0, "", True), Trial("M2", "gain", 1, "", True)]
    both = SelfTest(held, ["gain"], "full", (0,), "planted")
    assert both.believed == "gain"
    assert both.strategies == ["gain", "kar"]
    assert both.ids == ["M1", "M2", "M10"]
    assert both.to_text().splitlines()[2].split() == ["kar", "–", "–", "1.000", "0"]


def test_a_share_of_pairs_is_no_correlation() -> None:
    trials = [
        Trial("M1", "road", 0.9, "", True, "", 10, (0,)),
        Trial("M1 pairs", "road", 1.0, "", True, "", 10, (0,)),
        Trial("M3a ig", "road", 0.8, "", True, "", 10, (0,)),
    ]
    table = SelfTest(trials, ["road"], "quick", (0,), "planted")
    assert table.standing() == [("road", 0, (0.9 + 0.8) / 2)]
