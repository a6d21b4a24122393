"""The ranking as it may be printed: no number that the verdict withholds."""

from __future__ import annotations

import pandas as pd

from roadworthy.evaluation.withheld import without_withheld
from roadworthy.report.findings import Findings


def printed_ranking(found: Findings) -> pd.DataFrame:
    """Return the ranking with a dash where nothing may be read, and where nothing is known.

    Withheld are the rank of a method that judges and fills contradict each other on, and rank, score and LeRF side of
    one whose masks tell more than what they keep. Intervals are cut off where the score ends.

    Args:
        found: what a result says.

    Returns:
        The columns of :meth:`Result.ranking`, as objects, best first.

    Example:
        >>> printed_ranking(Findings.of(result))["rank"].tolist()  # doctest: +SKIP
        ['–', '1', '2']
    """
    kept = without_withheld(found.shown, dict.fromkeys(found.gated, "gate")).drop(columns="withheld", errors="ignore")
    shown = kept.astype(object).where(kept.notna() & (kept != ""), "–")
    shown["rank"] = [found.rank(method) for method in found.methods]
    return shown
