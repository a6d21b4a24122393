"""How far a result can be trusted: one reason after the other, each with the section that shows its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from roadworthy import statistics
from roadworthy.evaluation.result import Result
from roadworthy.report.audits import CLEAN, LEAKS, OPEN, Leakage, leakage_of
from roadworthy.report.beside import road_agreement
from roadworthy.report.controls import missing_controls
from roadworthy.report.findings import (
    Findings,
    above_chance,
    chance,
    class_count,
    failed_trainings,
    labelled,
    orders_of,
)
from roadworthy.report.leaks import place, points
from roadworthy.report.text import clean, listed, number, percent
from roadworthy.report.thresholds import AGREE, COMPARABLE, ENOUGH, FEW, PARTLY, RARE, SOME, TOO_FEW
from roadworthy.statistics import least_difference

Trust = Literal["good", "care", "little", "none"]
LEVELS: tuple[Trust, ...] = ("good", "care", "little", "none")
_WORDS: dict[Trust, str] = {
    "good": "Trust this well",
    "care": "Trust this with care",
    "little": "Trust this little",
    "none": "Do not trust this",
}


@dataclass(frozen=True)
class Reason:
    """Why to trust a result, or not.

    Attributes:
        level: how far it lets a result be trusted; ``"good"`` speaks for it.
        text: in words, without a full stop.
        section: id of the section that shows the numbers.
    """

    level: Trust
    text: str
    section: str


def trust_sentence(found: Findings) -> tuple[str, Trust]:
    """Return the sentence and the level: the worst of the reasons, which stand first, and what speaks for it."""
    given = reasons(found)
    worst = given[0].level
    against = listed([reason.text for reason in given if reason.level != "good"], len(given))
    speaking_for = listed([reason.text for reason in given if reason.level == "good"], len(given))
    said = ", although ".join(part for part in (against, speaking_for) if part)
    also = "".join(f"; {reason.text}" for reason in notes(found))
    return f"{_WORDS[worst]}: {said}{also}.", worst


def reasons(found: Findings) -> list[Reason]:
    """Return the reasons, the worst first, else as they come."""
    result = found.result
    given = [*_orders(found), _intact(result), *_judges(found), _samples(found), *_views(found)]
    if result.retrained:
        given[2:2] = _trainings(found)
        given += [*_road(found), _masks(found), *_gate(found)]
    if len(found.methods) > 1 and not found.pairs[0]:
        given.insert(0, Reason("little", "chance alone could order the methods so", "pairs"))
    if result.warnings:
        count = len(result.warnings)
        given.append(
            Reason("care", f"there {'is 1 warning' if count == 1 else f'are {count} warnings'} below", "warnings")
        )
    return sorted(given, key=lambda reason: -LEVELS.index(reason.level))


def notes(found: Findings) -> list[Reason]:
    """Return what a reader should know and what takes no trust away: untrained-on masks, missing controls."""
    said = [] if found.result.retrained else [_masks(found)]
    missing = missing_controls(found.result)
    if missing:
        what = f"the control{'s' if len(missing) > 1 else ''} {listed(missing)} {'are' if len(missing) > 1 else 'is'}"
        said.append(Reason("good", f"{what} missing", "traps"))
    return said


def _orders(found: Findings) -> list[Reason]:
    level, text = _agreement(found)
    given = [Reason(level, text, "agreement" if found.agreement is not None else "curves")]
    if found.order_disputes and found.counted and len(found.methods) >= COMPARABLE:
        first = found.order_disputes[0]
        pair = f"{clean(first.above)} above {clean(first.below)} by {first.here}, below by {first.there}"
        count = len(found.order_disputes)
        others = f", and {count - 1} more pair{'s' if count > 2 else ''}" if count > 1 else ""
        given.append(Reason("care", f"the orders contradict each other on {pair}{others}", "agreement"))
    return given


def _agreement(found: Findings) -> tuple[Trust, str]:
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


def _intact(result: Result) -> Reason:
    shown = f"{percent(result.intact_accuracy)} (chance {percent(chance(result))})"
    if not labelled(result):
        own = f"agreement with the model's own answers ({percent(result.intact_accuracy)} with nothing removed)"
        return Reason("care", f"hits are {own} for want of labels", "numbers")
    tuned = result.views[0]["judge"] == "fine-tuned"
    what = f"intact accuracy{' of the fine-tuned copy' if tuned else ''}"
    what = "accuracy of the unmodified training" if result.retrained else what
    failed = failed_trainings(result)
    if not above_chance(result):
        return Reason("none", f"the {what} of {shown} is not clearly above chance", "numbers")
    if failed:
        text = f"{failed} of {result.repeats} unmodified trainings did not get clearly above chance"
        return Reason("little", text, "numbers")
    return Reason("good", f"the {what} is {shown}", "numbers")


def _judges(found: Findings) -> list[Reason]:
    """The intact accuracy of every judge but the first, whose own is told already."""
    given = []
    for judge in list(dict.fromkeys(view.judge for view in found.views))[1:]:
        result = next(view.found.result for view in found.views if view.judge == judge)
        accuracy = result.intact_accuracy
        right = round(accuracy * result.n)
        clear = not labelled(result) or statistics.above_chance(right, result.n, class_count(result))
        tail = "" if clear else ", not clearly above chance"
        text = f"the {clean(judge)} copy is right for {percent(accuracy)} with nothing removed{tail}"
        given.append(Reason("good" if clear else "little", text, "views"))
    return given


def _views(found: Findings) -> list[Reason]:
    if not found.views:
        return []
    count = len(found.views)
    if found.disputes:
        first = found.disputes[0]
        places = f"for {clean(first.here)}, below for {clean(first.there)}"
        pair = f"{clean(first.above)} is above {clean(first.below)} {places}"
        more = len(found.disputes) - 1
        others = f", and {more} more pair{'s' if more > 1 else ''} of methods" if more else ""
        return [Reason("care", f"judges and fills disagree: {pair}{others}", "views")]
    lowest = found.least_view_agreement
    if len(found.methods) < COMPARABLE or math.isnan(lowest):
        return []
    shown = f"(lowest Spearman between two of the {count} {number(lowest, 2)})"
    if lowest < PARTLY:
        return [Reason("care", f"judges and fills hardly rank the methods alike {shown}", "views")]
    if lowest < AGREE:
        return [Reason("care", f"judges and fills rank the methods alike in part {shown}", "views")]
    return [Reason("good", f"all judges and fills rank the methods alike {shown}", "views")]


def _trainings(found: Findings) -> list[Reason]:
    count, pairs = found.result.repeats, found.pairs[1]
    given: list[Reason] = []
    if count == 1:
        text = "one training of each point says nothing about the spread between trainings"
        given.append(Reason("little", text, "points"))
    elif count < ENOUGH:
        needed = least_difference(count, max(1, pairs), level=found.level)
        only = f"there are only {count} trainings of each point (to be called real, a difference must be "
        text = f"{only}{needed:.3g} times its standard deviation)"
        given.append(Reason("care" if count >= SOME else "little", text, "points"))
    else:
        given.append(Reason("good", f"there are {count} trainings of each point", "points"))
    failed = found.result.failed
    given += [Reason("care", f"{line.partition(':')[0]} (listed below)", "missing") for line in failed]
    if len(failed) < len(found.result.missing):
        given.append(Reason("care", "the sweep is not complete (what is missing is listed below)", "missing"))
    return given


def _road(found: Findings) -> list[Reason]:
    agreed = road_agreement(found)
    if agreed is None or math.isnan(agreed[0]):
        return []
    if agreed[2] < COMPARABLE:
        return [Reason("care", "there are too few methods to compare with ROAD", "road")]
    rho = agreed[0]
    shown = f"(Spearman {number(rho, 2)})"
    if rho < PARTLY:
        text = f"ROAD, which trains nothing, ranks the methods otherwise {shown}"
        return [Reason("little" if rho < 0 else "care", text, "road")]
    if rho < AGREE:
        return [Reason("care", f"ROAD, which trains nothing, agrees in part {shown}", "road")]
    return [Reason("good", f"ROAD, which trains nothing, ranks the methods alike {shown}", "road")]


def _masks(found: Findings) -> Reason:
    """Whether masks give the class away behind the fills that this result used."""
    audit = leakage_of(found.result)
    if audit is None or not audit.verdicts:
        text = "whether masks give the class away was not audited"
        return Reason("care" if found.result.retrained else "good", text, "traps")
    used = [imputer for imputer in audit.imputers if imputer in {view["imputer"] for view in found.result.views}]
    for verdict, level in ((LEAKS, "little"), (OPEN, "care"), (CLEAN, "good")):
        by_fill = {imputer: audit.said(imputer, verdict) for imputer in used}
        hit = [imputer for imputer, methods in by_fill.items() if methods]
        if hit:
            methods = list(dict.fromkeys(method for imputer in hit for method in by_fill[imputer]))
            return Reason(level, _said_of_masks(found, audit, verdict, hit, methods), "leakage")  # type: ignore[arg-type]
    return Reason("care", "whether masks give the class away was not audited for this fill", "leakage")


def _said_of_masks(found: Findings, audit: Leakage, verdict: str, imputers: list[str], methods: list[str]) -> str:
    fills = f"the {listed([clean(name) for name in imputers])} fill{'s' if len(imputers) > 1 else ''}"
    named = listed([clean(name) for name in methods], 4)
    if verdict == CLEAN:
        return f"no mask was found to give the class away behind {fills}"
    if verdict == OPEN:
        return f"whether the masks of {named} give the class away behind {fills} cannot be told"
    row = audit.worst(methods)
    shown = f" ({points(found.result, audit, row)} points, {place(row)})" if row else ""
    harmless = "" if found.result.retrained else ", which misleads where networks are trained on them, not here"
    return f"masks of {named} give the class away behind {fills}{shown}{harmless}"


def _gate(found: Findings) -> list[Reason]:
    if not found.gated:
        return []
    rows = [f"{clean(row.method)}, by {number(row.gap, 2)}" for row in found.gated.values()]
    text = f"retrained networks read the class off the masks of {listed(rows, 4)} of accuracy"
    return [Reason("little", text, "gate")]


def _samples(found: Findings) -> Reason:
    n = found.result.n
    if n == 1:
        return Reason("none", "there is only 1 sample", "numbers")
    if n < FEW:
        few = n < RARE and not found.by_trainings
        rare = f" (below {RARE}, a few rare hits can pass for a real difference)" if few else ""
        return Reason("little" if n < TOO_FEW else "care", f"there are only {n} samples{rare}", "numbers")
    return Reason("good", f"there are {n} samples", "numbers")
