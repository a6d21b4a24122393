"""Trainings put together into one result: each number where it belongs, once."""

from __future__ import annotations

import numpy as np
import pytest

from roadworthy.errors import DataError
from roadworthy.evaluation.gather import Facts, Grid, Point, gather
from roadworthy.evaluation.result import COST
from roadworthy.evaluation.treatment import Treatment

IDS = ["a", "b", "c"]
GRID = Grid(["ig", "random"], ["morf", "lerf"], [0.0, 0.3, 0.7], [0, 2])


def point(treatment: Treatment, repeat: int, ids: list[str] | None = None) -> Point:
    """Return a point whose probability says which training it is of."""
    value = hash_of(treatment, repeat)
    n = len(ids or IDS)
    arrays = {name: np.full(n, value, dtype=np.float32) for name in ("probability", "logit")}
    arrays |= {name: np.full(n, repeat % 2, dtype=np.uint8) for name in ("top1", "top5")}
    arrays |= {"labels": np.arange(n), "predicted": np.arange(n)}
    return Point(ids or IDS, arrays, seconds=value, images=100)


def hash_of(treatment: Treatment, repeat: int) -> float:
    return GRID.treatments().index(treatment) + 10.0 * repeat


def facts() -> Facts:
    return Facts(removed=[0, 3, 7], seed=5, device="cpu", settings={"training": "retrain"})


def test_treatments_are_shared_where_they_are_the_same() -> None:
    found = GRID.treatments()
    # p = 0 once; random once a share; ig once for each order and share
    assert len(found) == 1 + 2 * 1 + 2 * 2
    assert len(set(found)) == len(found)
    assert found[0] == Treatment()


def test_every_number_stands_in_its_place() -> None:
    result = gather(GRID, point, facts())
    assert result.scores.probability.shape == (2, 2, 3, 2, 3)
    for m, method in enumerate(GRID.methods):
        for o, order in enumerate(GRID.orders):
            for p, fraction in enumerate(GRID.fractions):
                for r, repeat in enumerate(GRID.repeats):
                    expected = hash_of(Treatment.of(method, order, fraction), repeat)
                    assert (result.scores.probability[m, o, p, r] == expected).all()
    assert (result.fractions, result.removed, result.repeats, result.ids) == ([0.0, 0.3, 0.7], [0, 3, 7], 2, IDS)
    assert result.provenance["seed"] == 5


def test_the_cost_names_each_training_once() -> None:
    further = ("maps", "ig", "", 0.0, 0, 7.5, 3)
    result = gather(GRID, point, Facts(**{**facts().__dict__, "cost": [further]}))
    cost = result.cost
    assert tuple(cost.columns) == COST
    assert len(cost) == 2 * 7 + 1
    trained = cost[cost["work"] == "retrain"]
    assert trained["seconds"].sum() == sum(hash_of(t, r) for t in GRID.treatments() for r in GRID.repeats)
    assert not trained.duplicated(["method", "order", "fraction", "repeat"]).any()
    assert tuple(cost.iloc[-1]) == further


def test_other_samples_are_refused() -> None:
    def other(treatment: Treatment, repeat: int) -> Point:
        return point(treatment, repeat, IDS[:2] if treatment == Treatment.of("ig", "lerf", 0.7) else None)

    with pytest.raises(DataError, match="the training ig lerf 0.7 of repeat 0 .* 2 and 3; run it again"):
        gather(GRID, other, facts())


@pytest.mark.parametrize(
    ("lacking", "expected"),
    [
        ([], (["ig", "random"], [0, 2])),
        ([("ig", "morf", 0.3, 2)], (["ig", "random"], [0])),
        ([("ig", "morf", 0.3, 2), ("random", "morf", 0.7, 0)], (["random"], [2])),
        ([("ig", "morf", 0.3, 2), ("ig", "lerf", 0.3, 0)], (["random"], [0, 2])),
        ([("ig", "morf", 0.0, 0)], (["ig", "random"], [2])),
        ([("ig", "morf", 0.0, 0), ("ig", "morf", 0.0, 2)], None),
    ],
)
def test_the_complete_part_is_found(
    lacking: list[tuple[str, str, float, int]], expected: tuple[list[str], list[int]] | None
) -> None:
    gone = {(Treatment.of(m, o, f), r) for m, o, f, r in lacking}  # type: ignore[arg-type]
    found = GRID.complete(lambda treatment, repeat: (treatment, repeat) not in gone)
    assert (None if found is None else (list(found.methods), list(found.repeats))) == expected
