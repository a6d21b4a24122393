"""What of their settings and of where they come from differs between runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from roadworthy.evaluation.result import Result
from roadworthy.labelfree.result import LabelFree

_OTHERWISE = ("beside", "cores", "platform")  # told elsewhere, or of no effect on any number


def settings_table(runs: Mapping[str, Result | LabelFree]) -> pd.DataFrame:
    """Return the settings and facts of origin that are not the same in all runs.

    Args:
        runs: results by name.

    Returns:
        Columns ``name`` and one per run, as texts; "" where a run does not state it. Nested names are dotted.
    """
    stated = {name: dict(_flat(_facts(run))) for name, run in runs.items()}
    names = dict.fromkeys(key for facts in stated.values() for key in facts)
    table = [[key, *(facts.get(key, "") for facts in stated.values())] for key in names]
    differ = [row for row in table if len(set(row[1:])) > 1]
    return pd.DataFrame(differ, columns=pd.Index(["name", *runs], dtype=object))


def _facts(run: Result | LabelFree) -> dict[str, Any]:
    if isinstance(run, LabelFree):
        record = run.record
        source = {"source": record["source"]} if record["source"] else {}
        return {**record["settings"], **source, "n": record["n"], **record.get("provenance", {})}
    own = {"methods": run.methods, "orders": run.orders, "fractions": run.fractions, "repeats": run.repeats}
    return {**run.settings, **own, "n": run.n, **run.provenance}


def _flat(facts: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in facts.items():
        if not prefix and key in _OTHERWISE:
            continue
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield (
                f"{prefix}{key}",
                value if isinstance(value, str) else json.dumps(value, default=str, ensure_ascii=False),
            )
