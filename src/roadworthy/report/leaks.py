"""How much of what can be told about the class its mask alone tells, in percentage points above chance."""

from __future__ import annotations

import math

import numpy as np

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.words import order_words
from roadworthy.markup import clean, number, percent
from roadworthy.report.audits import Leakage, LeakVerdict, MaskRow


def reach(result: Result, audit: Leakage) -> float:
    """Return how far above chance the model tells, with nothing removed, the class that the masks may give away."""
    return intact(result) - audit.chance[0]


def intact(result: Result) -> float:
    """Return for how many samples the model tells, with nothing removed, the class that masks may give away."""
    return float(np.mean(result.scores.predicted == result.scores.targets))


def leaked(audit: Leakage, row: MaskRow) -> float:
    """Return how far above chance the mask alone tells it."""
    return row.accuracy - audit.chance[0]


def amount(result: Result, audit: Leakage, row: MaskRow) -> str:
    """Say how much the mask alone tells: its points above chance of those that the model has, or as many.

    Example:
        >>> amount(result, audit, row)  # doctest: +SKIP
        '71 of 84 points'
    """
    own, most = leaked(audit, row), reach(result, audit)
    if math.isnan(own) or math.isnan(most):
        return "the class"
    if round(100 * own) >= round(100 * most):
        return "as much as the model itself can do"
    return f"{100 * own:.0f} of {100 * most:.0f} points"


def alone(result: Result, audit: Leakage, row: MaskRow) -> str:
    """Say for how many samples the mask alone is right, and the model.

    Example:
        >>> alone(result, audit, row)  # doctest: +SKIP
        'the mask alone is right for 81\xa0% (chance 10\xa0%), the model for 94\xa0%'
    """
    if intact(result) == 1:  # the class explained is the model's answer: not how often that is right
        return (
            f"the mask alone tells the model's answer for {percent(row.accuracy)} (chance {percent(audit.chance[0])})"
        )
    return (
        f"the mask alone is right for {percent(row.accuracy)} (chance {percent(audit.chance[0])}), the model for "
        f"{percent(intact(result))}"
    )


def place(row: MaskRow) -> str:
    """Say of which masks a row is.

    Example:
        >>> place(row)  # doctest: +SKIP
        'ig by MoRF at 30\xa0%'
    """
    words = order_words()
    order = words[row.order].short if row.order in words else clean(row.order)
    return f"{clean(row.method)} by {order} at {percent(row.fraction)}"


def why(row: LeakVerdict) -> str:
    """Say what a verdict rests on.

    Example:
        >>> why(row)  # doctest: +SKIP
        'the mask alone gives the class away: 81\xa0% at 30\xa0% removed (MoRF), chance 10\xa0%, ...'
    """
    numbers = _numbers(row)
    fill = f"{clean(row.imputer)} fill"
    errors = f"error {number(row.error, 2)} against {number(row.base, 2)}"
    given = f"the mask alone gives the class away: {numbers}"
    said = {
        "unfit": clean(row.note),
        "shown": f"{given}; {fill} shows the mask: {errors}",
        "partly shown": f"{given}; {fill} shows part of the mask: {errors}",
        "hidden": f"{given}; but {fill} hides the mask: {errors}",
        "not known": f"{given}; how far the {fill} shows the mask is not known: {clean(row.note)}",
        "few samples": f"only {number(row.per_class, 1)} samples a class; {numbers}",
        "wide": (
            f"{numbers}; it may be up to {_points(row.above)} points above, with more samples or effort it may show"
        ),
        "no mask": f"no mask tells over {_points(row.margin)} points more than guessing: {numbers}",
    }
    return said.get(row.ground, "")


def _numbers(row: LeakVerdict) -> str:
    words = order_words()
    order = words[row.order].short if row.order in words else clean(row.order)
    return (
        f"{percent(row.accuracy)} at {percent(row.fraction)} removed ({order}), chance {percent(row.chance)}, random "
        f"masks {percent(row.random)}"
    )


def _points(share: float) -> str:
    return "–" if math.isnan(share) else f"{100 * share:.0f}"
