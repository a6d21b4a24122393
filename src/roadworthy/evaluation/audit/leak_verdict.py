"""The verdict of the leakage audit: what the mask tells and what the fill shows, put together in one line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from roadworthy.evaluation.audit.mask_only import DEPENDENCE, MaskOnly
from roadworthy.statistics import holm

Verdict: TypeAlias = Literal["leaks", "does not leak", "cannot tell"]

MARGIN = 0.08  # accuracy above chance and random masks that is too little to matter
LEVEL = 0.01  # of the tests of one method, all its masks together: ten methods in a run, few false alarms
SHOWN = 0.5  # a fill shows the mask where the predictor's error is below this share of the base rate
HIDDEN = 0.9  # and hides it where the error is above this share
_PER_CLASS = 10  # samples a class below which finding nothing means nothing


class Told(NamedTuple):
    """What one mask tells: its order and share, the answers, and those on random masks of its size."""

    order: str
    fraction: float
    mask: MaskOnly
    random: MaskOnly


@dataclass(frozen=True)
class Fill:
    """How revealing an imputer is: a row per share (see ``imputation_error``), or why there are no figures."""

    rows: Sequence[dict[str, Any]]
    reason: str | None

    def at(self, fraction: float) -> dict[str, Any]:
        """Return the row of a share."""
        return next(row for row in self.rows if row["fraction"] == fraction)


def verdict(
    found: Sequence[Told], fill: Fill, imputer: str, unfit: str | None, classes: np.ndarray
) -> dict[str, str]:
    """Judge one method behind one imputer.

    A mask leaks where its accuracy is above guessing the commonest class (binomial test) and above random masks on
    the same samples (sign test), each of as many answers as are independent, at 1 % after Holm's correction over the
    masks of the method. Masks do not leak where every interval ends within 8 points of the better of the two. A
    leaking mask leaks through the fill where the predictor errs on less than half of the base rate; it does not where
    it errs on more than nine tenths of it; in between it cannot be told.

    Args:
        found: what the masks of the method tell; empty if ``unfit``.
        fill: how revealing the imputer is.
        imputer: its name.
        unfit: why masks could not be judged, or None.
        classes: int (N,), the answers.

    Returns:
        ``verdict`` and ``why``.
    """
    if unfit is not None:
        return _said("cannot tell", unfit)
    chance = float(np.bincount(classes).max() / len(classes))
    leaking = _leaking(found, chance)
    if leaking:
        return _through(leaking, fill, imputer, chance)
    worst = max(found, key=lambda one: one.mask.interval[1] - max(chance, one.random.accuracy))
    text = _numbers(worst, chance)
    most = worst.mask.interval[1] - max(chance, worst.random.accuracy)
    per_class = len(classes) / len(np.unique(classes))
    if per_class < _PER_CLASS:
        return _said("cannot tell", f"only {per_class:.1f} samples a class; {text}")
    if most > MARGIN:
        return _said(
            "cannot tell",
            f"{text}; it may be up to {100 * most:.0f} points above, with more samples or effort it may show",
        )
    return _said("does not leak", f"no mask tells over {100 * MARGIN:.0f} points more than guessing: {text}")


def _leaking(found: Sequence[Told], chance: float) -> list[Told]:
    """Return the masks that tell more than guessing and more than random masks."""
    distinct = list({id(one.mask): one for one in found}.values())
    adjusted = holm([_p_value(one, chance) for one in distinct])
    leaking = {id(one.mask) for one, p in zip(distinct, adjusted, strict=True) if p <= LEVEL}
    return [one for one in found if id(one.mask) in leaking]


def _p_value(one: Told, chance: float) -> float:
    right, other = one.mask.right, one.random.right
    more, less = int((right & ~other).sum()), int((other & ~right).sum())
    return max(_tail(int(right.sum()), len(right), chance), _tail(more, more + less, 0.5))


def _tail(hits: int, n: int, chance: float) -> float:
    """Probability of so many hits or more; the binomial tail is a beta integral, which takes parts of answers too."""
    from scipy.special import betainc

    return 1.0 if hits == 0 else float(betainc(hits / DEPENDENCE, (n - hits) / DEPENDENCE + 1, chance))


def _through(leaking: Sequence[Told], fill: Fill, imputer: str, chance: float) -> dict[str, str]:
    """Judge masks that leak by how well the fill hides them: at the share where most is left."""

    def shown(one: Told) -> float:
        row = fill.at(one.fraction)
        return 0.0 if row["error"] is None or row["base"] == 0 else max(0.0, 1 - row["error"] / row["base"])

    def ahead(one: Told) -> float:
        return one.mask.accuracy - max(chance, one.random.accuracy)

    showing = [one for one in leaking if _is_below(fill.at(one.fraction), "high", SHOWN)]
    worst = max(showing or leaking, key=lambda one: (ahead(one) * shown(one), ahead(one)))
    row = fill.at(worst.fraction)
    text = f"the mask alone gives the class away: {_numbers(worst, chance)}"
    if row["error"] is None:
        reason = fill.reason or f"too few samples ({row['n']}) to judge it"
        return _said("cannot tell", f"{text}; how far the {imputer} fill shows the mask is not known: {reason}")
    numbers = f"error {row['error']:.2f} against {row['base']:.2f}"
    if showing:
        return _said("leaks", f"{text}; {imputer} fill shows the mask: {numbers}")
    if any(_is_below(fill.at(one.fraction), "low", HIDDEN) for one in leaking):
        return _said("cannot tell", f"{text}; {imputer} fill shows part of the mask: {numbers}")
    return _said("does not leak", f"{text}; but {imputer} fill hides the mask: {numbers}")


def _is_below(row: dict[str, Any], end: str, share: float) -> bool:
    """Whether this end of the interval of the predictor's error is below a share of the base rate."""
    return row[end] is not None and row[end] < share * row["base"]


def _numbers(one: Told, chance: float) -> str:
    return (
        f"{_percent(one.mask.accuracy)} at {_percent(one.fraction)} removed ({_NAMES[one.order]}), chance "
        f"{_percent(chance)}, random masks {_percent(one.random.accuracy)}"
    )


_NAMES = {"morf": "MoRF", "lerf": "LeRF"}


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _said(what: Verdict, why: str) -> dict[str, str]:
    return {"verdict": what, "why": why}
