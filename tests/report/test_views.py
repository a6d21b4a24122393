"""Several judges and fills: ranks side by side, where they contradict each other, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from report_audits import every_reason
from report_pages import HOSTILE, TAGS, Page

from roadworthy.evaluation import Result
from roadworthy.markup import escape
from roadworthy.report import chart, report, verdict
from roadworthy.report.chart import chart_data, switches
from roadworthy.report.findings import Findings
from roadworthy.report.material import Material
from roadworthy.report.sheet import sheet_section

Make = Callable[..., Result]
ONE = {"ig": 1.6, "grad": 0.8, "cam": 0.3, "random": 0.0, "sobel": 0.1, "inverse:ig": -1.6}
OTHER = ONE | {"grad": 0.3, "cam": 0.9}
FLIPPED = ONE | {"ig": 0.6, "grad": 1.6}


def page_of(result: Result, folder: Path) -> Page:
    return Page(report(result, folder / "report.html").read_text(encoding="utf8"))


@pytest.fixture(scope="module")
def split(make_views: Make) -> Result:
    return make_views([ONE, ONE, OTHER, OTHER])


def test_a_rank_is_printed_only_where_the_judges_agree(split: Result, tmp_path: Path) -> None:
    found = Findings.of(split)
    assert {frozenset((d.above, d.below)) for d in found.disputes} == {frozenset(("grad", "cam"))}
    (dispute,) = found.disputes
    assert (dispute.above, dispute.below) == ("grad", "cam")
    assert dispute.here == "the untouched judge with mean fill"
    assert dispute.there == "the fine-tuned judge with mean fill"
    assert set(found.withheld) == {"grad", "cam"}
    ranks = {method: found.rank(method) for method in found.methods}
    assert (ranks["ig"], ranks["grad"], ranks["cam"], ranks["inverse:ig"]) == ("1", "–", "–", "6")
    page = page_of(split, tmp_path)
    assert {tag for tag, _ in page.tags} <= TAGS
    start = next(i for i, row in enumerate(page.rows) if row[:2] == ["method", "rank, all"])
    assert page.rows[start][2:] == [
        "untouchedmean",
        "untouchednoisy-linear",
        "fine-tunedmean",
        "fine-tunednoisy-linear",
    ]
    rows = {row[0].removesuffix(" control"): row[1:] for row in page.rows[start + 1 : start + 9]}
    for place in range(4):
        own = split.view(place).ranking().set_index("method")
        for method in split.methods:
            shown = rows[method][1 + place].replace("−", "-")
            assert shown.startswith(f"{own['rank'][method]}{own['score'][method]:.3f}".replace("-0.000", "0.000"))
    assert rows["grad"][0] == rows["cam"][0] == "–"
    assert rows["with nothing removed"][1:] == ["96\u00a0%"] * 4
    rho = [split.view(place).agreement().spearman_mean for place in range(4)]
    assert rows["agreement of the orders"][1:] == [f"{value:.2f}" for value in rho]
    first = next(i for i, row in enumerate(page.rows) if row[:3] == ["rank", "method", "group"])
    assert {row[1]: row[0] for row in page.rows[first + 1 : first + 7]}["grad"] == "–"
    assert "grad is above cam for the untouched judge with mean fill, below for the fine-tuned judge" in page.text
    assert "The mean over 4 judges and fills" in page.text
    assert "Every order, judge and fill against every other" in page.text
    assert "Kendall's W" in page.text


def test_the_agreement_of_views_is_spearmans_of_their_scores(split: Result) -> None:
    found = Findings.of(split)
    scores = [split.view(v).ranking().set_index("method")["score"] for v in range(4)]
    for i in range(4):
        for j in range(4):
            expected = scipy.stats.spearmanr(scores[i][split.methods], scores[j][split.methods]).statistic
            assert found.view_agreement[i, j] == pytest.approx(expected)
    assert found.least_view_agreement == pytest.approx(found.view_agreement[np.triu_indices(4, 1)].min())


def test_what_the_verdict_says_of_judges_that_disagree(split: Result) -> None:
    found = verdict(split)
    assert found.level == "care"
    assert "judges and fills disagree: grad is above cam for the untouched judge with mean fill" in found.trust
    assert "the fine-tuned copy is right for 96\u00a0% with nothing removed" in every_reason(split)
    assert found.leaders == ("ig",)
    assert any(piece.startswith("Give no rank to grad and cam: ") for piece in found.advice)


def test_judges_that_agree_speak_for_a_result(make_views: Make) -> None:
    result = make_views([ONE] * 4)
    found = verdict(result)
    assert found.level == "good"
    assert "all judges and fills rank the methods alike (lowest Spearman between two of the 4 1.00)" in found.trust
    assert not Findings.of(result).withheld
    assert not any("Give no rank" in piece for piece in found.advice)


def test_no_leader_where_a_judge_puts_another_above_it(make_views: Make) -> None:
    found = verdict(make_views([ONE, FLIPPED], judges=("untouched", "fine-tuned"), imputers=("mean",)))
    assert found.leaders == ()
    assert found.leads.startswith("No single leader: grad (")
    assert "but for the untouched judge with mean fill ig is above it" in found.leads
    assert not any(piece.startswith(("Prefer", "Choose")) for piece in found.advice)


@pytest.mark.parametrize(
    ("accuracy", "level", "tail"),
    [
        (0.9, "good", ""),
        (0.8, "care", ", the model for 96\u00a0%"),
        (0.4, "little", ", the model for 96\u00a0%"),
        (0.1, "little", ", the model for 96\u00a0%, not clearly above chance"),
    ],
)
def test_a_fine_tuned_judge_that_is_worse_lowers_the_trust(
    accuracy: float, level: str, tail: str, make_views: Make
) -> None:
    result = make_views([ONE, ONE], imputers=("mean",))
    result.scores.top1[:, :, 0, 1] = np.arange(result.n) < accuracy * result.n
    found = verdict(result)
    assert found.level == level
    text = f"the fine-tuned copy is right for {100 * accuracy:.0f}\u00a0% with nothing removed{tail}"
    assert text in every_reason(result).split("; ")
    assert (text in found.trust.partition(", although ")[0]) == (level != "good")


def test_a_judge_that_is_dead_is_told_first_and_counts_in_no_agreement(make_views: Make, tmp_path: Path) -> None:
    result = make_views([ONE, ONE, ONE, OTHER])
    for place in (2, 3):
        result.scores.top1[:, :, 1:, place] = np.arange(result.n) < 0.3 * result.n
    found = Findings.of(result)
    assert [view.label for view in found.live_views] == [
        "the untouched judge with mean fill",
        "the untouched judge with noisy-linear fill",
    ]
    assert verdict(result).trust.startswith(
        "Trust this little: the fine-tuned judge with mean fill and the fine-tuned judge with noisy-linear fill give "
        "every method the same score everywhere, and are left out of the mean"
    )
    assert "(Spearman 1.00)" in every_reason(result)
    page = page_of(result, tmp_path)
    assert "2 judges and fills agree" in page.text
    ranks = next(row for row in page.rows if row[0] == "ig" and len(row) == 6)
    assert [cell[0] for cell in ranks[2:]] == ["1", "1", "–", "–"]
    matrix = next(row for row in page.rows if row[0] == "judge, fill")
    assert matrix == ["judge, fill", "untouchedmean", "untouchednoisy-linear"]
    trap = next(row for row in page.rows if row[0] == "one judge, one fill")
    assert trap[1:] == ["not found", "2 judges and fills rank no pair against each other"]
    first = page.text.index("Each judge and fill by itself", page.text.index("Ranking"))
    assert page.text.index("the fine-tuned judge with mean fill gives every method", first) < page.text.index(
        "The score is the mean over 2 of 4 judges and fills.", first
    )
    assert page.text.count("counts in no agreement and not in the mean") == 2
    assert (
        "the mean over 2 of 4 judges and fills (the fine-tuned judge with mean fill and the fine-tuned judge with "
        "noisy-linear fill left out: every method has the same score there)"
    ) in page.text
    assert "The mean over 2 of 4 judges and fills, each of which" in page.text
    live = make_views([ONE, ONE], judges=("untouched",))
    assert found.ranking["score"].tolist() == live.ranking()["score"].tolist()


def test_where_all_judges_are_dead_all_count(make_views: Make, tmp_path: Path) -> None:
    result = make_views([ONE, ONE], imputers=("mean",))
    result.scores.top1[:, :, 1:] = np.arange(result.n) < 0.3 * result.n
    found = Findings.of(result)
    assert (found.live_views, found.mean_of) == ([], "2 judges")
    assert (found.ranking["score"] == 0).all()
    assert "left out of the mean" not in verdict(result).trust
    page = page_of(result, tmp_path)
    assert "and not in the mean" not in page.text
    assert "left out: every method" not in page.text


def test_one_live_judge_is_one_judge(make_views: Make, tmp_path: Path) -> None:
    result = make_views([ONE, ONE], imputers=("mean",))
    result.scores.top1[:, :, 1:, 1] = np.arange(result.n) < 0.3 * result.n
    page = page_of(result, tmp_path)
    trap = next(row for row in page.rows if row[0] == "one judge, one fill")
    assert trap[1:] == ["found", "2 judges were asked, of which 1 ranks the methods at all"]
    assert "between two of" not in every_reason(result)


def test_two_controls_may_be_ranked_either_way(make_views: Make) -> None:
    one = {"ig": 1.6, "random": 0.0, "sobel": 0.8, "center": 0.3}
    result = make_views([one, one | {"sobel": 0.3, "center": 0.8}], imputers=("mean",))
    assert not Findings.of(result).withheld


def test_one_view_has_no_section(make_result: Make, tmp_path: Path) -> None:
    result = make_result({"ig": 1.0, "random": 0.0}, n=60, samples=0)
    assert not Findings.of(result).views
    assert "Each judge and fill by itself" not in page_of(result, tmp_path).text


def test_names_of_views_are_no_markup(make_views: Make, tmp_path: Path) -> None:
    planted = [{HOSTILE: 1.0, "b": 0.2}, {HOSTILE: 0.2, "b": 1.0}]
    page = page_of(make_views(planted, judges=("untouched", HOSTILE), imputers=(HOSTILE,), n=100), tmp_path)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert len(page.scripts) == 6
    assert page.text.count(HOSTILE) > 8


def test_the_curves_of_each_view_are_in_the_page(make_views: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    result = make_views([ONE, FLIPPED], judges=["untouched"], n=60)
    material = Material.of(result)
    data = chart_data(material)
    assert [view["label"] for view in data["views"]] == [
        "mean over 2 fills",
        "the untouched judge with mean fill",
        "the untouched judge with noisy-linear fill",
    ]
    for place in range(2):
        for readout in ("top1", "probability"):
            frame = result.view(place).curves(readout)
            drawn = np.array(data["readouts"][readout]["views"][place]["value"])
            assert drawn.ravel() == pytest.approx(frame["value"].to_numpy(), rel=1e-5)
    assert switches(material).count('name="view"') == 3
    monkeypatch.setattr(chart, "VIEWS_BYTES", 7_000)
    data = chart_data(material)
    assert {key: len(found["views"]) for key, found in data["readouts"].items() if found["views"]} == {"top1": 2}
    monkeypatch.setattr(chart, "VIEWS_BYTES", 10)
    assert chart_data(material)["views"] == []
    assert 'name="view"' not in switches(material)


def test_pictures_say_whose_they_are(make_views: Make, make_result: Make) -> None:
    result = make_views([ONE, FLIPPED], imputers=[HOSTILE], n=20)
    one = make_result(ONE, n=20)
    assert one.sheet is not None
    html = sheet_section(result, one.sheet)
    assert f"Pictures are of the untouched judge with {escape(HOSTILE)} fill." in html
    assert "Pictures are of" not in sheet_section(one, one.sheet)


def test_one_view_or_order_has_no_switch(make_result: Make) -> None:
    both, one = (
        switches(Material.of(make_result({"ig": 1.0}, n=20, orders=o))) for o in (["morf", "lerf"], ["lerf"])
    )
    assert both.count('name="order"') == 3
    assert 'name="order"' not in one
    assert 'name="view"' not in both + one
