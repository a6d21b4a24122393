"""How much of what can be told about the class its mask alone tells, in points of accuracy."""

from __future__ import annotations

import numpy as np

from roadworthy.evaluation.result import Result
from roadworthy.report.audits import Leakage, MaskRow
from roadworthy.report.text import clean, percent
from roadworthy.report.words import order_words


def reach(result: Result, audit: Leakage) -> float:
    """Return how far above chance the model tells, with nothing removed, the class that the masks may give away."""
    return float(np.mean(result.scores.predicted == result.scores.targets)) - audit.chance[0]


def leaked(audit: Leakage, row: MaskRow) -> float:
    """Return how far above chance the mask alone tells it."""
    return row.accuracy - audit.chance[0]


def points(result: Result, audit: Leakage, row: MaskRow) -> str:
    """Say how many of the model's points of accuracy above chance the mask alone has.

    Example:
        >>> points(result, audit, row)  # doctest: +SKIP
        '71 of 84'
    """
    return f"{100 * leaked(audit, row):.0f} of {100 * reach(result, audit):.0f}"


def place(row: MaskRow) -> str:
    """Say of which masks a row is.

    Example:
        >>> place(row)  # doctest: +SKIP
        'ig by MoRF at 30\xa0%'
    """
    words = order_words()
    order = words[row.order].short if row.order in words else clean(row.order)
    return f"{clean(row.method)} by {order} at {percent(row.fraction)}"
