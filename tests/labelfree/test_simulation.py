"""The published simulation: the correlations that were measured independently, and the known failures."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.errors import InputError
from roadworthy.labelfree.discrepancy import pseudo_label_discrepancy
from roadworthy.labelfree.simulation import simulate

MEASURED = {"base": -0.963, "third-class": -0.974, "imbalance": -0.932}


def correlations(variant: str, draws: int) -> np.ndarray:
    """Mean over simulations of Pearson with the share of positives: of discrepancy, of the midpoint."""
    found = []
    for seed in range(100, 100 + draws):
        train, test, wild = simulate(variant, seed=seed)
        one = pseudo_label_discrepancy(train, test, wild, seed=seed - 100).classes[0]
        found.append(one.against(wild.probabilities, wild.labels))
    return np.mean(found, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("variant", list(MEASURED))
def test_the_correlations_are_reproduced(variant: str) -> None:
    ours, baseline = correlations(variant, 16)
    assert ours == pytest.approx(MEASURED[variant], abs=0.02)
    assert baseline == pytest.approx(-ours, abs=0.02)  # the classifier's own score says as much


@pytest.mark.slow
def test_the_correlations_of_two_draws_are_near() -> None:
    for variant, expected in MEASURED.items():
        assert correlations(variant, 2)[0] == pytest.approx(expected, abs=0.06)


def test_classes_that_have_moved_past_each_other_turn_the_sign() -> None:
    train, test, wild = simulate("moved-past", seed=3)
    found = pseudo_label_discrepancy(train, test, wild, repeats=3).classes[0]
    assert found.against(wild.probabilities, wild.labels)[0] > 0.4
    assert found.column("discrepancy")[0] > 0.9  # and looks as sure as ever


def test_what_is_drawn() -> None:
    train, test, wild = simulate("third-class", seed=0)
    assert [np.bincount(part.labels).tolist() for part in (train, test, wild)] == [
        [500, 500],
        [200, 200],
        [2000, 1000],
    ]
    assert np.bincount(simulate("imbalance")[2].labels).tolist() == [1000, 125]
    assert train.features[:500].mean(axis=0) == pytest.approx([1, 1], abs=0.15)
    assert train.features[:500].var(axis=0) == pytest.approx([0.8, 0.8], abs=0.15)
    assert test.features[200:].var(axis=0) == pytest.approx([0.1, 0.1], abs=0.03)
    assert wild.features[1000:2000].mean(axis=0) == pytest.approx([3, 0], abs=0.15)
    assert wild.features[2000:].mean(axis=0) == pytest.approx([3, -1], abs=0.15)
    assert (simulate(seed=1)[0].features == simulate(seed=1)[0].features).all()
    with pytest.raises(InputError, match="Unknown variant 'bas'. Did you mean 'base'"):
        simulate("bas")
