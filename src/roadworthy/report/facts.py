"""What a result says of itself before any method is ranked: chance, orders, units, and where values end."""

from __future__ import annotations

import numpy as np
import pandas as pd

from roadworthy import statistics
from roadworthy.evaluation.result import Result
from roadworthy.report.text import number
from roadworthy.report.words import READOUTS, OrderWords, ReadoutWords, order_words, readout_words


def class_count(result: Result) -> int:
    """Number of classes of the model; where not recorded, as many as names, labels and answers show, at least 2."""
    recorded = result.settings.get("classes")
    if isinstance(recorded, int) and recorded > 1:
        return recorded
    scores = result.scores
    seen = [int(np.max(values)) for values in (scores.labels, scores.targets, scores.predicted) if len(values)]
    return max(2, len(result.classes), *(top + 1 for top in seen))


def chance(result: Result) -> float:
    """Accuracy of guessing: 1 / number of classes."""
    return 1 / class_count(result)


def above_chance(result: Result) -> bool:
    """Whether the intact accuracy is clearly above chance (5 %); without labels there is none to judge: True."""
    correct = round(result.intact_accuracy * result.n)
    return not labelled(result) or statistics.above_chance(correct, result.n, class_count(result))


def failed_trainings(result: Result) -> int:
    """How many of the unmodified trainings are not clearly above chance; 0 where nothing was trained."""
    if not result.retrained or not labelled(result):
        return 0
    right = result.scores.top1[0, 0, 0].sum(axis=-1, dtype=int).tolist()
    return sum(not statistics.above_chance(count, result.n, class_count(result)) for count in right)


def orders_of(result: Result) -> dict[str, OrderWords]:
    """How the orders that were run are spoken of, MoRF first."""
    return {order: words for order, words in order_words(result.retrained).items() if order in result.orders}


def units_of(result: Result) -> str:
    """What intervals are over, counted.

    Example:
        >>> units_of(result)  # doctest: +SKIP
        '5 trainings'
    """
    count = result.repeats if result.unit == "trainings" else result.n
    return f"{number(count)} {result.unit if count > 1 else result.unit.removesuffix('s')}"


def interval_kind(result: Result) -> str:
    """What kind of interval the numbers have."""
    return "t-interval" if result.unit == "trainings" else "bootstrap interval"


def within_range(frame: pd.DataFrame, readout: str, lowest: float = 0.0) -> pd.DataFrame:
    """Cut the columns low and high off where values end, at ``lowest`` and 1; a logit has no ends.

    A t-interval over few trainings reaches beyond. What is cut off is impossible, so the rest covers as often.
    """
    if readout == "logit":
        return frame
    return frame.assign(**{column: frame[column].clip(lowest, 1) for column in ("low", "high")})


def shown_ranking(ranking: pd.DataFrame, readout: str) -> pd.DataFrame:
    """Cut the intervals of a ranking off where its score ends: a gain is in [-1, 1], an area in [0, 1]."""
    return within_range(ranking, readout, -1.0 if {"morf_area", "lerf_area"} <= set(ranking.columns) else 0.0)


def interval_notes(frame: pd.DataFrame, shown: pd.DataFrame, *, lowest: str = "0") -> str:
    """Say of intervals what a reader would wonder about: that they are cut off, or not there.

    Args:
        frame: with columns low and high.
        shown: the same as it is shown.
        lowest: where intervals end below, in words.
    """
    ends = ["low", "high"]
    notes = ""
    if not frame[ends].equals(shown[ends]):
        notes += f" Intervals are cut off at {lowest} and 1, beyond which nothing is possible."
    missing = frame["low"].isna()
    if missing.any() and (frame.get("n", pd.Series(2, frame.index)) > 1).all():
        notes += " No interval (–) where all trainings give the same number: a few that agree do not show the spread."
    return notes


def labelled(result: Result) -> bool:
    """Whether hits are counted against labels that were given, not against the model's own intact answers."""
    if "labels" in result.settings:
        return bool(result.settings["labels"] == "given")
    return not any(warning.startswith("no labels were given") for warning in result.warnings)


def words_of(result: Result, readout: str) -> ReadoutWords:
    """How a readout of this result is spoken of."""
    return readout_words(readout, labelled(result))


def shown_readouts(result: Result) -> list[str]:
    """The readouts worth showing, the result's own first: one that never changes says nothing."""
    varying = [
        name
        for name in READOUTS
        if name != result.readout and result.scores[name].size and np.ptp(result.scores[name])
    ]
    return [result.readout, *varying]
