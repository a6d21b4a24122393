"""The leakage audit on masks that must be called leaking, and on masks that must not."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from scipy.ndimage import gaussian_filter
from scipy.stats import binomtest

from roadworthy.errors import InputError
from roadworthy.evaluation.audit import leak_verdict, leakage
from roadworthy.evaluation.audit.leak_verdict import Fill, Told, verdict
from roadworthy.evaluation.audit.leakage import audit_leakage
from roadworthy.evaluation.audit.mask_only import MaskOnly
from roadworthy.evaluation.strategy import Strategy
from roadworthy.imputation import FunctionImputer, MaskToken, Mean, NoisyLinear, Zero
from roadworthy.removal import removal_ranks, removed_at, tie_draw
from roadworthy.statistics import holm

SIDE = 10
ROAD = Strategy.of("road", fractions=(0.2, 0.5))
SHARES = (0.1, 0.2, 0.3, 0.5, 0.9)


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed))


def same_again(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    mask = removed if removed.shape == images.shape else removed.unsqueeze(1)
    return torch.where(mask, torch.rand(images.shape, generator=generator), images)


def quadrants(classes: np.ndarray, seed: int = 0) -> np.ndarray:
    values, half = np.random.default_rng(seed).random((len(classes), SIDE, SIDE)), SIDE // 2
    for row, (y, x) in enumerate(zip(*divmod(classes % 4, 2), strict=True)):
        values[row, y * half : (y + 1) * half, x * half : (x + 1) * half] += 2
    return values


def noise(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(100 + seed).random((n, SIDE, SIDE))


def audit(
    values: dict[str, np.ndarray], classes: np.ndarray, *, images: torch.Tensor | None = None, **settings: Any
) -> dict[str, Any]:
    images = drawn(len(classes), 1, SIDE, SIDE) if images is None else images
    given = {"strategy": ROAD, "imputers": [Mean()], "mean": torch.full((images.shape[1],), 0.5), "seed": 0}
    given |= {"ids": [str(i) for i in range(len(classes))], "class_count": 4} | settings
    return audit_leakage(images, classes, values, **given)


def said(found: dict[str, Any], imputer: str = "mean") -> dict[str, str]:
    return {row["method"]: row["verdict"] for row in found["verdicts"] if row["imputer"] == imputer}


CLASSES = np.arange(400) % 4
OPEN = Fill(
    [{"fraction": p, "base": min(p, 1 - p), "error": 0.0, "low": 0.0, "high": 0.0, "n": 9} for p in SHARES], None
)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every fill show the mask: where only masks matter, no predictor is trained."""
    monkeypatch.setattr(leakage, "judged_fill", lambda *_, **__: OPEN)


def test_a_leak_is_called_one_and_masks_without_information_are_not() -> None:
    values = {"leak": quadrants(CLASSES), "random": noise(400), "blobs": gaussian_filter(noise(400, 1), (0, 2, 2))}
    found = audit(values, CLASSES)
    assert said(found)["leak"] == "leaks"
    assert "leaks" not in (said(found)["random"], said(found)["blobs"])
    leak = [row for row in found["masks"] if row["method"] == "leak" and row["order"] == "morf"]
    assert [row["accuracy"] for row in leak] == [1.0, 1.0]
    row = next(row for row in found["verdicts"] if row["method"] == "leak")
    mask = next(
        one for one in found["masks"]
        if [one[name] for name in ("method", "order", "fraction")] == ["leak", row["order"], row["fraction"]]
    )  # fmt: skip
    fill = next(one for one in found["imputers"] if one["fraction"] == row["fraction"])
    assert (row["ground"], row["note"]) == ("shown", "")
    assert (row["accuracy"], row["random"], row["chance"]) == (1.0, mask["random"], 0.25)
    assert (row["error"], row["base"]) == (fill["error"], fill["base"])
    assert row["above"] == pytest.approx(mask["high"] - max(0.25, mask["random"]))
    assert row["per_class"] is None
    assert found["chance"] == 0.25
    assert 0.2 < found["chance_low"] < 0.25 < found["chance_high"] < 0.3


def test_random_and_blurred_maps_are_never_called_leaking() -> None:
    alarms = []
    for seed in range(25):
        classes = np.random.default_rng(seed).integers(0, 4, 120)
        values = {
            "random": noise(120, seed),
            "blobs": gaussian_filter(noise(120, 50 + seed), (0, 1.5, 1.5)),
            "constant": np.zeros((120, SIDE, SIDE)),
        }
        masks = leakage._Masks(ROAD, seed, [str(i) for i in range(120)], classes, 2, True)
        for name, array in values.items():
            row = verdict(masks.told(array), OPEN, None, classes)
            alarms += [(seed, name)] * (row["verdict"] == "leaks")
    assert alarms == []


def test_a_fill_that_hides_the_mask_stops_the_leak() -> None:
    found = audit({"leak": quadrants(CLASSES)}, CLASSES, imputers=[Mean(), FunctionImputer(same_again)])
    assert said(found) == {"leak": "leaks"}
    assert said(found, "same_again") == {"leak": "does not leak"}
    row = found["verdicts"][1]
    assert row["ground"] == "hidden"
    assert row["error"] > 0.9 * row["base"]


def test_a_fill_that_shows_part_of_the_mask_cannot_be_judged() -> None:
    def half(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        shown = torch.rand(images.shape, generator=generator) < 0.3
        return torch.where(shown, -1.0, torch.rand(images.shape, generator=generator))

    found = audit({"leak": quadrants(CLASSES)}, CLASSES, imputers=[FunctionImputer(half)])
    assert said(found, "half") == {"leak": "cannot tell"}
    assert found["verdicts"][0]["ground"] == "partly shown"


def test_everything_removed_tells_nothing() -> None:
    found = audit({"leak": quadrants(CLASSES)}, CLASSES, strategy=Strategy.of("road", fractions=(1.0,)))
    assert [row["accuracy"] for row in found["masks"]] == [0.25, 0.25]
    assert said(found)["leak"] != "leaks"
    assert found["imputers"][0]["error"] == found["imputers"][0]["base"] == 0.0


@pytest.mark.parametrize(
    ("n", "classes", "why"),
    [(12, CLASSES[:12], "only 12 samples"), (40, np.zeros(40, int), "all samples are of one")],
)
def test_what_cannot_be_told_says_why(shown: None, n: int, classes: np.ndarray, why: str) -> None:
    found = audit({"leak": quadrants(classes)}, classes)
    assert said(found) == {"leak": "cannot tell"}
    assert found["verdicts"][0]["ground"] == "unfit"
    assert why in found["verdicts"][0]["note"]
    assert found["verdicts"][0]["order"] is None
    assert found["masks"] == []
    assert found["n"] == n


def test_few_samples_a_class_are_no_ground_to_say_that_nothing_leaks(shown: None) -> None:
    classes = np.arange(200) % 100
    found = audit({"random": noise(200)}, classes, class_count=100)
    assert said(found) == {"random": "cannot tell"}
    assert (found["verdicts"][0]["ground"], found["verdicts"][0]["per_class"]) == ("few samples", 2.0)


def test_few_samples_leave_it_open_and_more_clear_it(shown: None) -> None:
    few = audit({"random": noise(60)}, CLASSES[:60])
    assert said(few) == {"random": "cannot tell"}
    assert few["verdicts"][0]["ground"] == "wide"
    assert few["verdicts"][0]["above"] > few["verdicts"][0]["margin"] == 0.08
    classes = np.arange(1500) % 10
    many = audit({"random": noise(1500)}, classes, class_count=10, strategy=Strategy.of("road", fractions=(0.3,)))
    assert said(many) == {"random": "does not leak"}
    assert many["n"] == 500  # the quick audit takes no more
    assert many["verdicts"][0]["ground"] == "no mask"
    assert many["verdicts"][0]["above"] <= 0.08


def test_constant_maps_are_random_masks(shown: None) -> None:
    found = audit({"constant": np.zeros((400, SIDE, SIDE))}, CLASSES)
    assert said(found)["constant"] != "leaks"
    assert all(row["low"] <= 0.26 for row in found["masks"])


@pytest.mark.parametrize("shape", [(400, 2, 30), (400, 24)], ids=["series", "table"])
def test_series_and_tables(shape: tuple[int, ...]) -> None:
    units = shape[-1]
    values = np.random.default_rng(0).random((400, units))
    values[np.arange(400)[:, None], (units // 4) * CLASSES[:, None] + np.arange(units // 4)] += 2
    images = drawn(*shape) + 0.1
    random = np.random.default_rng(1).random((400, units))
    is_table = len(shape) == 2  # it has no neighbours to fill from
    imputers = [Zero(), NoisyLinear()] if is_table else [Zero()]
    found = audit({"leak": values, "random": random}, CLASSES, images=images, imputers=imputers)
    assert said(found, "zero")["leak"] == "leaks"
    assert said(found, "zero")["random"] != "leaks"
    if is_table:
        assert said(found, "noisy-linear")["leak"] == "cannot tell"
        assert found["verdicts"][2]["ground"] == "not known"
        assert "noisy-linear" in found["verdicts"][2]["note"]
        assert {row["error"] for row in found["imputers"] if row["imputer"] == "noisy-linear"} == {None}


def test_token_ids() -> None:
    tokens = torch.randint(0, 50, (400, 24), generator=torch.Generator().manual_seed(0))
    values = np.random.default_rng(0).random((400, 24))
    values[np.arange(400)[:, None], 6 * CLASSES[:, None] + np.arange(6)] += 2
    found = audit({"leak": values}, CLASSES, images=tokens, imputers=[MaskToken(50)], mean=None)
    assert said(found, "mask-token") == {"leak": "leaks"}


@pytest.mark.parametrize("sign", ["signed", "abs"])
def test_masks_are_those_of_the_evaluation(sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def spy(removed: np.ndarray, classes: np.ndarray, **settings: Any) -> MaskOnly:
        seen.append(removed)
        return MaskOnly(np.zeros(len(classes), int), classes)

    monkeypatch.setattr(leakage, "mask_only", spy)
    values = np.round(np.random.default_rng(0).normal(size=(40, SIDE, SIDE)), 1)  # ties in most maps
    values[0] = np.linspace(-3, 5, SIDE * SIDE).reshape(SIDE, SIDE)
    ids = [str(i) for i in range(40)]
    strategy = Strategy.of("road", fractions=(0.2, 0.35), sign=sign, ties="first")
    masks = leakage._Masks(strategy, 7, ids, CLASSES[:40], 2, True)
    masks.told(values)
    first = np.broadcast_to(np.arange(SIDE * SIDE), (40, SIDE * SIDE))
    expected = [
        removed_at(removal_ranks(values, first, order, sign), share)
        for order in ("morf", "lerf")
        for share in (0.2, 0.35)
    ]
    asked = [mask for mask in seen if any((mask == one).all() for one in expected)]
    assert len(asked) == 4
    seen.clear()
    leakage._Masks(Strategy.of(strategy, ties="random"), 7, ids, CLASSES[:40], 2, True).told(values)
    ranks = removal_ranks(values, tie_draw(7, ids, SIDE * SIDE), "morf", sign)
    for share in (0.2, 0.35, 0.65, 0.8):  # LeRF at .2 keeps what MoRF at .8 removes
        assert any((mask == removed_at(ranks, share)).all() for mask in seen)


def test_complementary_masks_are_asked_once(shown: None, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    whole = leakage.mask_only
    monkeypatch.setattr(leakage, "mask_only", lambda *args, **settings: calls.append(1) or whole(*args, **settings))
    found = audit({"leak": quadrants(CLASSES)}, CLASSES, strategy=Strategy.of("road", fractions=(0.1, 0.5, 0.9)))
    assert len(calls) == 3 + 2  # MoRF .1 .5 .9, which are LeRF .9 .5 .1; random masks of .1 and .5
    rows = {(row["order"], row["fraction"]): row for row in found["masks"]}
    for share in (0.1, 0.5, 0.9):
        assert rows["morf", share]["accuracy"] == rows["lerf", round(1 - share, 1)]["accuracy"]


def test_thinned_masks_of_f_fidelity_are_audited_as_thinned(shown: None) -> None:
    strategy = Strategy.of("f-fidelity", fractions=(0.2, 0.5))
    assert not strategy.removes_all
    found = audit({"leak": quadrants(CLASSES), "random": noise(400)}, CLASSES, strategy=strategy)
    assert said(found)["leak"] == "leaks"
    assert said(found)["random"] != "leaks"


def test_the_block_is_complete_plain_json_and_the_same_again() -> None:
    values, classes = {"leak": quadrants(CLASSES), "random": noise(400)}, torch.from_numpy(CLASSES)
    before = {name: array.copy() for name, array in values.items()}
    first, second = (audit(values, classes, target="label") for _ in range(2))  # type: ignore[arg-type]
    assert first.pop("seconds") >= 0
    second.pop("seconds")
    assert first == second == json.loads(json.dumps(first))
    assert all((values[name] == before[name]).all() for name in values)
    assert {key: first[key] for key in ("n", "classes", "target", "effort")} == {
        "n": 400, "classes": 4, "target": "label", "effort": "quick"
    }  # fmt: skip
    assert len(first["masks"]) == 2 * 2 * 2
    assert len(first["imputers"]) == 2
    row = first["masks"][0]
    assert row["low"] <= row["accuracy"] <= row["high"]
    assert row["bits_low"] == pytest.approx(row["bits_high"], abs=0.2)
    assert row["bits_high"] == pytest.approx(2.0)
    assert row["balanced_accuracy"] == 1.0
    assert row["balanced_chance"] == 0.25


def test_thorough_takes_more_folds_and_samples() -> None:
    found = audit({"leak": quadrants(CLASSES[:80])}, CLASSES[:80], effort="thorough")
    assert said(found) == {"leak": "leaks"}
    assert found["effort"] == "thorough"


def told(accuracy: float, random: float, n: int = 400, seed: int = 0) -> Told:
    """Answers of these accuracies, wrong ones in places of their own."""
    classes, rng = np.zeros(n, int), np.random.default_rng(seed)
    answers = [(rng.permutation(n) >= round(share * n)).astype(int) for share in (accuracy, random)]
    return Told("morf", 0.5, *(MaskOnly(one, classes) for one in answers))


def test_tests_of_a_verdict_against_scipy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leak_verdict, "DEPENDENCE", 1.0)
    one = told(0.34, 0.26)
    right, other = one.mask.right, one.random.right
    more, less = int((right & ~other).sum()), int((other & ~right).sum())
    guessing = binomtest(136, 400, 0.25, "greater").pvalue
    signs = binomtest(more, more + less, 0.5, "greater").pvalue
    assert leak_verdict._p_value(one, 0.25) == pytest.approx(max(guessing, signs))
    same = Told("morf", 0.5, one.mask, one.mask)
    assert leak_verdict._p_value(same, 0.25) > 0.5
    # half as many answers that are independent: the same shares of half as many
    monkeypatch.setattr(leak_verdict, "DEPENDENCE", 2.0)
    assert leak_verdict._tail(136, 400, 0.25) == pytest.approx(binomtest(68, 200, 0.25, "greater").pvalue)
    assert leak_verdict._tail(0, 10, 0.25) == 1.0


def test_what_is_not_above_random_masks_does_not_leak_however_far_above_chance() -> None:
    fill = Fill([{"fraction": 0.5, "error": 0.0, "low": 0.0, "high": 0.0, "base": 0.5, "n": 9}], None)
    classes = np.arange(400) % 4
    assert verdict([told(0.6, 0.6)], fill, None, classes)["verdict"] != "leaks"
    assert verdict([told(0.6, 0.25)], fill, None, classes)["verdict"] == "leaks"


def test_more_masks_need_more_evidence() -> None:
    fill = Fill([{"fraction": 0.5, "error": 0.0, "low": 0.0, "high": 0.0, "base": 0.5, "n": 9}], None)
    classes, one = np.arange(400) % 4, told(0.36, 0.22, seed=1)
    p = leak_verdict._p_value(one, 0.25)
    assert leak_verdict.LEVEL / 20 < p < leak_verdict.LEVEL, "the case must lie where the correction decides"
    assert verdict([one], fill, None, classes)["verdict"] == "leaks"
    others = [told(0.25, 0.25, seed=seed) for seed in range(2, 22)]
    assert holm([p, *[1.0] * 20])[0] > leak_verdict.LEVEL
    assert verdict([one, *others], fill, None, classes)["verdict"] == "cannot tell"


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"ids": ["a"]}, "expected the same number of samples"),
        ({"class_count": 3}, "expected integers from 0 to 2"),
        ({"effort": "lazy"}, "effort: got 'lazy'"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], match: str) -> None:
    with pytest.raises(InputError, match=match):
        audit({"random": noise(40)}, CLASSES[:40], **change)


def test_imputers_of_one_name_are_refused_before_any_work() -> None:
    def broken(images: torch.Tensor, removed: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        raise AssertionError("work was done")

    one, two = FunctionImputer(broken), FunctionImputer(broken)
    with pytest.raises(InputError, match="imputers of the same name came: 'broken'; rows are told apart"):
        audit({"random": noise(40)}, CLASSES[:40], imputers=[one, Mean(), two])


def test_the_samples_of_each_effort_are_those_documented() -> None:
    for effort, most in leakage.SAMPLES.items():
        assert re.search(
            rf'"{effort}"``:[^;.]*at most {most:,} [^;.]*in {leakage._FOLDS[effort]}\b', audit_leakage.__doc__
        )


def test_classes_must_be_whole_numbers() -> None:
    with pytest.raises(InputError, match="got classes float64"):
        audit({"random": noise(40)}, CLASSES[:40].astype(float))
