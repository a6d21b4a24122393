"""The gate of KAR in a report: the rule of the audit on the recorded rows, and the row behind each verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable

from roadworthy.evaluation.audit.gate_rule import GateRow, gate_verdict
from roadworthy.evaluation.result import Result
from roadworthy.markup import clean
from roadworthy.report.audits import gate_of
from roadworthy.report.text import listed

WITHHELD, UNSURE, PASSES = "withheld", "cannot tell", "passes"


def gate_verdicts(result: Result) -> dict[str, str]:
    """Return the verdict on each method of the gate; empty where it was not run.

    Example:
        >>> gate_verdicts(result)  # doctest: +SKIP
        {'ig': 'passes', 'grad': 'withheld'}
    """
    rows = [vars(row) for row in gate_of(result)]
    return {found["method"]: found["verdict"] for found in gate_verdict(rows)}


def judged_so(result: Result, verdict: str) -> dict[str, GateRow]:
    """Return the methods of that verdict, each with the row it rests on, the gravest last.

    Withheld is the widest gap beyond random masks; where it cannot be told, the interval that reaches farthest. Empty
    where KAR was not run.
    """
    if not result.retrained or "lerf" not in result.orders:
        return {}
    hit = {method for method, said in gate_verdicts(result).items() if said == verdict}
    rows = sorted((row for row in gate_of(result) if row.method in hit), key=lambda row: _gravity(row, verdict))
    return {row.method: row for row in rows if row.method in result.methods}


def _gravity(row: GateRow, verdict: str) -> float:
    value = row.beyond if verdict == WITHHELD else row.beyond_high
    if math.isnan(value):  # of a gap nothing is known; of the end of an interval, it may be anything
        return -math.inf if verdict == WITHHELD else math.inf
    return value


def fill_words(rows: Iterable[GateRow]) -> str:
    """Say what filled the pixels that were removed; empty where it was not recorded.

    Example:
        >>> fill_words([GateRow("ig", 0.1, 0.9, 0.5, 0.4, 0.0, 0.4, 0.3, 0.5, "mean")])
        'the mean fill'
    """
    names = [clean(name) for name in dict.fromkeys(row.imputer for row in rows) if name]
    return f"the {listed(names)} fill{'s' if len(names) > 1 else ''}" if names else ""
