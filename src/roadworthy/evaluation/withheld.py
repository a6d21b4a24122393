"""What the gate withholds of a retrained result, and its numbers with empty cells in the place of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from roadworthy.evaluation.audit.gate_rule import gate_rows, gate_verdict

if TYPE_CHECKING:
    from roadworthy.evaluation.result import Result

_RANKED = ("rank", "score", "low", "high", "lerf_area", "sd", "repeat_sd")


def withheld_by_gate(result: Result) -> dict[str, str]:
    """Return the methods whose KAR is withheld, each with the reason; empty where KAR or the gate was not run.

    Example:
        >>> withheld_by_gate(result)  # doctest: +SKIP
        {'grad': 'with 6% kept, a retrained network is right for 93% ...'}
    """
    if not result.retrained or "lerf" not in result.orders:
        return {}
    verdicts = gate_verdict([vars(row) for row in gate_rows(result.audit.get("gate"))])
    return {
        found["method"]: found["why"]
        for found in verdicts
        if found["verdict"] == "withheld" and found["method"] in result.methods
    }


def without_withheld(ranking: pd.DataFrame, reasons: Mapping[str, str]) -> pd.DataFrame:
    """Return a ranking as it may be handed on: what rests on KAR of some methods is empty, with the reason.

    Ranks are among the methods that are left. The area of MoRF, and the one over its curve, stay.

    Args:
        ranking: what :meth:`Result.ranking` returns.
        reasons: from :func:`withheld_by_gate`.

    Returns:
        A copy with a column ``withheld``; the ranking itself where there are no reasons.
    """
    if not reasons:
        return ranking
    held = ranking["method"].isin(list(reasons))
    shown = ranking.assign(withheld=ranking["method"].map(dict(reasons)).fillna(""))
    shown["rank"] = ranking["rank"].where(~held).rank(method="min").astype("Int64")
    aoc = () if "morf_area" in ranking else ("aoc",)  # alone, it is that of KAR
    for name in (*_RANKED[1:], *aoc):
        if name in ranking:
            shown[name] = ranking[name].where(~held)
    shown["group"] = ranking["group"].where(~held, "")
    shown.attrs = ranking.attrs
    return shown


def pairs_without_withheld(pairs: pd.DataFrame, reasons: Mapping[str, str]) -> pd.DataFrame:
    """Return the table of pairs as it may be handed on: those with a method that is withheld are empty.

    Args:
        pairs: what :meth:`Result.pairwise` returns.
        reasons: from :func:`withheld_by_gate`.
    """
    if not reasons:
        return pairs
    names = ["method", "other"]
    why = pd.Series(
        [
            "; ".join(f"{name}: {reasons[name]}" for name in pair if name in reasons)
            for pair in pairs[names].to_numpy()
        ],
        index=pairs.index,
    )
    numbers = [name for name in pairs.columns if name not in names]
    shown = pairs.astype(dict.fromkeys(numbers, object))
    shown.loc[why != "", numbers] = None
    return shown.assign(withheld=why)
