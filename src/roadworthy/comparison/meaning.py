"""Do two scores mean the same, so that one may be taken from the other?"""

from __future__ import annotations

from collections.abc import Iterator

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import labelled

_ORDERS = {"morf": "MoRF", "lerf": "LeRF"}


def why_not(one: Result, other: Result, readouts: tuple[str, str]) -> str:
    """Say why the scores of two results cannot be subtracted; "" where they can.

    Args:
        one: a result.
        other: another.
        readouts: what the scores of each are of.

    Example:
        >>> why_not(road, roar, ("top1", "top1"))  # doctest: +SKIP
        'its networks are retrained, those of the first run are not'
    """
    return "; ".join(_reasons(one, other, readouts))


def _reasons(one: Result, other: Result, readouts: tuple[str, str]) -> Iterator[str]:
    if one.retrained != other.retrained:
        yield "of one run networks were retrained, of the other the model was asked as it is"
    if set(one.orders) != set(other.orders):
        yield f"orders are {_orders(one)} and {_orders(other)}"
    if readouts[0] != readouts[1]:
        yield f"scores are of {readouts[0]} and of {readouts[1]}; name one readout for both"
    if [round(p, 9) for p in one.fractions] != [round(p, 9) for p in other.fractions]:
        yield f"shares removed are {_shares(one)} and {_shares(other)}"
    if one.average != other.average:
        yield f"scores are averaged by {one.average} and by {other.average}"
    if _views(one, readouts[0]) != _views(other, readouts[1]):
        yield f"judges and fills are {_listed(one, readouts[0])} and {_listed(other, readouts[1])}"
    for name, what in (("unit", "what is removed together"), ("alpha", "alpha"), ("beta", "beta")):
        if one.settings.get(name) != other.settings.get(name):
            yield f"{what} differs ({one.settings.get(name)} and {other.settings.get(name)})"
    if "top" in readouts[0] + readouts[1] and labelled(one) != labelled(other):
        yield "hits are counted against labels in one run, against the model's own answers in the other"
    if set(readouts) & {"probability", "logit"} and one.settings.get("target") != other.settings.get("target"):
        yield f"the class that is scored is {one.settings.get('target')} and {other.settings.get('target')}"


def _orders(result: Result) -> str:
    return " and ".join(_ORDERS[order] for order in _ORDERS if order in result.orders)


def _shares(result: Result) -> str:
    return ", ".join(f"{p:g}" for p in result.fractions[1:])


def _views(result: Result, readout: str) -> set[tuple[str, str]]:
    """The judges and fills that a score is the mean over: one that says nothing does not count."""
    views = result.views
    return {(views[place]["judge"], views[place]["imputer"]) for place in result.counted_views(readout)}


def _listed(result: Result, readout: str) -> str:
    return ", ".join(f"{judge} with {imputer}" for judge, imputer in sorted(_views(result, readout)))
