from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from roadworthy.errors import InputError
from roadworthy.statistics import above_chance


@given(st.data())
def test_it_is_the_exact_binomial_test(data: st.DataObject) -> None:
    n, classes = data.draw(st.integers(1, 400)), data.draw(st.integers(2, 1000))
    correct = data.draw(st.integers(0, n))
    level = data.draw(st.sampled_from([0.9, 0.95, 0.99]))
    p = binomtest(correct, n, 1 / classes, alternative="greater").pvalue
    assert above_chance(correct, n, classes, level=level) == (p <= 1 - level) or abs(p - (1 - level)) < 1e-12


@pytest.mark.parametrize(("n", "classes"), [(1, 2), (1, 1000), (20, 2), (300, 10), (50_000, 1000)])
def test_it_turns_once_where_the_tail_falls_to_the_level(n: int, classes: int) -> None:
    said = [above_chance(correct, n, classes) for correct in range(min(n, 400) + 1)]
    assert said == sorted(said)
    assert said[0] is False
    first = said.index(True) if True in said else len(said)
    for correct in {first - 1, first} & set(range(len(said))):
        p = binomtest(correct, n, 1 / classes, alternative="greater").pvalue
        assert said[correct] == (p <= 0.05)


def test_a_single_sample_shows_something_only_with_twenty_classes() -> None:
    assert not above_chance(1, 1, 19)
    assert above_chance(1, 1, 21)


@pytest.mark.parametrize(("correct", "n", "classes"), [(-1, 5, 2), (6, 5, 2), (0, 0, 2), (1, 5, 1)])
def test_counts_outside_their_ranges_are_quoted(correct: int, n: int, classes: int) -> None:
    with pytest.raises(InputError, match=rf"{correct} right of {n} with {classes} classes came"):
        above_chance(correct, n, classes)


def test_a_level_outside_its_range_is_quoted() -> None:
    with pytest.raises(InputError, match=r"level: 1\.5 came"):
        above_chance(1, 5, 2, level=1.5)


def test_scipy_is_loaded_on_use() -> None:
    code = "import sys, roadworthy.statistics; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"scipy.stats", "scipy.special"} & set(done.stdout.split())
