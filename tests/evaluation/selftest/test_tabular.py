"""The table whose informative columns are known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from roadworthy.evaluation.selftest import tabular as module
from roadworthy.evaluation.selftest.tabular import COLUMNS, drawn_table, tabular


def test_four_columns_hold_the_label_and_the_others_do_not() -> None:
    table = drawn_table(20_000, seed=3)
    rows, sign = table.rows.double().numpy(), 2 * table.labels - 1
    informative = table.informative > 0
    assert informative.sum() == 4
    assert 0.45 < table.labels.mean() < 0.55
    # without the shared part, which has one direction, only informative columns go with the label
    direction = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)[2][0]
    left = rows - np.outer(rows @ direction, direction)
    assert abs(left[:, informative].T @ sign / len(rows)).max() > 0.02
    whole, without = (np.linalg.lstsq(part, sign, rcond=None)[0] for part in (rows, rows[:, ~informative]))
    assert ((rows @ whole > 0) == (sign > 0)).mean() > 0.65
    assert ((rows[:, ~informative] @ without > 0) == (sign > 0)).mean() < 0.53


def test_roar_puts_the_known_columns_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STEPS", (2, 4, 8))
    roar = tabular(rows=4000, seeds=(0,))
    assert (roar.id, roar.strategy, roar.n, roar.seeds) == ("M16", "roar", 4000, (0,))
    for link in ("recursive <= roar", "truth < random", "random < worst"):
        assert f"{link} holds (1 of 1 seeds)" in roar.note


def test_wrong_orders_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    areas = {"truth": 0.56, "roar": 0.55, "worst": 0.8, "random": 0.65, "recursive": 0.55}

    def found(second: bool = False, **changes: float) -> tuple[float, bool | None]:
        """Change the areas of both seeds, or of the second alone."""
        monkeypatch.setattr(module._Case, "areas", lambda self: areas | (changes if self.seed or not second else {}))
        trial = tabular(rows=40, seeds=(0, 1))
        return trial.measured, trial.passed

    assert found() == (4, True)
    assert found(random=0.5) == (3, False)
    assert found(worst=0.6) == (3, False)
    assert found(roar=0.57) == (3, False)
    assert found(recursive=0.56) == (3, False)
    assert found(roar=0.56, recursive=0.56) == (4, True)
    # the mean of the seeds counts, but for the strict links, which each must hold
    assert found(second=True, roar=0.565) == (4, True)
    assert found(second=True, random=0.55) == (4, False)


def test_recursion_keeps_what_is_gone_and_ends_at_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    case = module._Case(drawn_table(200, 0), 0)
    seen = []

    def trained(treatment, order=None):
        seen.append((treatment, None if order is None else order.copy()))
        return 0.5, case_network

    case_network = module._linear(0)
    monkeypatch.setattr(case, "_trained", trained)
    case._recursive(case_network)
    gone = [np.flatnonzero(order > 0) for _, order in seen]
    assert [len(columns) for columns in gone] == list(module.STEPS)
    for earlier, later in itertools.pairwise(gone):
        assert set(earlier) <= set(later)
    for _, order in seen:  # what went first has the largest value, and none are alike among the gone
        assert len(np.unique(order[order > 0])) == (order > 0).sum()
    assert [treatment.fraction for treatment, _ in seen] == [step / COLUMNS for step in module.STEPS]
