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
        tuned_on: the fills that a fine-tuned judge was shown, those of its strategy; empty for the model as it is.
        repeats: how often draws are made anew.
    """

    judge: str
    imputer: Any
    alpha: float = 1.0
    beta: float = 1.0
    tuned_on: tuple[Any, ...] = ()
    repeats: int = 1

    @property
    def copies(self) -> tuple[Any, ...]:
        """What the degraded copies follow from: views that have it in common can share them."""
        return (self.imputer, self.alpha, self.beta, self.repeats)

    def strategy(self) -> Strategy:
        """Return the strategy whose judge a fine-tuned view asks."""
        return Strategy(name="selftest", training="finetune", imputer=self.tuned_on, alpha=self.alpha, beta=self.beta)


@dataclass(frozen=True)
class Contender:
    """A strategy under test.

    Attributes:
        name: what tables call it.
        views: whom it asks, with which fill; its score is the mean over them.
        orders: ``("morf", "lerf")``, or one of them.
        readout: what its curves are made of.
        fractions: shares removed, without 0.
        average: ``"area"``: the area under the curve on its true shares; ``"shares"``: the plain mean over the
            shares, so that each counts alike however far apart they lie.
        training: ``"none"``: the views are asked; ``"retrain"``: a network is trained for each point (these stand
            behind the leak gate and are tested apart); ``"patches"``: IDSDS, which removes single patches and has
            no order.
    """

    name: str
    views: tuple[View, ...]
    orders: tuple[Order, ...]
    readout: str
    fractions: tuple[float, ...]
    average: Literal["area", "shares"] = "area"
    training: Literal["none", "retrain", "patches"] = "none"

    @property
    def symmetric(self) -> bool:
        """Whether the score is the difference between the orders."""
        return len(self.orders) == 2

    @property
    def by_patches(self) -> bool:
        """Whether this is IDSDS."""
        return self.training == "patches"


SHARES = (0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
ENDS = (0.05, 0.1, 0.3, 0.7, 0.9, 0.95)
"""Shares mirrored about a half, most of them near none and near all: there only the top of a map decides, what goes
first and what is left last. In the middle a map of half the truth scores almost as the truth does."""
DRAWS = 1
"""Draws of a strategy that removes at random (F-Fidelity); the preset's 50 would take longer than all the rest."""
_ORDERS, _READOUTS, _EVEN = ("morf", "lerf"), ("probability", "logit", "top1"), ("even", "ends", "area")
OFFERED = (
    "symmetric untouched",
    "symmetric",
    "symmetric fine-tuned",
    "symmetric top1",
    "symmetric area probability",
    "symmetric area top1",
    "road",
    "road morf",
    "road lerf",
    "deletion",
    "insertion",
    "pixel-flipping",
    "f-fidelity",
    "idsds",
)
"""The strategies that a self-test takes by default."""
RETRAINED = ("roar", "kar", "roar symmetric")
"""Those that train a network for each explanation: tested apart, and only when asked."""
IDSDS = Contender("idsds", (), (), "logit", (), training="patches")

_COMBINED: Mapping[str, Strategy] = {
    "symmetric untouched": Strategy.of("symmetric", training="none"),
    "symmetric fine-tuned": Strategy.of("symmetric", training="finetune"),
    "mean": Strategy.of("road", imputer="mean", fractions=SHARES),
    "roar symmetric": Strategy.of("roar", order="both"),
}


def contender(strategy: str | Strategy) -> Contender:
    """Return the strategy that a name stands for.

    A name is a preset; ``symmetric untouched`` or ``symmetric fine-tuned`` (its half that asks the model as it is, or
    the copy); ``mean`` (both orders, mean fill); ``roar symmetric``; or ``idsds``. With ``morf`` or ``lerf`` behind
    it only that order counts, with ``probability``, ``logit`` or ``top1`` that readout. ``even`` lets each of its
    shares count alike, ``ends`` does so with the shares near none and near all, ``area`` takes the area over shares
    that are spread out.

    Raises:
        InputError: an unknown name.

    Example:
        >>> contender("road morf").orders, contender("symmetric probability").readout
        (('morf',), 'probability')
    """
    if isinstance(strategy, Strategy):
        return _from_strategy(strategy.name, strategy)
    if strategy == IDSDS.name:
        return IDSDS
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
    return Contender(
        name=name,
        views=tuple(
            View(
                judge,
                imputer,
                strategy.alpha,
                strategy.beta,
                strategy.imputers if judge == "fine-tuned" else (),
                strategy.repeats if strategy.removes_all else min(DRAWS, strategy.repeats),
            )
            for judge in strategy.judges
            for imputer in strategy.imputers
        ),
        orders=strategy.orders,
        readout=strategy.readout,
        fractions=strategy.fractions,
        average=strategy.average,
        training="retrain" if strategy.training == "retrain" else "none",
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


class Asked(NamedTuple):
    """What has to be evaluated for a view.

    Attributes:
        fractions: shares removed, without 0.
        orders: of removal.
    """

    fractions: tuple[float, ...]
    orders: tuple[Order, ...]

    def also(self, other: Asked) -> Asked:
        """Return what serves both."""
        orders: tuple[Order, ...] = ("morf", "lerf")
        return Asked(
            tuple(sorted({*self.fractions, *other.fractions})),
            tuple(order for order in orders if order in (*self.orders, *other.orders)),
        )


def asked_by_view(found: Sequence[Contender], *, both: bool = False) -> dict[View, Asked]:
    """Return what has to be evaluated for each view, so that all contenders can be scored.

    Args:
        found: the strategies.
        both: evaluate both orders for all of them.
    """
    asked: dict[View, Asked] = {}
    for one in found:
        own = Asked(one.fractions, ("morf", "lerf") if both else one.orders)
        for view in one.views:
            asked[view] = own.also(asked.get(view, own))
    return asked
