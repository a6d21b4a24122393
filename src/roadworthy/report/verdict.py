"""The verdict: two sentences that a reader without statistics can act on, each made of numbers the report shows."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from roadworthy.evaluation.result import Result
from roadworthy.report.findings import (
    Findings,
    above_chance,
    chance,
    failed_trainings,
    labelled,
    orders_of,
    road_agreement,
)
from roadworthy.report.styles import is_control
from roadworthy.report.text import clean, listed, number, percent
from roadworthy.statistics import least_difference

AGREE, PARTLY = 0.8, 0.5  # mean Spearman correlation of the two orders: from here on they agree, or agree in part
FEW, TOO_FEW = 100, 30  # samples: below these, trust with care, or little
ENOUGH, SOME = 5, 3  # trainings of each point: below these, trust with care, or little
COMPARABLE = 3  # methods: a rank correlation over fewer is no evidence
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

    Differences are real where two methods are told apart, Holm-corrected over all pairs: by the paired bootstrap over
    samples or, after retraining with two repeats or more, by the paired t-test over trainings. Methods told apart
    below a control are named. Trust falls with an intact accuracy at chance, no labels, orders that contradict each
    other, a single order, few samples, and warnings; these stand first, and what speaks for the result follows. After
    retraining it also falls with few trainings, with points that are missing, and where ROAD does not stand beside it
    or ranks otherwise: retraining alone cannot see whether masks give the class away. A rank correlation over fewer
    than 3 methods is no reason for anything.

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
    reasons = sorted(
        _reasons(found), key=lambda reason: -_ORDER.index(reason[0])
    )  # the worst first, else as they came
    worst = reasons[0][0]
    against = listed([reason for level, reason in reasons if level != "good"], len(reasons))
    speaking_for = listed([reason for level, reason in reasons if level == "good"], len(reasons))
    trust = f"{_TRUST[worst]}: {', although '.join(part for part in (against, speaking_for) if part)}."
    lists = tuple(found.above_random()), tuple(found.below_control())
    return Verdict(_leads(found) + ".", trust, worst, leaders, *lists)


def _no_ranking(found: Findings) -> bool:
    return not found.pairs[0] or not above_chance(found.result) or found.result.n == 1


def _leads(found: Findings) -> str:
    if not above_chance(found.result):
        return (
            f"No ranking can be read from this: {_intact_subject(found.result)} is right for "
            f"{percent(found.result.intact_accuracy)} of the samples, not clearly more often than by chance "
            f"({percent(chance(found.result))}), so removal can show nothing"
        )
    if len(found.methods) == 1:
        return _only(found)
    if found.result.n == 1:
        return "No ranking: a single sample shows no spread, so no difference can be called real"
    if not found.pairs[0]:
        alike = (
            f"none of the {found.pairs[1]} pairs of methods can be told apart, so no method is shown to be better "
            "than another"
        )
        if found.pairs[1] == 1:
            alike = "the two methods cannot be told apart, so neither is shown to be better"
        return f"No ranking: {alike}, not even the first, {_scored(found, found.methods[0])}"
    controls = [name for name in (found.methods[0], *found.not_apart_from_best()) if is_control(name)]
    below = found.below_control()
    parts = [_beaten(found, controls) if controls else _leader(found), _against_random(found)]
    return "; ".join([*parts, f"below a control: {listed([clean(name) for name in below])}"] if below else parts)


def _intact_subject(result: Result) -> str:
    return "a model trained on unmodified images" if result.retrained else "with nothing removed the model"


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
    told = f"{real} of {pairs} pairwise differences {'is' if real == 1 else 'are'}"
    if pairs == 1:
        told = "the one pairwise difference is"
    claim = "real"
    if found.result.retrained and not found.by_trainings:  # a second training could turn each of them round
        claim = "more than other test samples would explain, if not more than other trainings would"
    return f"{_scored(found, best)} leads, {whom}; {told} {claim} ({_family(found)})"


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
    reasons = [_orders(found), _intact(result), _samples(found)]
    if result.retrained:
        reasons[2:2] = _trainings(found)
        reasons.append(_leak(found))
    if len(found.methods) > 1 and not found.pairs[0]:
        reasons.insert(0, ("little", "chance alone could order the methods so"))
    if result.warnings:
        count = len(result.warnings)
        reasons.append(("care", f"there {'is 1 warning' if count == 1 else f'are {count} warnings'} below"))
    return reasons


def _orders(found: Findings) -> tuple[Trust, str]:
    if found.agreement is None:
        (words,) = orders_of(found.result).values()
        what = words.short if found.result.retrained else f"the order {words.short}"
        return "care", f"only {what} was run, and one order alone can reverse a ranking"
    rho = found.agreement.spearman_mean
    if math.isnan(rho):
        return "care", "the agreement of the two orders is undefined"
    if found.agreement.methods < COMPARABLE:
        if rho < 0:
            return "little", "the two orders rank the two methods against each other"
        return "care", "there are too few methods to compare the two orders"
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
    what = "accuracy of the unmodified training" if result.retrained else "intact accuracy"
    failed = failed_trainings(result)
    if not above_chance(result):
        return "none", f"the {what} of {shown} is not clearly above chance"
    if failed:
        return "little", f"{failed} of {result.repeats} unmodified trainings did not get clearly above chance"
    return "good", f"the {what} is {shown}"


def _trainings(found: Findings) -> list[tuple[Trust, str]]:
    count, pairs = found.result.repeats, found.pairs[1]
    reasons: list[tuple[Trust, str]] = []
    if count == 1:
        reasons.append(("little", "one training of each point says nothing about the spread between trainings"))
    elif count < ENOUGH:
        needed = least_difference(count, max(1, pairs), level=found.level)
        only = f"there are only {count} trainings of each point (to be called real, a difference must be "
        reasons.append(("care" if count >= SOME else "little", f"{only}{needed:.3g} times its standard deviation)"))
    else:
        reasons.append(("good", f"there are {count} trainings of each point"))
    failed = found.result.failed
    reasons += [("care", f"{line.partition(':')[0]} (listed below)") for line in failed]
    if len(failed) < len(found.result.missing):
        reasons.append(("care", "the sweep is not complete (what is missing is listed below)"))
    return reasons


def _leak(found: Findings) -> tuple[Trust, str]:
    agreed = road_agreement(found)
    if agreed is not None and agreed[2] < COMPARABLE:
        return "care", "there are too few methods to compare with ROAD"
    if agreed is None or math.isnan(agreed[0]):
        return "care", "nothing here shows whether masks give the class away to a new model"
    rho = agreed[0]
    shown = f"(Spearman {number(rho, 2)})"
    if rho < PARTLY:
        return "little" if rho < 0 else "care", f"ROAD, which trains nothing, ranks the methods otherwise {shown}"
    if rho < AGREE:
        return "care", f"ROAD, which trains nothing, agrees in part {shown}"
    return "good", f"ROAD, which trains nothing, ranks the methods alike {shown}"


def _samples(found: Findings) -> tuple[Trust, str]:
    n = found.result.n
    if n == 1:
        return "none", "there is only 1 sample"
    if n < FEW:
        few = n < RARE and not found.by_trainings
        rare = f" (below {RARE}, a few rare hits can pass for a real difference)" if few else ""
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
