"""The verdict of the leakage audit: what the mask tells and what the fill shows, put together."""

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


def verdict(found: Sequence[Told], fill: Fill, unfit: str | None, classes: np.ndarray) -> dict[str, Any]:
    """Judge one method behind one imputer.

    A mask leaks where its accuracy is above guessing the commonest class (binomial test) and above random masks on
    the same samples (sign test), each of as many answers as are independent, at 1 % after Holm's correction over the
    masks of the method. Masks do not leak where every interval ends within 8 points of the better of the two. A
    leaking mask leaks through the fill where the predictor errs on less than half of the base rate; it does not where
    it errs on more than nine tenths of it; in between it cannot be told.

    Args:
        found: what the masks of the method tell; empty if ``unfit``.
        fill: how revealing the imputer is.
        unfit: why masks could not be judged, or None.
        classes: int (N,), the answers.

    Returns:
        ``verdict``; ``ground``, what it rests on: ``"unfit"`` (``note`` says why), masks that tell the class behind a
        fill that is ``"shown"`` by, ``"partly shown"``, ``"hidden"`` by or of which that is ``"not known"`` (``note``
        says why), or no such mask: ``"few samples"`` a class, ``"wide"`` intervals, or ``"no mask"``. Then the mask
        it rests on: ``order``, ``fraction``, ``accuracy``, ``random`` (of random masks), ``chance`` and ``above``
        (the end of its interval above the better of the two), with the ``margin`` that is too little to matter;
        ``error`` and ``base`` of the predictor there; and
        ``per_class``, the samples a class. What there is none of is None.
    """
    if unfit is not None:
        return _said("cannot tell", "unfit", note=unfit)
    chance = float(np.bincount(classes).max() / len(classes))
    leaking = _leaking(found, chance)
    if leaking:
        return _through(leaking, fill, chance)
    worst = max(found, key=lambda one: one.mask.interval[1] - max(chance, one.random.accuracy))
    numbers = _numbers(worst, chance) | {"per_class": len(classes) / len(np.unique(classes))}
    if numbers["per_class"] < _PER_CLASS:
        return _said("cannot tell", "few samples", **numbers)
    if numbers["above"] > MARGIN:
        return _said("cannot tell", "wide", **numbers)
    return _said("does not leak", "no mask", **numbers)


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


def _through(leaking: Sequence[Told], fill: Fill, chance: float) -> dict[str, Any]:
    """Judge masks that leak by how well the fill hides them: at the share where most is left."""

    def shown(one: Told) -> float:
        row = fill.at(one.fraction)
        return 0.0 if row["error"] is None or row["base"] == 0 else max(0.0, 1 - row["error"] / row["base"])

    def ahead(one: Told) -> float:
        return one.mask.accuracy - max(chance, one.random.accuracy)

    showing = [one for one in leaking if _is_below(fill.at(one.fraction), "high", SHOWN)]
    worst = max(showing or leaking, key=lambda one: (ahead(one) * shown(one), ahead(one)))
    row, numbers = fill.at(worst.fraction), _numbers(worst, chance)
    if row["error"] is None:
        reason = fill.reason or f"too few samples ({row['n']}) to judge it"
        return _said("cannot tell", "not known", note=reason, **numbers)
    numbers |= {"error": row["error"], "base": row["base"]}
    if showing:
        return _said("leaks", "shown", **numbers)
    if any(_is_below(fill.at(one.fraction), "low", HIDDEN) for one in leaking):
        return _said("cannot tell", "partly shown", **numbers)
    return _said("does not leak", "hidden", **numbers)


def _is_below(row: dict[str, Any], end: str, share: float) -> bool:
    """Whether this end of the interval of the predictor's error is below a share of the base rate."""
    return row[end] is not None and row[end] < share * row["base"]


def _numbers(one: Told, chance: float) -> dict[str, Any]:
    return {
        "order": one.order,
        "fraction": one.fraction,
        "accuracy": one.mask.accuracy,
        "random": one.random.accuracy,
        "chance": chance,
        "above": one.mask.interval[1] - max(chance, one.random.accuracy),
        "margin": MARGIN,
    }


_NUMBERS = ("fraction", "accuracy", "random", "chance", "above", "margin", "error", "base", "per_class")


def _said(what: Verdict, ground: str, *, note: str = "", **numbers: Any) -> dict[str, Any]:
    empty = dict.fromkeys(("order", *_NUMBERS))
    return {"verdict": what, "ground": ground, "note": note} | empty | numbers
