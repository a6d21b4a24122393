"""Each trap on a result that is in it, and on one that is not; Fid+ and Fid- with their power."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from report_pages import Page

from roadworthy.evaluation import Result
from roadworthy.evaluation.audit.gate_rule import gate_verdict
from roadworthy.report import report, verdict
from roadworthy.report.fidelity import fidelities
from roadworthy.report.findings import Findings
from roadworthy.report.traps import smoothness_effect, traps

Make = Callable[..., Result]
PLANTED = {"ig": 1.6, "grad": 0.8, "cam": 0.5, "gb": 0.3, "random": 0.0, "sobel": 0.1, "inverse:ig": -1.6}


def state(result: Result, name: str) -> tuple[str, str]:
    trap = next(trap for trap in traps(Findings.of(result)) if trap.name == name)
    return trap.state, trap.text


@pytest.fixture
def clean(make_result: Make) -> Result:
    result = make_result(PLANTED)
    result.method_info["constant_maps"] = 0
    return result


def test_a_clean_result_is_in_no_trap(clean: Result) -> None:
    assert not [trap.name for trap in traps(Findings.of(clean)) if trap.state == "found"]


def test_constant_maps(clean: Result) -> None:
    clean.method_info.loc[1, "constant_maps"] = 12
    found, text = state(clean, "constant or empty maps")
    assert (found, "grad 12 of 300" in text) == ("found", True)
    clean.method_info.loc[1, "constant_maps"] = 300
    assert "yet grad scores above random maps: do not believe it" in state(clean, "constant or empty maps")[1]
    assert any("Mend or leave out grad" in piece for piece in verdict(clean).advice)
    del clean.method_info["constant_maps"]
    assert state(clean, "constant or empty maps")[0] == "not looked for"


def test_the_control_constant_is_constant_by_design(make_result: Make) -> None:
    result = make_result({"ig": 1.0, "constant": 0.0})
    result.method_info["constant_maps"] = [0, 300]
    assert state(result, "constant or empty maps")[0] == "not found"


def test_empty_maps_that_leave_most_units_tied(clean: Result) -> None:
    clean.method_info.loc[2, "tied_share"] = 0.94
    assert state(clean, "maps that leave most units tied") == (
        "found",
        "tied units of cam 94\u00a0%: a draw orders them, so only the rest was measured",
    )


def test_one_order_alone(make_result: Make) -> None:
    assert state(make_result(PLANTED, orders=["morf"]), "one order alone")[0] == "found"
    assert state(make_result(PLANTED), "one order alone")[0] == "not found"


@pytest.mark.parametrize(("smooth", "found"), [((0.9, 0.7, 0.5, 0.1), "found"), ((0.1, 0.7, 0.9, 0.5), "not found")])
def test_a_liking_for_smooth_maps(smooth: tuple, found: str, clean: Result, tmp_path: Path) -> None:
    assert state(clean, "a liking for smooth maps")[0] == "not looked for"
    clean.method_info["smoothness"] = [*smooth, 0.0, None, 0.4]
    effect = smoothness_effect(Findings.of(clean))
    assert effect is not None
    assert effect == pytest.approx((1.0 if found == "found" else -0.4, 4))
    assert state(clean, "a liking for smooth maps")[0] == found
    page = Page(report(clean, tmp_path / "x.html").read_text(encoding="utf8"))
    start = next(i for i, row in enumerate(page.rows) if row[:2] == ["rank", "method"])
    assert page.rows[start][-1] == "smoothness"
    shown = {row[1].removesuffix(" control"): row[-1] for row in page.rows[start + 1 : start + 8]}
    assert (shown["ig"], shown["sobel"]) == (f"{smooth[0]:.2f}", "–")


def test_too_little_power(make_result: Make) -> None:
    assert state(make_result(PLANTED, n=60), "too little power")[0] == "found"
    assert state(make_result(dict.fromkeys(PLANTED, 0.0)), "too little power")[0] == "found"


def fidelity_of(result: Result, *, alpha: float = 0.5, beta: float = 0.1) -> Result:
    view = {"judge": "fine-tuned", "imputer": "mean"}
    result.settings |= {"strategy": "f-fidelity", "alpha": alpha, "beta": beta, "views": [view], "labels": "given"}
    return result


def test_fid_plus_and_minus_are_what_is_lost(make_result: Make, tmp_path: Path) -> None:
    result = fidelity_of(make_result(PLANTED))
    plus, minus = fidelities(Findings.of(result))
    top1 = result.scores.top1.astype(float)
    for part, place in ((plus, 0), (minus, 1)):
        lost = top1[:, place, 0].mean(axis=(1, 2)) - top1[:, place, 1:].mean(axis=(1, 2, 3))
        assert np.allclose(part.loss, lost)
        assert ((part.low <= part.loss) & (part.loss <= part.high)).all()
        assert part.weakness == ""
    page = Page(report(result, tmp_path / "x.html").read_text(encoding="utf8"))
    start = next(i for i, row in enumerate(page.rows) if row[:2] == ["method", "Fid+"])
    assert page.rows[start + 1][:2] == ["ig", f"{plus.loss[0]:.3f}"]
    assert "Both tell methods apart" in page.text
    assert (
        "each is removed with probability 0.5, or with less where that would take more than 0.1 of all" in page.text
    )
    assert "the intact accuracy of the fine-tuned copy is 96" in verdict(result).trust


@pytest.mark.parametrize(("share", "level"), [(0.95, "good"), (0.8, "care"), (0.4, "little")])
def test_a_copy_that_is_worse_than_the_model_is_a_reason_against(share: float, level: str, make_result: Make) -> None:
    result = fidelity_of(make_result(PLANTED))
    rank = np.argsort(np.argsort(result.scores.probability[0, 0, 0, 0]))
    result.scores.top1[:, :, 0] = rank < share * 0.96 * result.n
    found = verdict(result)
    assert found.level == level
    against, _, _ = found.trust.partition(", although ")
    assert ("that of the model 96\u00a0%" in against) == (level != "good")


def test_few_values_lack_power(make_result: Make) -> None:
    result = fidelity_of(make_result(PLANTED))
    result.scores.top1[1:, 1, 1:] = result.scores.top1[1:, 1, :1]
    assert fidelities(Findings.of(result))[1].weakness == "Fid− takes 2 different values over 7 methods"
    assert state(result, "too little power") == ("found", "Fid− takes 2 different values over 7 methods")
    assert any(
        "Take more samples, the readout probability or a larger beta" in piece for piece in verdict(result).advice
    )


def test_intervals_wider_than_the_range_lack_power(make_result: Make) -> None:
    result = fidelity_of(make_result({"a": 1.0, "b": 1.01, "c": 1.02}, n=40, jitter=0.6))
    plus = fidelities(Findings.of(result))[0]
    assert plus.width > plus.span > 0
    needed = int(np.ceil(40 * (plus.width / plus.span) ** 2))
    assert f"than its whole range ({plus.span:.3f}; with about " in plus.weakness
    assert f"{needed:,}".replace(",", "\u202f") in plus.weakness


def test_other_evaluations_have_no_fid(make_result: Make, tmp_path: Path) -> None:
    result = make_result(PLANTED, n=60, samples=0)
    result.settings |= {"alpha": 1.0, "beta": 1.0}
    assert fidelities(Findings.of(result)) == []
    assert "Fid+" not in Page(report(result, tmp_path / "x.html").read_text(encoding="utf8")).text


def test_an_unknown_gap_hides_no_known_one() -> None:
    known = {"method": "a", "keep": 0.06, "kar": 0.9, "judge": 0.4, "gap": 0.5, "control": 0.0}
    known |= {"beyond": 0.5, "beyond_low": 0.4, "beyond_high": 0.6}
    unknown = known | {"beyond": float("nan"), "beyond_high": float("nan")}
    passing = known | {"beyond": 0.0, "beyond_high": 0.01}
    for rows, verdict_ in (([unknown, known], "withheld"), ([passing, unknown], "cannot tell")):
        assert [each["verdict"] for each in gate_verdict(rows)] == [verdict_]
        assert [each["verdict"] for each in gate_verdict(rows[::-1])] == [verdict_]
