"""The verdict: two sentences that a reader without statistics can act on, each made of numbers the report shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from roadworthy.evaluation.result import Result
from roadworthy.report.findings import Findings, above_chance, chance, labelled
from roadworthy.report.styles import is_control
from roadworthy.report.text import clean, listed, number, percent

AGREE, PARTLY = 0.8, 0.5  # mean Spearman correlation of the two orders: from here on they agree, or agree in part
FEW, TOO_FEW = 100, 30  # samples: below these, trust with care, or little
RARE = 50  # samples: below these a rare event may not have occurred yet; see roadworthy.statistics.bootstrap

Trust = Literal["good", "care", "little", "none"]
_TRUST: dict[Trust, str] = {
    "good": "Trust this well",
    "care": "Trust this with care",
    "little": "Trust this little",
    "none": "Do not trust this",
}
_ORDER: tuple[Trust, ...] = ("good", "care", "little", "none")


@dataclass(frozen=True)
class Verdict:
    """What a result says, in two sentences.

    Attributes:
        leads: which methods lead and which differences are real.
        trust: how far to trust it, and why.
        level: ``"good"``, ``"care"``, ``"little"`` or ``"none"``.
        leaders: the best method and those not told apart from it; empty when there is no ranking.
        above_random: methods better than random maps, best first.
        below_control: methods told apart below a control other than random, best first.
    """

    leads: str
    trust: str
    level: Trust
    leaders: tuple[str, ...]
    above_random: tuple[str, ...]
    below_control: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.leads} {self.trust}"


def verdict(result: Result, *, level: float = 0.95) -> Verdict:
    """Say in two sentences which methods lead, which differences are real, and how far to trust it.

    Differences are real where the paired bootstrap over samples tells two methods apart, Holm-corrected over all
    pairs. Methods told apart below a control are named. Trust falls with an intact accuracy at chance, no labels,
    orders that contradict each other, a single order, few samples, and warnings.

    Args:
        result: what an evaluation found.
        level: confidence level of intervals and differences.

    Returns:
        The verdict; ``str()`` of it is the two sentences.

    Raises:
        InputError: a result without methods or samples.

    Example:
        >>> import numpy as np
        >>> from roadworthy.evaluation import Scores
        >>> top1 = np.ones((2, 2, 3, 1, 40), dtype=np.uint8)  # [method, order, share, repeat, sample]
        >>> top1[0, 0, 1:] = 0  # ig: wrong without the most relevant units, right without the least relevant
        >>> top1[1, :, 2] = 0  # random: wrong in both orders once much is gone
        >>> scores = Scores(*[top1] * 4, *np.zeros((3, 40), dtype=np.int64))
        >>> ids = [str(i) for i in range(40)]
        >>> result = Result(["ig", "random"], ["morf", "lerf"], [0.0, 0.3, 0.6], [0, 3, 6], 1, ids, scores)
        >>> verdict(result).leaders, verdict(result).above_random
        (('ig',), ('ig',))
    """
    return judge(Findings.of(result, level=level))


def judge(found: Findings) -> Verdict:
    """Return the verdict on findings that are worked out already."""
    leaders = () if _no_ranking(found) else (found.methods[0], *found.not_apart_from_best())
    reasons = _reasons(found)
    worst = max((level for level, _ in reasons), key=_ORDER.index)
    why = [reason for _, reason in reasons]
    trust = f"{_TRUST[worst]}: {', '.join(why[:-1])} and {why[-1]}."
    lists = tuple(found.above_random()), tuple(found.below_control())
    return Verdict(_leads(found) + ".", trust, worst, leaders, *lists)


def _no_ranking(found: Findings) -> bool:
    return not found.pairs[0] or not above_chance(found.result)


def _leads(found: Findings) -> str:
    if not above_chance(found.result):
        return (
            "No ranking can be read from this: with nothing removed the model is right for "
            f"{percent(found.result.intact_accuracy)} of the samples, not clearly more often than by chance "
            f"({percent(chance(found.result))}), so removal can show nothing"
        )
    if len(found.methods) == 1:
        return _only(found)
    if found.result.n == 1:
        return "No ranking: a single sample shows no spread, so no difference can be called real"
    if not found.pairs[0]:
        return (
            f"No ranking: none of the {found.pairs[1]} pairs of methods can be told apart, so no method is shown "
            f"to be better than another, not even the first, {_scored(found, found.methods[0])}"
        )
    controls = [name for name in (found.methods[0], *found.not_apart_from_best()) if is_control(name)]
    below = found.below_control()
    parts = [_beaten(found, controls) if controls else _leader(found), _against_random(found)]
    return "; ".join([*parts, f"below a control: {listed([clean(name) for name in below])}"] if below else parts)


def _only(found: Findings) -> str:
    (name,) = found.methods
    standing = {
        "above": "above 0, which a random map has",
        "open": "not told apart from 0, which a random map has",
        "below": "below 0, which a random map has",
        "unknown": "but nothing here says what a random map would have",
    }[found.against_random(name)]
    return f"There is no ranking with one method: {_scored(found, name)}, {standing}"


def _leader(found: Findings) -> str:
    best, alike = found.methods[0], found.not_apart_from_best()
    real, pairs = found.pairs
    if alike:
        whom = f"together with {listed([clean(name) for name in alike])}, from which it is not told apart"
    else:
        whom = "told apart from every other method"
    verb = "is" if real == 1 else "are"
    return (
        f"{_scored(found, best)} leads, {whom}; {real} of {pairs} pairwise differences {verb} real ({_family(found)})"
    )


def _beaten(found: Findings, controls: list[str]) -> str:
    best, others = found.methods[0], found.real_methods
    named = listed([clean(name) for name in controls])
    one = f"the control{'s' if len(controls) > 1 else ''} {named}"
    if not others:
        return f"Only controls were compared; {_scored(found, best)} comes first"
    if is_control(best):
        apart = found.apart(others[0], best)
        tail = "is told apart below it" if apart else "is not told apart from it"
        led = f"the control {_scored(found, best)} leads"
        return f"No method beats a control: {led}, and {_scored(found, others[0])} {tail}"
    return f"No method beats every control: {_scored(found, best)} comes first but is not told apart from {one}"


def _against_random(found: Findings) -> str:
    candidates = [name for name in found.methods if name != "random"]
    above = [name for name in found.above_random() if name in candidates]
    if all(found.against_random(name) == "unknown" for name in candidates):
        return "without the control random nothing shows which methods are better than chance"
    baseline = "random maps" if "random" in found.methods else "0, which a random map has"
    if not above:
        return f"no method is better than {baseline}"
    if len(above) == len(candidates):
        return f"every {'other ' if 'random' in found.methods else ''}method is better than {baseline}"
    missed = [clean(name) for name in candidates if name not in above]
    return f"{len(above)} of {len(candidates)} methods are better than {baseline}, not {listed(missed, 4)}"


def _reasons(found: Findings) -> list[tuple[Trust, str]]:
    result = found.result
    reasons = [_orders(found), _intact(result), _samples(result.n)]
    if len(found.methods) > 1 and not found.pairs[0]:
        reasons.insert(0, ("little", "chance alone could order the methods so"))
    if result.warnings:
        count = len(result.warnings)
        reasons.append(("care", f"there {'is 1 warning' if count == 1 else f'are {count} warnings'} below"))
    return reasons


def _orders(found: Findings) -> tuple[Trust, str]:
    if found.agreement is None:
        order = {"morf": "MoRF", "lerf": "LeRF"}[found.result.orders[0]]
        return "care", f"only the order {order} was run, and one order alone can reverse a ranking"
    rho = found.agreement.spearman_mean
    if math.isnan(rho):
        return "care", "the agreement of the two orders is undefined"
    shown = f"(mean Spearman {number(rho, 2)})"
    if rho < 0:
        return "little", f"the two orders rank the methods against each other {shown}"
    if rho < PARTLY:
        return "little" if rho < PARTLY / 2 else "care", f"the two orders hardly agree {shown}"
    if rho < AGREE:
        return "care", f"the two orders agree in part {shown}"
    return "good", f"the two orders rank the methods alike {shown}"


def _intact(result: Result) -> tuple[Trust, str]:
    shown = f"{percent(result.intact_accuracy)} (chance {percent(chance(result))})"
    if not labelled(result):
        own = f"agreement with the model's own answers ({percent(result.intact_accuracy)} with nothing removed)"
        return "care", f"hits are {own} for want of labels"
    if above_chance(result):
        return "good", f"the intact accuracy is {shown}"
    return "none", f"the intact accuracy of {shown} is not clearly above chance"


def _samples(n: int) -> tuple[Trust, str]:
    if n == 1:
        return "none", "there is only 1 sample"
    if n < FEW:
        rare = f" (below {RARE}, a few rare hits can pass for a real difference)" if n < RARE else ""
        return "little" if n < TOO_FEW else "care", f"there are only {n} samples{rare}"
    return "good", f"there are {n} samples"


def _scored(found: Findings, name: str) -> str:
    row = found.row(name)
    what = f"{found.score_name} by {found.words.name}"
    interval = ""
    if not math.isnan(row["low"]):
        interval = f", {percent(found.level)} interval {number(row['low'])} to {number(row['high'])}"
    return f"{clean(name)} ({what} {number(row['score'])}{interval})"


def _family(found: Findings) -> str:
    return f"Holm, {percent(1 - found.level)} error for all pairs together"
