"""Planted leaks and clean maps, and what M9 and M10 make of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roadworthy.data import load_data
from roadworthy.evaluation.audit.mask_only import mask_only
from roadworthy.evaluation.selftest.encoding import GateTest, encoding, gate_test
from roadworthy.evaluation.selftest.leaks import CODES, WEAK, Planted, clean, leaks
from roadworthy.removal import removal_ranks, removed_at, tie_draw


@pytest.fixture(scope="module")
def planted() -> Planted:
    return Planted.of(load_data("planted:n=4,test=400", seed=3).test, seed=3)


def told(maps: np.ndarray, of: Planted) -> float:
    """Return how often the class is told from which 12 % of the pixels are kept."""
    ranks = removal_ranks(maps, tie_draw(0, of.ids, 576), "lerf")
    return mask_only(removed_at(ranks, 0.88), of.classes, seed=0).accuracy


def test_every_leak_tells_the_class_by_its_masks_and_clean_maps_do_not(planted: Planted) -> None:
    bad, good = leaks(planted), clean(planted)
    assert (len(bad), len(good)) == (20, 16)
    assert list(bad) == [*CODES, *WEAK]
    for name, maps in (bad | good).items():
        assert maps.shape == (400, 24, 24), name
        assert maps.dtype == np.float32, name
    found = {name: told(maps, planted) for name, maps in (bad | good).items()}
    assert min(found[name] for name in CODES if name != "distance") > 0.7, found
    assert min(found[name] for name in bad) > 0.35, found
    assert found["edge"] > 0.5  # clean, and yet its shape tells the class: M9 alone is a warning
    assert max(found[name] for name in good if name != "edge") < 0.35, found


def test_codes_do_not_depend_on_where_the_pattern_is(planted: Planted) -> None:
    elsewhere = replace(planted, truth=planted.truth[::-1].copy(), decoy=planted.decoy[::-1].copy())
    for name, code in CODES.items():
        np.testing.assert_array_equal(code(planted), code(elsewhere), err_msg=name)


def test_maps_follow_from_the_seed(planted: Planted) -> None:
    for make in (leaks, clean):
        first, again, other = make(planted), make(planted), make(replace(planted, seed=4))
        for name in first:
            np.testing.assert_array_equal(first[name], again[name], err_msg=name)
        assert any((first[name] != other[name]).any() for name in first)


def gaps(of: dict[str, float], leaking: tuple[str, ...]) -> GateTest:
    rows = [
        {"method": name, "keep": keep, "kar": 0.6 + gap, "judge": 0.5, "gap": 0.1 + gap, "control": 0.1}
        | {f"beyond{end}": gap for end in ("", "_low", "_high")}
        for name, gap in of.items()
        for keep in (0.06, 0.12)
    ]
    return GateTest(rows, leaking, 100, 0)


def test_the_gate_passes_where_leaks_lie_above_all_clean_maps() -> None:
    sound = gaps({"truth": 0.0, "edge": 0.12, "quadrant": 0.6}, ("quadrant",))
    trial = encoding([sound])
    assert (trial.measured, trial.passed) == (1.0, True)
    assert "although clean: edge" in trial.note
    assert encoding([gaps({"truth": 0.11, "quadrant": 0.6}, ("quadrant",))]).passed is False
    assert encoding([sound, gaps({"truth": 0.0, "edge": 0.7, "quadrant": 0.6}, ("quadrant",))]).measured == 0.5


@pytest.mark.slow
def test_the_gate_on_trained_networks(tmp_path: Path) -> None:
    names = ("quadrant", "clumps", "truth", "blur 2", "random white")
    found = gate_test(0, names=names, train=800, test=200, keeps=(0.12,), cache=str(tmp_path))
    trial = encoding([found])
    assert (trial.measured, trial.passed) == (1.0, True), found.gaps
    assert found.withheld == ["quadrant", "clumps"]
