"""The verdict: two sentences that a reader without statistics can act on, and advice, made of numbers shown."""

from __future__ import annotations

import math
from dataclasses import dataclass

from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import above_chance, chance, is_control
from roadworthy.markup import clean, number, percent
from roadworthy.report.advice import advise
from roadworthy.report.findings import Findings
from roadworthy.report.plain import in_short
from roadworthy.report.text import listed
from roadworthy.report.trust import Trust, trust_sentence

_GROUPS = 3  # groups named before the rest is counted


@dataclass(frozen=True)
class Verdict:
    """What a result says, in two sentences, and what to do about it.

    Attributes:
        leads: which methods lead and which differences are real.
        trust: how far to trust it, and why.
        level: ``"good"``, ``"care"``, ``"little"`` or ``"none"``.
        leaders: the best method and those not told apart from it; empty when there is no ranking, or when a judge or
            fill tells another method apart above the first.
        above_random: methods better than random maps, best first.
        below_control: methods told apart below a control other than random, best first.
        advice: what to do, a sentence each, the most pressing first.
        short: the answer in plain words, a sentence each.
    """

    leads: str
    trust: str
    level: Trust
    leaders: tuple[str, ...]
    above_random: tuple[str, ...]
    below_control: tuple[str, ...]
    advice: tuple[str, ...] = ()
    short: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.leads} {self.trust}"


def verdict(result: Result, *, level: float = 0.95) -> Verdict:
    """Say in two sentences which methods lead, which differences are real, and how far to trust it.

    Differences are real where two methods are told apart, Holm-corrected over all pairs: by the paired bootstrap over
    samples or, after retraining with two repeats or more, by the paired t-test over trainings. Methods told apart
    below a control are named. Trust falls with an intact accuracy at chance, no labels, orders that contradict each
    other, a single order, few samples, and warnings; these stand first, and what speaks for the result follows. After
    retraining it also falls with few trainings, with points that are missing, where ROAD ranks otherwise, and where
    masks give the class away or were not audited: retraining alone cannot see it. Where several judges or fills were
    asked it falls where they disagree. A rank correlation over fewer than 3 methods is no reason for anything.

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
    leaders = () if _no_ranking(found) or any(map(found.led_by, found.views)) else tuple(found.leading())
    trust, level = trust_sentence(found)
    lists = tuple(found.above_random()), tuple(found.below_control())
    advice = tuple(piece.text for piece in advise(found))
    return Verdict(_leads(found) + ".", trust, level, leaders, *lists, advice, in_short(found))


def _no_ranking(found: Findings) -> bool:
    return not found.pairs[0] or not above_chance(found.result) or found.result.n == 1 or not found.counted


def _leads(found: Findings) -> str:
    if not above_chance(found.result):
        return (
            f"No ranking can be read from this: {_intact_subject(found.result)} is right for "
            f"{percent(found.result.intact_accuracy)} of the samples, not clearly more often than by chance "
            f"({percent(chance(found.result))}), so removal can show nothing"
        )
    if len(found.methods) == 1:
        return _only(found)
    if len(found.counted) < 2:
        which = "every other method" if found.counted else "every method"
        return f"No ranking: KAR of {which} is withheld: {_withheld(found)}"
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
    controls = [name for name in found.leading() if is_control(name)]
    below = [clean(name) for name in found.below_control() if name in found.counted]
    parts = [_beaten(found, controls) if controls else _leader(found), *_groups(found), _against_random(found)]
    parts += [f"withheld: {_withheld(found)}"] if found.gated else []
    return "; ".join([*parts, f"below a control: {listed(below)}"] if below else parts)


def _withheld(found: Findings) -> str:
    return listed(
        [
            f"{clean(name)} (its mask adds {number(row.beyond, 2)} of accuracy at {percent(row.keep)} kept)"
            for name, row in found.gated.items()
        ],
        4,
    )


def _groups(found: Findings) -> list[str]:
    groups = found.other_groups()
    first, *others = [listed([clean(name) for name in group], 4) for group in groups[:_GROUPS]] or [""]
    if not first:
        return []
    more = f", nor are those of {len(groups) - _GROUPS} more" if len(groups) > _GROUPS else ""
    return [f"{first} are not told apart{''.join(f', nor are {other}' for other in others)}{more}"]


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
    best, *alike = found.leading()
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
    return f"{_led(found, best)}, {whom}; {told} {claim} ({_family(found)})"


def _led(found: Findings, best: str) -> str:
    """Say that the first leads; or, where a judge or fill tells another apart above it, that none does."""
    for view in found.views:
        ahead = found.led_by(view)
        if ahead:
            return (
                f"No single leader: {_scored(found, best)} comes first over the mean of {found.mean_of}"
                f", but for {clean(view.label)} {listed([clean(name) for name in ahead], 3)} "
                f"{'is' if len(ahead) == 1 else 'are'} above it; over that mean it is"
            )
    return f"{_scored(found, best)} leads"


def _beaten(found: Findings, controls: list[str]) -> str:
    best = found.counted[0]
    others = [name for name in found.real_methods if name in found.counted]
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
    candidates = [name for name in found.counted if name != "random"]
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


def _scored(found: Findings, name: str) -> str:
    row = found.row(name)
    what = f"{found.score_name} by {found.words.name}"
    interval = ""
    if not math.isnan(row["low"]):
        interval = f", {percent(found.level)} interval {number(row['low'])} to {number(row['high'])}"
    return f"{clean(name)} ({what} {number(row['score'])}{interval})"


def _family(found: Findings) -> str:
    return f"Holm, {percent(1 - found.level)} error for all pairs together"
