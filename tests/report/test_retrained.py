"""The page, the figures and the verdict of a retrained evaluation: new models, trainings, costs, ROAD beside."""

from __future__ import annotations

import base64
import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from report_audits import every_reason
from test_page import HOSTILE, TAGS, Page

from roadworthy.evaluation import Result, load_result
from roadworthy.report import curves_figure, report, verdict
from roadworthy.report.beside import road_agreement
from roadworthy.report.facts import failed_trainings
from roadworthy.report.findings import Findings
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
    data = page.data()
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
    said = (
        f"Over 5 methods the rank correlation of the two scores, each in its own direction, is {rho:.2f} (Spearman)"
    )
    assert f"Score: symmetric gain, higher is better. {said} and {tau:.2f}" in page.text
    start = section(page, "method|rank, ROAR and KAR")
    rows = {row[0].removesuffix(" control"): row[1:] for row in page.rows[start + 1 : start + 6]}
    assert [rows[m][2] for m in ("ig-sg", "sobel", "ig", "grad", "random")] == ["1", "2", "3", "4", "5"]
    assert rows["ig"][::3] == ["1", "0.400"]
    assert f"agrees in part (Spearman {rho:.2f})" in verdict(result).trust


PLANTED = {"ig": 1.6, "random": 0.0, "inverse:ig": -1.6}
GAINS = {"ig": 0.5, "random": 0.0, "inverse:ig": -0.4}
AREAS = {"ig": 0.2, "random": 0.5, "inverse:ig": 0.8}  # under the MoRF curve: lower is better
MORF = {"score_name": "area under the MoRF curve", "higher_is_better": False, "orders": ["morf"]}
GAIN = {"score_name": "symmetric gain", "higher_is_better": True, "orders": ["morf", "lerf"]}


@pytest.mark.parametrize(
    ("orders", "scores", "about"),
    [
        (["morf"], AREAS, MORF),
        (["morf"], GAINS, {}),
        (["morf"], GAINS, GAIN),
        (["lerf"], AREAS, MORF),
        (["morf", "lerf"], AREAS, MORF),
        (["morf", "lerf"], GAINS, {}),
    ],
    ids=["MoRF only", "older, MoRF only", "gain beside MoRF", "MoRF beside LeRF", "MoRF beside gain", "older"],
)
@pytest.mark.parametrize("turned", [False, True])
def test_each_score_counts_in_its_own_direction(
    orders: list[str], scores: dict, about: dict, turned: bool, make_retrained: Make, tmp_path: Path
) -> None:
    if turned:
        scores = dict(zip(scores, reversed(scores.values()), strict=True))
    result = make_retrained(PLANTED, orders=orders)
    result.settings["beside"]["road"] = {"score": scores, "seconds": 9.0, "images": 100, **about}
    assert Findings.of(result).methods == ["ig", "random", "inverse:ig"]
    expected = -1 if turned else 1
    assert road_agreement(Findings.of(result)) == (expected, expected, 3)
    said = "ranks the methods otherwise (Spearman −1.00)" if turned else "ranks the methods alike (Spearman 1.00)"
    assert said in verdict(result).trust
    page = page_of(result, tmp_path)
    start = section(
        page, f"method|rank, {'ROAR and KAR' if len(orders) == 2 else 'ROAR' if 'morf' in orders else 'KAR'}"
    )
    rows = page.rows[start + 1 : start + 4]
    assert [row[1] for row in rows] == ["1", "2", "3"]
    assert [row[3] for row in rows] == (["3", "2", "1"] if turned else ["1", "2", "3"])
    name, direction = about.get("score_name", "symmetric gain"), "lower" if about == MORF else "higher"
    own = Findings.of(result).ranking.attrs
    both = f"{own['score']}, {own['direction']}"
    other = f"{name}, {direction} is better"
    assert f"Score: {both}. " in page.text or f"Score: {both}; of ROAD: {other}. " in page.text
    assert (f"of ROAD: {other}" in page.text) == (both != other)
    same = about.get("orders", ["morf", "lerf"]) == orders
    assert ("shares and orders, and trains nothing" in page.text) == same


@pytest.mark.parametrize("alike", [True, False])
def test_fewer_than_three_methods_are_no_evidence(alike: bool, make_retrained: Make, tmp_path: Path) -> None:
    scores = {"ig": 0.5, "random": 0.1} if alike else {"ig": 0.1, "random": 0.5}
    result = make_retrained({"ig": 1.5, "random": 0.0}, beside=scores)
    found = verdict(result)
    assert "there are too few methods to compare with ROAD" in found.trust
    assert "Spearman" not in found.trust
    assert found.level == "care"
    page = page_of(result, tmp_path)
    assert "Too few methods (2) for a rank correlation." in page.text
    assert "too few methods" not in verdict(make_retrained({"ig": 1.5, "grad": 0.7, "random": 0.0})).trust


def test_what_speaks_for_a_result_is_no_reason_for_distrust(make_retrained: Make) -> None:
    result = make_retrained(repeats=2, missing=["1 of 9 trainings not done yet: x"])
    trust = verdict(result).trust
    assert trust.startswith("Trust this little: there are only 2 trainings")
    against, _, rest = trust.partition(", although ")
    assert "the sweep is not complete" in against
    for good in ("rank the methods alike", "ROAD, which trains nothing, ranks the methods alike", "3 more, below"):
        assert good in rest
        assert good not in against
    assert len(trust.split()) < 90
    assert trust.count(". ") == 0
    well = verdict(make_retrained()).trust
    assert well.startswith("Trust this well: ")
    assert "although" not in well


def test_what_failed_does_not_come_by_itself(make_retrained: Make, tmp_path: Path) -> None:
    failed = ["8 of 30 trainings failed: ig, ROAR, 90 %, repeat 0", "1 of 3 sets of maps failed: grad"]
    waiting = ["2 of 30 trainings not done yet: ig failed: really"]
    result = make_retrained(missing=[failed[0], *waiting, failed[1]], warnings=["left out until complete: ig"])
    assert result.failed == failed
    page = page_of(result, tmp_path)
    order = ["Failed. These do not come by themselves", *failed, "Not done yet:", *waiting]
    places = [page.text.index(text) for text in order]
    assert places == sorted(places)
    for said in ("--retry-failed", "failures.txt in the sweep's folder", "What failed does not come by itself"):
        assert said in page.text
    assert "Still to come" not in page.text
    trust = verdict(result).trust
    assert "8 of 30 trainings failed (listed below), 1 of 3 sets of maps failed (listed below)" in trust
    assert "the sweep is not complete" in trust
    only = make_retrained(missing=failed)
    assert "the sweep is not complete" not in verdict(only).trust
    assert "Not done yet" not in page_of(only, tmp_path).text
    assert "--retry-failed" not in page_of(make_retrained(missing=waiting, warnings=["x"]), tmp_path).text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"imputer": "mean"}, "filled by the mean"),
        ({"imputer": "mean", "mean": None}, "filled by the mean"),
        ({"imputer": "mean", "mean": [0.485, 0.456, 0.406]}, "filled by the mean (0.485, 0.456, 0.406)"),
        ({"imputer": "mean", "mean": None, "fill_mean": [0.13066]}, "filled by the mean (0.131)"),
        ({"imputer": "noisy-linear", "mean": [0.485]}, "filled by noisy-linear"),
        ({"imputer": "mean", "mean": [HOSTILE]}, f"filled by the mean ({HOSTILE})"),
    ],
)
def test_the_mean_that_fills_is_told(settings: dict, said: str, make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(PLANTED, repeats=2, n=60)
    result.settings |= settings
    assert re.search(re.escape(f"removed units {said}") + r"(?! \()", page_of(result, tmp_path).text)


def test_costs_that_several_imputers_share_are_told(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(PLANTED, repeats=2, n=60)
    for imputers in (None, ["mean"], "mean"):
        result.settings["imputers"] = imputers
        assert "paid once" not in page_of(result, tmp_path).text
    result.settings["imputers"] = ["mean", "noisy-linear"]
    text = page_of(result, tmp_path).text
    assert (
        "fills in 2 ways (mean and noisy-linear), with a result for each. They share the unmodified trainings" in text
    )
    assert "every result counts these, but they were paid once" in text


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
    assert (found.level, said in every_reason(result)) == (level, True), found.trust
    assert (said in found.trust) == (level != "good")
    assert "the accuracy of the unmodified training is" in every_reason(result)
    if 1 < repeats < 5:
        assert f"{least_difference(repeats, 15):.3g} times" in found.trust


@pytest.mark.parametrize(
    ("options", "level", "said"),
    [
        ({"missing": ["x"]}, "care", "the sweep is not complete"),
        ({"orders": ["morf"]}, "care", "only ROAR was run, and one order alone can reverse a ranking"),
        ({"orders": ["lerf"]}, "care", "only KAR was run, and one order alone can reverse a ranking"),
        ({"audited": False}, "care", "whether masks give the class away was not audited"),
        (
            {"beside": dict(zip(("ig", "grad", "sobel"), (0, 1, 2), strict=True))},
            "little",
            "ranks the methods otherwi",
        ),
        ({"n": 60}, "care", "there are only 60 samples"),
        ({"warnings": ["x"]}, "care", "there is 1 warning below"),
        ({"base": 0.11}, "none", "the accuracy of the unmodified training of"),
    ],
    ids=["missing", "ROAR alone", "KAR alone", "no audit", "ROAD reversed", "few samples", "a warning", "chance"],
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
    data = page_of(result, tmp_path).data()

    def ends(readout: str, end: str) -> np.ndarray:
        return np.array(data["readouts"][readout][end], dtype=float)  # null becomes NaN

    assert np.nanmax(ends("top1", "high")) == 1
    assert np.nanmin(ends("top1", "low")) >= 0
    assert np.nanmax(ends("logit", "high")) == pytest.approx(result.curves("logit")["high"].max())


def test_what_is_shown_of_an_interval_is_possible_and_what_is_written_is_not_cut(
    make_retrained: Make, tmp_path: Path
) -> None:
    for orders, lowest in ((["morf", "lerf"], -1), (["morf"], 0)):
        result = make_retrained(repeats=2, spread=0.2, orders=orders)
        result.scores.top1[0, 0, 1:, 0] = result.scores.top1[0, -1, 1:, 1] = (
            1  # one training of ig is all, one nothing
        )
        result.scores.top1[0, 0, 1:, 1] = 0
        result._known.clear()
        ranking, points = result.ranking(), result.over_repeats()
        assert ranking["low"].min() < lowest
        assert points["low"].min() < 0
        page = page_of(result, tmp_path)
        for heading in ("method|evaluation|0\u00a0%", "rank|method|group"):
            start = section(page, heading)
            rows = page.rows[start + 1 : start + 1 + len(result.methods)]
            found = [re.findall(r"(−?\d\.\d{3}) to (−?\d\.\d{3})", " ".join(row)) for row in rows]
            shown = np.array([end.replace("−", "-") for row in found for pair in row for end in pair], dtype=float)
            assert shown.size
            assert shown.min() >= (lowest if heading.startswith("rank") else 0)
            assert shown.max() <= 1
        assert (
            f"Intervals are cut off at {'−1' if lowest else '0'} and 1, beyond which nothing is possible" in page.text
        )
        assert "point by point, cut off at 0 and 1, beyond which nothing is possible" in page.text
        assert not re.search(r"interval (−[2-9]|−?\d\d|[2-9])\.", verdict(result).leads)
    narrow = page_of(make_retrained(spread=0.001, base=0.5), tmp_path)
    assert "cut off" not in narrow.text


def test_trainings_that_agree_by_chance_show_no_interval(make_retrained: Make, tmp_path: Path) -> None:
    result = make_retrained(repeats=2)
    for readout in ("top1", "top5", "probability", "logit"):
        result.scores[readout][:] = result.scores[readout][..., :1, :]
    assert np.isnan(result.pairwise()["low"]).all()
    page = page_of(result, tmp_path)
    start = section(page, "method|evaluation|0\u00a0%")
    assert all(cell.endswith("± 0.000–") for cell in page.rows[start + 1][2:])
    assert page.rows[section(page, "rank|method|group") + 1][4] == "–"
    assert "No interval (–) where all trainings give the same number" in page.text
    assert "p, before the correction, is then that of the sign-flip test, 0.5, and 1 for no difference" in page.text
    assert "– to –" not in page.text
    curves_figure(result)
    other = page_of(make_retrained(repeats=3), tmp_path).text
    assert "sign-flip" not in other


def test_random_under_both_orders_is_zero_because_its_trainings_are_shared(
    make_retrained: Make, tmp_path: Path
) -> None:
    said = "Both orders share the trainings of random, so its gain is exactly 0, without spread."
    result = make_retrained(repeats=3)
    assert said not in page_of(result, tmp_path).text
    m = result.methods.index("random")
    for readout in ("top1", "top5", "probability", "logit"):
        result.scores[readout][m, 1] = result.scores[readout][m, 0]
    result._known.clear()
    page = page_of(result, tmp_path)
    assert said in page.text
    assert (
        page.rows[section(page, "rank|method|group") + 1 + Findings.of(result).methods.index("random")][3] == "0.000"
    )
    assert said not in page_of(make_retrained(repeats=3, orders=["morf"]), tmp_path).text


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
