"""From the records that are there to results, complete or not; never needs the data or the network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from roadworthy.errors import DataError
from roadworthy.evaluation.result import COST, READOUTS, Result, Scores
from roadworthy.provenance import provenance
from roadworthy.sweep.plan import Plan
from roadworthy.sweep.store import Record, Store

if TYPE_CHECKING:
    from roadworthy.evaluation.gather import Point
    from roadworthy.evaluation.treatment import Treatment

_SHOWN = 12  # missing points named one by one


@dataclass
class Collected:
    """What can be said of a sweep now.

    Attributes:
        results: for each imputer of which some method's whole curve is there, its result.
        road: the comparison without retraining, of the methods of which it is there; None if of none.
        missing: what is not there yet, in words; empty when the sweep is complete.
        finished: trainings that are there.
        planned: trainings that the sweep has.
    """

    results: dict[str, Result]
    road: Result | None
    missing: list[str]
    finished: int
    planned: int


def collate(plan: Plan, store: Store) -> Collected:
    """Put the records of a sweep together.

    A result holds the methods and repeats of which every training is there; what else there is stays in the store,
    and what lacks is named.

    Args:
        plan: of the sweep.
        store: its records.

    Returns:
        Results by imputer.
    """
    there = store.finished()
    records: dict[str, Record] = {}

    def read(key: str) -> Record:
        if key not in records:
            records[key] = store.read(key)
        return records[key]

    trainings = {job.key for job in plan.of_kind("train")}
    missing = _missing(plan, store, there)
    results = {}
    road = _road(plan, there, read)
    for imputer in plan.points:
        result = _result(plan, imputer, there, read, missing, road)
        if result is not None:
            results[imputer] = result
    return Collected(results, road, missing, len(trainings & there), len(trainings))


def _result(
    plan: Plan,
    imputer: str,
    there: set[str],
    read: Callable[[str], Record],
    missing: list[str],
    road: Result | None,
) -> Result | None:
    from roadworthy.evaluation.gather import Facts, Grid, gather

    facts = plan.facts
    keys = {(method, order, fraction, repeat): key for method, order, fraction, repeat, key in plan.points[imputer]}

    def key_of(treatment: Treatment, repeat: int) -> str:
        return keys[(treatment.method or treatment.kind, treatment.order, treatment.fraction, repeat)]

    whole = Grid(facts["methods"], facts["orders"], facts["fractions"], list(range(facts["repeats"])))
    grid = whole.complete(lambda treatment, repeat: key_of(treatment, repeat) in there)
    if grid is None:
        return None

    def find(treatment: Treatment, repeat: int) -> Point:
        return _point(read(key_of(treatment, repeat)))

    settings = facts["settings"] | {"imputer": imputer, "repeats": list(grid.repeats)}
    if imputer != "noisy-linear":
        settings["noise"] = 0.0
    if road is not None:
        settings["beside"] = {"road": _in_short(road.view(0))}
    devices = sorted({str(read(keys[point]).head.get("device")) for point in keys if keys[point] in there})
    found = Facts(
        removed=facts["removed"],
        seed=facts["seed"],
        device=", ".join(devices),
        classes=facts["classes"],
        settings=settings,
        warnings=_warnings(grid, whole, read, [key for key in keys.values() if key in there]),
        missing=missing,
        cost=_cost(plan, there, read),
    )
    result = gather(grid, find, found)
    if road is not None:
        result.method_info = result.method_info.merge(road.method_info, on="method", how="left")
    audits = [read(key).head for name, key in _audits(plan, there).items() if name in result.methods]
    if audits:
        from roadworthy.evaluation.audit.training import merged

        result.audit["leakage"] = merged([head["leakage"] for head in audits], imputer)
        place = list(plan.points).index(imputer)
        gate = [row for head in audits if "gate" in head for row in head["gate"][place]]
        result.audit |= {"gate": gate} if gate else {}
    return result


def _audits(plan: Plan, there: set[str]) -> dict[str, str]:
    """Return the audits that are there, by method; a plan of an earlier version has none."""
    return {name: key for name, key in plan.facts.get("audits", {}).items() if key in there}


def _point(record: Record) -> Point:
    from roadworthy.evaluation.gather import Point

    arrays = dict(record.arrays)
    ids = [str(sample) for sample in arrays.pop("ids")]
    return Point(ids, arrays, float(record.head["seconds"]), int(record.head["images"]))


def _road(plan: Plan, there: set[str], read: Callable[[str], Record]) -> Result | None:
    """Put the methods' evaluations without retraining into one result."""
    import pandas as pd

    found = {name: read(key) for name, key in plan.facts["road"].items() if key in there}
    if not found:
        return None
    first = next(iter(found.values()))
    scores = {name: np.stack([record.arrays[name] for record in found.values()]) for name in READOUTS}
    rows = [{"method": name, **record.head["method_info"]} for name, record in found.items()]
    ids = [str(sample) for sample in first.arrays["ids"]]
    views = len(first.head["settings"]["views"])
    cost = [  # of ROAD's own fill, which comes first
        ("road", name, "", 0.0, 0, float(record.head["own_seconds"]), int(record.head["images"]) // views)
        for name, record in found.items()
    ]
    return Result(
        methods=list(found),
        **{name: first.head[name] for name in ("orders", "fractions", "removed")},
        repeats=views,
        ids=ids,
        scores=Scores(**scores, **{name: first.arrays[name] for name in ("labels", "targets", "predicted")}),
        classes=plan.facts["classes"],
        method_info=pd.DataFrame(rows),
        settings=first.head["settings"],
        provenance=provenance(ids=ids, seed=plan.facts["seed"], device=str(first.head["device"])),
        warnings=sorted({text for record in found.values() for text in record.head["warnings"]}),
        cost=pd.DataFrame(cost, columns=list(COST)),
    )


def _in_short(road: Result) -> dict[str, Any]:
    scores, name, higher = road.method_scores()
    return {
        "score_name": name,
        "higher_is_better": higher,
        "orders": road.orders,
        "score": dict(zip(road.methods, scores.mean(axis=1).tolist(), strict=True)),
        "seconds": float(road.cost["seconds"].sum()),
        "images": int(road.cost["images"].sum()),
    }


def _cost(plan: Plan, there: set[str], read: Callable[[str], Record]) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = []
    for job in plan.jobs:
        if job.kind == "train" or job.key not in there:
            continue
        head = read(job.key).head
        what = ", ".join(head["sources"]) if job.kind == "maps" else job.label.partition(" of ")[2]
        work = "audit" if job.kind == "fill" else job.kind
        rows.append((work, what, "", 0.0, 0, float(head["seconds"]), int(head["images"])))
    return rows


def _warnings(grid: Any, whole: Any, read: Callable[[str], Record], keys: list[str]) -> list[str]:
    found = []
    left = [name for name in whole.methods if name not in grid.methods]
    if left:
        found.append(f"left out, since some of their trainings are not there: {', '.join(left)}")
    if len(grid.repeats) < len(whole.repeats):
        found.append(f"{len(grid.repeats)} of {len(whole.repeats)} repeats are complete for all methods shown")
    versions = {tuple(sorted(read(key).head.get("versions", {}).items())) for key in keys}
    if len(versions) > 1:
        differ = sorted({name for one in versions for other in versions for name, _ in set(one) ^ set(other)})
        found.append(f"trainings were done with different versions of {', '.join(differ)}")
    return found


def _missing(plan: Plan, store: Store, there: set[str]) -> list[str]:
    failed = store.failures()
    lacking: dict[str, list[str]] = {}
    for job in plan.jobs:
        if job.key not in there:
            state = "failed" if job.key in failed else "not done yet"
            lacking.setdefault(f"{job.kind}/{state}", []).append(job.label)
    lines = []
    for name, labels in lacking.items():
        kind, state = name.split("/")
        what = {
            "train": "trainings", "maps": "sets of maps", "road": "comparisons with ROAD", "audit": "audits of masks",
            "fill": "audits of fills",
            "judge": "judges of the gate",
        }[kind]  # fmt: skip
        total = len(plan.of_kind(kind))
        shown = "; ".join(labels[:_SHOWN]) + (f"; and {len(labels) - _SHOWN} more" if len(labels) > _SHOWN else "")
        lines.append(f"{len(labels)} of {total} {what} {state}: {shown}")
    return lines


def training_table(plan: Plan, store: Store) -> Any:
    """Return a row for every training that is there: method, order, fraction, repeat, scores, loss, cost.

    Returns:
        A DataFrame with columns imputer, method, order, fraction, repeat, n, top1, top5, loss, seconds, images, key.
    """
    import pandas as pd

    there, rows = store.finished(), []
    for imputer, points in plan.points.items():
        for method, order, fraction, repeat, key in points:
            if key in there:
                head = store.read(key).head
                values = (head[name] for name in ("n", "top1", "top5", "loss", "seconds", "images"))
                rows.append((imputer, method, order, fraction, repeat, *values, key))
    columns = ["imputer", "method", "order", "fraction", "repeat", "n", "top1", "top5", "loss", "seconds", "images"]
    return pd.DataFrame(rows, columns=[*columns, "key"])


def read_plan(folder: Path) -> Plan:
    """Read the plan of a sweep's folder.

    Raises:
        DataError: none is there, or it cannot be read.
    """
    path = folder / "plan.json"
    if not path.is_file():
        raise DataError(f"{folder}: no sweep lies here (plan.json is missing); give the folder of a sweep")
    try:
        text = path.read_text(encoding="utf8")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error}); run the experiment again") from error
    return Plan.from_json(text)


def is_sweep(folder: Path) -> bool:
    """Tell whether a folder is that of a sweep."""
    return (folder / "plan.json").is_file()
