"""The gate on masks that tell the class and on masks that do not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from roadworthy.errors import AttributionError, InputError
from roadworthy.evaluation.audit.gate import Gate, encoding_gap, gate_verdict
from roadworthy.evaluation.epochs import GATE
from roadworthy.evaluation.finetune import fine_tuned, judge_recipe
from roadworthy.evaluation.retrained import as_split
from roadworthy.model import Recipe, fit
from roadworthy.records import Split
from roadworthy.rng import seeded_globals

SIDE, KEEP = 8, 4 / 64
LONG = Recipe(epochs=20, learning_rate=0.1, batch_size=64, weight_decay=0.0, schedule="one-cycle")


def drawn(n: int, seed: int) -> tuple[torch.Tensor, np.ndarray, dict[str, np.ndarray]]:
    """Noise brighter than the fill, whose first four pixels are the class; as maps the truth, a code, and noise."""
    draw = np.random.default_rng(seed)
    labels = np.arange(n) % 2
    images = draw.choice([0.6, 0.9], size=(n, 1, SIDE, SIDE))
    images[:, 0, :2, :2] = labels[:, None, None]
    truth, leak = np.zeros((2, n, SIDE, SIDE))
    truth[:, :2, :2] = 1
    leak[labels == 0, -2:, :2] = leak[labels == 1, -2:, -2:] = 1
    maps = {"truth": truth, "leak": leak, "noise": draw.random((n, SIDE, SIDE))}
    return torch.from_numpy(images).float(), labels, maps


def fresh(seed: int) -> torch.nn.Module:
    with seeded_globals(seed, "test-gate"):
        return torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(SIDE**2, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2)
        )


@pytest.fixture(scope="module")
def case() -> tuple[torch.nn.Module, Split, Split, dict[str, tuple[np.ndarray, np.ndarray]]]:
    (images, labels, maps), (others, answers, more) = drawn(600, 0), drawn(300, 1)
    train, test = as_split("train", images, labels), as_split("test", others, answers)
    model = fresh(0)
    fit(model, train, recipe=judge_recipe(len(train), GATE), seed=0)
    judge = fine_tuned(model, train, recipe=LONG, mean=[0.5], grains=(0.0,))
    return judge, train, test, {name: (maps[name], more[name]) for name in maps}


def test_a_mask_that_tells_the_class_is_ahead_of_the_judge_and_others_are_not(case) -> None:
    judge, train, test, maps = case
    weights = {name: value.clone() for name, value in judge.state_dict().items()}
    state = torch.random.get_rng_state()
    rows = encoding_gap(judge, train, test, maps, keeps=(KEEP,), mean=[0.5], recipe=LONG)
    found = {row["method"]: row for row in rows}
    assert found["leak"]["kar"] == 1.0
    assert found["leak"]["judge"] < 0.65
    assert found["truth"]["kar"] == 1.0
    assert found["truth"]["judge"] > 0.95
    assert [each["verdict"] == "withheld" for each in gate_verdict(rows)] == [False, True, False]
    for row in rows:
        assert row["gap"] == pytest.approx(row["kar"] - row["judge"])
        assert row["gap_low"] <= row["gap"] <= row["gap_high"]
        assert (row["keep"], row["n"]) == (KEEP, 300)
    assert all(torch.equal(value, weights[name]) for name, value in judge.state_dict().items())
    assert torch.equal(torch.random.get_rng_state(), state)


def test_from_scratch_finds_the_same_leak_and_the_same_call_the_same_numbers(case) -> None:
    judge, train, test, maps = case
    options = {"keeps": (KEEP,), "mean": [0.5], "recipe": LONG, "build": fresh}
    first, again = (encoding_gap(judge, train, test, {"leak": maps["leak"]}, **options) for _ in range(2))
    assert first == again
    assert first[0]["kar"] == 1.0


def test_what_random_masks_do_too_is_taken_off(case) -> None:
    judge, train, test, maps = case
    options = {"keeps": (KEEP,), "mean": [0.5], "recipe": LONG}
    control = Gate(judge, train, test, mean=[0.5], recipe=LONG).random_hits((KEEP,))
    (row,) = encoding_gap(judge, train, test, {"leak": maps["leak"]}, **options)
    (given,) = encoding_gap(judge, train, test, {"leak": maps["leak"]}, control=control, **options)
    assert row == given
    assert [row["control_kar"], row["control_judge"]] == control[KEEP].mean(axis=1).tolist()
    assert row["control"] == pytest.approx(row["control_kar"] - row["control_judge"])
    assert row["beyond"] == pytest.approx(row["gap"] - max(0, row["control"]))
    assert row["beyond_low"] < row["beyond"] < row["beyond_high"]
    assert abs(row["control"]) < 0.1
    half = {
        KEEP: np.stack([np.ones(300), np.zeros(300)])
    }  # the same for every sample: it moves the interval, no more
    (behind,) = encoding_gap(judge, train, test, {"leak": maps["leak"]}, control=half, **options)
    for end in ("", "_low", "_high"):
        assert behind[f"beyond{end}"] == pytest.approx(row[f"gap{end}"] - 1, abs=1e-9)
    ahead = {KEEP: 1 - half[KEEP]}  # a judge that is better on random masks: nothing is taken off, nothing added
    (strong,) = encoding_gap(judge, train, test, {"leak": maps["leak"]}, control=ahead, **options)
    assert strong["control"] == -1
    assert [strong[f"beyond{end}"] for end in ("", "_low", "_high")] == [
        pytest.approx(row[f"gap{end}"]) for end in ("", "_low", "_high")
    ]
    for other in ({}, {KEEP: np.zeros((2, 299))}, {0.5: control[KEEP]}):
        with pytest.raises(InputError, match=r"control: it has nothing for 300 test samples with 0.0625 kept"):
            encoding_gap(judge, train, test, {"leak": maps["leak"]}, control=other, **options)


def test_a_judge_that_is_weak_on_every_mask_withholds_nothing_clean() -> None:
    """Any four pixels tell the class, but the judge never learnt it: the gap is wide for every mask."""
    labels = np.arange(900) % 2
    draw = np.random.default_rng(0)
    images = 0.3 + 0.4 * labels[:, None, None, None] + 0.05 * draw.standard_normal((900, 1, SIDE, SIDE))
    both = torch.from_numpy(images).float()
    train, test = as_split("train", both[:600], labels[:600]), as_split("test", both[600:], labels[600:])
    maps = draw.random((900, SIDE, SIDE))
    blind = {"anything": (maps[:600], maps[600:])}
    (row,) = encoding_gap(fresh(3), train, test, blind, keeps=(KEEP,), mean=[0.5], recipe=LONG)
    assert row["gap"] > 0.2
    assert abs(row["beyond"]) < 0.05
    assert gate_verdict([row])[0]["verdict"] == "passes"


def test_verdicts() -> None:
    row = {"method": "a", "keep": 0.12, "kar": 0.5, "judge": 0.4, "gap": 0.1, "control": 0.05}
    row |= {"beyond": 0.05, "beyond_low": 0.01, "beyond_high": 0.09}
    found = gate_verdict([row, row | {"keep": 0.06, "gap": 0.16, "beyond": 0.11, "kar": 0.56, "beyond_high": 0.15}])
    assert [(each["method"], each["verdict"]) for each in found] == [("a", "withheld")]
    assert found[0]["why"] == (
        "with 6% kept, a retrained network is right for 56% of the images and a judge that cannot know the masks for "
        "40% of the same, a gap of 0.16, on random masks 0.05: the mask itself adds 0.11 (0.01 to 0.15)"
    )
    assert gate_verdict([row])[0] == {
        "method": "a", "verdict": "passes", "why": "the mask adds at most 0.09 to what the pixels show"
    }  # fmt: skip
    wide = gate_verdict([row | {"beyond_high": 0.13}])[0]
    assert wide["verdict"] == "cannot tell"
    assert "0.13" in wide["why"]
    for unknown in ("beyond", "beyond_high"):
        assert gate_verdict([row | {unknown: float("nan")}])[0]["verdict"] == "cannot tell"
    assert gate_verdict([row], threshold=0.02)[0]["verdict"] == "withheld"
    assert gate_verdict([]) == []
    # a wide gap passes where random masks have it too: the judge is weak, and no mask needs to tell anything for it
    assert gate_verdict([row | {"gap": 0.4, "control": 0.38, "beyond": 0.02}])[0]["verdict"] == "passes"


def test_arguments_that_do_not_fit(case) -> None:
    judge, train, test, maps = case
    with pytest.raises(InputError, match="no maps"):
        encoding_gap(judge, train, test, {})
    with pytest.raises(InputError, match="'leak' is no pair"):
        encoding_gap(judge, train, test, {"leak": maps["leak"][0]})
    for keeps in ((0.0,), (1.0,), (0.999,), ()):
        with pytest.raises(InputError, match="keeps: got"):
            encoding_gap(judge, train, test, maps, keeps=keeps)
    with pytest.raises(AttributionError, match="leak: 300 maps for 600 samples"):
        encoding_gap(judge, train, test, {"leak": (maps["leak"][1], maps["leak"][1])})
