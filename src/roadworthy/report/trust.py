"""How far a result can be trusted: one reason after the other, each with the section that shows its numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from roadworthy import statistics
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import above_chance, chance, class_count, labelled
from roadworthy.markup import clean, number, percent
from roadworthy.report.audits import CLEAN, LEAKS, OPEN, Leakage, leakage_of
from roadworthy.report.beside import road_agreement
from roadworthy.report.facts import failed_trainings, orders_of
from roadworthy.report.findings import Findings
from roadworthy.report.leaks import alone, place
from roadworthy.report.text import listed
from roadworthy.report.thresholds import AGREE, COMPARABLE, ENOUGH, FEW, PARTLY, POOR, RARE, SOME, TOO_FEW, WEAK
from roadworthy.statistics import least_difference

Trust = Literal["good", "care", "little", "none"]
_AGAINST, _FOR = 3, 2  # reasons told in the sentence
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
    against, speaking_for = _sides(found)
    worst = (against or speaking_for)[0].level
    said = ", although ".join(_first(side, most) for side, most in _kept(against, speaking_for) if side)
    also = "".join(f"; {reason.text}" for reason in notes(found))
    return f"{_WORDS[worst]}: {said}{also}.", worst


def folded(found: Findings) -> list[Reason]:
    """Return the reasons that the sentence only counts."""
    return [reason for side, most in _kept(*_sides(found)) for reason in side[most:]]


def _sides(found: Findings) -> tuple[list[Reason], list[Reason]]:
    given = reasons(found)
    return [reason for reason in given if reason.level != "good"], [r for r in given if r.level == "good"]


def _kept(against: list[Reason], speaking_for: list[Reason]) -> list[tuple[list[Reason], int]]:
    """Both sides with how many of each are told; with nothing against there is room for as many as that."""
    return [(against, _AGAINST), (speaking_for, _FOR if against else _AGAINST)]


def _first(given: list[Reason], most: int) -> str:
    rest = len(given) - most
    return listed([*(r.text for r in given[:most]), *([f"{rest} more, below"] if rest > 0 else [])], most + 1)


def reasons(found: Findings) -> list[Reason]:
    """Return the reasons, the worst first, else as they come."""
    result = found.result
    # what shows the ranking elsewhere too comes first: of what speaks for a result the sentence tells little
    given = [*_dead(found), *_orders(found), *_views(found), *_road(found), _intact(result), *_trainings(found)]
    given += [*_judges(found), _samples(found)]
    if result.retrained:
        given += [_masks(found), *_gate(found)]
    if found.pairs[1] and not found.pairs[0]:
        given.insert(0, Reason("little", "chance alone could order the methods so", "pairs"))
    if result.warnings:
        count = len(result.warnings)
        given.append(
            Reason("care", f"there {'is 1 warning' if count == 1 else f'are {count} warnings'} below", "warnings")
        )
    return sorted(given, key=lambda reason: -LEVELS.index(reason.level))


def notes(found: Findings) -> list[Reason]:
    """Return what a reader should know and what takes no trust away: masks that nothing was trained on."""
    return [] if found.result.retrained else [_masks(found)]


def _dead(found: Findings) -> list[Reason]:
    """Judges that answer alike whatever is removed: what is said of the others is not said of them."""
    if not found.views:
        return []
    hit = [clean(view.label) for view in found.views if view.found.dead]
    text = f"{listed(hit)} give{'' if len(hit) > 1 else 's'} every method the same score everywhere"
    text += f", and {'are' if len(hit) > 1 else 'is'} left out of the mean" if found.live_views else ""
    return [Reason("little", text, "views")] if hit else []


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
    models = float(np.mean(result.scores.predicted == result.scores.labels))
    if tuned and result.intact_accuracy < WEAK * models:
        level: Trust = "little" if result.intact_accuracy < POOR * models else "care"
        return Reason(level, f"the {what} is {shown}, that of the model {percent(models)}", "numbers")
    return Reason("good", f"the {what} is {shown}", "numbers")


def _judges(found: Findings) -> list[Reason]:
    """The intact accuracy of every judge but the first, whose own is told already; against that of the first."""
    given, first = [], found.result.view(0).intact_accuracy if found.views else math.nan
    for judge in list(dict.fromkeys(view.judge for view in found.views))[1:]:
        result = next(view.found.result for view in found.views if view.judge == judge)
        accuracy = result.intact_accuracy
        right = round(accuracy * result.n)
        clear = not labelled(result) or statistics.above_chance(right, result.n, class_count(result))
        level: Trust = "little" if not clear or accuracy < POOR * first else "care"
        level = "good" if clear and accuracy >= WEAK * first else level
        tail = "" if level == "good" else f", the model for {percent(first)}"
        tail += "" if clear else ", not clearly above chance"
        text = f"the {clean(judge)} copy is right for {percent(accuracy)} with nothing removed{tail}"
        given.append(Reason(level, text, "views"))
    return given


def _views(found: Findings) -> list[Reason]:
    if not found.views:
        return []
    count = len(found.live_views)
    if found.disputes:
        first = found.disputes[0]
        places = f"for {clean(first.here)}, below for {clean(first.there)}"
        pair = f"{clean(first.above)} is above {clean(first.below)} {places}"
        more = len(found.disputes) - 1
        others = f", and {more} more pair{'s' if more > 1 else ''} of methods" if more else ""
        return [Reason("care", f"{found.views_word} disagree: {pair}{others}", "views")]
    lowest = found.least_view_agreement
    if len(found.methods) < COMPARABLE or math.isnan(lowest):
        return []
    between = f"lowest Spearman between two of the {count}" if count > 2 else "Spearman"
    shown = f"({between} {number(lowest, 2)})"
    if lowest < PARTLY:
        return [Reason("care", f"{found.views_word} hardly rank the methods alike {shown}", "views")]
    if lowest < AGREE:
        return [Reason("care", f"{found.views_word} rank the methods alike in part {shown}", "views")]
    return [Reason("good", f"all {found.views_word} rank the methods alike {shown}", "views")]


def _trainings(found: Findings) -> list[Reason]:
    count, pairs = found.result.repeats, found.pairs[1]
    given: list[Reason] = []
    if not found.result.retrained:
        return given
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
    row = audit.grounds(imputers, methods)
    shown = f" ({place(row)}: {alone(found.result, audit, row)})" if row else ""
    harmless = "" if found.result.retrained else ", which misleads where networks are trained on them, not here"
    return f"masks of {named} give the class away behind {fills}{shown}{harmless}"


def _gate(found: Findings) -> list[Reason]:
    given = []
    if found.gated:
        rows = [f"{clean(row.method)}, by {number(row.beyond, 2)}" for row in found.gated.values()]
        text = f"retrained networks read the class off the masks of {listed(rows, 4)} of accuracy"
        given.append(Reason("little", text, "gate"))
    if found.gate_open:
        named = listed([clean(method) for method in found.gate_open], 4)
        text = f"whether retrained networks read the class off the masks of {named} the gate cannot tell"
        given.append(Reason("care", text, "gate"))
    return given


def _samples(found: Findings) -> Reason:
    n = found.result.n
    if n == 1:
        return Reason("none", "there is only 1 sample", "numbers")
    if n < FEW:
        few = n < RARE and not found.by_trainings
        rare = f" (below {RARE}, a few rare hits can pass for a real difference)" if few else ""
        return Reason("little" if n < TOO_FEW else "care", f"there are only {n} samples{rare}", "numbers")
    return Reason("good", f"there are {n} samples", "numbers")
