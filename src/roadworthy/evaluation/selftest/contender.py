"""A strategy under test: from what a user names to the curves it is scored by.

Strategies differ in whom they ask, with which fill, in which order and by which readout. One evaluation with both
orders and all readouts gives the scores of every strategy that asks the same judge with the same fill.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from roadworthy.errors import InputError
from roadworthy.evaluation.strategy import Strategy, presets
from roadworthy.types import Order


class View(NamedTuple):
    """One judge with one fill.

    Attributes:
        judge: ``"untouched"`` or ``"fine-tuned"``.
        imputer: its name or the imputer itself.
        alpha: see :class:`~roadworthy.evaluation.Strategy`.
        beta: likewise; below 1 the judge is fine-tuned at this rate.
    """

    judge: str
    imputer: Any
    alpha: float = 1.0
    beta: float = 1.0


@dataclass(frozen=True)
class Contender:
    """A strategy under test.

    Attributes:
        name: what tables call it.
        views: whom it asks, with which fill; its score is the mean over them.
        orders: ``("morf", "lerf")``, or one of them.
        readout: what its curves are made of.
        fractions: shares removed, without 0.
        repeats: how often draws are made anew.
        average: ``"area"``: the area under the curve on its true shares; ``"shares"``: the plain mean over the
            shares, so that each counts alike however far apart they lie.
    """

    name: str
    views: tuple[View, ...]
    orders: tuple[Order, ...]
    readout: str
    fractions: tuple[float, ...]
    repeats: int = 1
    average: Literal["area", "shares"] = "area"

    @property
    def symmetric(self) -> bool:
        """Whether the score is the difference between the orders."""
        return len(self.orders) == 2


SHARES = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
ENDS = (0.05, 0.1, 0.3, 0.7, 0.9, 0.95)
"""Shares mirrored about a half, most of them near none and near all: there only the top of a map decides, what goes
first and what is left last. In the middle a map of half the truth scores almost as the truth does."""
_ORDERS, _READOUTS, _EVEN = ("morf", "lerf"), ("probability", "logit", "top1"), ("even", "ends", "area")
OFFERED = (
    "symmetric",
    "symmetric top1",
    "symmetric area top1",
    "symmetric area probability",
    "untouched gain",
    "untouched gain probability",
    "untouched gain ends probability",
    "fine-tuned gain",
    "fine-tuned gain probability",
    "fine-tuned gain ends probability",
    "road",
    "road morf",
    "road lerf",
    "mean morf",
    "mean lerf",
    "fine-tuned morf",
    "fine-tuned lerf",
    "pixel-flipping",
    "deletion",
    "insertion",
)
"""The strategies that a self-test takes by default."""

_COMBINED: Mapping[str, Strategy] = {
    "untouched gain": Strategy.of("road", imputer="mean", fractions=SHARES),
    "fine-tuned gain": Strategy.of("road", training="finetune", imputer="mean", fractions=SHARES),
    "road": presets["road"],
    "mean": Strategy.of("road", imputer="mean", fractions=SHARES),
    "fine-tuned": Strategy.of("road", training="finetune", imputer="mean", fractions=SHARES),
}


def contender(strategy: str | Strategy) -> Contender:
    """Return the strategy that a name stands for.

    A name is a preset, or one of ``untouched gain``, ``fine-tuned gain`` (both orders, mean fill), ``mean`` and
    ``fine-tuned``; with ``morf`` or ``lerf`` behind it only that order counts, with ``probability``, ``logit`` or
    ``top1`` that readout. ``even`` lets each of its shares count alike, ``ends`` does so with the shares near none
    and near all, ``area`` takes the area over shares that are spread out.

    Raises:
        InputError: an unknown name, or a strategy that trains a network for each explanation: those are no part of
            the self-test, since they need hours and stand behind the leak gate.

    Example:
        >>> contender("road morf").orders, contender("symmetric probability").readout
        (('morf',), 'probability')
    """
    if isinstance(strategy, Strategy):
        return _from_strategy(strategy.name, strategy)
    words = strategy.split()
    changes: dict[str, Any] = {}
    average: Literal["area", "shares"] | None = None
    while len(words) > 1 and words[-1] in (*_ORDERS, *_READOUTS, *_EVEN):
        word = words.pop()
        if word in _EVEN:
            average = "area" if word == "area" else "shares"
            changes |= {} if word == "even" else {"fractions": ENDS if word == "ends" else SHARES}
        else:
            changes["order" if word in _ORDERS else "readout"] = word
    base = " ".join(words)
    found = _COMBINED[base] if base in _COMBINED else presets[base]
    return _from_strategy(strategy, Strategy.of(found, average=average, **changes))


def _from_strategy(name: str, strategy: Strategy) -> Contender:
    if not strategy.judges:
        raise InputError(
            f"strategies: {name!r} trains a network for each explanation, which a self-test does not do; what it may "
            "be believed is for the leakage audit to say"
        )
    return Contender(
        name=name,
        views=tuple(
            View(judge, imputer, strategy.alpha, strategy.beta)
            for judge in strategy.judges
            for imputer in strategy.imputers
        ),
        orders=strategy.orders,
        readout=strategy.readout,
        fractions=strategy.fractions,
        repeats=strategy.repeats,
        average=strategy.average,
    )


def contenders(strategies: Iterable[str | Strategy | Contender]) -> list[Contender]:
    """Return the strategies under test, each name once.

    Raises:
        InputError: none, or two of one name.
    """
    found = [one if isinstance(one, Contender) else contender(one) for one in strategies]
    names = [one.name for one in found]
    if not found or len(set(names)) < len(names):
        raise InputError(f"strategies: got {names}, expected at least one, each with a name of its own")
    return found


def shares_by_view(found: Sequence[Contender]) -> dict[View, tuple[float, ...]]:
    """Return which shares have to be evaluated for each view, so that all contenders can be scored."""
    shares: dict[View, set[float]] = {}
    for one in found:
        for view in one.views:
            shares.setdefault(view, set()).update(one.fractions)
    return {view: tuple(sorted(of)) for view, of in shares.items()}
