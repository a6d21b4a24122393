"""What the audits of a result found, read from ``Result.audit`` into records; nothing here is worked out anew.

A result without an audit, or an audit without a part, was not audited there: that is ``None`` or empty, not "clean".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from roadworthy.evaluation.audit.gate_rule import GateRow, gate_rows
from roadworthy.evaluation.audit.recorded import count_of, number_of, rows_of, text_of
from roadworthy.evaluation.result import Result

_VERDICT_NUMBERS = ("fraction", "accuracy", "random", "chance", "above", "margin", "error", "base", "per_class")
LEAKS, CLEAN, OPEN = "leaks", "does not leak", "cannot tell"


@dataclass(frozen=True)
class MaskRow:
    """How well a small classifier that sees nothing but the mask tells the class.

    Attributes:
        method: whose masks.
        order: ``"morf"`` or ``"lerf"``.
        fraction: share removed.
        accuracy: of the classifier, with its interval ``low`` to ``high``.
        random: the same on random masks of that size, with its interval.
        bits: lower and upper bound on the information that the mask has about the class.
        balanced: mean recall over classes, and what guessing reaches in it.
    """

    method: str
    order: str
    fraction: float
    accuracy: float
    low: float
    high: float
    random: float
    random_low: float
    random_high: float
    bits: tuple[float, float]
    balanced: tuple[float, float]

    @property
    def ahead(self) -> float:
        """Accuracy ahead of random masks."""
        return self.accuracy - self.random


@dataclass(frozen=True)
class FillRow:
    """How well a network tells which units an imputer filled: its error per unit, against guessing (``base``)."""

    imputer: str
    fraction: float
    error: float
    low: float
    high: float
    base: float

    @property
    def revealed(self) -> float:
        """0: the fill hides the mask; 1: the mask can be read off the image; NaN where nothing is to tell."""
        return 1 - self.error / self.base if self.base > 0 else math.nan


@dataclass(frozen=True)
class LeakVerdict:
    """Whether a method's masks give the class away behind an imputer, and the numbers that this rests on.

    The fields are those of :func:`roadworthy.evaluation.audit.leak_verdict.verdict`; a number that there is none of
    is NaN.
    """

    imputer: str
    method: str
    verdict: str
    ground: str
    note: str
    order: str
    fraction: float
    accuracy: float
    random: float
    chance: float
    above: float
    margin: float
    error: float
    base: float
    per_class: float


@dataclass(frozen=True)
class Leakage:
    """The leakage audit of a result.

    Attributes:
        n: samples it rests on.
        effort: ``"quick"`` or ``"thorough"``.
        target: the class that masks may give away: ``"predicted"``, ``"label"`` or ``"given"``.
        chance: accuracy of guessing the commonest class, with its band.
        masks: a row per method, order and share.
        fills: a row per imputer and share.
        verdicts: a row per imputer and method.
    """

    n: int
    effort: str
    target: str
    chance: tuple[float, float, float]
    masks: tuple[MaskRow, ...]
    fills: tuple[FillRow, ...]
    verdicts: tuple[LeakVerdict, ...]

    def worst(self, methods: Iterable[str]) -> MaskRow | None:
        """The mask of one of these methods that is furthest ahead of random masks."""
        wanted = set(methods)
        rows = [row for row in self.masks if row.method in wanted and not math.isnan(row.ahead)]
        return max(rows, key=lambda row: row.ahead, default=None)

    def grounds(self, imputers: Iterable[str], methods: Iterable[str]) -> MaskRow | None:
        """The mask that the gravest verdict on these methods behind these imputers rests on.

        Where no verdict has one, it is the mask furthest ahead.
        """
        hit = {(imputer, method) for imputer in imputers for method in methods}
        verdicts = [row for row in self.verdicts if (row.imputer, row.method) in hit and row.verdict == LEAKS]
        places = {(verdict.method, verdict.order, verdict.fraction) for verdict in verdicts}
        named = [row for row in self.masks if (row.method, row.order, row.fraction) in places]
        found = [row for row in named if not math.isnan(row.ahead)]
        return max(found, key=lambda row: row.ahead, default=None) or self.worst({method for _, method in hit})

    def said(self, imputer: str, verdict: str) -> list[str]:
        """The methods of which this is said behind an imputer; a doubt about random masks is none."""
        rows = (row for row in self.verdicts if (row.imputer, row.verdict) == (imputer, verdict))
        return [row.method for row in rows if (row.method, verdict) != ("random", OPEN)]

    @property
    def imputers(self) -> list[str]:
        """The imputers that a verdict was given for, in order."""
        return list(dict.fromkeys(row.imputer for row in self.verdicts))


@dataclass(frozen=True)
class PatchScore:
    """A method's score in single-patch deletion, and for how many samples it is undefined."""

    method: str
    score: float
    low: float
    high: float
    undefined: int


@dataclass(frozen=True)
class Patches:
    """Single-patch deletion on a model that saw deleted patches in training (IDSDS)."""

    grid: int
    scores: tuple[PatchScore, ...]


def leakage_of(result: Result) -> Leakage | None:
    """Return the leakage audit, or None where there was none.

    Example:
        >>> leakage_of(result) is None  # doctest: +SKIP
        True
    """
    found = _part(result, "leakage")
    if not isinstance(found, Mapping) or not found:
        return None
    chance = (number_of(found, "chance"), number_of(found, "chance_low"), number_of(found, "chance_high"))
    return Leakage(
        n=count_of(found, "n"),
        effort=text_of(found, "effort"),
        target=text_of(found, "target"),
        chance=chance,
        masks=tuple(map(_mask_row, rows_of(found.get("masks")))),
        fills=tuple(
            FillRow(
                text_of(row, "imputer"),
                *(number_of(row, key) for key in ("fraction", "error", "low", "high", "base")),
            )
            for row in rows_of(found.get("imputers"))
        ),
        verdicts=tuple(map(_leak_verdict, rows_of(found.get("verdicts")))),
    )


def _leak_verdict(row: Mapping[str, Any]) -> LeakVerdict:
    texts = ("imputer", "method", "verdict", "ground", "note", "order")
    fields: dict[str, Any] = {name: text_of(row, name) for name in texts}
    fields |= {name: number_of(row, name) for name in _VERDICT_NUMBERS}
    return LeakVerdict(**fields)


def _mask_row(row: Mapping[str, Any]) -> MaskRow:
    keys = ("fraction", "accuracy", "low", "high", "random", "random_low", "random_high")
    numbers = {key: number_of(row, key) for key in keys}
    bits = (number_of(row, "bits_low"), number_of(row, "bits_high"))
    balanced = (number_of(row, "balanced_accuracy"), number_of(row, "balanced_chance"))
    return MaskRow(text_of(row, "method"), text_of(row, "order"), **numbers, bits=bits, balanced=balanced)


def gate_of(result: Result) -> list[GateRow]:
    """Return the rows of the gate; empty where it was not run."""
    return gate_rows(_part(result, "gate"))


def patches_of(result: Result) -> Patches | None:
    """Return single-patch deletion, or None where it was not run."""
    found = _part(result, "idsds")
    scores = found.get("scores") if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping) or not isinstance(scores, Mapping):
        return None
    rows = tuple(
        PatchScore(
            str(method),
            number_of(row, "score"),
            number_of(row, "low"),
            number_of(row, "high"),
            count_of(row, "undefined"),
        )
        for method, row in scores.items()
        if isinstance(row, Mapping)
    )
    return Patches(count_of(found, "grid"), rows) if rows else None


def _part(result: Result, name: str) -> Any:
    return result.audit.get(name)
