from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from roadworthy.errors import InputError
from roadworthy.labelfree.perturbation import Draws, Gaussian, Rotation, knobs, perturbations, resolve

NAMES = {
    "gaussian",
    "occlusion",
    "rotation",
    "translation",
    "colour-jitter",
    "word-neighbours",
    "word-deletion",
    "word-swap",
    "word-shuffle",
    "hidden-noise",
    "time-warp",
    "frequency-noise",
    "slice",
    "dropout",
    "ensemble",
}


def test_every_kind_has_a_line_and_its_default_strength_with_a_unit() -> None:
    assert set(perturbations) == NAMES
    for name in perturbations:
        part = perturbations[name]()
        assert part.name == name
        assert perturbations.describe(name)
        assert (part.strength is None) == (part.unit == "")
        assert knobs(name).get("strength") == part.strength


def test_parts_follow_one_another() -> None:
    spin = v2.RandomRotation(10)
    parts = resolve(["rotation+gaussian", Gaussian(strength=0.5), spin])
    assert [part.name for part in parts] == ["rotation", "gaussian", "gaussian", "function"]
    assert [part.strength for part in parts] == [10, 0.05, 0.5, None]
    assert [p.strength for p in resolve("rotation+gaussian", {"gaussian": 0.2})] == [10, 0.2]
    assert [p.strength for p in resolve("gaussian+dropout", 0.2)] == [0.2, None]


@pytest.mark.parametrize(
    ("choice", "strength", "match"),
    [
        ("gausian", None, r"Unknown perturbation 'gausian'. Did you mean 'gaussian'\?"),
        ("rotation+gaussian", 0.1, r"rotation and gaussian have strengths in different units; pass a dict"),
        ("dropout", 0.1, r"dropout has none"),
        ("gaussian", -0.1, r"got -0.1 for gaussian, expected at least 0"),
        ("gaussian", float("nan"), r"expected at least 0"),
        ("gaussian", {"rotation": 3}, r"no part is named 'rotation'"),
        ([], None, r"expected at least one"),
        (3, None, r"expected a name"),
        (Gaussian, None, r"expected a name"),
    ],
)
def test_choices_that_cannot_be_are_refused(choice: object, strength: object, match: str) -> None:
    with pytest.raises(InputError, match=match):
        resolve(choice, strength)  # type: ignore[arg-type]


def test_a_transform_of_torchvision_draws_by_sample_and_leaves_the_global_generators() -> None:
    images = torch.rand(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    kept = images.clone()
    (part,) = resolve(v2.Compose([v2.RandomRotation(30), v2.ColorJitter(0.5), v2.GaussianNoise()]))
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()  # noqa: NPY002
    draws = Draws(0, "test", ["a", "b", "c", "d"])
    found = [part.disturb(images, torch.zeros(4), draws) for _ in range(2)]
    alone = Draws(0, "test", ["c"])
    again = [part.disturb(images[[2]], torch.zeros(1), alone) for _ in range(2)]
    assert torch.equal(images, kept)
    assert bool((found[0] != found[1]).flatten(1).any(1).all())
    assert torch.equal(torch.stack(found)[:, 2], torch.stack(again)[:, 0])
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])  # noqa: NPY002
    assert states[2] == random.getstate()


def test_a_function_that_returns_something_else_is_named() -> None:
    (part,) = resolve(lambda batch: batch[:, :2])
    with pytest.raises(InputError, match=r"the function returned shape \(1, 2\), expected \(1, 5\)"):
        part.disturb(torch.rand(3, 5), torch.zeros(3), Draws(0, "test", ["a", "b", "c"]))
    (part,) = resolve(lambda batch: 3)
    with pytest.raises(InputError, match=r"returned int"):
        part.disturb(torch.rand(1, 5), torch.zeros(1), Draws(0, "test", ["a"]))


def test_settings_are_plain_values() -> None:
    assert Rotation(strength=3).settings() == {"strength": 3, "unit": "degrees", "border": "edge"}
