"""Traps that have fooled evaluations of this kind, each looked for by name: found, not found, or not looked for."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from roadworthy import statistics
from roadworthy.evaluation.standing import is_control
from roadworthy.markup import clean, escape, number, percent
from roadworthy.report.audits import LEAKS, OPEN, gate_of, leakage_of
from roadworthy.report.controls import missing_controls
from roadworthy.report.facts import orders_of
from roadworthy.report.fidelity import fidelities
from roadworthy.report.findings import Findings
from roadworthy.report.tables import head_cell, smoothness, table
from roadworthy.report.text import listed
from roadworthy.report.thresholds import FEW, TIED

State = Literal["found", "not found", "cannot tell", "not looked for"]
_COLOURS: dict[State, str] = {"found": "bad", "not found": "good", "cannot tell": "", "not looked for": ""}
_SMOOTH = 4  # methods from which on a correlation with smoothness is shown


@dataclass(frozen=True)
class Trap:
    """A trap, and whether this result is in it.

    Attributes:
        name: of the trap.
        state: ``"found"``, ``"not found"``, ``"cannot tell"`` or ``"not looked for"``.
        text: what was seen, with its numbers.
    """

    name: str
    state: State
    text: str


def traps(found: Findings) -> list[Trap]:
    """Look for every trap that the result can show.

    Example:
        >>> [trap.name for trap in traps(found) if trap.state == "found"]  # doctest: +SKIP
        ['one order alone']
    """
    return [
        _constant(found),
        _tied(found),
        _one_order(found),
        _ungated(found),
        _masks(found),
        _smooth(found),
        _controls(found),
        _judges(found),
        _power(found),
    ]


def column(found: Findings, name: str) -> dict[str, float]:
    """Return a column of ``method_info`` as numbers by method; what is missing is left out."""
    info = found.result.method_info
    if name not in info or "method" not in info:
        return {}
    pairs: list[tuple[Any, Any]] = list(info[["method", name]].itertuples(index=False, name=None))
    return {
        str(method): float(value)
        for method, value in pairs
        if isinstance(value, int | float) and not math.isnan(value)
    }


def constant_maps(found: Findings) -> dict[str, int]:
    """Methods with constant maps, the control of that name aside, with how many."""
    counts = column(found, "constant_maps")
    return {name: int(count) for name, count in counts.items() if count > 0 and name != "constant"}


def _constant(found: Findings) -> Trap:
    name, n = "constant or empty maps", found.result.n
    if not column(found, "constant_maps"):
        return Trap(name, "not looked for", "these maps were not looked at")
    hit = constant_maps(found)
    if not hit:
        return Trap(name, "not found", "no method has a map with the same value everywhere")
    lines = [f"{clean(method)} {number(count)} of {number(n)}" for method, count in hit.items()]
    odd = [clean(m) for m, count in hit.items() if count == n and found.against_random(m) == "above"]
    if odd:
        return Trap(name, "found", f"{listed(lines)}; yet {listed(odd)} scores above random maps: do not believe it")
    return Trap(
        name, "found", f"{listed(lines)}: a draw orders their units, so they count as random maps, not as good ones"
    )


def _tied(found: Findings) -> Trap:
    name, shares = "maps that leave most units tied", column(found, "tied_share")
    if not shares:
        return Trap(name, "not looked for", "ties were not counted")
    hit = [f"{clean(m)} {percent(share)}" for m, share in shares.items() if share >= TIED and not is_control(m)]
    if not hit:
        return Trap(name, "not found", f"no method leaves {percent(TIED)} of its units tied or more")
    return Trap(name, "found", f"tied units of {listed(hit)}: a draw orders them, so only the rest was measured")


def _one_order(found: Findings) -> Trap:
    name = "one order alone"
    if found.both_orders:
        return Trap(name, "not found", "both orders were run, and the score is of both")
    return Trap(name, "found", "a single order can rank maps in exactly the wrong order; run both")


def _ungated(found: Findings) -> Trap:
    name, result = "retraining without a gate", found.result
    if not result.retrained:
        return Trap(name, "not found", "no network was trained on the masks of a method")
    if leakage_of(result) is None:
        return Trap(
            name,
            "found",
            "new networks were trained on masks that were not audited: they may read the class off them",
        )
    if "lerf" not in result.orders:
        (words,) = orders_of(result).values()
        return Trap(
            name, "not looked for", f"no gate was run for {words.short} in MoRF order; the masks were audited"
        )
    if not gate_of(result):
        return Trap(name, "found", "KAR was not held against a judge that is blind to masks")
    held, open_ = ([clean(method) for method in rows] for rows in (found.gated, found.gate_open))
    said = [f"KAR of {listed(held)} is withheld"] if held else []
    if open_:
        said.append(f"of {listed(open_)} it cannot tell, for want of test samples")
    if said:
        return Trap(name, "cannot tell" if open_ else "not found", f"the gate was run; {'; '.join(said)}")
    return Trap(name, "not found", "the gate was run, and no mask adds much to the pixels that it keeps")


def _masks(found: Findings) -> Trap:
    name, audit = "masks that give the class away", leakage_of(found.result)
    if audit is None or not audit.verdicts:
        return Trap(name, "not looked for", "leakage was not audited")
    for verdict, said in ((LEAKS, "leak"), (OPEN, "cannot be told")):
        lines = [
            f"{clean(imputer)}: {listed([clean(m) for m in audit.said(imputer, verdict)], 4)}"
            for imputer in audit.imputers
            if audit.said(imputer, verdict)
        ]
        if lines:
            state: State = "found" if verdict == LEAKS else "cannot tell"
            return Trap(name, state, f"masks that {said}, by fill: {'; '.join(lines)}")
    return Trap(name, "not found", f"no mask of any method leaks behind {listed([clean(i) for i in audit.imputers])}")


def smoothness_effect(found: Findings) -> tuple[float, int] | None:
    """Return Spearman's correlation of score and smoothness over methods that are no controls, and how many they are.

    A positive number: the smoother the map, the better its score. None where there are fewer than 4.
    """
    known = smoothness(found)
    methods = [method for method in found.real_methods if method in known]
    if len(methods) < _SMOOTH:
        return None
    sign = 1 if found.ranking.attrs["higher_is_better"] else -1
    scores = [sign * float(found.row(method)["score"]) for method in methods]
    return float(statistics.spearman(scores, [known[method] for method in methods])), len(methods)


def _smooth(found: Findings) -> Trap:
    name = "a liking for smooth maps"
    if not smoothness(found):
        return Trap(name, "not looked for", "smoothness was not measured")
    effect = smoothness_effect(found)
    if effect is None or math.isnan(effect[0]):
        return Trap(name, "not looked for", "too few methods to hold their scores against their smoothness")
    rho, count = effect
    # as high as a correlation of so few is by chance once in twenty at the most
    high = rho >= min(0.95, 1.65 / math.sqrt(count - 1))
    text = f"Spearman of score and smoothness over {count} methods: {number(rho, 2)}"
    if high:
        return Trap(name, "found", f"{text}; a gain that a blurred copy of a map would share is no quality")
    return Trap(name, "not found", text)


def _controls(found: Findings) -> Trap:
    missing = missing_controls(found)
    if missing:
        return Trap("no controls", "found", f"not run: {listed(missing)}")
    return Trap("no controls", "not found", "random maps, a map that ignores the model, and an inverse were run")


def _judges(found: Findings) -> Trap:
    name, live = "one judge, one fill", len(found.live_views)
    if found.views and live < 2:
        text = f"{len(found.views)} {found.views_word} were asked, of which {live or 'none'} ranks the methods at all"
        return Trap(name, "found", text)
    if not found.views:
        return Trap(
            name, "not looked for", "one judge was asked with one fill; nothing shows that another would agree"
        )
    if found.disputes:
        count = len(found.disputes)
        text = f"{count} pair{'s' if count > 1 else ''} of methods ranked one way here and the other way there"
        return Trap(name, "found", f"{text}; their ranks are not printed")
    return Trap(name, "not found", f"{live} {found.views_word} rank no pair against each other")


def _power(found: Findings) -> Trap:
    name, n = "too little power", found.result.n
    weak = [part.weakness for part in fidelities(found) if part.weakness]
    if weak:
        return Trap(name, "found", "; ".join(weak))
    real, pairs = found.pairs
    told = f"{real} of {pairs} pairs told apart" if pairs else "no pairs to tell apart"
    text = f"{told} with {number(n)} samples"
    return Trap(name, "found" if n < FEW or (pairs and not real) else "not found", text)


def traps_section(found: Findings) -> str:
    """The table of traps."""
    head = [head_cell(text, "left") for text in ("trap", "here", "what was seen")]
    rows = [
        f'<tr><th scope="row">{escape(trap.name)}</th><td class="left {_COLOURS[trap.state]}">{trap.state}</td>'
        f'<td class="wrap">{escape(trap.text)}</td></tr>'
        for trap in traps(found)
    ]
    caption = "What has fooled evaluations of this kind. What was not looked for is not thereby absent."
    return table(caption, head, rows, label="Traps")
