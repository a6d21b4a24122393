from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats

from roadworthy.errors import InputError
from roadworthy.evaluation import Result, Scores
from roadworthy.evaluation.concordance import concordance_of

METHODS = ["ig", "grad", "sobel", "random"]
VIEWS = [{"judge": judge, "imputer": fill} for judge in ("untouched", "fine-tuned") for fill in ("mean", "blur")]


def made(seed: int, **changes: Any) -> Result:
    """A result of random hits; what is given replaces the usual."""
    facts: dict[str, Any] = {
        "methods": METHODS,
        "orders": ["morf", "lerf"],
        "fractions": [0.0, 0.1, 0.5, 0.9],
        "repeats": 1,
        "ids": [f"s{i}" for i in range(30)],
        "settings": {"strategy": "road", "imputer": "blur"},
    } | changes
    shape = tuple(len(facts[name]) for name in ("methods", "orders", "fractions"))
    rng = np.random.default_rng(seed)
    probability = rng.random((*shape, facts["repeats"], len(facts["ids"])), dtype=np.float32)
    hits = (probability > 0.5).astype(np.uint8)
    zeros = np.zeros(len(facts["ids"]), dtype=np.int64)
    scores = Scores(hits, hits, probability, probability, zeros, zeros, zeros)
    return Result(removed=[round(100 * p) for p in facts["fractions"]], scores=scores, **facts)


def spearman(a: Result, b: Result, order: str, other: str, readout: str = "top1") -> float:
    """Oracle: mean over the shares of SciPy's rho; low is good after MoRF."""
    sign = {"morf": -1, "lerf": 1}
    left, right = a.scores[readout].mean(axis=(3, 4)), b.scores[readout].mean(axis=(3, 4))
    o, q = a.orders.index(order), b.orders.index(other)
    shares = [
        scipy.stats.spearmanr(sign[order] * left[:, o, p], sign[other] * right[:, q, p])[0] for p in range(1, 4)
    ]
    return float(np.nanmean(shares))


def test_every_order_of_every_result_is_a_source() -> None:
    a, b = made(1), made(2)
    found = concordance_of({"road": a, "other": b}, draws=20)
    assert found.sources == ("road / MoRF", "road / LeRF", "other / MoRF", "other / LeRF")
    assert found.methods == tuple(METHODS)
    assert found.shares.tolist() == [0.1, 0.5, 0.9]
    assert found.spearman.value[0, 1] == pytest.approx(spearman(a, a, "morf", "lerf"))
    assert found.spearman.value[1, 2] == pytest.approx(spearman(a, b, "lerf", "morf"))
    assert found.n == 30
    assert found.spearman.value[0, 1] == pytest.approx(np.nanmean(a.agreement().spearman[1:]))
    assert found.spearman_area.value[0, 1] == pytest.approx(a.agreement().spearman_area)


def test_one_result_alone_needs_no_name_in_its_sources() -> None:
    assert concordance_of([made(1)], draws=5).sources == ("MoRF", "LeRF")
    with pytest.raises(InputError, match="1 source came, expected two or more"):
        concordance_of([made(1, orders=["morf"])], draws=5)


def test_results_without_names_are_called_by_strategy_and_fill_and_counted() -> None:
    found = concordance_of([made(1, orders=["morf"]), made(2, orders=["morf"])], draws=5)
    assert found.sources == ("road blur / MoRF", "road blur (2) / MoRF")


def test_views_are_sources_named_by_what_tells_them_apart() -> None:
    result = made(3, repeats=4, settings={"strategy": "symmetric", "views": VIEWS, "imputer": "mean, blur"})
    found = concordance_of([result], draws=5)
    assert found.sources[:3] == ("untouched / mean / MoRF", "untouched / mean / LeRF", "untouched / blur / MoRF")
    assert len(found.sources) == 8
    views = [result.view(i) for i in range(4)]
    assert found.spearman.value[2, 7] == pytest.approx(spearman(views[1], views[3], "morf", "lerf"))
    fills = made(3, repeats=2, settings={"strategy": "road", "views": VIEWS[:2]})
    assert concordance_of([fills], by="gain", draws=5).sources == ("mean", "blur")


def test_the_gain_of_both_orders_is_one_source() -> None:
    a, b = made(4), made(5)
    found = concordance_of({"a": a, "b": b}, by="gain", draws=20, readout="probability")
    gains = [result.method_scores("probability")[0].mean(axis=1) for result in (a, b)]
    assert found.sources == ("a", "b")
    assert found.spearman_area.value[0, 1] == pytest.approx(scipy.stats.spearmanr(*gains)[0])
    with pytest.raises(InputError, match="'gain' needs both orders, 'c' has morf only"):
        concordance_of({"a": a, "c": made(1, orders=["morf"])}, by="gain")
    with pytest.raises(InputError, match="'kept' came with by='gain'"):
        concordance_of([a, b], by="gain", pairing="kept")
    with pytest.raises(InputError, match="by: got 'share'"):
        concordance_of([a], by="share")  # type: ignore[arg-type]


def test_what_all_have_in_common_is_compared() -> None:
    letters = list("abcdefgh")
    a = made(6, methods=letters, fractions=[0.0, 0.1, 0.3, 0.5, 0.9])
    b = made(7, methods=["x", *letters[:0:-1]], ids=[f"s{i}" for i in range(39, 9, -1)])
    found = concordance_of({"a": a, "b": b}, draws=20, readout="probability")
    assert found.methods == tuple("bcdefgh")
    assert found.shares.tolist() == [0.1, 0.5, 0.9]
    assert found.n == 20
    left = a.scores.probability[1:, 0][:, [1, 3, 4], 0][..., 10:].mean(axis=-1)
    right = b.scores.probability[:0:-1, 1][:, 1:, 0][..., 29:9:-1].mean(axis=-1)
    rho = [scipy.stats.spearmanr(-left[:, p], right[:, p])[0] for p in range(3)]
    assert found.spearman_shares[0, 3] == pytest.approx(rho)


def test_methods_can_be_chosen() -> None:
    found = concordance_of([made(1)], methods=["sobel", "ig"], draws=5)
    assert found.methods == ("sobel", "ig")
    with pytest.raises(InputError, match="methods: lime came, which not every result has"):
        concordance_of([made(1)], methods=["ig", "lime"])


def test_trainings_and_results_of_one_name_are_units() -> None:
    settings = {"strategy": "roar", "training": "retrain", "imputer": "mean"}
    roar = made(8, repeats=3, settings=settings)
    found = concordance_of({"roar": roar, "road": made(9)}, draws=20)
    assert found.trainings[0].tolist() == [3, 3, 0, 0]
    seeds = concordance_of({"a": [made(i) for i in range(4)], "b": [made(i) for i in range(4, 8)]}, draws=20)
    assert seeds.sources[0] == "a / MoRF"
    assert seeds.trainings[0].tolist() == [4, 4, 4, 4]
    assert seeds.n == 0
    single = [spearman(made(i), made(i + 4), "morf", "lerf") for i in range(4)]
    assert seeds.single[0, 3] == pytest.approx(np.mean(single))
    assert seeds.spearman.se[0, 3] == pytest.approx(np.std(single, ddof=1) / 2)


def test_pairing_moves_lerf() -> None:
    result = made(10, fractions=[0.0, 0.1, 0.3, 0.9])
    found = concordance_of([result], pairing="kept", draws=5)
    assert found.used[0, 1] == 2  # .1 with .9 removed, and the other way round
    hits = result.scores.top1.mean(axis=(3, 4))
    rho = [scipy.stats.spearmanr(-hits[:, 0, p], hits[:, 1, q])[0] for p, q in ((1, 3), (3, 1))]
    assert found.spearman.value[0, 1] == pytest.approx(np.mean(rho))


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([], "results: none came"),
        ({"a": []}, "results: none came"),
        ({"a": made(1), "b": []}, "no result stands under b"),
        ([made(1), made(2, methods=["x", "y"])], "no method in common"),
        ([made(1), made(2, ids=["x", "y"])], "no sample in common"),
        ([made(1), made(2, fractions=[0.0, 0.2])], "no share removed in common"),
        ({"a": [made(1), made(2, orders=["morf"])]}, "those under 'a' differ in their orders"),
    ],
)
def test_results_that_share_nothing_are_refused(results: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        concordance_of(results)


def test_results_are_left_alone() -> None:
    result = made(11)
    before = result.scores.top1.copy()
    concordance_of([result], draws=5)
    assert np.array_equal(result.scores.top1, before)
    assert result._known == {}
