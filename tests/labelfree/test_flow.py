"""The front of label-free evaluation: planted classifiers whose truth is known, a small network, and bad input."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import roadworthy as rw
from roadworthy.errors import InputError
from roadworthy.labelfree import Outputs
from roadworthy.labelfree.result import LabelFree


def said(n: int, seed: int, *, sure: float = 1.0, prefix: str = "", features: bool = True) -> Outputs:
    """A calibrated classifier of two classes; ``sure`` above 1 says more than it knows."""
    rng = np.random.default_rng(seed)
    evidence = rng.normal(size=n) * 2
    labels = (rng.random(n) < 1 / (1 + np.exp(-evidence))).astype(int)
    held = np.stack([evidence, rng.normal(size=n)], axis=1) if features else None
    return Outputs.of(
        1 / (1 + np.exp(-sure * evidence)),
        labels=labels,
        features=held,
        ids=[f"{prefix}{k}" for k in range(n)],
        classes=("no", "yes"),
    )


class Halves(torch.nn.Module):
    """Says which half of an image is lighter."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(30.0))
        self.drop = torch.nn.Dropout(0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        left, right = x[..., :4].mean((1, 2, 3)), x[..., 4:].mean((1, 2, 3))
        return self.scale * self.drop(torch.stack([left, right], 1))


def images(n: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(n, 1, 6, 8, generator=generator)
    y = torch.randint(2, (n,), generator=generator)
    for row, label in enumerate(y.tolist()):
        x[row, :, :, 4 * label : 4 * label + 4] = (x[row, :, :, 4 * label : 4 * label + 4] + 0.15).clamp(0, 1)
    return x, y


@pytest.fixture(scope="module")
def judged() -> LabelFree:
    return rw.labelfree(data=said(500, 1, prefix="t"), source=said(500, 0), seed=3)


def test_saved_outputs_are_enough(judged: LabelFree) -> None:
    truth = said(500, 1).accuracy
    value, low, high = judged.accuracy
    assert low <= truth <= high
    assert abs(value - truth) < 0.06
    assert judged.record["truth"] == truth  # shown beside
    assert judged.record["curve"] is None
    assert any("nothing was perturbed" in note for note in judged.warnings)
    assert set(judged.estimates["estimator"]) >= {"ac", "doc", "atc", "cbpe", "cot", "source", "median"}
    assert judged.plan is not None
    assert judged.plan.n <= 500


def test_labels_of_the_target_change_nothing(judged: LabelFree) -> None:
    target = said(500, 1, prefix="t")
    bare = Outputs.of(target.probabilities, features=target.features, ids=target.ids, classes=target.classes)
    again = rw.labelfree(data=bare, source=said(500, 0), seed=3)
    assert again.record["truth"] is None
    assert {**again.record, "truth": 0} == {**judged.record, "truth": 0}


def test_without_a_source_no_accuracy_is_claimed() -> None:
    found = rw.labelfree(data=said(100, 1))
    assert np.isnan(found.accuracy[0])
    assert len(found.estimates) == 0
    assert "cannot be estimated" in found.verdict[0]
    assert found.plan is not None
    json.loads(found.to_json())


def test_a_collapsed_classifier_gets_no_number() -> None:
    collapsed = Outputs.of([[0.9, 0.1]] * 100, features=said(100, 2).features)
    found = rw.labelfree(data=collapsed, source=said(300, 0))
    assert np.isnan(found.accuracy[0])
    assert "No accuracy can be given" in found.verdict[0]
    assert "refuse" in set(found.gates["status"])


def test_one_class_in_the_target_is_allowed() -> None:
    """Field report 34: a chunk of one class; classes come from the model."""
    rng = np.random.default_rng(0)
    p = rng.uniform(0.6, 1, size=100)
    target = Outputs.of(np.stack([p, 1 - p], axis=1), labels=np.zeros(100, int))
    found = rw.labelfree(data=target, source=said(300, 0, features=False))
    assert found.record["predicted"] == [100, 0]
    json.loads(found.to_json())
    assert len(found.estimates) > 5


def test_a_model_and_images() -> None:
    model, (x, y), (known, labels) = Halves(), images(120, 1), images(160, 0)
    model.train()
    kept, state = x.clone(), torch.get_rng_state()
    calls: list[int] = []
    found = rw.labelfree(
        model,
        x,
        source=(known, labels),
        corruptions=["noise", "contrast"],
        passes=8,
        classes=("left", "right"),
        progress=calls.append,
    )
    truth = float((model.eval()(x).argmax(1) == y).float().mean())
    assert found.accuracy[1] <= truth <= found.accuracy[2]
    assert found.record["settings"]["kinds_of_shift"] == ["cluster", "contrast", "labels", "noise", "tilt"]
    assert found.record["curve"]["n"] == 120
    assert {"agreement", "soft_agreement"} <= set(found.per_sample)
    assert found.pictures is not None
    assert found.pictures.clean.shape == (9, 1, 6, 8)
    assert found.pictures.perturbed.shape == (9, 3, 1, 6, 8)
    assert found.pictures.band == ("high",) * 3 + ("middle",) * 3 + ("low",) * 3
    assert sum(calls) >= 120
    torch.testing.assert_close(x, kept, rtol=0, atol=0)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_same_call_gives_the_same_record_and_flags_are_restored() -> None:
    model, (x, _), source = Halves(), images(60, 1), images(80, 0)
    model.drop.eval()
    flags = [part.training for part in model.modules()]
    settings: dict[str, Any] = {"source": source, "perturbation": "gaussian+dropout", "passes": 6, "corruptions": ()}
    one, other = (rw.labelfree(model, x, **settings) for _ in range(2))
    assert one.record == other.record
    assert [part.training for part in model.modules()] == flags
    assert {row["name"]: row["status"] for row in one.record["gates"]}["dropout"] == "pass"


def test_an_ensemble_is_judged_with_its_source() -> None:
    models, (x, _), source = [Halves(), Halves()], images(60, 1), images(80, 0)
    found = rw.labelfree(models, x, source=source, perturbation="ensemble", corruptions=["noise"])
    assert found.record["consistency"]["passes"] == 2
    assert {"labels", "noise"} <= set(found.record["settings"]["kinds_of_shift"])


def test_tables_are_judged_too() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32) * [1, 10, 100]
    net = torch.nn.Linear(3, 2)
    with torch.no_grad():
        net.weight.copy_(torch.tensor([[0.0, 0, 0], [3.0, 0.3, 0.0]]))
        net.bias.zero_()
    labels = (x[:, 0] + x[:, 1] / 10 > 0).astype(int)
    found = rw.labelfree(net, x[:100].astype(np.float32), source=(x[100:].astype(np.float32), labels[100:]), passes=5)
    assert found.pictures is None
    assert set(found.record["settings"]["kinds_of_shift"]) >= {"feature-noise", "missing"}
    assert np.isnan(found.accuracy[0]) == ("cannot tell" in found.verdict[0])  # its interval may say nothing
    assert {row["estimator"] for row in found.record["estimates"]} >= {"ac", "atc", "cot"}


def test_pseudo_label_discrepancy_where_training_samples_are_given() -> None:
    found = rw.labelfree(data=said(400, 1), source=said(300, 0), train=said(300, 2))
    assert found.record["discrepancy"]["classes"][0]["intervals"]


@pytest.mark.parametrize("wrong", [{"half_width": 0.5}, {"half_width": float("nan")}, {"statistic": "agreements"}])
def test_wrong_settings_are_named_before_the_model_is_asked(wrong: dict[str, Any]) -> None:
    def never(x: torch.Tensor) -> torch.Tensor:
        raise AssertionError

    with pytest.raises(InputError, match="half_width: got|Did you mean 'agreement'"):
        rw.labelfree(never, np.zeros((4, 3), np.float32), **wrong)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "data: got nothing"),
        ({"data": said(30, 0), "ids": ["a"] * 30}, "ids, second: saved outputs bring their own"),
        ({"data": np.zeros((3, 2))}, "pass the model"),
        ({"data": said(30, 0), "model": Halves()}, "need no model"),
        ({"data": said(30, 0), "source": (np.zeros((3, 2)), [0, 1, 0])}, "source: got samples"),
        ({"data": said(30, 0), "source": Outputs.of([0.5] * 30)}, "its labels are not known"),
        (
            {"data": said(30, 0), "source": Outputs.of([[0.2, 0.3, 0.5]] * 9, labels=[0] * 9)},
            "3 classes, the target 2",
        ),
        ({"data": said(30, 0), "source": said(3, 0)}, "some hundred"),
        ({"data": said(30, 0), "source": said(0, 0)}, "got 0 labelled samples"),
        ({"data": said(30, 0), "source": said(20, 0)}, "too few to make pseudo-targets"),
        ({"data": said(30, 0), "groups": [1] * 30}, "pass source= too"),
        ({"data": said(30, 0), "train": said(30, 1)}, "pass source="),
        ({"data": said(30, 0), "source": said(90, 0), "corruptions": ["noise"]}, "saved outputs"),
        ({"data": said(30, 0), "level": 1.5}, "level: got 1.5"),
        ({"data": said(30, 0), "reliability": 90}, "reliability: got 90"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        rw.labelfree(**arguments)


def test_images_that_are_not_in_pixel_units_are_not_corrupted() -> None:
    x, y = images(80, 0)
    found = rw.labelfree(Halves(), images(40, 1)[0] * 2 - 1, source=(x * 2 - 1, y), passes=5)
    assert any("not in pixel units" in note for note in found.warnings)
    assert found.pictures is None
