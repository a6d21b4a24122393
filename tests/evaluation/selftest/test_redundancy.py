"""Redundant evidence, and what must not change a score, on a network of set weights for the planted bench."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from roadworthy.data import load_data
from roadworthy.data.planted import patterns
from roadworthy.evaluation.selftest import invariance as invariances
from roadworthy.evaluation.selftest.bench import Bench, Judges
from roadworthy.evaluation.selftest.contender import asked_by_view, contenders
from roadworthy.evaluation.selftest.invariance import invariance
from roadworthy.evaluation.selftest.maps import white
from roadworthy.evaluation.selftest.redundancy import _Said, redundancy, two_copies


class Matched(torch.nn.Module):
    """The largest match of each class pattern over the cells: one copy of a pattern is as good as two."""

    def __init__(self) -> None:
        super().__init__()
        of_class, decoy = patterns(6)
        flat = np.concatenate([of_class, decoy[None]]).reshape(5, -1)
        weights = np.linalg.solve(flat @ flat.T, flat)[:4].reshape(4, 1, 6, 6)
        self.cells = torch.nn.Conv2d(1, 4, 6, stride=6, bias=False)
        with torch.no_grad():
            self.cells.weight.copy_(torch.from_numpy(60 * weights))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.cells(images).amax(dim=(2, 3))


FOUND = contenders(["symmetric untouched", "mean morf", "mean lerf"])


@pytest.fixture(scope="module")
def bench() -> Bench:
    data = load_data("planted:n=4,test=80", seed=1)
    samples = next(data.test.batches(80))
    truth, decoy = (mask.astype(np.float32) for mask in (data.relevant, data.test.source.decoy()))
    maps = {"truth": truth, "decoy": decoy, "null white": white(1, samples.ids, (24, 24))}
    judges = Judges(Matched().eval(), None, mean=[0.5], seed=1)
    return Bench("planted", 1, samples, samples.labels, judges, maps, asked_by_view(FOUND), truth > 0)


def test_either_copy_is_enough_and_both_must_go(bench: Bench) -> None:
    doubled = two_copies(bench)
    assert doubled.n > 70
    both, one, other = (doubled.maps[name] > 0 for name in doubled.maps)
    assert (both == (one | other)).all()
    assert not (one & other).any()
    assert (both.sum(axis=(1, 2)) == 72).all()
    images = doubled.samples.images[:, 0].numpy()
    for row in range(5):
        np.testing.assert_array_equal(images[row][one[row]], images[row][other[row]])
    found = {each.name: redundancy([doubled], each) for each in FOUND}
    assert [trial.passed for trial in found.values()] == [True, False, False]
    assert found["symmetric untouched"].measured > 0.5
    assert all("one order only" in found[name].note for name in ("mean morf", "mean lerf"))
    assert all(0.2 in asked.fractions for asked in doubled.asked.values())


def test_a_result_whose_orders_agree_fails(bench: Bench) -> None:
    doubled = two_copies(bench)
    wrong = doubled.with_maps(
        {
            "both copies": doubled.maps["both copies"],
            "one copy": -doubled.maps["one copy"],
            "other copy": bench_noise(doubled),
        }
    )
    trial = redundancy([wrong], FOUND[0])
    assert trial.passed is False
    assert "+1/+1" in trial.note  # one rank by both orders


def test_an_agreement_that_is_undefined_does_not_pass(bench: Bench) -> None:
    assert _Said(0.1, 1, 0).disagree
    assert _Said(0.6, 1, -1).disagree
    assert not _Said(0.6, 1, 0).disagree
    assert not _Said(0.1, 1, 1).disagree  # a single rank all the same
    assert not _Said(float("nan"), 1, 0).disagree
    doubled = two_copies(bench)
    alike = doubled.with_maps(dict.fromkeys(doubled.maps, doubled.maps["both copies"]))
    trial = redundancy([alike], FOUND[0])
    assert trial.passed is False
    assert "agreement of the orders nan" in trial.note


def bench_noise(bench: Bench) -> np.ndarray:
    return white(0, bench.samples.ids, (24, 24))


def test_scores_follow_from_ranks_alone(bench: Bench) -> None:
    trials = invariance(bench, FOUND)
    assert [(trial.strategy, trial.passed, trial.measured) for trial in trials] == [
        (one.name, True, 0.0) for one in FOUND
    ]
    trial = trials[0]
    assert trial.note.count("batches of") == 3
    assert trial.n == invariances.SAMPLES


@pytest.mark.parametrize(
    ("function", "passes"), [(lambda values: 2 * values - 1, True), (lambda values: np.round(8 * values), False)]
)
def test_a_function_that_joins_values_is_seen(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, function: Callable[[np.ndarray], np.ndarray], passes: bool
) -> None:
    monkeypatch.setattr(invariances, "FUNCTIONS", {"changed": function})
    monkeypatch.setattr(invariances, "BATCHES", ())
    (trial,) = invariance(bench, FOUND[:1])
    assert trial.passed is passes
    assert ("differs with changed" in trial.note) is not passes


def test_a_network_that_looks_at_the_whole_batch_is_seen(bench: Bench) -> None:
    class Relative(Matched):
        def forward(self, images: torch.Tensor) -> torch.Tensor:
            found = super().forward(images)
            return found - found.mean(dim=0)

    judges = Judges(Relative().eval(), None, mean=[0.5], seed=1)
    (trial,) = invariance(bench.with_maps(bench.maps, judges=judges), FOUND[1:2])
    assert trial.passed is False
    assert "batches of 1" in trial.note
