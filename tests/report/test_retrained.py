"""The page, the figures and the verdict of a retrained evaluation: new models, trainings, costs, ROAD beside."""

from __future__ import annotations

import base64
import csv
import io
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from test_page import HOSTILE, TAGS, Page

from roadworthy.evaluation import Result, load_result
from roadworthy.report import curves_figure, report, verdict
from roadworthy.report.findings import Findings, failed_trainings, road_agreement
from roadworthy.statistics import least_difference

Make = Callable[..., Result]


def page_of(result: Result, folder: Path) -> Page:
    return Page(report(result, folder / "report.html").read_text(encoding="utf8"))


def section(page: Page, heading: str) -> int:
    return next(i for i, row in enumerate(page.rows) if row[: len(heading.split("|"))] == heading.split("|"))


@pytest.fixture(scope="module")
def five(make_retrained: Make, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Page]:
    result = make_retrained()
    return result, page_of(result, tmp_path_factory.mktemp("five"))


def test_the_words_are_those_of_retraining(five: tuple[Result, Page]) -> None:
    result, page = five
    for said in (
        "5 trainings of each point",
        "ROAR (most relevant removed, MoRF) and KAR (least relevant removed, LeRF)",
        "What a newly trained model can still reach",
        "Bands are 95\u00a0% t-intervals over 5 trainings",
        "95\u00a0% t-interval over 5 trainings. Methods",
        "Unmodified training",
        "Masks can give the class away",
        "ROAR alone can be reversed",
        "KAR axis as share kept (as in the ROAR paper)",
        "ROAR area",
        "AOC is the area over the curve of ROAR: the mean loss against the unmodified training, higher is better.",
    ):
        assert said in page.text, said
    for wrong in ("bootstrap", "What the model can still do", "asks the model again"):
        assert wrong not in page.text, wrong
    assert {tag for tag, _ in page.tags} <= TAGS
    data = json.loads(page.scripts[0][1])
    assert [order["title"][:4] for order in data["orders"]] == ["ROAR", "KAR:"]
    assert [order["better"] for order in data["orders"]] == ["lower is better", "higher is better"]
    assert "random" in [method["name"] for method in data["methods"]]
    titles = [axes.get_title() for axes in curves_figure(result).axes]
    assert titles == ["ROAR: most relevant removed, MoRF", "KAR: least relevant removed, LeRF"]


def test_an_evaluation_without_retraining_keeps_its_words(make_result: Make, tmp_path: Path) -> None:
    page = page_of(make_result({"ig": 1.0, "random": 0.0}, n=60), tmp_path)
    for wrong in ("ROAR", "KAR", "training of each", "AOC", "Cost", "What is missing"):
        assert wrong not in page.text, wrong
    assert "bootstrap intervals over 60 samples" in page.text


def test_every_point_is_shown_with_its_spread(five: tuple[Result, Page]) -> None:
    result, page = five
    start = section(page, "method|evaluation|0\u00a0%")
    points = result.over_repeats()
    shown = page.rows[start + 1 : start + 13]
    assert [row[1] for row in shown] == ["ROAR", "KAR"] * 6
    for row, (_, part) in zip(shown, points.groupby(["method", "order"], sort=False), strict=True):
        for cell, point in zip(row[2:], part.itertuples(), strict=True):
            expected = f"{point.mean:.3f} ± {point.sd:.3f}{point.low:.3f} to {point.high:.3f}"
            assert cell.replace("−", "-") == expected.replace("-0.000", "0.000")
    assert "mean ± standard deviation over n = 5 trainings, below it the 95\u00a0% t-interval" in page.text


def test_the_cost_is_summed_by_treatment_with_the_ratio(five: tuple[Result, Page]) -> None:
    result, page = five
    start = section(page, "work|pieces|images|wall time")
    rows = {row[0].removesuffix(" control"): row[1:] for row in page.rows[start + 1 : start + 12]}
    assert rows["unmodified"] == ["5", "250\u202f000", "5\u00a0min 0\u00a0s", "1\u00a0min 0\u00a0s"]
    assert rows["ig"][:3] == ["50", "2\u202f500\u202f000", "51\u00a0min 15\u00a0s"]
    assert rows["random"][0] == "25"
    trained = result.cost[result.cost.work == "retrain"]
    assert rows["all trainings"][:2] == [str(len(trained)), f"{trained.images.sum():,}".replace(",", "\u202f")]
    assert rows["attribution maps"][:3] == ["6", "7\u202f800", "1\u00a0min 12\u00a0s"]
    assert rows["ROAD on one model"][1:3] == ["21\u202f600", "9.00\u00a0s"]
    assert rows["everything"][-1] == "–"
    ratio = 100 * 9 / trained.seconds.sum()
    assert f"ROAD / (ROAR and KAR) = {ratio:.2g}\u00a0% of the wall time" in page.text
    assert f"{100 * 21_600 / trained.images.sum():.2g}\u00a0% of the images" in page.text


def test_the_cost_of_road_may_stand_beside(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(repeats=2, n=60)
    result.cost = result.cost[result.cost.work == "retrain"]
    assert "On the same work ROAD took 9.00\u00a0s and scored 21\u202f600 images" in page_of(result, tmp_path).text
    del result.settings["beside"]
    text = page_of(result, tmp_path).text
    assert "On the same work" not in text
    assert "all trainings" in text


def test_road_stands_beside_with_its_agreement(make_retrained: Make, tmp_path: Path) -> None:
    road = {"ig": 0.4, "ig-sg": 0.5, "grad": 0.3, "random": 0.0, "sobel": 0.45, "another": 9.0}
    result = make_retrained(beside=road)
    own = result.ranking().set_index("method")["score"]
    shared = [method for method in own.index if method in road]
    rho = scipy.stats.spearmanr(own[shared], [road[m] for m in shared]).statistic
    tau = scipy.stats.kendalltau(own[shared], [road[m] for m in shared]).statistic
    assert road_agreement(Findings.of(result)) == pytest.approx((rho, tau, 5))
    page = page_of(result, tmp_path)
    assert f"Over 5 methods the rank correlation of the two scores is {rho:.2f} (Spearman) and {tau:.2f}" in page.text
    start = section(page, "method|rank, ROAR and KAR")
    rows = {row[0].removesuffix(" control"): row[1:] for row in page.rows[start + 1 : start + 6]}
    assert [rows[m][2] for m in ("ig-sg", "sobel", "ig", "grad", "random")] == ["1", "2", "3", "4", "5"]
    assert rows["ig"][::3] == ["1", "0.400"]
    assert f"agrees in part (Spearman {rho:.2f})" in verdict(result).trust


def test_what_is_missing_comes_first(make_retrained: Make, tmp_path: Path) -> None:
    lines = [f"{HOSTILE} line {i}" for i in range(15)]
    result = make_retrained(repeats=2, n=60, missing=lines)
    page = page_of(result, tmp_path)
    for line in lines:
        assert line in page.text
    assert {tag for tag, _ in page.tags} <= TAGS
    assert page.text.index("This is what there is so far") < page.text.index("What a newly trained model")
    assert "3 more" in page.text
    assert "the sweep is not complete (what is missing is listed below)" in verdict(result).trust


@pytest.mark.parametrize(
    ("repeats", "level", "said"),
    [
        (1, "little", "one training of each point says nothing about the spread between trainings"),
        (2, "little", "there are only 2 trainings of each point (to be called real, a difference must be 135 times"),
        (3, "care", "there are only 3 trainings of each point (to be called real, a difference must be 9.97 times"),
        (4, "care", "there are only 4 trainings of each point"),
        (5, "good", "there are 5 trainings of each point"),
    ],
)
def test_few_trainings_lower_the_trust(make_retrained: Make, repeats: int, level: str, said: str) -> None:
    result = make_retrained(repeats=repeats)
    found = verdict(result)
    assert (found.level, said in found.trust) == (level, True), found.trust
    assert "the accuracy of the unmodified training is" in found.trust
    if 1 < repeats < 5:
        assert f"{least_difference(repeats, 15):.3g} times" in found.trust


@pytest.mark.parametrize(
    ("options", "level", "said"),
    [
        ({"missing": ["x"]}, "care", "the sweep is not complete"),
        ({"orders": ["morf"]}, "care", "only ROAR was run, and one order alone can reverse a ranking"),
        ({"orders": ["lerf"]}, "care", "only KAR was run, and one order alone can reverse a ranking"),
        ({"beside": False}, "care", "nothing here shows whether masks give the class away to a new model"),
        (
            {"beside": dict(zip(("ig", "grad", "sobel"), (0, 1, 2), strict=True))},
            "little",
            "ranks the methods otherwi",
        ),
        ({"n": 60}, "care", "there are only 60 samples"),
        ({"warnings": ["x"]}, "care", "there is 1 warning below"),
        ({"base": 0.11}, "none", "the accuracy of the unmodified training of"),
    ],
    ids=["missing", "ROAR alone", "KAR alone", "no ROAD", "ROAD reversed", "few samples", "a warning", "chance"],
)
def test_what_else_lowers_the_trust(make_retrained: Make, options: dict, level: str, said: str) -> None:
    found = verdict(make_retrained(**options))
    assert (found.level, said in found.trust) == (level, True), found.trust


def test_one_training_decides_nothing_about_other_trainings(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(repeats=1)
    assert "if not more than other trainings would" in verdict(result).leads
    page = page_of(result, tmp_path)
    assert "There is one training of each point: intervals and differences are over test samples" in page.text
    assert "bootstrap intervals over 300 samples" in page.text
    assert "of n = 1 training, which has neither a standard deviation nor an interval" in page.text
    assert not re.search(r"\bnan\b", page.text)
    assert "1 training of each point" in page.text


def test_rare_hits_are_no_matter_where_the_unit_is_the_training(make_retrained: Make) -> None:
    assert "rare hits" not in verdict(make_retrained(n=40)).trust
    assert "rare hits" in verdict(make_retrained(n=40, repeats=1)).trust


def test_a_single_test_sample_gives_no_ranking(make_retrained: Make) -> None:
    result = make_retrained(n=1, classes=100, base=1.0)
    result.scores.top1[1:, 0, 1:] = 1
    result.scores.top1[0, 0, 1:] = 0
    found = verdict(result)
    assert result.pairwise()["different"].any() or found.leaders == ()
    assert found.leaders == ()
    assert found.leads.startswith("No ranking: a single sample")


def test_a_training_that_failed_is_told(make_retrained: Make) -> None:
    result = make_retrained()
    result.scores.top1[:, :, 0, 3] = np.arange(result.n) < 0.1 * result.n
    assert failed_trainings(result) == 1
    found = verdict(result)
    assert found.level == "little"
    assert "1 of 5 unmodified trainings did not get clearly above chance" in found.trust
    assert failed_trainings(replace(result, settings={})) == 0


def test_bands_end_where_accuracies_end_and_numbers_do_not(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(repeats=2, spread=0.03)
    assert result.curves()["high"].max() > 1
    data = json.loads(page_of(result, tmp_path).scripts[0][1])
    assert np.max(data["readouts"]["top1"]["high"]) == 1
    assert np.min(data["readouts"]["top1"]["low"]) >= 0
    assert np.max(data["readouts"]["logit"]["high"]) == pytest.approx(result.curves("logit")["high"].max())


def test_the_downloads_hold_points_and_costs(five: tuple[Result, Page]) -> None:
    result, page = five
    files = {a["download"]: a["href"] for tag, a in page.tags if tag == "a" and "download" in a}
    assert set(files) == {"ranking.csv", "pairwise.csv", "curves.csv", "points.csv", "cost.csv"}

    def rows(file: str) -> list[dict[str, str]]:
        text = base64.b64decode(files[file].removeprefix("data:text/csv;base64,")).decode()
        return list(csv.DictReader(io.StringIO(text)))

    assert [float(row["sd"]) for row in rows("points.csv")[:72]] == pytest.approx(
        result.over_repeats()["sd"].tolist()
    )
    assert len(rows("cost.csv")) == len(result.cost)
    assert rows("ranking.csv")[0]["unit"] == "trainings"
    assert float(rows("ranking.csv")[0]["aoc"]) == pytest.approx(result.ranking()["aoc"][0])


def test_a_saved_result_gives_the_same_page(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(repeats=2, n=60, missing=["x"])
    result.save(tmp_path / "run")
    direct = report(result, tmp_path / "direct.html").read_bytes()
    assert report(load_result(tmp_path / "run"), tmp_path / "loaded.html").read_bytes() == direct


def test_methods_in_the_costs_are_no_markup(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained({HOSTILE: 1.0, "random": 0.0}, repeats=2, n=60)
    page = page_of(result, tmp_path)
    assert {tag for tag, _ in page.tags} <= TAGS
    assert page.text.count(HOSTILE) > 6
