"""What of a result goes to a tracker: settings, numbers, curves and notes under legal names."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import roadworthy
from roadworthy.comparison.saved import saved_run
from roadworthy.errors import DataError, InputError
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.result_files import handed_on
from roadworthy.evaluation.standing import labelled
from roadworthy.evaluation.withheld import withheld_by_gate
from roadworthy.labelfree.result import HEAD, LabelFree
from roadworthy.tracking.names import legal_names


@dataclass(frozen=True)
class Entries:
    """What a tracker is told.

    Attributes:
        title: a few words.
        params: settings as text, nested ones with dots between their names.
        metrics: finite numbers.
        curves: for each a number at every share removed, the share in ``steps``.
        steps: steps in one unit of share.
        tags: what else to know, as text.
    """

    title: str
    params: dict[str, str]
    metrics: dict[str, float]
    curves: dict[str, dict[int, float]]
    steps: int
    tags: dict[str, str]


def opened(result_or_path: Result | LabelFree | str | Path) -> Result | LabelFree:
    """Return a result, read from the folder it was saved in where that is given."""
    if isinstance(result_or_path, (Result, LabelFree)):
        return result_or_path
    if not isinstance(result_or_path, (str, Path)):
        raise InputError(
            f"result: got {type(result_or_path).__name__}, expected what evaluate or labelfree returns, or the "
            "folder it was saved in"
        )
    folder = Path(result_or_path).expanduser()
    found = saved_run(folder)
    if found is None:
        raise DataError(f"{folder}: no result lies here (no result.json and no {HEAD}); give the folder of a run")
    return found


def entries_of(result: Result | LabelFree) -> Entries:
    """Return what a tracker is told of a result.

    Args:
        result: of either kind.
    """
    return _of_evaluation(result) if isinstance(result, Result) else _of_labelfree(result)


def _of_evaluation(result: Result) -> Entries:
    whole = result.ranking()
    ranking = handed_on(result, whole)
    names = legal_names(result.methods)
    metrics: dict[str, Any] = {"n": result.n}
    metrics["intact_accuracy" if labelled(result) else "intact_agreement"] = result.intact_accuracy
    for row in ranking.to_dict(orient="records"):
        numbers = {"score": "score", "low": "score_low", "high": "score_high"}
        numbers |= {f"{order}_area": f"{order}_area" for order in result.orders}
        metrics |= {f"{name}/{names[row['method']]}": row[column] for column, name in numbers.items()}
    steps = _steps(result.fractions)
    held = withheld_by_gate(result)
    told = {
        "methods": result.methods,
        "orders": result.orders,
        "fractions": result.fractions,
        "repeats": result.repeats,
        "curve_steps": f"share removed x {steps}",
        **{f"score.{key}": whole.attrs[key] for key in ("score", "direction", "readout", "unit", "level")},
    }
    renamed = {name: legal for name, legal in names.items() if name != legal}
    return Entries(
        title=f"roadworthy {result.settings.get('strategy', 'evaluation')}",
        params=_flat(told) | _flat(result.settings, "settings.") | _flat(result.provenance),
        metrics=_finite(metrics),
        curves=_curves(result, names, held, steps),
        steps=steps,
        tags=_tags("evaluation", result.provenance, result.warnings)
        | _texts(missing=result.missing)
        | ({"withheld": json.dumps(held)} if held else {})
        | ({"names": json.dumps({legal: name for name, legal in renamed.items()})} if renamed else {}),
    )


def _steps(fractions: Iterable[float]) -> int:
    """Return how fine steps must be for every share to have one of its own: thousandths where they do."""
    shares = list(fractions)
    fine = (10**power for power in range(3, 10))
    return next((steps for steps in fine if len({round(p * steps) for p in shares}) == len(shares)), 10**9)


def _curves(
    result: Result, names: Mapping[str, str], held: Mapping[str, str], steps: int
) -> dict[str, dict[int, float]]:
    curves: dict[str, dict[int, float]] = {}
    for point in result.over_repeats().to_dict(orient="records"):
        if point["order"] == "lerf" and point["method"] in held:
            continue
        curve = curves.setdefault(f"curve_{point['order']}/{names[point['method']]}", {})
        curve |= _finite({round(point["fraction"] * steps): point["mean"]})
    return curves


def _of_labelfree(result: LabelFree) -> Entries:
    record = result.record
    live, source, audit = record["estimate"] or {}, record["source"] or {}, record.get("audit") or {}
    metrics: dict[str, Any] = {
        "n": result.n,
        "accuracy": live.get("accuracy"),
        "accuracy_low": live.get("low"),
        "accuracy_high": live.get("high"),
        "expected_error": live.get("expected_error"),
        "source_accuracy": source.get("accuracy"),
        "true_accuracy": record["truth"],
    }
    if audit:
        best = audit["estimate"]["combined"]
        metrics |= {
            f"audited_accuracy{end}": best[key] for end, key in (("", "value"), ("_low", "low"), ("_high", "high"))
        }
    for by, found in record["threshold"].items():
        for end in ("", "_low", "_high"):
            metrics[f"coverage{end}/{by}"] = (found or {}).get(end.removeprefix("_") or "coverage")
    estimators = legal_names(row["estimator"] for row in record["estimates"])
    metrics |= {f"estimate/{estimators[row['estimator']]}": row["accuracy"] for row in record["estimates"]}
    gates = legal_names(gate["name"] for gate in record["gates"])
    metrics |= {f"gate/{gates[gate['name']]}": gate["value"] for gate in record["gates"]}
    told = {
        "classes": len(record["classes"]),
        "chosen": live.get("chosen", ""),
        "level": live.get("level", record["settings"]["level"]),
    }
    return Entries(
        title="roadworthy label-free",
        params=_flat(told) | _flat(record["settings"], "settings.") | _flat(record.get("provenance") or {}),
        metrics=_finite(metrics),
        curves={},
        steps=1000,
        tags=_tags("label-free", record.get("provenance") or {}, result.warnings)
        | _texts(verdict=result.verdict, no_estimate=[live["reason"]] if live.get("reason") else [])
        | {f"gate/{gates[gate['name']]}": f"{gate['status']}: {gate['why']}" for gate in record["gates"]},
    )


def _tags(kind: str, provenance: Mapping[str, Any], warnings: list[str]) -> dict[str, str]:
    tags = {"kind": kind, "version": roadworthy.__version__}
    if "ids_hash" in provenance:
        tags["ids_hash"] = str(provenance["ids_hash"])
    return tags | _texts(warnings=warnings)


def _texts(**lists: list[str]) -> dict[str, str]:
    return {name: "\n".join(lines) for name, lines in lists.items() if lines}


def _flat(settings: Mapping[str, Any], before: str = "") -> dict[str, str]:
    """Return nested settings as text; what is neither text nor a mapping is written as JSON."""
    flat: dict[str, str] = {}
    names = legal_names(str(key) for key in settings)
    for key, value in settings.items():
        name = f"{before}{names[str(key)]}"
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{name}.")
        else:
            flat[name] = value if isinstance(value, str) else json.dumps(value, default=str)
    return flat


def _finite(values: Mapping[Any, Any]) -> dict[Any, float]:
    """Return the values that are finite numbers."""
    return {name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)}
