"""The answer in short: plain sentences for a reader who knows none of the terms that the verdict uses."""

from __future__ import annotations

import re

from roadworthy.evaluation.standing import above_chance, is_control
from roadworthy.markup import clean, number
from roadworthy.report.findings import Findings
from roadworthy.report.text import listed
from roadworthy.report.trust import Reason, Trust, reasons

_ASIDE = re.compile(r" \((?:[^()]|\([^()]*\))*\)")
_ORDERS = "removing important parts first and removing unimportant parts first"
_TRUST: dict[Trust, str] = {
    "good": "This ranking can be relied on",
    "care": "Take this with care",
    "little": "Do not lean on this ranking",
    "none": "Do not use this",
}
_MOST = 3  # names told before the rest is counted


def in_short(found: Findings) -> tuple[str, ...]:
    """Return who wins, who is no better than chance, and how far to trust it, a plain sentence each.

    Args:
        found: what a result says.

    Returns:
        One to three sentences without terms of statistics.

    Example:
        >>> in_short(Findings.of(result))[0]  # doctest: +SKIP
        'ig points best to what the model uses, of the 4 methods compared.'
    """
    if not above_chance(found.result):
        return ("No answer: with nothing removed the model does no better than a guess, so removal shows nothing.",)
    said = [_winner(found), *_weak(found)]
    if found.result.n > 1 and len(found.counted) > 1:
        said.append(_trust(reasons(found)))
    return tuple(said)


def _winner(found: Findings) -> str:
    count = len(found.methods)
    if count == 1:
        standing = {"above": "does better than a random map", "below": "does worse than a random map"}
        said = standing.get(found.against_random(found.methods[0]), "is not shown to do better than a random map")
        return f"There is one method and so no ranking; {clean(found.methods[0])} {said}."
    if len(found.counted) < 2:
        return "No ranking: networks read the class off the shape of the masks, so the numbers are withheld."
    if found.result.n == 1:
        return "No ranking: one sample shows nothing about others."
    if not found.pairs[0]:
        samples = "trainings" if found.by_trainings else f"{number(found.result.n)} samples"
        return f"No winner: these {samples} do not tell the {number(count)} methods apart."
    if any(map(found.led_by, found.views)):
        return (
            "No winner: which method comes first depends on how the gaps are filled, or on the model that is asked."
        )
    first = found.leading()
    controls = [clean(name) for name in first if is_control(name)]
    if controls:
        return f"No method is shown to beat {listed(controls, _MOST)}, which stands here only as a yardstick."
    uses = "what a newly trained model needs" if found.result.retrained else "what the model uses"
    one, several = f"points best to {uses}, of", f"point best to {uses}, of"
    if reasons(found)[0].level in ("little", "none"):  # what comes next takes it back
        one, several = "comes first of", "come first of"
    named, compared = listed([clean(name) for name in first], _MOST), f"the {number(count)} methods compared"
    if len(first) == 1:
        return f"{named} {one} {compared}."
    if any(found.against_random(name) in ("open", "below") for name in first):
        others = listed([clean(name) for name in first[1:]], _MOST)
        return f"{clean(first[0])} comes first of {compared}, but is not told apart from {others}."
    return f"{named} {several} {compared}; among them the numbers do not decide."


def _weak(found: Findings) -> list[str]:
    if len(found.methods) == 1 or len(found.counted) < 2 or found.result.n == 1 or not found.pairs[0]:
        return []
    weak = [
        clean(m) for m in found.real_methods if m in found.counted and found.against_random(m) in ("open", "below")
    ]
    return [f"Not shown to be better than a random map: {listed(weak, _MOST)}."] if weak else []


def _trust(given: list[Reason]) -> str:
    worst = given[0].level
    told = [_plain(reason.text) for reason in given if reason.level == worst][: 2 if worst == "good" else 1]
    return f"{_TRUST[worst]}: {listed(told)}."


def _plain(reason: str) -> str:
    return _ASIDE.sub("", reason).replace("the two orders", _ORDERS)
