"""The findings of a comparison in sentences, each pointing to where its numbers are shown."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from roadworthy.comparison.record import Comparison

_NAMED = 6  # methods named one by one


class Sentence(NamedTuple):
    """A sentence of the verdict.

    Attributes:
        text: what is said, plain text.
        section: of the page where its numbers stand.
    """

    text: str
    section: str


def sentences(found: Comparison) -> list[Sentence]:
    """Return the verdict: which run is better with which method, and what cannot be told apart or compared."""
    if found.kind == "label-free":
        return [*_estimates(found), *_gates(found)]
    return [
        sentence
        for run in found.runs[1:]
        for sentence in (_refused(found, run), *_scores(found, run), _intact(found, run), _alike(found, run))
        if sentence is not None
    ]


def told_apart(found: Comparison) -> Literal["some", "none", "unknown"]:
    """Whether any difference is told apart, or none can be given at all."""
    if not len(found.differences) or found.differences["difference"].isna().all():
        return "unknown"
    if found.kind == "label-free":
        return "some" if ((found.differences["low"] > 0) | (found.differences["high"] < 0)).any() else "none"
    return "some" if found.differences["different"].any() else "none"


def _refused(found: Comparison, run: str) -> Sentence | None:
    if run not in found.refused:
        return None
    return Sentence(
        f"The scores of {run} and {found.runs[0]} mean different things and are not subtracted: "
        f"{found.refused[run]}.",
        "scores",
    )


def _scores(found: Comparison, run: str) -> Iterator[Sentence]:
    table = found.differences
    own = table[(table["run"] == run) & (table["withheld"] == "")]
    against = found.runs[0]
    for better, worse, sign in ((run, against, 1), (against, run, -1)):
        toward = sign if found.higher_is_better else -sign
        rows = own[own["different"] & (own["difference"] * toward > 0)]
        if len(rows):
            how = _joined([_amount(row, toward) for row in rows.to_dict("records")])
            yield Sentence(f"{better} is better than {worse} with {how}.", "differences")
    same = own[(own["difference"] == 0) & (own["low"] == 0) & (own["high"] == 0)]
    open_ = own[~own["different"] & ~own.index.isin(same.index)]
    if len(same):
        yield Sentence(
            f"{run} and {against} score exactly alike with {_joined(list(same['method']))}.", "differences"
        )
    if len(open_):
        yield Sentence(
            f"{run} and {against} cannot be told apart with {_joined(list(open_['method']))}.", "differences"
        )


def _amount(row: Mapping[Hashable, Any], toward: int) -> str:
    """The size of a difference, positive for the better run."""
    low, high = sorted((toward * row["low"], toward * row["high"]))
    ends = "" if math.isnan(low) else f" ({_number(low)} to {_number(high)})"
    return f"{row['method']} by {_number(abs(row['difference']))}{ends}"


def _intact(found: Comparison, run: str) -> Sentence | None:
    row = next(row for row in found.intact.to_dict("records") if row["run"] == run)
    if math.isnan(row["difference"]):
        return None
    names = (run, found.runs[0]) if row["difference"] > 0 else (found.runs[0], run)
    ends = ""
    if not math.isnan(row["difference_low"]):
        sign = 1 if row["difference"] > 0 else -1
        low, high = sorted((sign * row["difference_low"], sign * row["difference_high"]))
        ends = f" ({_number(100 * low, 1)} to {_number(100 * high, 1)})"
    if row["different"]:
        by = f"{100 * abs(row['difference']):.1f} points{ends}"
        return Sentence(f"With nothing removed {names[0]} is more accurate than {names[1]}, by {by}.", "intact")
    if row["difference"] == 0 and row["difference_low"] == row["difference_high"] == 0:
        return Sentence(f"With nothing removed {run} and {found.runs[0]} are equally accurate.", "intact")
    around = ""
    if not math.isnan(row["difference_low"]):
        around = f" ({_points(row['difference_low'])} to {_points(row['difference_high'])})"
    return Sentence(
        f"With nothing removed {run} and {found.runs[0]} cannot be told apart in accuracy: "
        f"{_points(row['difference'])} points{around}.",
        "intact",
    )


def _alike(found: Comparison, run: str) -> Sentence | None:
    table = found.agreement
    rows = table[(table["run"] == run) & (table["against"] == found.runs[0])].to_dict("records")
    if not rows or rows[0]["methods"] < 3:
        return None
    (row,) = rows
    if math.isnan(row["spearman"]):
        return Sentence(
            f"Whether {run} and {found.runs[0]} rank the methods alike is undefined: one scores all the same.",
            "agreement",
        )
    ends = "" if math.isnan(row["low"]) else f" ({_number(row['low'], 2)} to {_number(row['high'], 2)})"
    return Sentence(
        f"The rankings of {row['methods']} methods by {run} and {found.runs[0]} correlate by "
        f"{_number(row['spearman'], 2)}{ends}; 1 is the same ranking.",
        "agreement",
    )


def _estimates(found: Comparison) -> Iterator[Sentence]:
    for row in found.differences.to_dict("records"):
        names = f"{row['run']} and {row['against']}"
        if math.isnan(row["low"]):
            yield Sentence(f"What {names} differ by cannot be said: {row['reason']}.", "differences")
            continue
        ends = f"{_points(row['low'])} to {_points(row['high'])}"
        level = f"with at least {100 * row['level']:.0f} % confidence"
        if math.isnan(row["difference"]):
            yield Sentence(
                f"{names} differ by at most {_number(100 * row['disagree'], 1)} points in accuracy, for their "
                f"predictions differ on no more of the samples; {row['reason']}.",
                "differences",
            )
        elif row["low"] == row["high"] == 0:
            yield Sentence(f"{names} predict the same on every sample, so they are equally accurate.", "differences")
        elif row["low"] > 0 or row["high"] < 0:
            better, worse = (row["run"], row["against"]) if row["low"] > 0 else (row["against"], row["run"])
            yield Sentence(
                f"{better} is more accurate than {worse}: {row['run']} less {row['against']} is "
                f"{_points(row['difference'])} points, {level} {ends}.",
                "differences",
            )
        else:
            yield Sentence(
                f"{names} cannot be told apart in accuracy: {_points(row['difference'])} points, {level} {ends}.",
                "differences",
            )


def _gates(found: Comparison) -> Iterator[Sentence]:
    for run in found.runs:
        statuses = list(found.gates[run])
        told = [f"{statuses.count(word)} {verb}" for word, verb in _STATUSES if word in statuses]
        yield Sentence(f"Gates of {run}: {', '.join(told)}.", "gates")


_STATUSES = (("pass", "pass"), ("warn", "warn"), ("refuse", "refuse"), ("not run", "not run"))


def _joined(names: list[str]) -> str:
    if len(names) > _NAMED:
        names = [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _number(value: float, digits: int = 3) -> str:
    shown = f"{value:.{digits}f}"
    return shown if float(shown) else shown.lstrip("-")


def _points(share: float) -> str:
    """A difference of shares in points, with its sign."""
    shown = _number(100 * share, 1)
    return f"+{shown}" if float(shown) > 0 else shown
