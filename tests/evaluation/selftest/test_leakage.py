"""M9: masks that tell the predicted class are found, and masks that do not are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from roadworthy.data import load_data
from roadworthy.evaluation.selftest.leakage import mask_leaks, told_by_masks
from roadworthy.evaluation.selftest.maps import blobs, blurred, planted_maps, quadrants, white
from roadworthy.evaluation.selftest.record import Trial
from roadworthy.records import Batch

IDS = [f"s{row}" for row in range(200)]


@dataclass
class Bench:
    maps: dict[str, np.ndarray]
    targets: torch.Tensor
    samples: Batch
    seed: int = 0

    @property
    def n(self) -> int:
        return len(self.targets)


@pytest.fixture(scope="module")
def planted() -> Bench:
    data = load_data("planted:n=4,test=200", seed=5)
    predicted = (np.arange(200) + np.arange(200) // 50) % 4  # of a model that is often wrong
    maps = planted_maps(
        data.test.images, data.relevant, data.test.source.decoy(), predicted, seed=5, ids=data.test.ids
    )
    names = ("truth", "blur 1", "blur 2", "blur 4", "null white", "null blob", "edge", "leak")
    samples = next(data.test.batches(200))
    return Bench({name: maps[name] for name in names}, torch.from_numpy(predicted), samples, 5)


def test_the_leak_of_the_predicted_class_is_found_and_clean_maps_are_not(planted: Bench) -> None:
    found = mask_leaks([planted])
    assert (found.id, found.passed, found.measured) == ("M9", True, 1.0)
    assert "not found: none; false alarms: none" in found.note


def test_a_leak_that_is_not_found_and_a_false_alarm_fail(planted: Bench) -> None:
    leak = planted.maps["leak"]

    def found(**maps: np.ndarray) -> Trial:
        renamed = {name.replace("_", " "): values for name, values in maps.items()}
        return mask_leaks([Bench({"leak": leak} | renamed, planted.targets, planted.samples)])

    missed = found(leak=planted.maps["null white"])
    assert missed.passed is False
    assert "not found: leak" in missed.note
    alarm = found(null_blob=leak)
    assert alarm.passed is False
    assert "false alarms: null blob" in alarm.note
    named = found(edge=leak)
    assert named.passed is True  # a warning, and no fault of the map
    assert "other maps that tell the class: edge" in named.note


def test_what_permuted_classes_reach_is_what_guessing_does() -> None:
    classes = np.arange(200) % 4
    clear = told_by_masks(quadrants(classes, 16), classes, seed=0, ids=IDS)
    assert clear.accuracy == 1.0
    assert clear.ahead == pytest.approx(0.75, abs=0.06)
    assert clear.flagged
    for maps in (white(0, IDS, (16, 16)), blobs(0, IDS, (16, 16)), blurred(white(0, IDS, (16, 16)), 1)):
        assert not told_by_masks(maps, classes, seed=0, ids=IDS).flagged
