"""Fid+ and Fid- of F-Fidelity (Zheng et al. 2025), and whether they have the power to tell the methods apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from roadworthy import statistics
from roadworthy.evaluation.result import Result
from roadworthy.markup import escape, number, percent
from roadworthy.report.facts import words_of
from roadworthy.report.findings import Findings
from roadworthy.report.tables import head_cell, interval, row_head, table

_SIGNS = {"morf": ("Fid+", "higher is better"), "lerf": ("Fid−", "lower is better")}


@dataclass(frozen=True)
class Fidelity:
    """What is lost on average when parts of the most, or of the least, relevant units are removed.

    Attributes:
        name: ``"Fid+"`` or ``"Fid−"``.
        direction: in words.
        methods: in the order of the result.
        loss: (M,) mean over shares and samples of the intact score less the one after removal.
        low: (M,) lower end of the bootstrap interval of each.
        high: (M,) upper end.
        n: samples.
    """

    name: str
    direction: str
    methods: tuple[str, ...]
    loss: np.ndarray
    low: np.ndarray
    high: np.ndarray
    n: int

    @property
    def span(self) -> float:
        """How far the scores of the methods lie apart."""
        return float(np.ptp(self.loss))

    @property
    def width(self) -> float:
        """Median width of the intervals; NaN where they are not known."""
        return float(np.median(self.high - self.low))

    @property
    def values(self) -> int:
        """How many different values there are."""
        return len(np.unique(np.round(self.loss, 9)))

    @property
    def weakness(self) -> str:
        """Why the score lacks the power to rank these methods, in words with its numbers; empty where it does not."""
        count = len(self.methods)
        if count < 2:
            return ""
        if self.values <= count / 2:
            different = f"{self.values} different values" if self.values > 1 else "one value"
            return f"{self.name} takes {different} over {count} methods"
        if self.width > self.span:
            needed = math.ceil(self.n * (self.width / self.span) ** 2)
            return (
                f"the intervals of {self.name} are wider ({number(self.width)}) than its whole range "
                f"({number(self.span)}; "
                f"with about {number(needed)} samples they would be as wide)"
            )
        return ""


def is_fidelity(result: Result) -> bool:
    """Whether random parts of what an order takes were removed, as F-Fidelity does."""
    return any(isinstance(value, int | float) and value < 1 for value in map(result.settings.get, ("alpha", "beta")))


def fidelities(found: Findings) -> list[Fidelity]:
    """Return Fid+ and Fid-, of the orders that were run; empty where the result is no F-Fidelity."""
    result = found.result
    if not is_fidelity(result):
        return []
    scores = result.scores[found.readout].mean(axis=3, dtype=np.float64)  # [method, order, fraction, sample]
    return [_of(found, order, scores[:, place]) for order, place in _places(result)]


def _places(result: Result) -> list[tuple[str, int]]:
    return [(order, result.orders.index(order)) for order in _SIGNS if order in result.orders]


def _of(found: Findings, order: str, scores: np.ndarray) -> Fidelity:
    lost = scores[:, 0] - scores[:, 1:].mean(axis=1)
    spread = statistics.paired_bootstrap(lost, draws=2000, level=found.level)
    name, direction = _SIGNS[order]
    methods = tuple(found.result.methods)
    return Fidelity(name, direction, methods, spread.mean, spread.low, spread.high, found.result.n)


def fidelity_section(found: Findings) -> str:
    """The table of Fid+ and Fid-, with a warning where they lack power."""
    parts = fidelities(found)
    if not parts:
        return ""
    settings = found.result.settings
    head = [head_cell("method", "left")]
    for part in parts:
        head += [head_cell(part.name), head_cell("interval")]
    rows = [_row(method, m, parts) for m, method in enumerate(found.result.methods)]
    what = words_of(found.result, found.readout).name
    meaning = "; ".join(f"{part.name}: {part.direction}" for part in parts)
    caption = (
        f"Mean loss of {what} over the shares, against nothing removed; {meaning}. Of the units that the order takes "
        f"at a share each is removed with probability {_rate(settings.get('alpha'))}, or with less where that would "
        f"take more than {_rate(settings.get('beta'))} of all units; {percent(found.level)} bootstrap interval over "
        f"{number(found.result.n)} samples."
    )
    return _warned(parts) + table(escape(caption), head, rows, label="Fid+ and Fid−")


def _warned(parts: Sequence[Fidelity]) -> str:
    weak = [part.weakness for part in parts if part.weakness]
    if not weak:
        return "<p>Both tell methods apart: their values differ, and their range is wider than their intervals.</p>"
    items = "".join(f"<li>Low power: {escape(text)}.</li>" for text in weak)
    return (
        f'<ul class="warnings">{items}</ul><p>Take more samples, the readout probability, or a larger beta, before '
        "anything is read from it.</p>"
    )


def _rate(value: object) -> str:
    return f"{value:g}" if isinstance(value, int | float) else "1"


def _row(method: str, m: int, parts: Sequence[Fidelity]) -> str:
    cells = "".join(
        f"<td>{number(float(part.loss[m]))}</td><td>{interval(float(part.low[m]), float(part.high[m]))}</td>"
        for part in parts
    )
    return f"<tr>{row_head(method)}{cells}</tr>"
