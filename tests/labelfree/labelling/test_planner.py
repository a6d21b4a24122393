"""How many labels are needed, against a search by hand."""

from __future__ import annotations

import pytest
from scipy.stats import binomtest

from roadworthy.errors import InputError
from roadworthy.labelfree.labelling import labels_needed
from roadworthy.labelfree.labelling.planner import half_width_of


@pytest.mark.parametrize("half_width", [0.03, 0.05, 0.2])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_fewest_that_reach_the_width(half_width: float, level: float) -> None:
    n = labels_needed(half_width, level=level, expected=0.5)

    def half(n: int) -> float:
        low, high = binomtest(n // 2, n).proportion_ci(level, "wilson")
        return (high - low) / 2

    even = n + n % 2
    assert half(even) <= half_width < half(even - 2 - 2 * (n % 2))
    assert half_width_of(0.5, n, level=level) <= half_width < half_width_of(0.5, n - 1, level=level)


def test_fewer_are_needed_where_more_is_known() -> None:
    assert labels_needed(0.05) == labels_needed(0.05, expected=(0.2, 0.9)) == 268
    assert labels_needed(0.05, expected=(0.8, 0.9)) == labels_needed(0.05, expected=0.8) < 268
    assert labels_needed(0.05, expected=(0.1, 0.2)) == labels_needed(0.05, expected=0.8)
    assert labels_needed(0.05, population=1000) < 268
    assert labels_needed(0.01, population=40) == 40
    assert labels_needed(0.4, population=1) == 1
    assert half_width_of(0.5, 40, population=40) == 0


@pytest.mark.parametrize(
    ("kind", "settings", "message"),
    [
        (0.5, {}, "half_width: got 0.5, expected a distance between 0 and 0.5"),
        (0.0, {}, "half_width: got 0.0"),
        (0.1, {"level": 1.0}, "level: got 1.0"),
        (0.1, {"expected": 1.2}, "expected: got 1.2"),
        (0.1, {"expected": (0.9, 0.8)}, "expected: got"),
        (0.1, {"population": 0}, "population: got 0"),
    ],
)
def test_impossible_wishes_are_refused(kind: float, settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        labels_needed(kind, **settings)
