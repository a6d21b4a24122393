"""What to do with a result: a sentence each, made of numbers that a section shows, the most pressing first."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from roadworthy.evaluation.audit.gate_rule import GateRow
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import above_chance, class_count, is_control, labelled
from roadworthy.markup import clean, number, percent
from roadworthy.report.audits import CLEAN, LEAKS, OPEN, Leakage, gate_of, leakage_of
from roadworthy.report.beside import road_agreement
from roadworthy.report.controls import missing_controls
from roadworthy.report.facts import orders_of
from roadworthy.report.fidelity import fidelities
from roadworthy.report.findings import Findings
from roadworthy.report.gate import fill_words
from roadworthy.report.leaks import alone, amount, place
from roadworthy.report.text import listed
from roadworthy.report.thresholds import AGREE, COMPARABLE, PARTLY, TOO_FEW
from roadworthy.report.traps import constant_maps
from roadworthy.report.trust import trust_sentence


@dataclass(frozen=True)
class Advice:
    """One sentence, and the id of the section that shows its numbers."""

    text: str
    section: str


def advise(found: Findings) -> list[Advice]:
    """Return what to do, the most pressing first.

    Example:
        >>> advise(found)[0].text  # doctest: +SKIP
        'The mean fill leaks 71 of 84 points through the mask (percentage points above chance; ig by MoRF at ...'
    """
    if _too_few(found.result):
        text = f"Take more samples: {found.result.n} are too few to tell the intact answers from guesses."
        return [Advice(text, "numbers")]
    if not above_chance(found.result):
        text = (
            "Look for the fault in model, labels or preprocessing first: with nothing removed the answers are wrong."
        )
        return [Advice(text, "numbers")]
    masks = list(_masks(found))
    rest = [*_gate(found), *_views(found), *_orders(found), *_methods(found), *_repairs(found)]
    # where nothing is retrained, masks that leak are a matter for later
    return [*masks, *rest] if found.result.retrained else [*rest, *masks]


def _too_few(result: Result) -> bool:
    """Tell whether the accuracy is above chance and merely not clearly so, on few samples."""
    if result.retrained or not labelled(result) or above_chance(result) or result.n >= TOO_FEW:
        return False
    return result.intact_accuracy > 1 / class_count(result)


def _masks(found: Findings) -> Iterator[Advice]:
    audit = leakage_of(found.result)
    if audit is None or not audit.verdicts:
        if found.result.retrained:
            named = listed([words.short for words in orders_of(found.result).values()])
            yield Advice(
                f"Audit the masks before {named} is believed: new networks can read the class off them.", "traps"
            )
        return
    for verdict, say in ((LEAKS, _leak), (OPEN, _open), (CLEAN, _clean)):
        for methods, imputers in _alike(audit, verdict).items():
            yield Advice(say(found, audit, list(methods), imputers), "leakage")


def _alike(audit: Leakage, verdict: str) -> dict[tuple[str, ...], list[str]]:
    """Put together the imputers behind which this is the worst verdict, and said of the same methods."""
    together: dict[tuple[str, ...], list[str]] = {}
    worse = (LEAKS, OPEN, CLEAN)[: (LEAKS, OPEN, CLEAN).index(verdict)]
    for imputer in audit.imputers:
        methods = tuple(audit.said(imputer, verdict))
        if methods and not any(audit.said(imputer, other) for other in worse):
            together.setdefault(methods, []).append(imputer)
    return together


def _fills(imputers: list[str]) -> str:
    return f"the {listed([clean(name) for name in imputers])} fill{'s' if len(imputers) > 1 else ''}"


def _leak(found: Findings, audit: Leakage, methods: list[str], imputers: list[str]) -> str:
    several = len(imputers) > 1
    row = audit.grounds(imputers, methods)
    what = f"the class through the masks of {listed([clean(name) for name in methods], 4)}"
    if row is not None:
        others = f"; {len(methods)} methods leak" if len(methods) > 1 else ""
        much = amount(found.result, audit, row)
        unit = "percentage points above chance; " if much.endswith("points") else ""
        what = f"{much} through the mask ({unit}{place(row)}: {alone(found.result, audit, row)}{others})"
    own = found.result.retrained and {view["imputer"] for view in found.result.views} & set(imputers)
    dont = f"do not {'believe' if own else 'use'} ROAR with {'them' if several else 'it'} here"
    leak = f"T{_fills(imputers)[1:]} leak{'' if several else 's'} {what}"
    return f"{leak}: {dont}{_instead(found, audit)}."


def _open(found: Findings, audit: Leakage, methods: list[str], imputers: list[str]) -> str:
    named = listed([clean(name) for name in methods], 4)
    leak = f"{_fills(imputers)} leak{'' if len(imputers) > 1 else 's'} the masks of {named}"
    return f"Whether {leak} cannot be told: audit thoroughly before ROAR."


def _clean(found: Findings, audit: Leakage, methods: list[str], imputers: list[str]) -> str:
    audited = f"{len(methods)} method{'s' if len(methods) > 1 else ''} audited"
    limit = "the audit's small classifier found none, which does not say that a larger network would not"
    return f"No leak was found behind {_fills(imputers)} ({audited}): {limit}."


def _instead(found: Findings, audit: Leakage) -> str:
    """What stands on firmer ground, if this result shows it: an evaluation that trains nothing, in both orders."""
    if found.result.retrained:
        agreed = road_agreement(found)
        if agreed is None or agreed[2] < COMPARABLE or not agreed[0] >= AGREE:
            return ""
        return f"; ROAD beside it, which trains nothing, ranks the methods alike (Spearman {number(agreed[0], 2)})"
    known = [(view.judge, view.imputer, view.found) for view in found.views]
    known = known or [(view["judge"], view["imputer"], found) for view in found.result.views]
    firm = [
        (imputer, own.agreement.spearman_mean)
        for judge, imputer, own in known
        if judge == "untouched" and own.agreement is not None and own.agreement.methods >= COMPARABLE
    ]
    firm = [pair for pair in firm if pair[1] >= AGREE]
    if not firm:
        return ""
    imputer, rho = min(firm, key=lambda pair: (bool(audit.said(pair[0], LEAKS)), -pair[1]))
    return f"; ROAD with {clean(imputer)} agrees in both orders (mean Spearman {number(rho, 2)})"


def _gate(found: Findings) -> Iterator[Advice]:
    for name, row in found.gated.items():
        yield Advice(f"Do not read KAR of {clean(name)}: {_held(row)}.", "gate")
    for name, row in found.gate_open.items():
        high = row.beyond_high
        reach = "" if math.isnan(high) else f", a gap that may be as wide as {number(high, 2)} beyond random masks"
        yield Advice(
            f"Read KAR of {clean(name)} with care, or run the gate on more test samples: {_held(row)}{reach}.", "gate"
        )
    result = found.result
    if result.retrained and "lerf" in result.orders and not gate_of(result) and leakage_of(result) is not None:
        yield Advice("Hold KAR against a judge that is blind to masks (the gate) before it is believed.", "traps")


def _held(row: GateRow) -> str:
    fill = fill_words([row])
    return (
        f"with {percent(row.keep)} of the pixels kept{f' and {fill} for the others' if fill else ''}, networks "
        f"trained on its masks are right for {percent(row.kar)}, a judge blind to masks for {percent(row.judge)} on "
        f"the same pixels (on random masks they are ahead of it by {number(row.control, 2)})"
    )


def _views(found: Findings) -> Iterator[Advice]:
    if found.disputes:
        methods = list(dict.fromkeys(name for d in found.disputes for name in (d.above, d.below)))
        yield Advice(
            f"Give no rank to {listed([clean(name) for name in methods])}: {found.views_word} that were asked turn "
            f"{len(found.disputes)} pair{'s' if len(found.disputes) > 1 else ''} of them round.",
            "views",
        )


def _orders(found: Findings) -> Iterator[Advice]:
    if found.agreement is None:
        yield Advice("Run both orders: one order alone can rank maps in exactly the wrong order.", "traps")
        return
    rho, count = found.agreement.spearman_mean, found.agreement.methods
    if count >= COMPARABLE and rho < PARTLY:
        yield Advice(
            f"Read the two orders side by side rather than one rank: they agree by {number(rho, 2)} only; two "
            "copies of "
            "the same evidence can do that as well as poor maps.",
            "agreement",
        )


def _methods(found: Findings) -> Iterator[Advice]:
    if found.result.n == 1 or not found.counted or not found.pairs[0]:
        return
    leaders = [name for name in found.leading() if found.against_random(name) in ("above", "unknown")]
    sure = bool(leaders) and not any(map(found.led_by, found.views)) and not any(map(is_control, leaders))
    sure = sure and trust_sentence(found)[1] in ("good", "care")  # else nothing is fit to be chosen by
    if sure and len(leaders) > 1:
        named = listed([clean(name) for name in leaders], 4)
        yield Advice(f"Choose between {named} by cost: these scores do not tell them apart.", "pairs")
    elif sure and len(found.real_methods) > 1:
        yield Advice(f"Prefer {clean(leaders[0])} for this model and data.", "ranking")
    below = [name for name in found.below_control() if name in found.counted]
    if below:
        text = f"Do not rely on {listed([clean(name) for name in below], 4)}: a control is better, and told apart."
        yield Advice(text, "pairs")
    weak = [m for m in found.real_methods if found.against_random(m) in ("open", "below") and m not in below]
    if weak:
        text = f"Do not rely on {listed([clean(name) for name in weak], 4)}: not shown to be better than random maps."
        yield Advice(text, "ranking")


def _repairs(found: Findings) -> Iterator[Advice]:
    n = found.result.n
    empty = [name for name, count in constant_maps(found).items() if count == n]
    if empty:
        named = listed([clean(name) for name in empty])
        yield Advice(
            f"Mend or leave out {named}: every map of {'it' if len(empty) == 1 else 'them'} is constant.", "methods"
        )
    weak = [part.weakness for part in fidelities(found) if part.weakness]
    if weak:
        text = f"Take more samples, the readout probability or a larger beta: {weak[0]}."
        yield Advice(text, "fidelity")
    if not found.pairs[0] and found.pairs[1] and n > 1:
        repeats = found.result.repeats
        trainings = f"{number(repeats)} training{'s' if repeats > 1 else ''} of each point"
        more = f"repeats than {trainings}" if found.result.retrained else f"than {number(n)} samples"
        yield Advice(f"Take more {more}, or say that no method was shown to be better.", "pairs")
    missing = missing_controls(found)
    if missing:
        yield Advice(
            f"Add the control{'s' if len(missing) > 1 else ''} {listed(missing)} to see what the scores are worth.",
            "traps",
        )
