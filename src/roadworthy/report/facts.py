"""What a result says of itself before any method is ranked: chance, orders, units, and where values end."""

from __future__ import annotations

import numpy as np
import pandas as pd

from roadworthy import statistics
from roadworthy.evaluation.result import Result
from roadworthy.evaluation.standing import class_count, labelled
from roadworthy.evaluation.words import READOUTS, OrderWords, ReadoutWords, order_words, readout_words
from roadworthy.markup import number


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
