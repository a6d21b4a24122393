"""Label-free runs side by side: estimates, what they can differ by, coverage, and gates."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from roadworthy.comparison.record import Comparison
from roadworthy.comparison.settings import settings_table
from roadworthy.comparison.units import Shared, shared_ids
from roadworthy.labelfree.result import LabelFree

_NAN = float("nan")


def compare_labelfree(runs: Mapping[str, LabelFree]) -> Comparison:
    """Compare label-free runs; see :func:`roadworthy.compare`."""
    (against, first), *others = runs.items()
    shared = {name: shared_ids(run.target.ids, first.target.ids) for name, run in others}
    differences = pd.DataFrame([_difference(name, run, against, first, shared[name]) for name, run in others])
    return Comparison(
        kind="label-free",
        runs=tuple(runs),
        table=pd.DataFrame([_row(name, run) for name, run in runs.items()]),
        differences=differences,
        settings=settings_table(runs),
        gates=_gates(runs),
        warnings=tuple(_warnings(runs, shared)),
        score_name="accuracy, estimated",
        level=float(differences["level"].min()),
    )


def _row(name: str, run: LabelFree) -> dict[str, Any]:
    record, live = run.record, run.record["estimate"]
    value, low, high = run.accuracy
    covered = record["threshold"]["agreement"] or {}
    return {
        "run": name,
        "accuracy": value,
        "low": low,
        "high": high,
        "level": _known(live and live["level"]),
        "estimator": live["chosen"] if live else "",
        "expected_error": _known(live and live["expected_error"]),
        "reason": _why(live),
        "n": run.n,
        "source_accuracy": _known(record["source"] and record["source"]["accuracy"]),
        "truth": _known(record["truth"]),
        "reliability": _known(covered.get("target")),
        "coverage": _known(covered.get("coverage")),
        "coverage_low": _known(covered.get("low")),
        "coverage_high": _known(covered.get("high")),
    }


def _why(live: Mapping[str, Any] | None) -> str:
    if live is None:
        return "no labelled samples of the classifier's own domain were given"
    return str(live["reason"])


def _known(value: Any) -> float:
    return _NAN if value is None else float(value)


def _difference(name: str, run: LabelFree, against: str, first: LabelFree, shared: Shared) -> dict[str, Any]:
    """Combine the two intervals so that the difference holds whenever both of them do.

    That is so with probability ``1 - (1 - a) - (1 - b)`` at least, whether or not they err together. Whatever the
    labels are, accuracies on the same samples differ by no more than the share on which the predictions do.
    """
    (value, low, high), (base, base_low, base_high) = run.accuracy, first.accuracy
    same = shared.rows is not None and run.n == first.n == len(shared.rows[0])
    disagree = _disagreement(run, first, shared) if same else _NAN
    missing = [key for key, one in ((name, run), (against, first)) if math.isnan(one.accuracy[0])]
    levels = [_known((one.record["estimate"] or {}).get("level")) for one in (run, first)]
    found = {"difference": value - base, "low": low - base_high, "high": high - base_low}
    found["level"], reason = max(0.0, levels[0] + levels[1] - 1), ""
    if missing:
        found |= {"difference": _NAN if disagree else 0.0, "low": -disagree, "high": disagree, "level": 1.0}
        reason = f"no estimate of {' and of '.join(missing)}"
        found = dict.fromkeys(found, _NAN) if math.isnan(disagree) else found
    elif not math.isnan(disagree):
        found["difference"] = min(max(found["difference"], -disagree), disagree)
        found |= {"low": max(found["low"], -disagree), "high": min(found["high"], disagree)}
        if found["low"] > found["high"]:
            found |= {"low": _NAN, "high": _NAN}
            reason = f"the estimates lie farther apart than the predictions, which differ on {disagree:.1%}"
    return {
        "run": name, "against": against, **{key: number + 0.0 for key, number in found.items()}, "paired": same,
        "n": run.n, "n_against": first.n, "disagree": disagree, "reason": reason,
    }  # fmt: skip


def _disagreement(run: LabelFree, first: LabelFree, shared: Shared) -> float:
    """Share of the shared samples on which the predictions differ, by class name; NaN where classes are others."""
    if set(run.target.classes) != set(first.target.classes) or shared.rows is None:
        return _NAN
    said = (
        np.array(one.target.classes, dtype=object)[one.target.predicted[rows]]
        for one, rows in zip((run, first), shared.rows, strict=True)
    )
    return float(np.mean(np.not_equal(*said)))


def _gates(runs: Mapping[str, LabelFree]) -> pd.DataFrame:
    found = {name: {gate["name"]: gate["status"] for gate in run.record["gates"]} for name, run in runs.items()}
    names = dict.fromkeys(gate for statuses in found.values() for gate in statuses)
    table = [[gate, *(statuses.get(gate, "") for statuses in found.values())] for gate in names]
    return pd.DataFrame(table, columns=pd.Index(["name", *runs], dtype=object))


def _warnings(runs: Mapping[str, LabelFree], shared: Mapping[str, Shared]) -> Iterator[str]:
    first = next(iter(runs))
    for name, found in shared.items():
        whole = found.rows is not None and runs[name].n == runs[first].n == len(found.rows[0])
        if not whole:
            yield f"{name} and {first}: they judge other samples, so their predictions set no bound"
        elif set(runs[name].target.classes) != set(runs[first].target.classes):
            yield f"{name} and {first}: their classes have other names, so that predictions cannot be held together"
        elif found.note:
            yield f"{name} and {first}: {found.note}"
    targets = {name: (run.record["threshold"]["agreement"] or {}).get("target") for name, run in runs.items()}
    for one, other in combinations(runs, 2):
        if None not in (targets[one], targets[other]) and targets[one] != targets[other]:
            yield f"{one} and {other}: coverage is for a reliability of {targets[one]:g} and of {targets[other]:g}"
    for name, run in runs.items():
        refusing = [gate["name"] for gate in run.record["gates"] if gate["status"] == "refuse"]
        if refusing:
            yield f"{name}: refused by {', '.join(refusing)}"
