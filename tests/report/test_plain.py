"""The answer in short: each case of the verdict in words without statistics."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from roadworthy.evaluation import Result, Scores
from roadworthy.report import verdict
from roadworthy.report.findings import Findings
from roadworthy.report.plain import in_short

TERMS = re.compile(r"Holm|Spearman|interval|bootstrap|MoRF|LeRF|\(|\d\.\d")
N = 120


def result(curves: dict[str, tuple[float, float]], n: int = N, intact: float = 1.0, **more: Any) -> Result:
    """Make a result in which a method keeps the given shares right after MoRF and after LeRF."""
    top1 = np.zeros((len(curves), 2, 3, 1, n), dtype=np.uint8)
    generator = np.random.default_rng(8)
    top1[:, :, 0, 0, :] = np.arange(n) < intact * n
    for m, shares in enumerate(curves.values()):
        for o, share in enumerate(shares):
            top1[m, o, 1:, 0] = (generator.permutation(n) < share * n) & (top1[m, o, 0, 0] > 0)
    known = dict.fromkeys(("labels", "targets", "predicted"), np.arange(n) % 10)
    scores = Scores(top1, top1, top1.astype(np.float32), top1.astype(np.float32), **known)
    ids = [str(i) for i in range(n)]
    return Result(list(curves), ["morf", "lerf"], [0.0, 0.3, 0.6], [0, 3, 6], 1, ids, scores, **more)


def short(*given: Any, **options: Any) -> tuple[str, ...]:
    return in_short(Findings.of(result(*given, **options)))


def test_one_winner_and_one_that_is_no_better_than_random() -> None:
    said = short({"ig": (0.1, 0.95), "grad": (0.3, 0.8), "cam": (0.5, 0.5), "random": (0.5, 0.5)})
    assert said[0] == "ig points best to what the model uses, of the 4 methods compared."
    assert said[1] == "Not shown to be better than a random map: cam."
    assert said[2].startswith(("This ranking can be relied on: ", "Take this with care: "))
    assert len(said) == 3


def test_two_alike() -> None:
    said = short({"ig": (0.1, 0.95), "lrp": (0.1, 0.95), "random": (0.5, 0.5)})
    named = "ig and lrp point best to what the model uses, of the 3 methods compared"
    assert said[0] == f"{named}; among them the numbers do not decide."


def test_orders_against_each_other_are_named_in_plain_words() -> None:
    said = short({"a": (0.1, 0.55), "b": (0.3, 0.65), "c": (0.5, 0.9), "random": (0.95, 0.95)})
    assert said[0] == "a, c and b come first of the 4 methods compared; among them the numbers do not decide."
    assert said[-1].startswith("Do not lean on this ranking: removing important parts first and removing unimportant")


def test_a_control_that_leads_is_a_yardstick() -> None:
    said = short({"ig": (0.4, 0.6), "sobel": (0.1, 0.95), "random": (0.5, 0.5)})
    assert said[0] == "No method is shown to beat sobel, which stands here only as a yardstick."


def test_nothing_told_apart() -> None:
    said = short({"ig": (0.5, 0.5), "random": (0.5, 0.5)})
    assert said[0] == f"No winner: these {N} samples do not tell the 2 methods apart."
    assert said[-1].startswith("Do not lean on this ranking: chance alone could order the methods so")


def test_at_chance() -> None:
    said = short({"ig": (0.05, 0.1), "random": (0.1, 0.1)}, intact=0.1)
    assert said == (
        "No answer: with nothing removed the model does no better than a guess, so removal shows nothing.",
    )


@pytest.mark.parametrize(("shares", "words"), [((0.1, 0.95), "does better"), ((0.95, 0.1), "does worse")])
def test_one_method(shares: tuple[float, float], words: str) -> None:
    assert short({"ig": shares}) == (f"There is one method and so no ranking; ig {words} than a random map.",)


def test_no_terms_of_statistics_and_names_are_cleaned() -> None:
    said = short({"ig\x1b[31m": (0.1, 0.95), "grad": (0.2, 0.9), "random": (0.5, 0.5)})
    assert not TERMS.search(" ".join(said))
    assert "\x1b" not in said[0]


def test_it_is_part_of_the_verdict_and_first_on_the_page() -> None:
    from roadworthy.report.opening import opening

    found = result({"ig": (0.1, 0.95), "random": (0.5, 0.5)})
    said = verdict(found)
    assert said.short == in_short(Findings.of(found))
    html = opening(Findings.of(found), {})
    assert html.index(said.short[0]) < html.index("The verdict in full") < html.index(said.leads[:20])


def test_a_leader_that_is_no_better_than_random_is_not_praised() -> None:
    said = short({"ig": (0.3, 0.7), "cam": (0.38, 0.6), "poor": (0.9, 0.1), "random": (0.5, 0.5)}, n=60)
    assert said[0].startswith("ig comes first of the 4 methods compared, but is not told apart from cam")
    assert "cam" in said[1]
